package datasets

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"strings"
	"testing"
)

func encodePNG(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, picture); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func encodeJPEG(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := jpeg.Encode(&out, picture, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// flat returns a picture of one colour.
func flat(width, height int, c color.Color) image.Image {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		picture.Set(i%width, i/width, c)
	}
	return picture
}

func TestDecodeAgreesWithPillow(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		File   string
		Size   int
		Pixels []int
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden) != 9 {
		t.Errorf("%d cases, want 9", len(golden))
	}
	for _, want := range golden {
		file, err := os.ReadFile("testdata/" + want.File)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(file, want.Size)
		if err != nil {
			t.Errorf("%s: %v", want.File, err)
			continue
		}
		if len(got) != len(want.Pixels) {
			t.Fatalf("%s: %d bytes, want %d", want.File, len(got), len(want.Pixels))
		}
		worst, sum := 0, 0
		for i := range got {
			difference := max(int(got[i])-want.Pixels[i], want.Pixels[i]-int(got[i]))
			worst, sum = max(worst, difference), sum+difference
		}
		// JPEG decoders may round differently, and Pillow rounds between the two passes of its resampling.
		if mean := float64(sum) / float64(len(got)); worst > 4 || mean > 0.6 {
			t.Errorf("%s at %d: off by up to %d, %.2f on average", want.File, want.Size, worst, mean)
		}
	}
}

