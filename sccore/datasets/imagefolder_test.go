package datasets

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWholeImagesAgreeWithPillow(t *testing.T) {
	text, err := os.ReadFile("testdata/whole.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		File          string
		Height, Width int
		Pixels        []int
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden) != 4 {
		t.Errorf("%d cases, want 4", len(golden))
	}
	images, err := OpenImageFolder("testdata")
	if err != nil {
		t.Fatal(err)
	}
	const size = 16
	for _, want := range golden {
		pixels := bytes.Repeat([]byte{99}, size*size*3)
		read, err := images.Read(slices.Index(images.files, want.File), pixels, size)
		if err != nil || read != (Size{want.Height, want.Width}) {
			t.Fatalf("%s: %v, %v, want %d×%d", want.File, read, err, want.Height, want.Width)
		}
		worst, sum := 0, 0
		for y := range size {
			for at := range size * 3 {
				got, expected := int(pixels[y*size*3+at]), 0
				if y < want.Height {
					expected = want.Pixels[y*want.Width*3+at]
				}
				worst, sum = max(worst, got-expected, expected-got), sum+max(got-expected, expected-got)
			}
		}
		if mean := float64(sum) / float64(len(want.Pixels)); worst > 4 || mean > 0.6 {
			t.Errorf("%s: off by up to %d, %.2f on average", want.File, worst, mean)
		}
	}
}

// TestWholeImagesAreUpright has a wide image with four different corners, in all eight orientations.
func TestWholeImagesAreUpright(t *testing.T) {
	const width, height = 32, 16
	colours := map[byte]color.RGBA{'r': {255, 0, 0, 255}, 'g': {0, 255, 0, 255}, 'b': {0, 0, 255, 255}, 'w': {255, 255, 255, 255}}
	// The stored top left, top right, bottom left and bottom right corners of an image that is r g / b w when upright.
	for value, stored := range map[int]string{1: "rgbw", 2: "grwb", 3: "wbgr", 4: "bwrg", 5: "rbgw", 6: "gwrb", 7: "wgbr", 8: "brwg"} {
		picture := image.NewRGBA(image.Rect(0, 0, width, height))
		for y := range height {
			for x := range width {
				picture.SetRGBA(x, y, colours[stored[2*(2*y/height)+2*x/width]])
			}
		}
		file := encodeJPEG(t, picture)
		file = append(append(file[:2:2], exifSegment(binary.BigEndian, uint16(value))...), file[2:]...)
		pixels := make([]uint8, 40*40*3)
		read, err := decodeWhole(file, pixels, 40)
		h, w := read.Height, read.Width
		want := [2]int{height, width}
		if value >= 5 {
			want = [2]int{width, height}
		}
		if err != nil || [2]int{h, w} != want {
			t.Fatalf("orientation %d: %d×%d, %v, want %v", value, h, w, err, want)
		}
		for i, corner := range []byte("rgbw") {
			y, x := 2+(i/2)*(h-5), 2+(i%2)*(w-5)
			got, c := pixels[3*(40*y+x):][:3], colours[corner]
			for k, v := range []uint8{c.R, c.G, c.B} {
				if max(got[k], v)-min(got[k], v) > 8 {
					t.Errorf("orientation %d, corner %d is %v, want %v", value, i, got, c)
					break
				}
			}
		}
	}
}

func TestWholeImagesOfOtherKinds(t *testing.T) {
	frame := image.Rect(0, 0, 6, 4)
	deep := image.NewRGBA64(frame)
	for i := range 24 {
		deep.Set(i%6, i/6, color.RGBA64{0xc812, 0x6434, 0x3256, 0xffff})
	}
	cmyk, err := os.ReadFile("testdata/cmyk.jpg")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file          []byte
		height, width int
	}{
		"16-bit": {encodePNG(t, deep), 4, 6}, "grey": {encodeJPEG(t, image.NewGray(frame)), 4, 6}, "CMYK": {cmyk, 5, 8},
		"a line": {encodePNG(t, image.NewGray(image.Rect(0, 0, 100, 1))), 1, 8},
	} {
		pixels := make([]uint8, 8*8*3)
		read, err := decodeWhole(c.file, pixels, 8)
		height, width := read.Height, read.Width
		if err != nil || height != c.height || width != c.width {
			t.Errorf("%s: %d×%d, %v, want %d×%d", name, height, width, err, c.height, c.width)
		}
		if name == "16-bit" && ([3]uint8(pixels[:3]) != [3]uint8{200, 100, 50} || pixels[6*3] != 0) {
			t.Errorf("%s: %v", name, pixels[:8*3])
		}
	}
}

