package datasets

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
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
	for _, name := range []string{"good.png", "below/good.png", "out/run/pictures/000000.png"} {
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
	if err := os.WriteFile(filepath.Join(dir, "out", "run", "run.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
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
		"out/run": "pictures of its own", "dangling.png": "no such file", "dangling.txt": "no such file", "self.png": "too many levels", "below/up": "links back", "pipe.jpg": "not a regular file", "caf\uFFFD.png": "not UTF-8",
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

// withChunk puts a chunk behind a PNG's header.
func withChunk(file []byte, name string, content []byte) []byte {
	const headerEnds = 33
	chunk := append([]byte(name), content...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk))
	return slices.Concat(file[:headerEnds], binary.BigEndian.AppendUint32(nil, uint32(len(content))), chunk, file[headerEnds:])
}

// TestPNGsAreTurnedUpright: chunk eXIf turns a PNG as segment APP1 turns a JPEG, as ImageOps.exif_transpose does, wherever it stands.
func TestPNGsAreTurnedUpright(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 3, 2))
	picture.SetRGBA(0, 0, color.RGBA{9, 8, 7, 255})
	plain := encodePNG(t, picture)
	exif := exifSegment(binary.BigEndian, 6)[len("\xff\xe1__Exif\x00\x00"):]
	late := slices.Concat(plain[:len(plain)-len(iend)], withChunk(plain, "eXIf", exif)[33:33+12+len(exif)], iend)
	for name, file := range map[string][]byte{"before the pixels": withChunk(plain, "eXIf", exif), "behind them": late} {
		path := filepath.Join(t.TempDir(), "x.png")
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		photo, err := ReadPhoto(path)
		if err != nil || photo.Width != 2 || photo.Height != 3 || photo.Pixels[3] != 9 { // Turned to the right: top left goes to top right.
			t.Errorf("%s: %+v, %v", name, photo, err)
		}
	}
}

// TestUsableImagesAreRead holds what Pillow reads too.
func TestUsableImagesAreRead(t *testing.T) {
	plain := encodePNG(t, flat(5, 4, color.RGBA{50, 100, 150, 255}))
	for name, file := range map[string][]byte{"no IEND": plain[:len(plain)-len(iend)], "half an IEND": plain[:len(plain)-5]} {
		if pixels, err := decode(file, 4); err != nil || pixels[0] != 50 || pixels[47] != 150 {
			t.Errorf("%s: %v, %v", name, pixels, err)
		}
	}
	if _, err := decode(plain[:len(plain)-len(iend)-6], 4); err == nil {
		t.Error("a PNG without all its pixels is read")
	}
	cmyk, err := os.ReadFile("testdata/cmyk.jpg")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(cmyk, []byte("Adobe")) - 4
	if at < 0 {
		t.Fatal("testdata/cmyk.jpg has no marker of Adobe")
	}
	want, err := decode(cmyk, 16)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decode(slices.Concat(cmyk[:at], cmyk[at+len(adobe):]), 16); err != nil || !bytes.Equal(got, want) {
		t.Errorf("CMYK without Adobe's marker: %v", err)
	}
}

// TestPhotographsOfPhonesAreWithinTheLimit: a header of 108 megapixels is taken, and one of 280 is named with the limit.
func TestPhotographsOfPhonesAreWithinTheLimit(t *testing.T) {
	for size, want := range map[[2]uint32]string{{12000, 9000}: "damaged png", {16320, 12240}: "damaged png", {20000, 14000}: "want 1 to 268435456 in all"} {
		header := append([]byte("IHDR"), binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size[0]), size[1])...)
		header = append(header, 1, 0, 0, 0, 0)
		file := append(append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), header...), binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(header))...)
		if _, err := decode(file, 8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", size, err, want)
		}
	}
}

// TestOddJPEGsAreNotDamaged: a sampling of chroma and a kind of frame, arithmetic coding, that image/jpeg does not know are called so.
func TestOddJPEGsAreNotDamaged(t *testing.T) {
	file := encodeJPEG(t, flat(16, 16, color.White))
	frame := bytes.Index(file, []byte{0xff, 0xc0})
	file[frame+17] = 0x12 // Of the third component.
	if JPEGDecoder != "image/jpeg" {
		t.Skip("libjpeg-turbo reads it")
	}
	arithmetic := encodeJPEG(t, flat(16, 16, color.White))
	arithmetic[bytes.Index(arithmetic, []byte{0xff, 0xc0})+1] = 0xc9
	for _, file := range [][]byte{file, arithmetic} {
		if _, err := decode(file, 8); err == nil || !strings.Contains(err.Error(), "is a JPEG of a kind that image/jpeg does not read") || strings.Contains(err.Error(), "damaged") {
			t.Error(err)
		}
	}
}

