package datasets

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"image/color"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// classFolders returns class folders of images below a prefix, each image of a different grey, and some other files.
func classFolders(t testing.TB, prefix string) map[string][]byte {
	grey := func(level uint8) color.Gray { return color.Gray{level} }
	return map[string][]byte{
		prefix + "dog/b.PNG":     encodePNG(t, flat(12, 9, grey(20))),
		prefix + "dog/a.jpg":     encodeJPEG(t, flat(8, 8, grey(10))),
		prefix + "cat/x.jpeg":    encodeJPEG(t, flat(5, 30, grey(30))),
		prefix + "cat/notes.txt": []byte("nothing"),
		prefix + "cat/.DS_Store": []byte("hidden"),
		".cache/bird/x.jpg":      []byte("hidden"),
		"__MACOSX/cat/x.jpg":     []byte("hidden"),
		"README.md":              []byte("nothing"),
	}
}

func writeZip(t testing.TB, entries map[string][]byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "set.zip")
	if err := os.WriteFile(file, zipped(t, entries), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

func zipped(t testing.TB, entries map[string][]byte) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, err := w.Create(name)
		if err == nil {
			_, err = entry.Write(entries[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestFoldersAndZipsOfClasses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pets")
	write(t, dir, classFolders(t, ""))
	fromFolder, err := ReadFolder(dir, 8)
	if err != nil {
		t.Fatal(err)
	}
	fromZip, err := ReadFolder(writeZip(t, classFolders(t, "train/")), 8)
	if err != nil {
		t.Fatal(err)
	}
	for source, im := range map[string]*Images{"folder pets": fromFolder, "zip set.zip": fromZip} {
		if !slices.Equal(im.Classes, []string{"cat", "dog"}) || !slices.Equal(im.Labels, []int32{0, 1, 1}) || im.Height != 8 || im.Width != 8 {
			t.Errorf("%s: classes %q, labels %v, %d×%d", source, im.Classes, im.Labels, im.Width, im.Height)
		}
		for i, want := range []uint8{30, 10, 20} {
			if im.At(i)[0] != want || im.At(i)[8*8*3-1] != want {
				t.Errorf("%s: image %d is of grey %d, want %d", source, i, im.At(i)[0], want)
			}
		}
		skipped := []Skipped{{"README.md", "is neither .jpg, .jpeg nor .png"}, {"cat/notes.txt", "is neither .jpg, .jpeg nor .png"}}
		if im == fromZip {
			skipped[1].File = "train/cat/notes.txt"
		}
		if !slices.Equal(im.Skipped, skipped) {
			t.Errorf("%s: skipped %v", source, im.Skipped)
		}
		if !strings.HasPrefix(im.Identity, source+": 3 images 8×8, 2 classes, sha256 ") || !strings.HasSuffix(source, " "+im.Name) {
			t.Errorf("%s: name %q, identity %q", source, im.Name, im.Identity)
		}
	}
	if !bytes.Equal(fromFolder.Pixels, fromZip.Pixels) {
		t.Error("folder and zip give different pixels")
	}
}

func TestFolderFollowsLinks(t *testing.T) {
	elsewhere, dir := t.TempDir(), t.TempDir()
	write(t, elsewhere, map[string][]byte{"x.png": encodePNG(t, flat(4, 4, color.White))})
	if err := os.Symlink(elsewhere, filepath.Join(dir, "white")); err != nil {
		t.Fatal(err)
	}
	im, err := ReadFolder(dir, 4)
	if err != nil || im.Len() != 1 || im.Classes[0] != "white" {
		t.Errorf("%+v, %v", im, err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "circle")); err != nil {
		t.Fatal(err)
	}
	im, err = ReadFolder(dir, 4)
	if err != nil || im.Len() != 1 || !slices.Equal(im.Skipped, []Skipped{{"circle", "links back to a folder above it"}}) {
		t.Errorf("links in a circle: %+v, %v", im, err)
	}
}

func TestBrokenImages(t *testing.T) {
	files := classFolders(t, "")
	whole := encodeJPEG(t, flat(8, 8, color.White))
	files["cat/broken1.jpg"] = whole[:len(whole)-30]
	files["cat/broken2.jpg"] = nil
	files["zebra/broken3.png"] = []byte("<html>")
	dir := t.TempDir()
	write(t, dir, files)

	im, err := ReadFolder(dir, 8)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(im.Classes, []string{"cat", "dog", "zebra"}) || !slices.Equal(im.Labels, []int32{0, 1, 1}) || len(im.Pixels) != 3*im.imageBytes() {
		t.Errorf("classes %q, labels %v, %d bytes", im.Classes, im.Labels, len(im.Pixels))
	}
	if levels := []uint8{im.At(0)[0], im.At(1)[0], im.At(2)[0]}; !slices.Equal(levels, []uint8{30, 10, 20}) {
		t.Errorf("greys %v", levels)
	}
	var names, reasons []string
	for _, skipped := range im.Skipped {
		names, reasons = append(names, skipped.File), append(reasons, skipped.Reason)
	}
	want := []string{"README.md", "cat/broken1.jpg", "cat/broken2.jpg", "cat/notes.txt", "zebra/broken3.png"}
	if !slices.Equal(names, want) || reasons[2] != "is empty" || reasons[4] != "is neither JPEG nor PNG" {
		t.Errorf("skipped %q because %q", names, reasons)
	}
}

func TestClassesDoNotDependOnWorkers(t *testing.T) {
	dir := t.TempDir()
	files := map[string][]byte{}
	for i := range 60 {
		files[fmt.Sprintf("class%d/%02d.png", i%3, i)] = encodePNG(t, flat(6, 6, color.Gray{uint8(4 * i)}))
	}
	for _, i := range []int{13, 29, 41} {
		files[fmt.Sprintf("class%d/%02d.png", i%3, i)] = []byte("broken")
	}
	write(t, dir, files)
	var first *Images
	for _, workers := range []int{1, 2, 7, 100} {
		for range 5 {
			im, err := readClasses(os.DirFS(dir), "", 6, workers)
			if err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = im
			}
			if im.Len() != 57 || !bytes.Equal(im.Pixels, first.Pixels) || !slices.Equal(im.Labels, first.Labels) || !slices.Equal(im.Skipped, first.Skipped) {
				t.Errorf("%d workers read another set", workers)
			}
		}
	}
}

func TestFoldersSayWhatIsWrong(t *testing.T) {
	picture := encodePNG(t, flat(4, 4, color.White))
	for name, test := range map[string]struct {
		files map[string][]byte
		size  int
		want  string
	}{
		"nothing":     {nil, 8, "no class folder contains a .jpg, .jpeg or .png file"},
		"no images":   {map[string][]byte{"a/b.txt": nil}, 8, "no class folder contains a .jpg, .jpeg or .png file"},
		"no class":    {map[string][]byte{"a/1.png": picture, "stray.png": picture}, 8, "stray.png: lies outside the class folders"},
		"two splits":  {map[string][]byte{"train/a/1.png": picture, "test/a/1.png": picture}, 8, "test and train: is a split and not a class"},
		"all broken":  {map[string][]byte{"a/1.png": nil, "a/2.png": nil}, 8, "none of the images can be read: a/1.png: is empty"},
		"size":        {map[string][]byte{"a/1.png": picture}, 0, "image size 0, want at least 1 pixel"},
		"large file":  {map[string][]byte{"a/1.png": make([]byte, maxFileBytes+1)}, 8, "none of the images can be read: a/1.png: is larger than 256 MiB"},
		"folder .jpg": {map[string][]byte{"a/1.jpg/b.txt": nil}, 8, "no class folder contains a .jpg, .jpeg or .png file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, test.files)
			if _, err := ReadFolder(dir, test.size); fmt.Sprint(err) != "image folder "+dir+": "+test.want {
				t.Errorf("folder: %v, want %s", err, test.want)
			}
			if name == "large file" {
				return // In a zip that is a bomb.
			}
			file := writeZip(t, test.files)
			if _, err := ReadFolder(file, test.size); fmt.Sprint(err) != "zip "+file+": "+test.want {
				t.Errorf("zip: %v, want %s", err, test.want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "none")
	if _, err := ReadFolder(file, 8); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "image folder "+file+": no such file") {
		t.Errorf("missing folder: %v", err)
	}
	file += ".zip"
	if _, err := ReadFolder(file, 8); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "zip "+file+": no such file") {
		t.Errorf("missing zip: %v", err)
	}
}

func TestHostileZips(t *testing.T) {
	picture := encodePNG(t, flat(4, 4, color.White))
	whole := zipped(t, map[string][]byte{"a/1.png": picture, "b/2.png": picture})
	damaged := bytes.Clone(whole)
	damaged[60] ^= 0xff    // In the content of the first entry.
	var lying bytes.Buffer // An entry that says it is small and is not.
	w := zip.NewWriter(&lying)
	entry, err := w.CreateRaw(&zip.FileHeader{
		Name: "a/1.png", Method: zip.Store, CRC32: crc32.ChecksumIEEE(picture), CompressedSize64: uint64(len(picture)), UncompressedSize64: 5,
	})
	if err == nil {
		entry.Write(picture)
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"not a zip": {[]byte("<html>"), "zip: not a valid zip file"},
		"cut":       {whole[:len(whole)-25], "zip: not a valid zip file"},
		"bomb":      {zipped(t, map[string][]byte{"a/1.png": make([]byte, 10<<20)}), "claims 10485760 bytes of content in "},
		"lying":     {lying.Bytes(), "none of the images can be read: a/1.png: "},
		"same name": {zipTwice(t, "a/1.png", picture), "a: a/1.png: duplicate entries in zip file"},
	} {
		file := filepath.Join(t.TempDir(), "x.zip")
		if err := os.WriteFile(file, test.content, 0o666); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFolder(file, 8)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, "zip "+file+": "+test.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}

	file := filepath.Join(t.TempDir(), "damaged.zip")
	if err := os.WriteFile(file, damaged, 0o666); err != nil {
		t.Fatal(err)
	}
	if im, err := ReadFolder(file, 8); err != nil || len(im.Skipped) != 1 || im.Skipped[0].File != "a/1.png" {
		t.Errorf("damaged: %+v, %v", im, err)
	}

	// Names that lead out of the archive are labels like any other, and nothing is written.
	dir := t.TempDir()
	file = filepath.Join(dir, "x.zip")
	if err := os.WriteFile(file, zipped(t, map[string][]byte{"../../evil/1.png": picture, "/abroad/2.png": picture, `c:\win\3.png`: picture}), 0o666); err != nil {
		t.Fatal(err)
	}
	im, err := ReadFolder(file, 4)
	if err != nil || !slices.Equal(im.Classes, []string{"abroad", "c:", "evil"}) {
		t.Errorf("strange names: %+v, %v", im, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("reading left %v", entries)
	}
}

func zipTwice(t *testing.T, name string, content []byte) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for range 2 {
		entry, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		entry.Write(content)
	}
	w.Close()
	return out.Bytes()
}

func FuzzZip(f *testing.F) {
	picture := encodePNG(f, flat(3, 3, color.White))
	f.Add(zipped(f, map[string][]byte{"a/1.png": picture}))
	f.Add(zipped(f, map[string][]byte{"../x/1.jpg": picture, "train/b/2.png": picture[:20]}))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "x.zip")
		if err := os.WriteFile(file, content, 0o666); err != nil {
			t.Fatal(err)
		}
		im, err := ReadFolder(file, 4)
		if err != nil {
			return
		}
		if im.Len() == 0 || len(im.Pixels) != im.Len()*im.imageBytes() {
			t.Errorf("%d images, %d bytes", im.Len(), len(im.Pixels))
		}
		for _, label := range im.Labels {
			if int(label) >= len(im.Classes) {
				t.Errorf("label %d of %d classes", label, len(im.Classes))
			}
		}
	})
}