func FuzzDecodeWhole(f *testing.F) {
	f.Add(encodePNG(f, flat(5, 3, color.White)), uint8(4))
	f.Add(encodeJPEG(f, flat(9, 30, color.Black)), uint8(16))
	f.Fuzz(func(t *testing.T, file []byte, size uint8) {
		if config, _, err := image.DecodeConfig(bytes.NewReader(file)); err != nil || size == 0 || config.Width*config.Height > 1<<16 {
			return
		}
		pixels := make([]uint8, int(size)*int(size)*3)
		read, err := decodeWhole(file, pixels, int(size))
		height, width := read.Height, read.Width
		if err == nil && (height < 1 || width < 1 || max(height, width) > int(size)) {
			t.Errorf("%d×%d pixels in a square of %d", height, width, size)
		}
	})
}

func TestOpenImageFolderListsTheFolder(t *testing.T) {
	dir := t.TempDir()
	file := encodePNG(t, flat(3, 3, color.White))
	write(t, dir, map[string][]byte{
		"coco/images/train2017/b.png": file, "coco/images/train2017/a.png": file, "coco/images/train2017/notes.txt": nil,
		"coco/images/train2017/.hidden.png": file, "coco/val2017/deep/c.png": file,
	})
	train, err := COCO(dir, Train)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(train.files, train.Len(), train.Skipped) != "[a.png b.png] 2 [{notes.txt is neither .jpg, .jpeg nor .png}]" {
		t.Errorf("%v, skipped %v", train.files, train.Skipped)
	}
	if !strings.HasPrefix(train.Identity, "folder train2017: 2 files, sha256 of names and sizes ") {
		t.Errorf("identity %q", train.Identity)
	}
	if val, err := COCO(dir, Test); err != nil || val.Len() != 1 {
		t.Errorf("val2017: %v, %v", val, err)
	}
	write(t, dir, map[string][]byte{"coco/images/train2017/b.png": append(slices.Clone(file), 0)})
	if again, err := COCO(dir, Train); err != nil || again.Identity == train.Identity {
		t.Errorf("another file has the same identity, %v", err)
	}

	for want, open := range map[string]func() (*ImageFolder, error){
		"no train2017 in":      func() (*ImageFolder, error) { return COCO(t.TempDir(), Train) },
		`no split "third"`:     func() (*ImageFolder, error) { return COCO(dir, "third") },
		"no .jpg, .jpeg or":    func() (*ImageFolder, error) { return OpenImageFolder(t.TempDir()) },
		"is a file":            func() (*ImageFolder, error) { return OpenImageFolder(filepath.Join(dir, "coco/val2017/deep/c.png")) },
		"no such file or dire": func() (*ImageFolder, error) { return OpenImageFolder(filepath.Join(dir, "nothing")) },
	} {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, want)
		}
	}
}

func TestImageFolderLabels(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"n02/b.JPEG", "n01/a.JPEG", "n02/a.JPEG"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte{1}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	images, err := OpenImageFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	labels, names, err := images.Labels()
	if err != nil || !slices.Equal(labels, []int32{0, 1, 1}) || !slices.Equal(names, []string{"n01", "n02"}) {
		t.Errorf("labels %v of %v, %v", labels, names, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stray.jpg"), []byte{1}, 0o644); err != nil {
		t.Fatal(err)
	}
	if images, err = OpenImageFolder(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := images.Labels(); err == nil || !strings.Contains(err.Error(), "stray.jpg: lies outside the class folders") {
		t.Errorf("an image without class: %v", err)
	}
}

func TestImagesAreASource(t *testing.T) {
	im := noise(2, 8, 1)
	pixels := bytes.Repeat([]byte{9}, 10*10*3)
	read, err := im.Read(1, pixels, 10)
	if err != nil || read != (Size{8, 8}) {
		t.Fatal(read, err)
	}
	if !bytes.Equal(pixels[30*7:][:24], im.At(1)[24*7:]) || pixels[24] != 0 || pixels[299] != 0 {
		t.Error("the image is not in the top left corner of black pixels")
	}
	if _, err := im.Read(0, pixels, 7); err == nil || !strings.Contains(err.Error(), "8×8 pixels do not fit in 7") {
		t.Errorf("error %v", err)
	}
}
