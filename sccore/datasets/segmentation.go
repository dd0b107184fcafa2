package datasets

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Segmentation is a split of a semantic-segmentation dataset, read one image at a time so that it needs little memory. [VOC], [ADE20k],
// [Cityscapes], [COCOStuff27] and [CamVid] open real datasets, and package synthetic draws one. As in the paper, [Test] is the official
// validation split, save for CamVid.
type Segmentation struct {
	Name    string   // The dataset's name, "PASCAL VOC".
	Classes []string // The name of each class, at most 255.

	// Identity identifies the files: their number, and the first 16 hexadecimal digits of the SHA-256 digest of the names and sizes of
	// images and masks.
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

// pair holds the paths of an image and its mask.
type pair struct{ image, mask string }

// layout describes how a dataset stores its images and masks.
type layout struct {
	key, name string
	classes   []string
	colours   []uint32 // 0xRRGGBB; nil for VOC's.
	official  map[Split]int
	// list finds the files below a data folder. Its error for missing data is an [fs.ErrNotExist].
	list func(s *layout, dir string, split Split) (folder string, pairs []pair, err error)
	// mask decodes the file of a mask, and says what its ids stand for.
	mask func(path string, file []byte) (ids, classOf, error)
}

var layouts = []*layout{cocoStuff, voc, ade20k, cityscapes, camVid}

// SegmentationKeys lists the names that [OpenSegmentation] knows.
func SegmentationKeys() (keys []string) {
	for _, d := range layouts {
		keys = append(keys, d.key)
	}
	slices.Sort(keys)
	return keys
}

// OpenSegmentation opens a split of a dataset by its name on the command line, one of [SegmentationKeys], below dir.
func OpenSegmentation(key, dir string, split Split) (*Segmentation, error) {
	for _, d := range layouts {
		if d.key == key {
			return d.open(dir, split)
		}
	}
	return nil, fmt.Errorf("dataset %q: want one of %s", key, strings.Join(SegmentationKeys(), ", "))
}

// open lists the files of a split and checks that each is there.
func (s *layout) open(dir string, split Split) (*Segmentation, error) {
	if err := dataFolder(s.name, dir); err != nil {
		return nil, err
	}
	if _, err := partOf(s.name, split, "", ""); err != nil {
		return nil, err
	}
	folder, pairs, err := s.list(s, dir, split)
	if err != nil {
		return nil, err
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s: no %s images in %s", s.name, split, folder)
	}
	digest := sha256.New()
	for _, p := range pairs {
		for _, path := range []string{p.image, p.mask} {
			info, err := os.Stat(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %v", s.name, path, reason(err)) // Not %w: an incomplete dataset is not a missing one.
			}
			name, err := filepath.Rel(folder, path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Fprintf(digest, "%q %d\n", filepath.ToSlash(name), info.Size())
		}
	}
	return &Segmentation{
		Name: s.name, Classes: slices.Clone(s.classes), folder: folder, count: len(pairs), colours: s.colours,
		Identity: fmt.Sprintf("%s %s: %d images, %d classes, sha256 of names and sizes %x", s.name, split, len(pairs), len(s.classes), digest.Sum(nil)[:8]),
		read:     func(i int) (*SegmentedImage, error) { return s.read(pairs[i]) },
	}, nil
}

func (s *layout) read(p pair) (*SegmentedImage, error) {
	out, err := readStored(p.image)
	if err != nil {
		return nil, err
	}
	out.Mask, err = loadPath(p.mask, func(file []byte) ([]uint8, error) {
		m, class, err := s.mask(p.mask, file)
		if err != nil {
			return nil, err
		}
		if m.height != out.Height || m.width != out.Width {
			return nil, fmt.Errorf("the mask is %d×%d pixels, its image %d×%d", m.width, m.height, out.Width, out.Height)
		}
		return m.classes(class)
	})
	return out, err
}

// classOf maps an id in a mask to a class.
type classOf func(id uint32) (class uint8, known bool)

// idMask decodes masks of ids.
func idMask(class classOf) func(string, []byte) (ids, classOf, error) {
	return func(_ string, file []byte) (ids, classOf, error) {
		m, err := decodeIDs(file)
		return m, class, err
	}
}

// locate returns the first of the folders below dir that contains all the given names. If there is none, the dataset is missing.
func (s *layout) locate(dir string, folders []string, holds ...string) (string, error) {
	for _, folder := range folders {
		there := func(name string) bool { return exists(filepath.Join(dir, folder, name)) }
		if !slices.ContainsFunc(holds, func(name string) bool { return !there(name) }) {
			return filepath.Join(dir, folder), nil
		}
	}
	return "", missingf("no %s in %s: %s does not exist", s.name, dir, filepath.Join(folders[0], holds[0]))
}

// readList reads the names in a split's list, one a line. A line may also hold the paths of an image and its mask, as /JPEGImages/NAME.jpg
// /SegmentationClass/NAME.png, which have one name.
func readList(path string) (names []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, reason(err))
	}
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		name, fields := "", strings.Fields(line)
		switch len(fields) {
		case 0:
			continue
		case 1:
			name = fields[0]
		case 2:
			image, mask := stem(fields[0]), stem(fields[1])
			if image == mask && image != fields[0] && mask != fields[1] {
				name = image
			}
		}
		if !isName(name) {
			return nil, fmt.Errorf("%s: %.80q is not the name of an image, nor the paths of an image and its mask", path, strings.TrimSpace(line))
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: lists no images", path)
	}
	return names, nil
}

