package datasets

import (
	"cmp"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Preprocessing says how an image becomes the input of an encoder when it is evaluated, in the words of timm's data configuration. Weights come with the
// preprocessing that their makers evaluated them with, and other images give other features.
type Preprocessing struct {
	Resize        int           `json:"resize,omitzero"` // Length in pixels that the shorter side is resized to; 0 for the size of the crop over CropPct, rounded down.
	CropPct       float64       `json:"crop_pct"`        // The side of the crop as a share of the shorter side of the resized image, in (0, 1].
	CropMode      CropMode      `json:"crop_mode"`       // What is seen of an image. center: the square in the middle; squash: the same of an image whose sides are resized to one length; whole: the whole image.
	Interpolation Interpolation `json:"interpolation"`   // How images are resized: bicubic or bilinear.
	Mean          [3]float64    `json:"mean"`            // What is subtracted from red, green and blue in [0, 1].
	Std           [3]float64    `json:"std"`             // What the differences are divided by.
}

// CropMode says which part of an image an encoder sees.
type CropMode string

// The modes.
const (
	// CentreCrop resizes the shorter side and takes the square in the middle, as most evaluations do.
	CentreCrop CropMode = "center"
	// Squash resizes both sides to the same length, which changes the aspect, and takes the square in the middle.
	Squash CropMode = "squash"
	// WholeImage resizes the shorter side to the size, keeps the aspect and the whole image, and pads it with the mean colour at the right and at the bottom to
	// whole patches.
	WholeImage CropMode = "whole"
)

// DefaultPreprocessing is that of DINO, iBOT and DINOv2, and with it the paper's: 256 pixels for a crop of 224, bicubic, ImageNet's mean and deviation.
func DefaultPreprocessing() Preprocessing {
	return Preprocessing{
		CropPct: 0.875, CropMode: CentreCrop, Interpolation: Bicubic,
		Mean: [3]float64{0.485, 0.456, 0.406}, Std: [3]float64{0.229, 0.224, 0.225},
	}
}

// Check returns an error that names the first invalid field, in the words of the JSON.
func (p Preprocessing) Check() error {
	switch {
	case p.Resize < 0 || p.Resize > 1<<14:
		return fmt.Errorf("resize %d is not between 0 and %d", p.Resize, 1<<14)
	case !(p.CropPct >= 0.1 && p.CropPct <= 1):
		return fmt.Errorf("crop_pct %g is not between 0.1 and 1", p.CropPct)
	case !slices.Contains([]CropMode{CentreCrop, Squash, WholeImage}, p.CropMode):
		return fmt.Errorf("crop_mode %q: want %s, %s or %s", p.CropMode, CentreCrop, Squash, WholeImage)
	case p.Interpolation != Bicubic && p.Interpolation != Bilinear:
		return fmt.Errorf("interpolation %q: want %s or %s", p.Interpolation, Bicubic, Bilinear)
	}
	for i := range 3 {
		if !(p.Mean[i] >= 0 && p.Mean[i] <= 1) || !(p.Std[i] > 0 && p.Std[i] <= 1) {
			return fmt.Errorf("mean %v and std %v are not between 0 and 1, std above 0", p.Mean, p.Std)
		}
	}
	return nil
}

// resized is the length that a side is resized to for crops of size pixels.
func (p Preprocessing) resized(size int) int {
	if p.CropMode == WholeImage {
		return cmp.Or(p.Resize, size)
	}
	return cmp.Or(p.Resize, int(float64(size)/p.CropPct))
}

// Describe names the preprocessing in one line, for records: numbers of unlike preprocessing are not compared. size is the side of the crop in pixels.
func (p Preprocessing) Describe(size int) string {
	how := map[CropMode]string{
		CentreCrop: fmt.Sprintf("shorter side resized to %d px (%s), centre crop of %d px", p.resized(size), p.Interpolation, size),
		Squash:     fmt.Sprintf("resized to %[1]d×%[1]d px (%[2]s), centre crop of %[3]d px", p.resized(size), p.Interpolation, size),
		WholeImage: fmt.Sprintf("shorter side resized to %d px (%s), whole image padded to whole patches", p.resized(size), p.Interpolation),
	}[p.CropMode]
	return how + ", " + p.Colours()
}

// Colours names the mean and the deviation.
func (p Preprocessing) Colours() string {
	if d := DefaultPreprocessing(); p.Mean == d.Mean && p.Std == d.Std {
		return "ImageNet's mean and deviation"
	}
	return fmt.Sprintf("mean %g %g %g, deviation %g %g %g", p.Mean[0], p.Mean[1], p.Mean[2], p.Std[0], p.Std[1], p.Std[2])
}

// decode is Apply of the file of an image, turned upright by its EXIF orientation.
func (p Preprocessing) decode(file []byte, size, patch int) ([]uint8, Size, error) {
	picture, err := stored(file)
	if err != nil {
		return nil, Size{}, err
	}
	return p.apply(picture, orientationOf(file), size, patch)
}

// Apply returns an image as RGB pixels, row-major, and their size: size×size pixels, or those of [WholeImage] in whole patches of patch pixels. It computes
// as Pillow and torchvision do. Transparency is ignored. The error is about the settings.
func (p Preprocessing) Apply(picture image.Image, size, patch int) ([]uint8, Size, error) {
	return p.apply(picture, 1, size, patch)
}

func (p Preprocessing) apply(picture image.Image, o orientation, size, patch int) ([]uint8, Size, error) {
	if err := p.Check(); err != nil {
		return nil, Size{}, err
	}
	turned := upright(opaque(picture, picture.Bounds()), o)
	from := Size{turned.Rect.Dy(), turned.Rect.Dx()}
	side := p.resized(size)
	if size < 1 || patch < 1 || p.CropMode != WholeImage && side < size {
		return nil, Size{}, fmt.Errorf("crops of %d pixels of images resized to %d, and patches of %d", size, side, patch)
	}
	to := Size{side, side}
	switch longer := func(long, short int) int { return int(float64(side) * float64(long) / float64(short)) }; {
	case p.CropMode == Squash:
	case from.Height > from.Width:
		to.Height = longer(from.Height, from.Width)
	default:
		to.Width = longer(from.Width, from.Height)
	}
	if p.CropMode == WholeImage {
		return p.padded(turned, to, patch)
	}
	middle := func(length int) int { return int(math.RoundToEven(float64(length-size) / 2)) } // Python rounds to even.
	corner := image.Pt(middle(to.Width), middle(to.Height))
	crop := image.Rectangle{corner, corner.Add(image.Pt(size, size))}
	pixels := make([]uint8, size*size*3)
	p.Interpolation.resample(pixels, size, turned, to, crop)
	return pixels, Size{size, size}, nil
}

// padded resizes an image and adds rows and columns of the mean colour until it is a whole number of patches.
func (p Preprocessing) padded(picture *image.RGBA, from Size, patch int) ([]uint8, Size, error) {
	whole := func(length int) int { return (length + patch - 1) / patch * patch }
	to := Size{whole(from.Height), whole(from.Width)}
	if int64(to.Height)*int64(to.Width) > maxDecodedPixels {
		return nil, Size{}, fmt.Errorf("becomes %d×%d pixels, want at most %d in all", to.Width, to.Height, maxDecodedPixels)
	}
	out := make([]uint8, to.Height*to.Width*3)
	for i := range out {
		out[i] = uint8(math.RoundToEven(255 * p.Mean[i%3]))
	}
	p.Interpolation.resample(out, to.Width, picture, from, image.Rect(0, 0, from.Width, from.Height))
	return out, to, nil
}

// Normalize returns pixels as an encoder takes them: scaled to [0, 1], less the mean and divided by the deviation.
func (p Preprocessing) Normalize(pixels []uint8) []float32 {
	mean, std := [3]float32{}, [3]float32{}
	for c := range 3 {
		mean[c], std[c] = float32(p.Mean[c]), float32(p.Std[c])
	}
	values := make([]float32, len(pixels))
	for i, x := range pixels {
		values[i] = (float32(x)/255 - mean[i%3]) / std[i%3]
	}
	return values
}

// ReadFile is [Preprocessing.Apply] of a JPEG or PNG file, turned upright by its EXIF orientation. The error names the file.
func (p Preprocessing) ReadFile(path string, size, patch int) ([]uint8, Size, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // Opening a pipe would wait for its writer.
		return nil, Size{}, fmt.Errorf("%s: is not a regular file", path)
	}
	content, err := readFile(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err == nil {
		var pixels []uint8
		var read Size
		if pixels, read, err = p.decode(content, size, patch); err == nil {
			return pixels, read, nil
		}
	}
	return nil, Size{}, fmt.Errorf("%s: %w", path, err)
}
