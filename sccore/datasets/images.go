package datasets

import (
	"archive/zip"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// Images is a labelled set of RGB images of one size, held in memory.
type Images struct {
	Name          string   // The dataset's name, "CIFAR-10".
	Pixels        []uint8  // [Len, Height, Width, 3], row-major, 0 to 255.
	Labels        []int32  // [Len], from 0 to len(Classes)-1.
	Height, Width int      // In pixels.
	Classes       []string // The name of each label.

	// Identity identifies the data: the files, the number of images and classes, and the first 16 hexadecimal digits of the SHA-256
	// digest of pixels and labels. Equal identities mean equal data in equal order.
	Identity string

	// Skipped lists the files that lie among the images but are not part of the set, sorted by name.
	Skipped []Skipped
}

// Skipped is a file that a reader skipped.
type Skipped struct {
	File   string // Its path within the folder or archive that was read.
	Reason string // One line.
}

// Split is an official part of a dataset.
type Split string

// The two splits.
const (
	Train Split = "train"
	Test  Split = "test"
)

// Len returns the number of images.
func (im *Images) Len() int { return len(im.Labels) }

// At returns the pixels of image i, [Height, Width, 3], as a slice of Pixels. It panics unless 0 ≤ i < Len.
func (im *Images) At(i int) []uint8 {
	size := im.imageBytes()
	return im.Pixels[i*size : (i+1)*size : (i+1)*size]
}

// Read copies image i. It is an error if the images are larger than size.
func (im *Images) Read(i int, pixels []uint8, size int) (Size, error) {
	if im.Height > size || im.Width > size {
		return Size{}, fmt.Errorf("%s: images of %d×%d pixels do not fit in %d", im.Name, im.Width, im.Height, size)
	}
	clear(pixels)
	image := im.At(i)
	for y := range im.Height {
		copy(pixels[3*y*size:], image[3*y*im.Width:3*(y+1)*im.Width])
	}
	return Size{im.Height, im.Width}, nil
}

// Image returns a copy of image i for drawing. It panics unless 0 ≤ i < Len.
func (im *Images) Image(i int) image.Image { return rgba(im.At(i), im.Height, im.Width) }

// rgba copies RGB pixels, [height, width, 3].
func rgba(pixels []uint8, height, width int) *image.RGBA {
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	for p := range width * height {
		copy(out.Pix[4*p:], pixels[3*p:3*p+3])
		out.Pix[4*p+3] = 255
	}
	return out
}

// Subset returns the first images of each class for quick runs: n in all, or every image if there are fewer. Classes contribute equally as
// long as they have enough images. The images keep their order.
func (im *Images) Subset(n int) *Images {
	if n >= im.Len() {
		return im
	}
	return im.pick("first of each class of", lo.Interleave(im.byClass()...)[:n])
}

// Share returns one of parts shares of the images, 0 ≤ share < parts: as many of each class for every share, so that all shares have one size; what is
// over is in none. No image is in two shares. The draw depends on the labels alone. It is the set itself if parts is 1, and panics if a class has fewer
// images than parts.
func (im *Images) Share(share, parts int) *Images {
	if parts == 1 {
		return im
	}
	var drawn []int
	for class, members := range im.byClass() {
		each := len(members) / parts
		if each == 0 {
			panic(fmt.Sprintf("%s: %d images of class %s for %d shares", im.Name, len(members), im.Classes[class], parts))
		}
		drawn = append(drawn, lo.Map(Share(each*parts, share, parts), func(place, _ int) int { return members[place] })...)
	}
	return im.pick(fmt.Sprintf("share %d of %d of", share+1, parts), drawn)
}

// Repeat returns n images: the set again and again, in its order. A set of n or more is returned as it is.
func (im *Images) Repeat(n int) *Images {
	if n <= im.Len() {
		return im
	}
	repeated := *im
	times := (n + im.Len() - 1) / im.Len()
	repeated.Pixels, repeated.Labels = slices.Repeat(im.Pixels, times)[:n*im.imageBytes()], slices.Repeat(im.Labels, times)[:n]
	repeated.Identity = fmt.Sprintf("%d by repeating (%s)", n, im.Identity)
	return &repeated
}

// HoldOut draws the given share of each class, rounded down, for validation. It returns the other images and those drawn; both keep their order. The
// draw depends on the labels alone, so that every configuration is validated on the same images.
func (im *Images) HoldOut(share float64) (rest, held *Images) {
	var drawn []int
	for class, members := range im.byClass() {
		order := rand.New(rand.NewPCG(holdOutSeed, uint64(class))).Perm(len(members))
		drawn = append(drawn, lo.Map(order[:countOf(share, len(members))], func(i, _ int) int { return members[i] })...)
	}
	return im.pick("not held out of", lo.Without(lo.Range(im.Len()), drawn...)), im.pick("held out of", drawn)
}

// HeldOut is the number of images that HoldOut draws.
func (im *Images) HeldOut(share float64) int {
	return lo.SumBy(im.byClass(), func(members []int) int { return countOf(share, len(members)) })
}

// countOf is a share of n, rounded down, where 0.29 of 100 is 29 in spite of float64.
func countOf(share float64, n int) int { return int(share*float64(n) + 1e-9) }

// holdOutSeed is fixed: another one would change every choice made on held-out images.
const holdOutSeed = 1

// byClass lists the images of each class in order.
func (im *Images) byClass() [][]int {
	byClass := make([][]int, len(im.Classes))
	for i, label := range im.Labels {
		byClass[label] = append(byClass[label], i)
	}
	return byClass
}

// pick returns the images at some places, in the set's order. how says in the identity which they are.
func (im *Images) pick(how string, places []int) *Images {
	picked := &Images{Name: im.Name, Height: im.Height, Width: im.Width, Classes: im.Classes, Skipped: im.Skipped}
	for _, i := range slices.Sorted(slices.Values(places)) {
		picked.Pixels, picked.Labels = append(picked.Pixels, im.At(i)...), append(picked.Labels, im.Labels[i])
	}
	picked.Identify(how + " (" + im.Identity + ")")
	return picked
}

func (im *Images) imageBytes() int { return im.Height * im.Width * 3 }

// Identify sets Identity from the name of the source and the content of the set.
func (im *Images) Identify(source string) {
	digest := sha256.New()
	digest.Write(im.Pixels)
	_ = binary.Write(digest, binary.LittleEndian, im.Labels) // A digest takes everything.
	im.Identity = fmt.Sprintf("%s: %d images %d×%d, %d classes, sha256 %x",
		source, im.Len(), im.Width, im.Height, len(im.Classes), digest.Sum(nil)[:8])
}

// SmallestClass is the number of images of the class that has the fewest.
func (im *Images) SmallestClass() int {
	return lo.Min(lo.Map(im.byClass(), func(members []int, _ int) int { return len(members) }))
}

// FindClassFolders reports whether dir holds labelled images in the layout of [ReadFolder]: the folders train and test, or
// the archives train.zip and test.zip. ext is what follows the split's name: "" or ".zip".
func FindClassFolders(dir string) (ext string, ok bool) {
	for _, ext := range []string{"", ".zip"} {
		there := func(split Split) bool {
			info, err := os.Stat(filepath.Join(dir, string(split)+ext))
			return err == nil && info.IsDir() == (ext == "")
		}
		if there(Train) && there(Test) {
			return ext, true
		}
	}
	return "", false
}

// ReadFolder reads class folders of JPEG and PNG images, from disk or from an archive whose name ends with .zip, where one folder may hold all of them. The class
// of an image is the folder of the first level, as in torchvision's ImageFolder. Classes are sorted by name and images by path. Each image becomes size×size pixels:
// the largest central square, turned upright by its EXIF orientation, and resampled bicubically unless it already has that size.
//
// It ignores hidden files, and lists other files that are not images and images that cannot be read in [Images.Skipped]. It writes nothing to disk: the names in an
// archive only sort and label the images. Its error is one line that names the file or folder: no images, or an image outside the class folders.
func ReadFolder(path string, size int) (im *Images, err error) {
	kind, read := "image folder", readClassFolders
	if filepath.Ext(path) == ".zip" {
		kind, read = "zip", readZip
	}
	if im, err = read(path, size); err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, path, Reason(err))
	}
	im.Name = filepath.Base(path)
	im.Identify(strings.TrimPrefix(kind, "image ") + " " + im.Name)
	return im, nil
}

