package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// davisFolder creates a data folder in DAVIS's layout with two videos of 3 frames of 6×4 pixels: one has palette masks, one grey ones.
func davisFolder(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var frame bytes.Buffer
	if err := jpeg.Encode(&frame, image.NewRGBA(image.Rect(0, 0, 6, 4)), nil); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		coloured := image.NewPaletted(image.Rect(0, 0, 6, 4), color.Palette{color.Black, color.White, color.RGBA{R: 255, A: 255}})
		for len(coloured.Palette) < 256 {
			coloured.Palette = append(coloured.Palette, color.Black)
		}
		grey := image.NewGray(image.Rect(0, 0, 6, 4))
		coloured.Pix[i], coloured.Pix[7], coloured.Pix[23], grey.Pix[i] = 1, 2, 255, 255
		for name, mask := range map[string]image.Image{"dogs": coloured, "swan": grey} {
			writeDAVIS(t, dir, fmt.Sprintf("JPEGImages/480p/%s/%05d.jpg", name, i), frame.Bytes())
			writeDAVIS(t, dir, fmt.Sprintf("Annotations/480p/%s/%05d.png", name, i), encoded(t, mask))
		}
	}
	return dir
}

func encoded(t *testing.T, mask image.Image) []byte {
	t.Helper()
	var content bytes.Buffer
	if err := png.Encode(&content, mask); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func writeDAVIS(t *testing.T, dir, file string, content []byte) {
	t.Helper()
	path := filepath.Join(dir, "DAVIS", filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDAVISReadsBothKindsOfMasks(t *testing.T) {
	dir := davisFolder(t)
	set, err := DAVIS(dir, Test)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.All) != 2 || set.Name != "DAVIS, all folders" || !strings.Contains(set.Identity, "2 videos, 6 frames") {
		t.Fatalf("%+v", set)
	}
	for i, objects := range []int{2, 1} { // dogs, swan
		v := set.All[i]
		if v.Frames != 3 || v.Size != (Size{4, 6}) {
			t.Errorf("%s has %d frames of %v", v.Name, v.Frames, v.Size)
		}
		if got, err := v.Objects(); err != nil || got != objects {
			t.Errorf("%s: %d objects, %v", v.Name, got, err)
		}
		mask, err := v.Mask(1)
		want := make([]uint8, 24)
		want[1] = 1
		if objects == 2 {
			want[7] = 2 // And void, which is the last pixel, is background.
		}
		if err != nil || !slices.Equal(mask, want) {
			t.Errorf("%s: mask %v, %v, want %v", v.Name, mask, err, want)
		}
		if frame, err := v.Frame(2); err != nil || len(frame) != 4*6*3 {
			t.Errorf("%s: frame of %d bytes, %v", v.Name, len(frame), err)
		}
	}
}

func TestDAVISTakesTheSplitsList(t *testing.T) {
	dir := davisFolder(t)
	writeDAVIS(t, dir, "ImageSets/2016/val.txt", []byte("dogs\nswan\n"))
	writeDAVIS(t, dir, "ImageSets/2017/val.txt", []byte("swan\r\n\n"))
	set, err := DAVIS(dir, Test)
	if err != nil || len(set.All) != 1 || set.All[0].Name != "swan" || set.Name != "DAVIS-2017 val" {
		t.Errorf("%+v, %v", set, err)
	}
	again, err := DAVIS(dir, Test)
	if err != nil || again.Identity != set.Identity {
		t.Errorf("the same files are %q and %q, %v", set.Identity, again.Identity, err)
	}
	for _, folder := range []string{"JPEGImages/480p/", "Annotations/480p/"} {
		if err := os.Rename(filepath.Join(dir, "DAVIS", folder+"swan"), filepath.Join(dir, "DAVIS", folder+"black swan")); err != nil {
			t.Fatal(err)
		}
	}
	writeDAVIS(t, dir, "ImageSets/2017/val.txt", []byte("black swan\n"))
	if set, err := DAVIS(dir, Test); err != nil || len(set.All) != 1 || set.All[0].Name != "black swan" {
		t.Errorf("a name with a space: %+v, %v", set, err)
	}
}

func TestDAVISSaysWhatIsWrong(t *testing.T) {
	blank := func(width, height int) []byte { return encoded(t, image.NewGray(image.Rect(0, 0, width, height))) }
	for want, spoil := range map[string]func(dir string){
		"00001.jpg has no mask":  func(dir string) { os.Remove(dir + "/DAVIS/Annotations/480p/swan/00001.png") },
		"00001.png has no frame": func(dir string) { os.Remove(dir + "/DAVIS/JPEGImages/480p/swan/00001.jpg") },
		"480p/bear":              func(dir string) { writeDAVIS(t, dir, "ImageSets/2017/val.txt", []byte("bear")) },
		"swan: contains no .jpg files": func(dir string) {
			for i := range 3 {
				os.Remove(fmt.Sprintf("%s/DAVIS/JPEGImages/480p/swan/%05d.jpg", dir, i))
			}
		},
		"contains no folders of videos": func(dir string) {
			os.RemoveAll(dir + "/DAVIS/JPEGImages/480p")
			os.Mkdir(dir+"/DAVIS/JPEGImages/480p", 0o755)
		},
		`val.txt: line 2: "../dogs" is not the name of a folder`: func(dir string) { writeDAVIS(t, dir, "ImageSets/2017/val.txt", []byte("dogs\n../dogs")) },
		"lists no videos": func(dir string) { writeDAVIS(t, dir, "ImageSets/2017/val.txt", []byte("\n")) },
		"val.txt: is not a regular file": func(dir string) {
			os.MkdirAll(dir+"/DAVIS/ImageSets/2017", 0o755)
			syscall.Mkfifo(dir+"/DAVIS/ImageSets/2017/val.txt", 0o644)
		},
		"has 5×4 pixels":          func(dir string) { writeDAVIS(t, dir, "Annotations/480p/swan/00002.png", blank(5, 4)) },
		"00002.png: is not a PNG": func(dir string) { writeDAVIS(t, dir, "Annotations/480p/swan/00002.png", []byte("no mask")) },
		"with a palette": func(dir string) {
			writeDAVIS(t, dir, "Annotations/480p/swan/00002.png", encoded(t, image.NewRGBA(image.Rect(0, 0, 6, 4))))
		},
		"00000.jpg": func(dir string) { writeDAVIS(t, dir, "JPEGImages/480p/dogs/00000.jpg", []byte{0xff, 0xd8}) },
		"swan: no object in the first mask": func(dir string) {
			writeDAVIS(t, dir, "Annotations/480p/swan/00000.png", blank(6, 4))
		},
	} {
		dir := davisFolder(t)
		spoil(dir)
		set, err := DAVIS(dir, Test)
		if err == nil {
			for _, v := range set.All {
				_, first := v.Objects()
				_, last := v.Mask(v.Frames - 1)
				err = errors.Join(err, first, last)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, want)
		}
	}
	if _, err := DAVIS(t.TempDir(), Test); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := DAVIS(t.TempDir(), "unheard-of"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown split: %v", err)
	}
}

// TestDAVISSample reads real frames if the data folder has them.
func TestDAVISSample(t *testing.T) {
	set, err := DAVIS(os.Getenv("SEMCON_DATA"), Test)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("SEMCON_DATA names no folder with DAVIS")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range set.All {
		for i := range v.Frames {
			mask, err := v.Mask(i)
			if err != nil {
				t.Fatal(err)
			}
			share := 0
			for _, label := range mask {
				if label > 0 {
					share++
				}
			}
			if i == 0 && (share == 0 || share > len(mask)*3/4) {
				t.Errorf("%s: the objects of frame %d cover %d of %d pixels", v.Name, i, share, len(mask))
			}
		}
		if frame, err := v.Frame(v.Frames - 1); err != nil || len(frame) != v.Width*v.Height*3 {
			t.Errorf("%s: %d bytes, %v", v.Name, len(frame), err)
		}
	}
}

func FuzzDecodeMask(f *testing.F) {
	var content bytes.Buffer
	if err := png.Encode(&content, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		f.Fatal(err)
	}
	f.Add(content.Bytes())
	f.Fuzz(func(t *testing.T, content []byte) {
		if mask, size, err := decodeMask(content); err == nil && (len(mask) != size.Width*size.Height || slices.Contains(mask, 255)) {
			t.Errorf("%d pixels of %v, with void %v", len(mask), size, slices.Contains(mask, 255))
		}
	})
}
