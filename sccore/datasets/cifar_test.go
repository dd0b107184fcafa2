package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// records returns n records of the layout: record i has label i modulo the number of classes and the pixels of [ramp].
func (c *cifar) records(n int) []byte {
	var out []byte
	for i := range n {
		coarse := bytes.Repeat([]byte{77}, c.LabelBytes-1)
		out = append(append(out, coarse...), byte(i%len(c.Classes)))
		for channel := range 3 {
			for p := range cifarPlane {
				out = append(out, ramp(i, p, channel))
			}
		}
	}
	return out
}

func ramp(i, p, channel int) byte { return byte(7*i + p + p/cifarSize + 85*channel) }

// write creates files below a folder, and their folders.
func write(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCIFARReadsPlanesInOrder(t *testing.T) {
	for _, c := range []*cifar{cifar10, cifar100} {
		dir := t.TempDir()
		write(t, dir, map[string][]byte{c.Folder + "/" + c.Files[Test][0]: c.records(12)})
		im, err := c.read(dir, Test)
		if err != nil {
			t.Fatal(err)
		}
		if im.Len() != 12 || im.Height != 32 || im.Width != 32 || im.Name != c.Name {
			t.Errorf("%s: %d images %d×%d of %q", c.Name, im.Len(), im.Width, im.Height, im.Name)
		}
		for i := range im.Len() {
			if want := int32(i % len(c.Classes)); im.Labels[i] != want {
				t.Errorf("%s: image %d has label %d, want %d", c.Name, i, im.Labels[i], want)
			}
			for at, got := range im.At(i) {
				if want := ramp(i, at/3, at%3); got != want {
					t.Fatalf("%s: image %d: byte %d is %d, want %d", c.Name, i, at, got, want)
				}
			}
		}
		r, g, b, _ := im.Image(3).At(5, 2).RGBA()
		p := 2*cifarSize + 5
		if byte(r>>8) != ramp(3, p, 0) || byte(g>>8) != ramp(3, p, 1) || byte(b>>8) != ramp(3, p, 2) {
			t.Errorf("%s: pixel (5, 2) of the drawn image 3 is %d %d %d", c.Name, r>>8, g>>8, b>>8)
		}
	}
}

func TestCIFARFindsItsFolder(t *testing.T) {
	for _, below := range []string{"", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, below), map[string][]byte{"data_batch_1.bin": cifar10.records(3), "data_batch_4.bin": cifar10.records(2)})
		im, err := CIFAR10(dir, Train)
		if err != nil {
			t.Errorf("batches in %q: %v", below, err)
			continue
		}
		if im.Len() != 5 || !strings.HasPrefix(im.Identity, "CIFAR-10 train (data_batch_1.bin data_batch_4.bin): 5 images 32×32, 10 classes, sha256 ") {
			t.Errorf("batches in %q: identity %q", below, im.Identity)
		}
	}
}

func TestCIFARClassNames(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"train.bin": cifar100.records(1)})
	im, err := CIFAR100(dir, Train)
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Classes) != 100 || im.Classes[0] != "apple" || im.Classes[99] != "worm" {
		t.Errorf("without a file of names the classes are %q", im.Classes)
	}
	names := strings.Repeat("x\n", 99) + "last\n\n"
	write(t, dir, map[string][]byte{"fine_label_names.txt": []byte(names)})
	if im, err = CIFAR100(dir, Train); err != nil {
		t.Fatal(err)
	}
	if im.Classes[0] != "x" || im.Classes[99] != "last" {
		t.Errorf("with a file of names the classes are %q", im.Classes)
	}
}

