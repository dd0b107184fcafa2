package datasets

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadPhoto(t *testing.T) {
	dir := t.TempDir()
	picture := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	picture.SetNRGBA(2, 1, color.NRGBA{10, 20, 30, 128})
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a.png")
	if err := os.WriteFile(path, encoded.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	photo, err := ReadPhoto(path)
	if err != nil || photo.Height != 2 || photo.Width != 3 || photo.Mask != nil || !bytes.Equal(photo.Pixels[15:], []uint8{10, 20, 30}) {
		t.Errorf("%+v, %v", photo, err)
	}
	junk := filepath.Join(dir, "junk.jpg")
	if err := os.WriteFile(junk, []byte("no picture"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{junk: "neither JPEG nor PNG", filepath.Join(dir, "none.png"): "none.png", dir: "is not a regular file"} {
		if _, err := ReadPhoto(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", path, err, want)
		}
	}
}

// TestReadPhotoTurnsUpright reads a picture that is stored lying on its side: orientation 6 has the visual top right at the stored top left.
func TestReadPhotoTurnsUpright(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 48, 32))
	for i := range 48 * 32 {
		picture.SetRGBA(i%48, i/48, color.RGBA{A: 255})
		if i%48 < 16 && i/48 < 16 {
			picture.SetRGBA(i%48, i/48, color.RGBA{255, 255, 255, 255})
		}
	}
	file := encodeJPEG(t, picture)
	file = append(append(file[:2:2], exifSegment(binary.BigEndian, 6)...), file[2:]...)
	path := filepath.Join(t.TempDir(), "lying.jpg")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	photo, err := ReadPhoto(path)
	if err != nil || photo.Height != 48 || photo.Width != 32 {
		t.Fatalf("%+v, %v", photo, err)
	}
	if left, right := photo.Pixels[3*(4*32+4)], photo.Pixels[3*(4*32+28)]; left > 20 || right < 235 {
		t.Errorf("the top left is %d and the top right %d, want black and white", left, right)
	}
}