// TestGreyMasksMayHaveAlpha: a transparent grey is a number like the others, as in Pillow's mode L.
func TestGreyMasksMayHaveAlpha(t *testing.T) {
	transparent := withChunk(maskPNG(t, false, 3, 15), "tRNS", []byte{0, 3})
	var alpha bytes.Buffer // Grey with alpha, which the encoder does not write.
	alpha.Write(maskPNG(t, false, 0, 0)[:8])
	header := []byte{0, 0, 0, 2, 0, 0, 0, 1, 8, 4, 0, 0, 0}
	var pixels bytes.Buffer
	w := zlib.NewWriter(&pixels)
	w.Write([]byte{0, 3, 0, 15, 255})
	w.Close()
	for _, chunk := range []struct {
		name    string
		content []byte
	}{{"IHDR", header}, {"IDAT", pixels.Bytes()}, {"IEND", nil}} {
		binary.Write(&alpha, binary.BigEndian, uint32(len(chunk.content)))
		named := append([]byte(chunk.name), chunk.content...)
		alpha.Write(binary.BigEndian.AppendUint32(named, crc32.ChecksumIEEE(named)))
	}
	for name, file := range map[string][]byte{"tRNS": transparent, "alpha": alpha.Bytes()} {
		if m, err := decodeIDs(file); err != nil || !slices.Equal(m.of, []uint32{3, 15}) {
			t.Errorf("%s: %v, %v", name, m.of, err)
		}
	}
	if _, err := decodeIDs(encodePNG(t, image.NewNRGBA(image.Rect(0, 0, 2, 1)))); err == nil {
		t.Error("a colour PNG with alpha is read as ids")
	}
}

// TestListsOfOtherTools holds lists with a mark of byte order and lists of pairs of paths.
func TestListsOfOtherTools(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	for list, want := range map[string]string{
		"\ufeff2007_1\r\n\r\n2007_2\r\n": "2007_1 2007_2",
		"/JPEGImages/2007_1.jpg /SegmentationClassAug/2007_1.png\n JPEGImages/b.jpg\tMasks/b.png": "2007_1 b",
		"2007_1 -1\n": "error", "a.jpg b.png": "error", "JPEGImages/a.jpg": "error",
	} {
		if err := os.WriteFile(path, []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		names, err := readList(path, false)
		if got := strings.Join(names, " "); got != want && (err == nil || want != "error") {
			t.Errorf("%q: %q, %v", list, got, err)
		}
	}
}

// TestClassesAreOfTheFirstLevel is torchvision's ImageFolder: cat/monday/1.png is a cat.
func TestClassesAreOfTheFirstLevel(t *testing.T) {
	picture, dir := encodePNG(t, flat(4, 4, color.White)), t.TempDir()
	write(t, dir, map[string][]byte{"cat/monday/1.png": picture, "cat/tuesday/2.png": picture, "dog/monday/3.png": picture, "dog/4.png": picture})
	im, err := ReadFolder(dir, 4)
	if err != nil || !slices.Equal(im.Classes, []string{"cat", "dog"}) || !slices.Equal(im.Labels, []int32{0, 0, 1, 1}) {
		t.Fatalf("%+v, %v", im, err)
	}
	for name, want := range map[string][]string{"pets.zip": {"monday", "tuesday"}, "cat.zip": {"monday", "tuesday"}, "x.zip": {"cat"}} {
		root := map[bool]string{true: "pets/", false: "cat/"}[name == "pets.zip"]
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, zipped(t, map[string][]byte{root + "monday/1.png": picture, root + "tuesday/2.png": picture}), 0o644); err != nil {
			t.Fatal(err)
		}
		if one, err := ReadFolder(file, 4); err != nil || !slices.Equal(one.Classes, want) {
			t.Errorf("%s: %+v, %v", name, one, err)
		}
	}
	folder, err := OpenImageFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if labels, names, err := folder.Labels(); err != nil || !slices.Equal(names, im.Classes) || !slices.Equal(labels, im.Labels) {
		t.Errorf("%v, %v, %v", labels, names, err)
	}
}

// TestZipsOfOtherCompressions reads an archive that testdata/oddfiles.py has made.
func TestZipsOfOtherCompressions(t *testing.T) {
	im, err := ReadFolder("testdata/bzip2.zip", 4)
	if err != nil || !slices.Equal(im.Classes, []string{"cat", "dog"}) || im.Pixels[0] != 50 {
		t.Errorf("%+v, %v", im, err)
	}
	content, err := os.ReadFile("testdata/bzip2.zip")
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(content) - 12 { // Both headers of each entry.
		if string(content[i:i+4]) == "PK\x01\x02" {
			content[i+10] = 14
		} else if string(content[i:i+4]) == "PK\x03\x04" {
			content[i+8] = 14
		}
	}
	path := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFolder(path, 4); err == nil || !strings.Contains(err.Error(), "cat/1.png: is compressed by method 14") {
		t.Error(err)
	}
}
