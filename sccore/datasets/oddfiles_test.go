package datasets

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOddFilesAreSkippedByName: one odd file must not keep a folder from being read.
func TestOddFilesAreSkippedByName(t *testing.T) {
	dir := t.TempDir()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"good.png", "below/good.png"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, picture.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"dangling.png": "nowhere.png", "dangling.txt": "nowhere.txt", "self.png": "self.png", "below/up": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.jpg"), 0o644); err != nil {
		t.Fatal(err)
	}
	invalid := filepath.Join(dir, "caf\xe9.png")
	if err := os.WriteFile(invalid, picture.Bytes(), 0o644); err != nil {
		t.Skip("this file system takes UTF-8 names alone:", err)
	}
	images, err := OpenImageFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if images.Len() != 2 {
		t.Errorf("%d images, want the two good ones", images.Len())
	}
	reasons := map[string]string{}
	for _, skipped := range images.Skipped {
		reasons[skipped.File] = skipped.Reason
	}
	for file, want := range map[string]string{
		"dangling.png": "no such file", "dangling.txt": "no such file", "self.png": "too many levels", "below/up": "links back", "pipe.jpg": "not a regular file", "caf\uFFFD.png": "not UTF-8",
	} {
		if !strings.Contains(reasons[file], want) {
			t.Errorf("%s is skipped as %q, want %q", file, reasons[file], want)
		}
	}
}

// TestALongThinPictureIsRefusedByItsHeader has a picture of one row, which is small as a file.
func TestALongThinPictureIsRefusedByItsHeader(t *testing.T) {
	for _, size := range []image.Point{{70_000, 1}, {1, 70_000}, {1000, 1}} {
		var file bytes.Buffer
		if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, size.X, size.Y))); err != nil {
			t.Fatal(err)
		}
		if _, err := decode(file.Bytes(), 8); err == nil || !strings.Contains(err.Error(), "want sides of at most") {
			t.Errorf("%v: error %v", size, err)
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 90, 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := decode(file.Bytes(), 8); err != nil {
		t.Errorf("90×1: %v", err)
	}
}
