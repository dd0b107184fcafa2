package datasets

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// Segmentation is a split of a semantic-segmentation dataset, read one image at a time so that it needs little memory. [OpenSegmentation] opens a
// real one, and package synthetic draws one. As in the paper, [Test] is the official validation split, save for CamVid.
type Segmentation struct {
	Name    string   // The dataset's name, "PASCAL VOC".
	Classes []string // The name of each class, at most 255.

	// Identity identifies the files: their number, and the first 16 hexadecimal digits of the SHA-256 digest of the names and sizes of images and masks.
	Identity string

	folder  string
	count   int
	read    func(i int) (*SegmentedImage, error)
	colours []uint32 // The authors' colour of each class, 0xRRGGBB; nil without such.
}

// NewSegmentation makes a dataset from a function that reads its images, as [Segmentation.Read] does.
func NewSegmentation(name string, classes []string, identity string, count int, read func(i int) (*SegmentedImage, error)) *Segmentation {
	return &Segmentation{Name: name, Classes: classes, Identity: identity, count: count, read: read}
}

// SegmentedImage is an image with a class for every pixel.
type SegmentedImage struct {
	Name          string  // The path of its file, for errors; empty for a drawn one.
	Height, Width int     // In pixels.
	Pixels        []uint8 // [Height, Width, 3], row-major, RGB from 0 to 255.
	Mask          []uint8 // [Height, Width], a class or [Ignore].
}

// Len returns the number of images.
func (s *Segmentation) Len() int { return s.count }

// Read returns image i, 0 ≤ i < Len, at its full size and as it is stored. It is safe for concurrent use. The error is one line that names
// the file: a damaged image or mask, a mask and an image of different sizes, or an id that the dataset does not have.
func (s *Segmentation) Read(i int) (*SegmentedImage, error) { return s.read(i) }

// Image returns the image for drawing.
func (a *SegmentedImage) Image() *image.RGBA { return rgba(a.Pixels, a.Height, a.Width) }

// Classes returns the classes of the pixels in the middles of rows×columns cells of a part of the image, row by row.
func (a *SegmentedImage) Classes(part image.Rectangle, rows, columns int) []uint8 {
	return lo.Times(rows*columns, func(i int) uint8 {
		y, x := part.Min.Y+(2*(i/columns)+1)*part.Dy()/(2*rows), part.Min.X+(2*(i%columns)+1)*part.Dx()/(2*columns)
		return a.Mask[y*a.Width+x]
	})
}

// AnnotatedScenes are the images of a [Segmentation] in memory, each shrunk to fit a square canvas as other sources of training are, with a label for every
// pixel: a [Source] for training that needs labels. A label is 1 + the class, and 0 where the annotation is to be ignored.
type AnnotatedScenes struct {
	Name    string
	Classes []string // The names of labels 1, 2, and so on.

	size   int
	sizes  []Size
	pixels []uint8 // [Len, size, size, 3]
	labels []uint8 // [Len, size, size]
}

// AnnotatedScenes reads all images into canvases of size×size pixels. They take 4·size² bytes each. The error is as for [Segmentation.Read].
func (s *Segmentation) AnnotatedScenes(size int) (*AnnotatedScenes, error) {
	out := &AnnotatedScenes{
		Name: s.Name, Classes: s.Classes, size: size, sizes: make([]Size, s.Len()),
		pixels: make([]uint8, s.Len()*size*size*3), labels: make([]uint8, s.Len()*size*size),
	}
	return out, EachImage(context.Background(), s.Len(), 0, func(i int) (err error) {
		defer try.Handle(&err)
		a := try.E1(s.Read(i))
		to := fitted(Size{a.Height, a.Width}, size)
		out.sizes[i] = to
		Bicubic.resample(out.pixels[i*size*size*3:(i+1)*size*size*3], size, a.Image(), to, image.Rect(0, 0, to.Width, to.Height))
		labels := out.labels[i*size*size : (i+1)*size*size]
		for p, class := range a.Classes(image.Rect(0, 0, a.Width, a.Height), to.Height, to.Width) {
			if class != Ignore {
				labels[p/to.Width*size+p%to.Width] = 1 + class
			}
		}
		return nil
	})
}