// stem is the name of a file without its folder and its ending.
func stem(file string) string {
	name := path.Base(file)
	return strings.TrimSuffix(name, path.Ext(name))
}

// filesIn lists the files of a folder whose names have the ending, sorted and without it.
func filesIn(folder, ending string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missingf("%s does not exist", folder)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, reason(err))
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ending); ok && !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names, nil
}

// shareOf splits a sample that has no official splits: even positions are for training, odd ones for testing.
func shareOf(names []string, split Split) []string {
	var share []string
	for i, name := range names {
		if (i%2 == 0) == (split == Train) {
			share = append(share, name)
		}
	}
	return share
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

// AnnotatedScenes reads all images into canvases of size×size pixels. They take 4·size² bytes each. The error is that of [Segmentation.Read].
func (s *Segmentation) AnnotatedScenes(size int) (*AnnotatedScenes, error) {
	out := &AnnotatedScenes{
		Name: s.Name, Classes: s.Classes, size: size, sizes: make([]Size, s.Len()),
		pixels: make([]uint8, s.Len()*size*size*3), labels: make([]uint8, s.Len()*size*size),
	}
	return out, EachImage(context.Background(), s.Len(), 0, func(i int) error {
		a, err := s.Read(i)
		if err != nil {
			return err
		}
		to := fitted(Size{a.Height, a.Width}, size)
		out.sizes[i] = to
		Bicubic.resample(out.pixels[i*size*size*3:(i+1)*size*size*3], size, a.Image(), to, image.Rect(0, 0, to.Width, to.Height))
		labels := out.labels[i*size*size : (i+1)*size*size]
		for y := range to.Height {
			row := (2*y + 1) * a.Height / (2 * to.Height)
			for x := range to.Width {
				if class := a.Mask[row*a.Width+(2*x+1)*a.Width/(2*to.Width)]; class != Ignore {
					labels[y*size+x] = 1 + class
				}
			}
		}
		return nil
	})
}

// Len returns the number of images.
func (s *AnnotatedScenes) Len() int { return len(s.sizes) }

// Read copies image i. It is an error if size is not that of the canvases.
func (s *AnnotatedScenes) Read(i int, pixels []uint8, size int) (Size, error) {
	if size != s.size {
		return Size{}, s.otherSize(size)
	}
	copy(pixels, s.pixels[i*size*size*3:(i+1)*size*size*3])
	return s.sizes[i], nil
}

// Labels copies the labels of image i, [size, size]. It is an error if size is not that of the canvases.
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

// Colours returns the colours that masks are drawn in: those of the dataset's authors, by class, or else the ones that PASCAL VOC numbers its objects with.
// Entries without a class are black, and entry [Ignore] is VOC's colour of borders. It has 256 entries, so that a mask drawn with it is a PNG in VOC's format.
func (s *Segmentation) Colours() color.Palette {
	colours := s.colours
	if colours == nil {
		colours = vocColours(0, len(s.Classes))
	}
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{A: 255}
	}
	for i, c := range colours {
		palette[i] = color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 255}
	}
	palette[Ignore] = color.RGBA{224, 224, 192, 255}
	return palette
}

// Draw returns a mask, [height, width] of classes or [Ignore], in the dataset's colours. The picture shares the mask's memory.
func (s *Segmentation) Draw(mask []uint8, height, width int) *image.Paletted {
	return &image.Paletted{Pix: mask[:height*width], Stride: width, Rect: image.Rect(0, 0, width, height), Palette: s.Colours()}
}

// vocColours returns VOC's colours of numbers, 0xRRGGBB. The bits of a number, from the lowest, go to red, green and blue in turn, and fill each from its
// highest bit.
func vocColours(first, count int) []uint32 {
	colours := make([]uint32, count)
	for i := range colours {
		for bit := range 8 {
			colours[i] |= uint32((first+i)>>bit&1) << (7 - bit/3 + 8*(2-bit%3))
		}
	}
	return colours
}
