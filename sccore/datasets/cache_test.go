package datasets

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// readAll reads all images of a folder into canvases.
func readAll(t *testing.T, images *ImageFolder, size int) (pixels [][]uint8, sizes []Size) {
	t.Helper()
	for i := range images.Len() {
		canvas := bytes.Repeat([]byte{99}, size*size*3)
		read, err := images.Read(i, canvas, size)
		if err != nil {
			t.Fatal(err)
		}
		pixels, sizes = append(pixels, canvas), append(sizes, read)
	}
	return pixels, sizes
}

// cacheFiles lists the files of a cache.
func cacheFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// photographs copies the pictures that testdata has for whole images.
func photographs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	all, err := OpenImageFolder("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all.files {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCacheReturnsTheSamePixels: when it is empty, when it is full, when its files are damaged, and after an image has changed.
func TestCacheReturnsTheSamePixels(t *testing.T) {
	const size = 16
	dir, kept := photographs(t), filepath.Join(t.TempDir(), "a", "b")
	images, err := OpenImageFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := OpenCache(kept, nil)
	if err != nil {
		t.Fatal(err)
	}
	cached := images.Cached(cache)
	same := func(when string) {
		t.Helper()
		pixels, sizes := readAll(t, images, size)
		again, sizesAgain := readAll(t, cached, size)
		for i := range pixels {
			if !bytes.Equal(pixels[i], again[i]) || sizes[i] != sizesAgain[i] {
				t.Errorf("%s: image %d differs", when, i)
			}
		}
	}
	same("empty")
	files := cacheFiles(t, kept)
	if len(files) != images.Len() {
		t.Fatalf("%d files of %d images", len(files), images.Len())
	}
	same("full")
	if cached.Pick([]int{0}).cache == nil {
		t.Error("a part of the images has no cache")
	}

	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 0:
			content[len(content)-1] ^= 1
		case 1:
			content = content[:len(content)/2]
		case 2:
			content = nil
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	same("damaged")
	same("mended")

	// It is the cache that is read: what an image's file holds shows only once its time differs.
	first, info := filepath.Join(dir, images.files[0]), fs.FileInfo(nil)
	if info, err = os.Stat(first); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(first, bytes.Repeat([]byte{0}, int(info.Size())), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(first, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, err := cached.Read(0, make([]uint8, size*size*3), size); err != nil {
		t.Errorf("the cache was not read: %v", err)
	}
	if err := os.Chtimes(first, info.ModTime(), info.ModTime().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := cached.Read(0, make([]uint8, size*size*3), size); err == nil || !strings.Contains(err.Error(), images.files[0]) {
		t.Errorf("error %v of a changed and broken image, want one with its name", err)
	}
	if _, err := images.Cached(cache).Read(1, make([]uint8, 12*12*3), 12); err != nil || len(cacheFiles(t, kept)) != len(files)+1 {
		t.Errorf("another canvas: %v, %d files", err, len(cacheFiles(t, kept)))
	}
}

// TestCacheThatCannotBeWritten warns once, and images are read all the same.
func TestCacheThatCannotBeWritten(t *testing.T) {
	images, err := OpenImageFolder(photographs(t))
	if err != nil {
		t.Fatal(err)
	}
	kept, lines := t.TempDir(), []string(nil)
	cache, err := OpenCache(kept, func(line string) { lines = append(lines, line) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, nil, 0o644); err != nil { // A file, where the folder was.
		t.Fatal(err)
	}
	readAll(t, images.Cached(cache), 16)
	if len(lines) != 1 || !strings.Contains(lines[0], kept) || !strings.Contains(lines[0], "nothing more is kept") {
		t.Errorf("warnings %q", lines)
	}
	if _, err := OpenCache(filepath.Join(kept, "below"), nil); err == nil || !strings.Contains(err.Error(), kept) {
		t.Errorf("error %v, want one that names the folder", err)
	}
}

// FuzzCacheFile: any file is refused, or fills the canvas.
func FuzzCacheFile(f *testing.F) {
	canvas := bytes.Repeat([]byte{7}, 4*4*3)
	f.Add(cacheFile(canvas, 4, Size{2, 3}))
	f.Add(cacheFile(canvas, 4, Size{4, 4}))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		pixels := make([]uint8, 4*4*3)
		if read, ok := readCacheFile(file, pixels, 4); ok && !bytes.Equal(cacheFile(pixels, 4, read), content) {
			t.Errorf("a file of %v is read otherwise than it is written", read)
		}
	})
}
