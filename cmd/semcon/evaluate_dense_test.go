package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"path/filepath"
	"strings"
	"testing"
)

// twoColours writes a small PASCAL VOC of 8 images of 48×48 pixels, the left three quarters background and the rest cat, each of one colour.
func twoColours(t *testing.T, m *fakeMachine) {
	t.Helper()
	photo, mask := image.NewRGBA(image.Rect(0, 0, 48, 48)), image.NewGray(image.Rect(0, 0, 48, 48))
	for y := range 48 {
		for x := range 48 {
			photo.Set(x, y, color.RGBA{30, 90, 200, 255})
			if x >= 36 {
				photo.Set(x, y, color.RGBA{220, 180, 40, 255})
				mask.SetGray(x, y, color.Gray{8}) // Class 8 is cat.
			}
		}
	}
	var photoFile, maskFile bytes.Buffer
	if err := jpeg.Encode(&photoFile, photo, nil); err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(&maskFile, mask); err != nil {
		t.Fatal(err)
	}
	names := ""
	for i := range 8 {
		name := fmt.Sprintf("2007_%d", i)
		names += name + "\n"
		m.Write(t, "data/VOC2012/JPEGImages/"+name+".jpg", photoFile.String())
		m.Write(t, "data/VOC2012/SegmentationClassAug/"+name+".png", maskFile.String())
	}
	m.Write(t, "data/VOC2012/ImageSets/Segmentation/all.txt", names)
}

// TestEvaluateDense looks at what stands beside the numbers: the commonest class as the answer everywhere, the numbers of patches, and their error.
func TestEvaluateDense(t *testing.T) {
	m := newMachine(t)
	t.Setenv("GOMLX_BACKEND", "go")
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	twoColours(t, m)
	evaluate := func(words string) (stdout, stderr string, status int) {
		args := append([]string{"evaluate"}, strings.Fields(words)...)
		return outcome(t, semcon(t, m, append(args, "--weights", "tiny.safetensors", "--data", "data", "--size", "48")...))
	}
	for words, wants := range map[string][]string{
		"in-context":                       {"background everywhere: mIoU 37.50 %, pixel accuracy 75.00 %\n"},
		"linear --epochs 1":                {"1 of each training image in batches of 32", "background everywhere: mIoU 37.50 %, pixel accuracy 75.00 %\n"},
		"in-context --classes cat,dog":     {"cat everywhere: mIoU 100.00 %, pixel accuracy 100.00 %\n"},
		"patches --classes background,cat": {"2 classes ", " training patches of each class, ", "± is the standard error over test patches"},
	} {
		stdout, stderr, status := evaluate(words)
		for _, want := range wants {
			if status != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%s: exit status %d, no %q in\n%s%s", words, status, want, stdout, stderr)
			}
		}
	}
	stdout, stderr, _ := evaluate("in-context --format json")
	var read struct {
		Everywhere struct {
			Class    string
			MIoU     float64
			Accuracy float64
		}
	}
	if err := json.Unmarshal([]byte(stdout), &read); err != nil || read.Everywhere.Class != "background" || read.Everywhere.MIoU != 37.5 || read.Everywhere.Accuracy != 75 {
		t.Errorf("%+v, %v: %s%s", read, err, stdout, stderr)
	}
	for words, want := range map[string]string{
		"patches --classes cat": "--classes cat: one class leaves nothing to tell apart",
		"patches":               `no patch has 60 % of "aeroplane": choose the classes that count; those with patches are background,cat`,
		"lost":                  "data/VOC2012: has the images of PASCAL VOC and lacks Annotations, the boxes of its objects",
	} {
		if _, stderr, status := evaluate(words); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d: %s", words, status, stderr)
		}
	}
	_, stderr, status := outcome(t, semcon(t, m, "evaluate", "patches", "--weights", "nowhere.pth", "--data", "data"))
	if status != 1 {
		t.Errorf("exit status %d", status)
	}
	wantLine(t, stderr, "--weights nowhere.pth: no such file or directory")
}

