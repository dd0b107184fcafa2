package datasets

import (
	"cmp"
	"fmt"
	"image"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/settings"
	"golang.org/x/image/draw"
)

// Preprocessing says how an image becomes the input of an encoder when it is evaluated, in the words of timm's data configuration. Weights come with the
// preprocessing that their makers evaluated them with, and other images give other features.
type Preprocessing struct {
	Resize        int           `json:"resize,omitzero" range:"[0,2^14]"`       // Length in pixels that the shorter side is resized to; 0 for the size of the crop over CropPct, rounded down.
	CropPct       float64       `json:"crop_pct" range:"[0.1,1]"`               // The side of the crop as a share of the shorter side of the resized image.
	CropMode      CropMode      `json:"crop_mode" oneof:"center|squash|whole"`  // What is seen of an image. center: the square in the middle; squash: the same of an image whose sides are resized to one length; whole: the whole image.
	CropFloor     bool          `json:"crop_floor,omitzero"`                    // The crop begins at half the margin, rounded down, as in transformers; else to even, as in torchvision.
	Interpolation Interpolation `json:"interpolation" oneof:"bicubic|bilinear"` // How images are resized: bicubic or bilinear.
	Mean          [3]float64    `json:"mean" range:"[0,1]"`                     // What is subtracted from red, green and blue.
	Std           [3]float64    `json:"std" range:"(0,1]"`                      // What the differences are divided by.
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

// DefaultPreprocessing is what DINO, iBOT, DINOv2 and the paper use: 256 pixels for a crop of 224, bicubic, ImageNet's mean and deviation.
func DefaultPreprocessing() Preprocessing {
	return Preprocessing{
		CropPct: 0.875, CropMode: CentreCrop, Interpolation: Bicubic,
		Mean: [3]float64{0.485, 0.456, 0.406}, Std: [3]float64{0.229, 0.224, 0.225},
	}
}

// resized is the length that a side is resized to for crops of size pixels.
func (p Preprocessing) resized(size int) int {
	return cmp.Or(p.Resize, lo.Ternary(p.CropMode == WholeImage, size, int(float64(size)/p.CropPct)))
}

// Describe names the preprocessing in one line, for records: numbers of unlike preprocessing are not compared. size is the side of the crop in pixels.
func (p Preprocessing) Describe(size int) string {
	how := map[CropMode]string{
		CentreCrop: fmt.Sprintf("shorter side resized to %d px (%s), centre crop of %d px", p.resized(size), p.Interpolation, size),
		Squash:     fmt.Sprintf("resized to %[1]d×%[1]d px (%[2]s), centre crop of %[3]d px", p.resized(size), p.Interpolation, size),
		WholeImage: fmt.Sprintf("shorter side resized to %d px (%s), whole image padded to whole patches", p.resized(size), p.Interpolation),
	}[p.CropMode]
	if p.CropFloor && p.CropMode != WholeImage && p.resized(size) != size {
		how += " at half the margin rounded down"
	}
	return how + ", " + p.Colours()
}

// Colours names the mean and the deviation.
func (p Preprocessing) Colours() string {
	if d := DefaultPreprocessing(); p.Mean == d.Mean && p.Std == d.Std {
		return "ImageNet's mean and deviation"
	}
	return fmt.Sprintf("mean %g %g %g, deviation %g %g %g", p.Mean[0], p.Mean[1], p.Mean[2], p.Std[0], p.Std[1], p.Std[2])
}

// read is Apply of the file of an image below a folder, turned upright by its EXIF orientation. The error begins with the label.
func (p Preprocessing) read(tree fs.FS, name, label string, size, patch int) (pixels []uint8, is Size, err error) {
	pixels, err = load(tree, name, label, func(file []byte) (pixels []uint8, err error) {
		picture, err := stored(file)
		if err == nil {
			pixels, is, err = p.apply(picture, orientationOf(file), size, patch)
		}
		return pixels, err
	})
	return pixels, is, err
}

// Apply returns an image as RGB pixels, row-major, and its size: size×size pixels, or for [WholeImage] whole patches of patch pixels. It computes as Pillow and
// torchvision do. Transparency is ignored. The error is about the settings.
func (p Preprocessing) Apply(picture image.Image, size, patch int) ([]uint8, Size, error) {
	return p.apply(picture, 1, size, patch)
}

func (p Preprocessing) apply(picture image.Image, o orientation, size, patch int) ([]uint8, Size, error) {
	if err := settings.Check(p); err != nil {
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
	middle := func(length int) int { // Python rounds to even.
		return lo.Ternary(p.CropFloor, (length-size)/2, int(math.RoundToEven(float64(length-size)/2)))
	}
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
	out := lo.Times(to.Height*to.Width*3, func(i int) uint8 { return uint8(math.RoundToEven(255 * p.Mean[i%3])) })
	p.Interpolation.resample(out, to.Width, picture, from, image.Rect(0, 0, from.Width, from.Height))
	return out, to, nil
}

// Normalize returns pixels as an encoder takes them: scaled to [0, 1], less the mean and divided by the deviation.
func (p Preprocessing) Normalize(pixels []uint8) []float32 {
	return lo.Map(pixels, func(x uint8, i int) float32 { return (float32(x)/255 - float32(p.Mean[i%3])) / float32(p.Std[i%3]) })
}

// ReadFile is [Preprocessing.Apply] of a JPEG or PNG file, turned upright by its EXIF orientation. The error names the file.
func (p Preprocessing) ReadFile(path string, size, patch int) ([]uint8, Size, error) {
	return p.read(os.DirFS(filepath.Dir(path)), filepath.Base(path), path, size, patch)
}

// Interpolation names the kernel that images are resampled with. Both widen when an image shrinks, which avoids aliases.
type Interpolation string

// The kernels. Images resized with one and with the other differ by several of 255 levels.
const (
	Bicubic  Interpolation = "bicubic" // Keys' kernel (1981) with a = −0.5.
	Bilinear Interpolation = "bilinear"
)

// kernel returns the kernel and half its width in samples.
func (n Interpolation) kernel() (weight func(x float64) float64, support float64) {
	kernel := lo.Ternary(n == Bilinear, draw.BiLinear, draw.CatmullRom)
	return func(x float64) float64 {
		x = math.Abs(x)
		return lo.Ternary(x < kernel.Support, kernel.At(x), 0)
	}, kernel.Support
}

// resample resizes the colours of a picture and writes a part of the result into RGB pixels with rows of stride pixels. It computes as the resize of Pillow 3
// to 12, to the last bit: first along the rows and then along the columns, each pass in fixed point and rounded to bytes. Pillow 13 begins with the columns
// where they shrink more.
func (n Interpolation) resample(out []uint8, stride int, picture *image.RGBA, to Size, part image.Rectangle) {
	n.resampleShrunk(out, stride, picture, Size{picture.Rect.Dy(), picture.Rect.Dx()}, 1, to, part)
}

// resampleShrunk is resample of a picture of the given full size that was shrunk by a factor, such as 4. Its last row and column may reach beyond the full
// picture.
func (n Interpolation) resampleShrunk(out []uint8, stride int, picture *image.RGBA, full Size, factor int, to Size, part image.Rectangle) {
	columns := n.taps(picture.Rect.Dx(), float64(full.Width)/float64(factor), to.Width).part(part.Min.X, part.Max.X)
	rows := n.taps(picture.Rect.Dy(), float64(full.Height)/float64(factor), to.Height).part(part.Min.Y, part.Max.Y)
	resampleBy(columns, rows, out, stride, picture)
}

// taps are how the samples of a resampled line are computed: sample i is the sum of count old samples from first[i] on, each times one of count weights.
type taps struct {
	count          int
	first, weights []int32 // Weights are in units of 2^−fixedPoint.
}

// part keeps the samples from a to b − 1.
func (t taps) part(a, b int) taps {
	return taps{t.count, t.first[a:b], t.weights[a*t.count : b*t.count]}
}

// fixedPoint is the number of binary digits behind the point of weights, as in Pillow: products with bytes and their sums fit into 32 bits. half is what
// rounds them.
const fixedPoint, half = 32 - 8 - 2, int32(1) << (32 - 8 - 2 - 1)

// taps resamples a line of from samples, from its start up to extent, to another length.
func (n Interpolation) taps(from int, extent float64, to int) taps {
	weight, support := n.kernel()
	if extent == float64(to) {
		weight, support = func(float64) float64 { return 1 }, 0.5 // Nothing is resampled.
	}
	step := extent / float64(to)
	widen := max(step, 1)
	limits := func(i int) (first, end int, centre float64) {
		centre = (float64(i) + 0.5) * step
		return max(int(centre-support*widen+0.5), 0), min(int(centre+support*widen+0.5), from), centre
	}
	t := taps{first: make([]int32, to)}
	for i := range to {
		first, end, _ := limits(i)
		t.count = max(t.count, end-first)
	}
	t.weights = make([]int32, to*t.count)
	all := make([]float64, t.count)
	for i := range to {
		first, end, centre := limits(i)
		// Fewer weights than others have, as at the ends of the line, are filled up with zeros.
		begin := min(first, from-t.count)
		t.first[i] = int32(begin)
		sum := 0.0
		for k := first; k < end; k++ {
			all[k-first] = weight((float64(k) - centre + 0.5) * (1 / widen))
			sum += all[k-first]
		}
		for k := first; k < end; k++ {
			w := all[k-first]
			if sum != 0 {
				w /= sum
			}
			t.weights[i*t.count+k-begin] = int32(math.Round(w * (1 << fixedPoint)))
		}
	}
	return t
}