// Len returns the number of images.
func (s *AnnotatedScenes) Len() int { return len(s.sizes) }

// Read copies image i. It is an error if size is not the size of the canvases.
func (s *AnnotatedScenes) Read(i int, pixels []uint8, size int) (Size, error) {
	if size != s.size {
		return Size{}, s.otherSize(size)
	}
	copy(pixels, s.pixels[i*size*size*3:(i+1)*size*size*3])
	return s.sizes[i], nil
}

// Background is the label of background, or 0 if no class is.
func (s *AnnotatedScenes) Background() uint8 {
	return lo.Ternary[uint8](lo.FirstOrEmpty(s.Classes) == "background", 1, 0)
}

// HasBackground reports whether the first class is background, whose pairs say nothing about correspondences.
func (s *Segmentation) HasBackground() bool { return lo.FirstOrEmpty(s.Classes) == "background" }

// Square returns image i resized to a square, [size, size, 3].
func (s *AnnotatedScenes) Square(i, size int) []uint8 {
	pixels, whole := make([]uint8, size*size*3), Size{size, size}
	canvas := rgba(s.pixels[i*s.size*s.size*3:(i+1)*s.size*s.size*3], s.size, s.size)
	picture := canvas.SubImage(image.Rect(0, 0, s.sizes[i].Width, s.sizes[i].Height)).(*image.RGBA)
	Bicubic.resample(pixels, size, picture, whole, image.Rect(0, 0, size, size))
	return pixels
}

// Labels copies the labels of image i, [size, size]. It is an error if size is not the size of the canvases.
func (s *AnnotatedScenes) Labels(i int32, labels []uint8, size int) error {
	if size != s.size {
		return s.otherSize(size)
	}
	copy(labels, s.labels[int(i)*size*size:(int(i)+1)*size*size])
	return nil
}

func (s *AnnotatedScenes) otherSize(size int) error {
	return fmt.Errorf("%s: canvases of %d pixels were read, not of %d", s.Name, s.size, size)
}

// ClassColours returns the colours of the classes, 0xRRGGBB, as the dataset's authors have them, or else the ones that PASCAL VOC numbers its objects with.
func (s *Segmentation) ClassColours() []uint32 {
	return lo.CoalesceSliceOrEmpty(s.colours, vocColours(len(s.Classes)))
}

// Colours returns the colours of masks, by class as [Segmentation.ClassColours] does. Entries without a class are black, and entry [Ignore] is VOC's colour of borders.
// It has 256 entries, so that a mask drawn with it is a PNG in VOC's format.
func (s *Segmentation) Colours() color.Palette {
	palette := Palette(s.ClassColours())
	palette[Ignore] = color.RGBA{224, 224, 192, 255}
	return palette
}

// Palette returns 256 colours: first the colours of classes, 0xRRGGBB, and then black.
func Palette(colours []uint32) color.Palette {
	palette := slices.Repeat(color.Palette{color.RGBA{A: 255}}, 256)
	for i, c := range colours {
		palette[i] = color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255}
	}
	return palette
}

// vocColours returns VOC's colours of numbers from 0, 0xRRGGBB. The bits of a number, from the lowest, go to red, green and blue in turn, and fill each from its
// highest bit.
func vocColours(count int) []uint32 {
	colours := make([]uint32, count)
	for i := range colours {
		for bit := range 8 {
			colours[i] |= uint32(i>>bit&1) << (7 - bit/3 + 8*(2-bit%3))
		}
	}
	return colours
}

// Spread returns at most the given number of the indices 0 to n-1, evenly spread and ascending. If most is 0, it returns all.
func Spread(n, most int) []int {
	if most == 0 || most > n {
		most = n
	}
	return lo.Times(most, func(i int) int { return i * n / most })
}

// Pick returns the images at the given places, in their order. Its identity says how many, and whether they are spread evenly.
func (p *ImageFolder) Pick(places []int) *ImageFolder {
	return pick(p, places, p.Identity)
}

// at returns the images at some places, under an identity of their own.
func (p *ImageFolder) at(places []int, identity string) *ImageFolder {
	some := *p
	some.files, some.Identity = lo.Map(places, func(i, _ int) string { return p.files[i] }), identity
	return &some
}