// TestEvaluateSkipsDamagedImages: in class folders they are left out and named, among training images and among test images, and the rest counts with
// the right labels: a class has one colour, and the first image of one is damaged.
func TestEvaluateSkipsDamagedImages(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	whole := picture(t, 40, color.White)
	for i := range 24 {
		class, image := []string{"cat", "dog"}[i%2], picture(t, 40, color.RGBA{uint8(200 * (i % 2)), 20, 30, 255})
		write(t, image, m.Checkout, "photos", class, fmt.Sprintf("%02d.png", i))
		write(t, image, m.Checkout, "half", "train", class, fmt.Sprintf("%02d.png", i))
	}
	write(t, nil, m.Checkout, "photos", "cat", "00.jpg")
	write(t, []byte("a text"), m.Checkout, "photos", "cat", "05.png")
	write(t, whole[:len(whole)/2], m.Checkout, "photos", "dog", "00.png")
	write(t, nil, m.Checkout, "half", "val", "cat", "broken.png")
	evaluate := func(args ...string) (stdout, stderr string, status int) {
		return outcome(t, onGo(semcon(t, m, append([]string{"evaluate"}, append(args, "--weights", "tiny.safetensors", "--size", "32")...)...)))
	}
	for _, name := range []string{"knn", "linear-probe", "spread"} {
		stdout, stderr, status := evaluate(name, "photos", "--seed", "3")
		for _, want := range []string{"skipped photos/cat/00.jpg: ", "skipped photos/cat/05.png: ", "skipped photos/dog/00.png: ", "skipped 3 of 27 images\n"} {
			if status != 0 || !strings.Contains(stderr, want) || !strings.Contains(stdout, "; 3 images left out, which cannot be read\n") {
				t.Errorf("%s: exit status %d, no %q in\n%s%s", name, status, want, stdout, stderr)
			}
		}
		if name == "knn" && !strings.Contains(stdout, "100.0") {
			t.Errorf("the classes have their own colours: %s", stdout)
		}
		if seeded := strings.Contains(stdout, "\nweights: tiny.safetensors, seed 3\n"); seeded != (name == "linear-probe") {
			t.Errorf("%s: %s", name, stdout)
		}
	}
	for name, seed := range map[string]string{"knn": "", "linear-probe": "3"} {
		stdout, stderr, _ := evaluate(name, "photos", "--seed", "3", "--format", "json")
		var read struct{ Seed json.Number }
		if err := json.Unmarshal([]byte(stdout), &read); err != nil || read.Seed.String() != seed {
			t.Errorf("%s: %+v, %v: %s%s", name, read, err, stdout, stderr)
		}
	}
	if _, stderr, status := evaluate("knn", "half"); status != 1 || !strings.Contains(stderr, "image folder val: none of its images can be read: val/cat/broken.png: ") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// TestEvaluateHoldsOutImagesOfEachClass: one in five, one of two to nine, and none of a class with one image, wherever its name is in the order.
func TestEvaluateHoldsOutImagesOfEachClass(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	image := picture(t, 40, color.White)
	for class, n := range map[string]int{"ant": 1, "bee": 11, "cow": 2, "dog": 4} {
		for i := range n {
			write(t, image, m.Checkout, "photos", class, fmt.Sprintf("%02d.png", i))
		}
		write(t, image, m.Checkout, "single", class, "0.png")
	}
	stdout, stderr, status := outcome(t, onGo(semcon(t, m, "evaluate", "knn", "photos", "--weights", "tiny.safetensors", "--size", "32")))
	if status != 0 || !strings.Contains(stdout, "all but 4 of (folder photos: 18 files") || !strings.Contains(stdout, "; 4 classes") {
		t.Errorf("exit status %d: %s%s", status, stdout, stderr)
	}
	_, stderr, status = outcome(t, onGo(semcon(t, m, "evaluate", "knn", "single", "--weights", "tiny.safetensors", "--size", "32")))
	if status != 1 || !strings.Contains(stderr, "image folder single: contains 4 images, one of each class, which leaves none to test") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// TestEvaluateTakesClassFolders: a folder of classes, the folders of classes, and a folder of splits, by arguments or by --data.
func TestEvaluateTakesClassFolders(t *testing.T) {
	m := newMachine(t)
	tinyWeights(t, filepath.Join(m.Checkout, "tiny.safetensors"))
	for i := range 12 {
		class := []string{"cat", "dog"}[i%2]
		for _, split := range []string{"photos", "split/train", "split/val"} {
			if class == "cat" {
				write(t, picture(t, 40, color.White), m.Checkout, "one", class, fmt.Sprintf("%02d.png", i))
			}
			write(t, picture(t, 40, color.RGBA{uint8(200 * (i % 2)), uint8(20 * i), 30, 255}), m.Checkout, split, class, fmt.Sprintf("%02d.png", i))
		}
	}
	for _, args := range [][]string{
		{"knn", "photos"}, {"linear-probe", "photos/cat", "photos/dog"}, {"linear-classification", "split"}, {"knn", "--data", "split"}, {"knn", "photos/*/*.png", "--set", "k=3"},
	} {
		stdout, stderr, status := outcome(t, onGo(semcon(t, m, append(append([]string{"evaluate"}, args...), "--weights", "tiny.safetensors", "--size", "32")...)))
		if status != 0 || !strings.Contains(stdout, "; 2 classes\n") || !strings.Contains(stdout, "accuracy") {
			t.Errorf("%v: exit status %d, said %q and %q", args, status, stdout, stderr)
		}
		if args[0] == "linear-probe" && !strings.Contains(stdout, "3000 epochs of batches of 256") {
			t.Errorf("%v: %q", args, stdout)
		}
	}
	stdout, _, status := outcome(t, onGo(semcon(t, m, "evaluate", "spread", "photos", "--weights", "tiny.safetensors", "--size", "32")))
	if status != 0 || !strings.Contains(stdout, " of 10 images of 32 px\nweights: tiny.safetensors\n") {
		t.Errorf("spread: exit status %d, %q", status, stdout)
	}
	for want, args := range map[string][]string{
		"2 --data FOLDER is missing, or class folders as arguments": {"knn"}, "1 lies outside the class folders": {"knn", "photos/cat"},
		"2 semcon evaluate linear-probe: --data FOLDER is missing": {"linear-probe"}, `2 --seed "x": "x" cannot be read, want a whole number, 0 or more`: {"knn", "--seed", "x"},
		"1 has one class, cat": {"knn", "one"},
	} {
		_, stderr, status := outcome(t, onGo(semcon(t, m, append(append([]string{"evaluate"}, args...), "--weights", "tiny.safetensors")...)))
		if code, text, _ := strings.Cut(want, " "); fmt.Sprint(status) != code || !strings.Contains(stderr, text) {
			t.Errorf("%v: exit status %d, %q, want %q", args, status, stderr, want)
		}
	}
}
