package datasets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ReadPhoto reads a JPEG or PNG at its full size, turned upright by its EXIF orientation. It has no mask. The error names the file.
func ReadPhoto(path string) (*SegmentedImage, error) {
	fail := func(err error) (*SegmentedImage, error) { return nil, fmt.Errorf("%s: %w", path, err) }
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // Opening a pipe would wait for its writer.
		return fail(errors.New("is not a regular file"))
	}
	file, err := readFile(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return fail(err)
	}
	picture, err := stored(file)
	if err != nil {
		return fail(err)
	}
	turned := upright(opaque(picture, picture.Bounds()), orientationOf(file))
	return &SegmentedImage{Name: path, Height: turned.Rect.Dy(), Width: turned.Rect.Dx(), Pixels: rgb(turned)}, nil
}