func TestCIFARSaysWhatIsWrong(t *testing.T) {
	outOfRange := cifar10.records(4)
	outOfRange[2*cifar10.recordSize()] = 10
	for name, test := range map[string]struct {
		files   map[string][]byte
		split   Split
		want    string // DIR stands for the folder.
		missing bool
	}{
		"truncated": {
			files: map[string][]byte{"data_batch_1.bin": cifar10.records(2), "data_batch_2.bin": cifar10.records(3)[:7000]},
			want:  "DIR/data_batch_2.bin: 854 stray bytes after 2 records of 3073 bytes: truncated, or not a CIFAR-10 file",
		},
		"label": {
			files: map[string][]byte{"data_batch_1.bin": outOfRange},
			want:  "DIR/data_batch_1.bin: record 2 has label 10, want 0 to 9",
		},
		"empty": {
			files: map[string][]byte{"data_batch_1.bin": cifar10.records(1), "data_batch_3.bin": nil},
			want:  "DIR/data_batch_3.bin: is empty",
		},
		"a folder for a batch": {
			files: map[string][]byte{"data_batch_1.bin/x": nil},
			want:  "DIR/data_batch_1.bin: is not a regular file",
		},
		"names": {
			files: map[string][]byte{"data_batch_1.bin": cifar10.records(1), "batches.meta.txt": []byte("cat\ndog\n")},
			want:  "DIR/batches.meta.txt: 2 class names, want 10",
		},
		"pickles": {
			files: map[string][]byte{"cifar-10-batches-py/data_batch_1": {0x80, 2}},
			want:  `DIR/cifar-10-batches-py/data_batch_1 belongs to the Python version of CIFAR-10, want the binary version ("semcon data fetch cifar10 --data DIR" downloads it)`,
		},
		"nothing": {
			want:    `no CIFAR-10 in DIR: cifar10/cifar-10-batches-bin does not exist ("semcon data fetch cifar10 --data DIR" downloads it)`,
			missing: true,
		},
		"no test split": {
			files: map[string][]byte{"data_batch_1.bin": cifar10.records(1)}, split: Test,
			want:    "CIFAR-10 has no test images: DIR/test_batch.bin does not exist",
			missing: true,
		},
		"unknown split": {
			files: map[string][]byte{"data_batch_1.bin": cifar10.records(1)}, split: "val",
			want: `CIFAR-10 has no split "val", only "train" and "test"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, test.files)
			if test.split == "" {
				test.split = Train
			}
			_, err := CIFAR10(dir, test.split)
			if got, want := fmt.Sprint(err), strings.ReplaceAll(test.want, "DIR", dir); got != want {
				t.Errorf("error\n\t%s, want\n\t%s", got, want)
			}
			if errors.Is(err, fs.ErrNotExist) != test.missing {
				t.Errorf("is the dataset missing? %v, want %v", !test.missing, test.missing)
			}
		})
	}
}

func TestCIFARWithoutAFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"file": nil})
	for path, want := range map[string]string{
		"":                         "CIFAR-100 needs a data folder (--data DIR or SEMCON_DATA)",
		dir + "/no":                "data folder " + dir + "/no: no such file or directory",
		filepath.Join(dir, "file"): "data folder " + filepath.Join(dir, "file") + ": is a file",
	} {
		if _, err := CIFAR100(path, Train); fmt.Sprint(err) != want {
			t.Errorf("error %q, want %q", fmt.Sprint(err), want)
		}
	}
}

// TestCIFARSample reads the sample in SEMCON_DATA, or one of the same layout: batches cut off after 1,017 records, and no fifth batch.
func TestCIFARSample(t *testing.T) {
	dir := os.Getenv("SEMCON_DATA")
	if _, err := cifar10.locate(dir); err != nil {
		dir = t.TempDir()
		batch := cifar10.records(1017)
		for _, name := range []string{"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "test_batch"} {
			write(t, dir, map[string][]byte{"cifar10/cifar-10-batches-bin/" + name + ".bin": batch})
		}
	}
	for split, want := range map[Split]int{Train: 4068, Test: 1017} {
		im, err := CIFAR10(dir, split)
		if err != nil {
			t.Fatal(err)
		}
		counts := make([]int, len(im.Classes))
		for _, label := range im.Labels {
			counts[label]++
		}
		full := map[Split]int{Train: 50000, Test: 10000}[split]
		if im.Len() != want && im.Len() != full {
			t.Errorf("%s: %d images, want %d or %d", split, im.Len(), want, full)
		}
		for class, count := range counts {
			if count < im.Len()/15 {
				t.Errorf("%s: only %d of %d images of class %s", split, count, im.Len(), im.Classes[class])
			}
		}
	}
}

func FuzzCIFARRecords(f *testing.F) {
	f.Add(cifar10.records(2), false)
	f.Add(cifar100.records(2), true)
	f.Add(cifar10.records(1)[:100], false)
	f.Fuzz(func(t *testing.T, file []byte, hundred bool) {
		c := cifar10
		if hundred {
			c = cifar100
		}
		im := &Images{Height: cifarSize, Width: cifarSize}
		err := c.readRecords(im, file)
		if err == nil && im.Len()*c.recordSize() != len(file) {
			t.Errorf("%d images from %d bytes", im.Len(), len(file))
		}
		if len(im.Pixels) != im.Len()*im.imageBytes() {
			t.Errorf("%d bytes of pixels for %d images", len(im.Pixels), im.Len())
		}
		for _, label := range im.Labels {
			if label < 0 || int(label) >= len(c.Classes) {
				t.Errorf("label %d got through", label)
			}
		}
	})
}