func TestDecodeKeepsThePixelsOfAnyColourModel(t *testing.T) {
	const size = 4
	frame := image.Rect(0, 0, size, size)
	colours := color.Palette{color.NRGBA{200, 100, 50, 255}, color.NRGBA{1, 2, 3, 0}, color.NRGBA{90, 80, 70, 128}}
	for name, test := range map[string]struct {
		picture interface {
			image.Image
			Set(x, y int, c color.Color)
		}
		c    color.Color
		want [3]uint8
	}{
		"grey":               {image.NewGray(frame), color.Gray{77}, [3]uint8{77, 77, 77}},
		"16-bit grey":        {image.NewGray16(frame), color.Gray16{0x4dff}, [3]uint8{77, 77, 77}},
		"palette":            {image.NewPaletted(frame, colours), colours[0], [3]uint8{200, 100, 50}},
		"transparent entry":  {image.NewPaletted(frame, colours), colours[1], [3]uint8{1, 2, 3}},
		"opaque":             {image.NewNRGBA(frame), color.NRGBA{9, 8, 7, 255}, [3]uint8{9, 8, 7}},
		"half transparent":   {image.NewNRGBA(frame), color.NRGBA{200, 100, 50, 128}, [3]uint8{200, 100, 50}},
		"transparent":        {image.NewNRGBA(frame), color.NRGBA{200, 100, 50, 0}, [3]uint8{200, 100, 50}},
		"16-bit":             {image.NewRGBA64(frame), color.RGBA64{0xc812, 0x6434, 0x3256, 0xffff}, [3]uint8{200, 100, 50}},
		"16-bit transparent": {image.NewNRGBA64(frame), color.NRGBA64{0xc812, 0x6434, 0x3256, 0}, [3]uint8{200, 100, 50}},
	} {
		for i := range size * size {
			test.picture.Set(i%size, i/size, test.c)
		}
		pixels, err := decode(encodePNG(t, test.picture), size)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := [3]uint8(pixels[len(pixels)-3:]); got != test.want || len(pixels) != size*size*3 {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// exifSegment returns a JPEG's APP1 segment with one entry before the orientation.
func exifSegment(order binary.AppendByteOrder, value uint16) []byte {
	tiff := map[bool]string{true: "MM", false: "II"}[order == binary.BigEndian]
	out := append([]byte("Exif\x00\x00"), tiff...)
	out = order.AppendUint32(order.AppendUint16(out, 42), 8)
	out = order.AppendUint16(out, 2)
	for _, entry := range [][2]uint16{{0x0100, 999}, {0x0112, value}} {
		out = order.AppendUint16(order.AppendUint16(out, entry[0]), 3)
		out = order.AppendUint16(order.AppendUint32(out, 1), entry[1])
		out = order.AppendUint16(out, 0)
	}
	out = order.AppendUint32(out, 0)
	return append(binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(out)+2)), out...)
}

// The rows are EXIF's table: the visual corners at the stored top left, top right, bottom left and bottom right.
func TestDecodeTurnsImagesUpright(t *testing.T) {
	const size = 32
	corners := map[string]color.RGBA{"TL": {255, 0, 0, 255}, "TR": {0, 255, 0, 255}, "BL": {0, 0, 255, 255}, "BR": {255, 255, 255, 255}}
	at := map[string]image.Point{"TL": {2, 2}, "TR": {size - 3, 2}, "BL": {2, size - 3}, "BR": {size - 3, size - 3}}
	for value, stored := range map[uint16]string{
		0: "TL TR BL BR", // Out of range: upright.
		1: "TL TR BL BR", 2: "TR TL BR BL", 3: "BR BL TR TL", 4: "BL BR TL TR",
		5: "TL BL TR BR", 6: "TR BR TL BL", 7: "BR TR BL TL", 8: "BL TL BR TR",
		9: "TL TR BL BR",
	} {
		picture := image.NewRGBA(image.Rect(0, 0, size, size))
		for i := range size * size {
			x, y := i%size, i/size
			picture.SetRGBA(x, y, corners[strings.Fields(stored)[2*(2*y/size)+2*x/size]])
		}
		for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
			file := encodeJPEG(t, picture)
			file = append(append(file[:2:2], exifSegment(order, value)...), file[2:]...)
			pixels, err := decode(file, size)
			if err != nil {
				t.Fatal(err)
			}
			for corner, want := range corners {
				p := 3 * (at[corner].Y*size + at[corner].X)
				got := pixels[p : p+3]
				if max(got[0], want.R)-min(got[0], want.R) > 8 || max(got[1], want.G)-min(got[1], want.G) > 8 || max(got[2], want.B)-min(got[2], want.B) > 8 {
					t.Errorf("orientation %d, %v: %s is %v, want %v", value, order, corner, got, want)
				}
			}
		}
	}
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	photo, drawing := encodeJPEG(t, flat(64, 64, color.White)), encodePNG(t, flat(64, 64, color.White))
	huge := bytes.Clone(drawing[:33])
	binary.BigEndian.PutUint32(huge[16:], 60000)
	binary.BigEndian.PutUint32(huge[20:], 60000)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	for name, test := range map[string]struct {
		file []byte
		want string
	}{
		"text":           {[]byte("<html>"), "is neither JPEG nor PNG"},
		"GIF":            {[]byte("GIF89a\x01\x00\x01\x00"), "is neither JPEG nor PNG"},
		"cut photo":      {photo[:len(photo)-40], "damaged jpeg: "},
		"cut drawing":    {drawing[:len(drawing)-30], "damaged png: "},
		"header only":    {photo[:20], "damaged header: "},
		"a huge picture": {huge, "header says 60000×60000 pixels"},
	} {
		_, err := decode(test.file, 8)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, test.want) || strings.Contains(got, "\n") {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	upright := encodeJPEG(f, flat(9, 5, color.White))
	f.Add(upright)
	f.Add(append(append(upright[:2:2], exifSegment(binary.BigEndian, 6)...), upright[2:]...))
	f.Add(encodePNG(f, flat(3, 7, color.Black)))
	f.Fuzz(func(t *testing.T, file []byte) {
		if held := orientationOf(file); held < 1 || held > 8 {
			t.Errorf("orientation %d", held)
		}
		if config, _, err := image.DecodeConfig(bytes.NewReader(file)); err == nil && config.Width*config.Height > 1<<20 {
			return // Right or wrong, it takes long.
		}
		pixels, err := decode(file, 6)
		if err == nil && len(pixels) != 6*6*3 {
			t.Errorf("%d bytes", len(pixels))
		}
	})
}