// set is a set of images of which some can be taken.
type set[S any] interface {
	Len() int
	at(places []int, identity string) S
}

// pick takes the images at some places of a set with an identity.
func pick[S set[S]](from S, places []int, identity string) S {
	if len(places) == from.Len() {
		return from
	}
	how := lo.Ternary(slices.Equal(places, Spread(from.Len(), len(places))), " spread evenly", "")
	return from.at(places, fmt.Sprintf("%d%s of (%s)", len(places), how, identity))
}

// HoldOut splits a folder in two: the images at the given places, some but not all and ascending, and the rest.
func (p *ImageFolder) HoldOut(places []int) (rest, held *ImageFolder) {
	others := slices.DeleteFunc(Spread(p.Len(), 0), func(i int) bool { _, is := slices.BinarySearch(places, i); return is })
	held = p.Pick(places)
	return p.at(others, "all but "+held.Identity), held
}

// Pick returns the images at the given places, in their order. Its identity says how many, and whether they are spread evenly.
func (s *Segmentation) Pick(places []int) *Segmentation {
	return pick(s, places, s.Identity)
}

// at returns the images at some places, under an identity of their own.
func (s *Segmentation) at(places []int, identity string) *Segmentation {
	some := *s
	some.count, some.Identity = len(places), identity
	some.read = func(i int) (*SegmentedImage, error) { return s.read(places[i]) }
	return &some
}

// Share returns one of parts shares of the indices 0 to n-1, 0 ≤ share < parts. Shares differ in size by one index at most, have no index in common, and
// are the same in every run: the order that they are cut from is shuffled with a fixed seed. A single share is all indices in order.
func Share(n, share, parts int) (places []int) {
	if parts == 1 {
		return Spread(n, 0)
	}
	order := rand.New(rand.NewPCG(uint64(n), 0)).Perm(n)
	for i := share; i < n; i += parts {
		places = append(places, order[i])
	}
	return places
}

// Share returns one of parts shares of the images; see the function [Share]. The identity says which one it is. It is the set itself if parts is 1.
func (s *Segmentation) Share(share, parts int) *Segmentation {
	return shareOfSet(s, share, parts, s.Identity)
}

// Share returns one of parts shares of the images; see the function [Share]. The identity says which one it is. It is the folder itself if parts is 1.
func (p *ImageFolder) Share(share, parts int) *ImageFolder {
	return shareOfSet(p, share, parts, p.Identity)
}

func shareOfSet[S set[S]](from S, share, parts int, identity string) S {
	if parts == 1 {
		return from
	}
	return from.at(Share(from.Len(), share, parts), fmt.Sprintf("share %d of %d of (%s)", share+1, parts, identity))
}

// Only returns the same images with only some of the classes, in the order given. Pixels of other classes are ignored. It is for sets in which some classes
// hardly occur. The error names a class that the dataset does not have, or that is given twice.
func (s *Segmentation) Only(classes ...string) (*Segmentation, error) {
	of := bytes.Repeat([]uint8{Ignore}, 256)
	only := *s
	only.Classes, only.colours = slices.Clone(classes), nil
	for i, name := range classes {
		class := slices.Index(s.Classes, name)
		if class < 0 {
			return nil, fmt.Errorf("%s has no class %q", s.Name, name)
		}
		if of[class] != Ignore {
			return nil, fmt.Errorf("class %q is given twice", name)
		}
		of[class] = uint8(i)
		only.colours = append(only.colours, s.ClassColours()[class])
	}
	if len(classes) == 0 {
		return nil, fmt.Errorf("%s: no classes to keep", s.Name)
	}
	only.read = func(i int) (_ *SegmentedImage, err error) {
		defer try.Handle(&err)
		a := try.E1(s.read(i))
		kept := *a
		kept.Mask = lo.Map(a.Mask, func(class uint8, _ int) uint8 { return of[class] })
		return &kept, nil
	}
	only.Identity = fmt.Sprintf("classes %s of (%s)", strings.Join(classes, ", "), s.Identity)
	return &only, nil
}