func readClassFolders(dir string, size int) (*Images, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, errors.New("is a file")
	}
	return readClasses(os.DirFS(dir), "", size, runtime.GOMAXPROCS(0))
}

// readClasses reads a tree of class folders, in an archive of a name perhaps below one folder; "" for no archive. The result does not depend on the number of workers.
func readClasses(tree fs.FS, archive string, size int, workers int) (_ *Images, err error) {
	defer try.Handle(&err)
	if size < 1 {
		return nil, fmt.Errorf("image size %d, want at least 1 pixel", size)
	}
	found := try.E1(listImages(tree))
	root := lo.Ternary(archive != "", found.root(archive), "")
	classes := try.E1(found.classes(root))
	im := &Images{Height: size, Width: size, Classes: classes, Skipped: found.Skipped}
	im.Pixels = make([]uint8, len(found.files)*im.imageBytes())
	faults := try.E1(Faults(context.Background(), len(found.files), workers, func(i int) (err error) {
		defer try.Handle(&err)
		copy(im.Pixels[i*im.imageBytes():], try.E1(decode(try.E1(readFile(tree, found.files[i])), size)))
		return nil
	}))
	// Later images move up to close the gaps that skipped ones leave.
	for i, name := range found.files {
		if faults[i] != nil {
			im.Skipped = append(im.Skipped, Skipped{name, faults[i].Error()})
			continue
		}
		label, _ := slices.BinarySearch(classes, classOfFile(strings.TrimPrefix(name, root)))
		copy(im.Pixels[im.Len()*im.imageBytes():], im.Pixels[i*im.imageBytes():(i+1)*im.imageBytes()])
		im.Labels = append(im.Labels, int32(label))
	}
	im.Pixels = im.Pixels[:im.Len()*im.imageBytes()]
	slices.SortFunc(im.Skipped, func(a, b Skipped) int { return strings.Compare(a.File, b.File) })
	if im.Len() == 0 {
		return nil, fmt.Errorf("none of the images can be read: %s: %s", im.Skipped[0].File, im.Skipped[0].Reason)
	}
	return im, nil
}

