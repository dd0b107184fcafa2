package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Source is a set of images without labels, read one at a time: what pretraining needs, and more of than memory holds.
type Source interface {
	// Len is the number of images.
	Len() int
	// Read writes image i, 0 ≤ i < Len, into the top left corner of canvas, [side, side, 3], makes the rest black, and returns how far
	// the image reaches. It may run in several goroutines at once.
	Read(i int, canvas []uint8, side int) (Size, error)
}

// ImageFolder is a folder of JPEG and PNG images of any sizes, read from disk when they are needed.
type ImageFolder struct {
	Name string // The folder's name.

	// Identity says which files there are: their number, and the first 16 hexadecimal digits of the SHA-256 digest of paths and sizes.
	// Reading all contents for it would take as long as an epoch.
	Identity string

	// Skipped lists the files below the folder that are no images by their names.
	Skipped []Skipped

	tree  fs.FS
	files []string
}

// OpenImageFolder lists the images at any depth below dir, in the order of their paths: ImageNet's class folders as well as a flat folder.
// Hidden files are passed over. The error is one line that names the folder.
func OpenImageFolder(dir string) (*ImageFolder, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, reason(err))
	} else if !info.IsDir() {
		return nil, fmt.Errorf("image folder %s: is a file", dir)
	}
	p := &ImageFolder{Name: filepath.Base(dir), tree: os.DirFS(dir)}
	var found listing
	if err := found.add(p.tree, ".", 0); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, err)
	}
	if len(found.images) == 0 {
		return nil, fmt.Errorf("image folder %s: no .jpg, .jpeg or .png in it", dir)
	}
	p.files, p.Skipped = found.images, found.others
	digest := sha256.New()
	for i, file := range found.images {
		fmt.Fprintf(digest, "%q %d\n", file, found.bytes[i])
	}
	p.Identity = fmt.Sprintf("folder %s: %d files, sha256 of names and sizes %x", p.Name, p.Len(), digest.Sum(nil)[:8])
	return p, nil
}

// COCO opens the images of a split of COCO 2017, scenes with several objects: train2017 or val2017 below dir/coco, or below
// dir/coco/images.
func COCO(dir string, split Split) (*ImageFolder, error) {
	folder := map[Split]string{Train: "train2017", Test: "val2017"}[split]
	if folder == "" {
		return nil, fmt.Errorf("COCO has no split %q", split)
	}
	for _, candidate := range []string{filepath.Join(dir, "coco", folder), filepath.Join(dir, "coco", "images", folder)} {
		if _, err := os.Stat(candidate); err == nil {
			return OpenImageFolder(candidate)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("COCO: %s: %w", candidate, reason(err))
		}
	}
	return nil, missingf("COCO: no %s in %s or its images", folder, filepath.Join(dir, "coco"))
}

// Len returns the number of images.
func (p *ImageFolder) Len() int { return len(p.files) }

// Read decodes image i, upright by a JPEG's EXIF orientation; where its longer side is longer than side, it is shrunk to that,
// bicubically. The error is one line that names the file.
func (p *ImageFolder) Read(i int, canvas []uint8, side int) (Size, error) {
	content, err := readFile(p.tree, p.files[i])
	if err == nil {
		var extent Size
		if extent.Height, extent.Width, err = decodeWhole(content, canvas, side); err == nil {
			return extent, nil
		}
	}
	return Size{}, fmt.Errorf("%s: %w", filepath.Join(p.Name, p.files[i]), err)
}

// Labels returns the class of each image, counted in the order of the names of the folders that they lie in, and the names: ImageNet's layout.
// An image outside class folders, and a class with two folders, are errors.
func (p *ImageFolder) Labels() (labels []int32, names []string, err error) {
	if names, err = (&listing{images: p.files}).classes(); err != nil {
		return nil, nil, fmt.Errorf("image folder %s: %w", p.Name, err)
	}
	for _, file := range p.files {
		label, _ := slices.BinarySearch(names, path.Base(path.Dir(file)))
		labels = append(labels, int32(label))
	}
	return labels, names, nil
}

// File is the path of image i within the folder.
func (p *ImageFolder) File(i int) string { return p.files[i] }

// CenterCrop reads image i as the field evaluates: its shorter side resized to 8/7 of side (256 for 224), bicubically, then the side×side
// pixels about the centre, [side, side, 3]. The error names the file.
func (p *ImageFolder) CenterCrop(i, side int) ([]uint8, error) {
	whole := side * 8 / 7
	pixels, err := readImage(p.tree, p.files[i], whole)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(p.Name, p.files[i]), err)
	}
	part := image.Rect(0, 0, side, side).Add(image.Pt((whole-side)/2, (whole-side)/2))
	out := make([]uint8, 0, side*side*3)
	for y := part.Min.Y; y < part.Max.Y; y++ {
		out = append(out, pixels[(y*whole+part.Min.X)*3:(y*whole+part.Max.X)*3]...)
	}
	return out, nil
}

// Read copies image i. It is an error if the images are larger than side.
func (im *Images) Read(i int, canvas []uint8, side int) (Size, error) {
	if im.Height > side || im.Width > side {
		return Size{}, fmt.Errorf("%s: images of %d×%d pixels do not fit in %d", im.Name, im.Width, im.Height, side)
	}
	clear(canvas)
	pixels := im.At(i)
	for y := range im.Height {
		copy(canvas[3*y*side:], pixels[3*y*im.Width:3*(y+1)*im.Width])
	}
	return Size{im.Height, im.Width}, nil
}