// maxZipRatio bounds the ratio of an archive's claimed content to its size. Zip hardly compresses images.
const maxZipRatio = 100

func readZip(file string, size int) (_ *Images, err error) {
	defer try.Handle(&err)
	info := try.E1(os.Stat(file))
	archive := try.E1(zip.OpenReader(file))
	defer archive.Close()
	const compressedByBzip2 = 12
	archive.RegisterDecompressor(compressedByBzip2, func(r io.Reader) io.ReadCloser { return io.NopCloser(bzip2.NewReader(r)) })
	var claimed uint64
	for _, entry := range archive.File {
		if !slices.Contains([]uint16{zip.Store, zip.Deflate, compressedByBzip2}, entry.Method) {
			return nil, fmt.Errorf("%s: is compressed by method %d, which is not known: want deflate, bzip2 or none", entry.Name, entry.Method)
		}
		claimed += min(entry.UncompressedSize64, 1<<32)       // The bound keeps the sum from wrapping.
		entry.Name = strings.ReplaceAll(entry.Name, `\`, "/") // Some archivers on Windows write backslashes.
	}
	if claimed > maxZipRatio*uint64(info.Size()) {
		return nil, fmt.Errorf("claims %d bytes of content in %d: not an archive of images", claimed, info.Size())
	}
	return readClasses(&archive.Reader, filepath.Base(file), size, runtime.GOMAXPROCS(0))
}
