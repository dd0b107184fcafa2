package datasets

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ImageFolder is a folder of JPEG and PNG images of any size. Images are read from disk on demand.
type ImageFolder struct {
	Name string // The folder's name.

	// Identity identifies the files: their number, and the first 16 hexadecimal digits of the SHA-256 digest of their paths and sizes.
	// A digest of their contents would take as long as an epoch.
	Identity string

	// Skipped lists the files whose names are not those of images.
	Skipped []Skipped

	dir   string // Absolute.
	tree  fs.FS
	files []string
	cache *Cache // Nil for none.
}

// OpenImageFolder lists the images at any depth below dir, sorted by path. Both a flat folder and ImageNet's class folders work. It ignores
// hidden files. The error is one line that names the folder.
func OpenImageFolder(dir string) (*ImageFolder, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, reason(err))
	} else if !info.IsDir() {
		return nil, fmt.Errorf("image folder %s: is a file", dir)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, reason(err))
	}
	p := &ImageFolder{Name: filepath.Base(dir), dir: absolute, tree: os.DirFS(dir)}
	var found listing
	if err := found.add(p.tree, "."); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, err)
	}
	if len(found.images) == 0 {
		return nil, fmt.Errorf("image folder %s: contains no .jpg, .jpeg or .png file", dir)
	}
	p.files, p.Skipped = found.images, found.others
	digest := sha256.New()
	for i, file := range found.images {
		fmt.Fprintf(digest, "%q %d\n", file, found.bytes[i])
	}
	p.Identity = fmt.Sprintf("folder %s: %d files, sha256 of names and sizes %x", p.Name, p.Len(), digest.Sum(nil)[:8])
	return p, nil
}

// Len returns the number of images.
func (p *ImageFolder) Len() int { return len(p.files) }

// Read decodes image i and turns it upright by its EXIF orientation. If its longer side exceeds size, it is shrunk bicubically to size. The
// error is one line that names the file.
func (p *ImageFolder) Read(i int, pixels []uint8, size int) (Size, error) {
	if p.cache != nil {
		return p.readCached(i, pixels, size)
	}
	return p.read(i, pixels, size)
}

// read is Read without the cache.
func (p *ImageFolder) read(i int, pixels []uint8, size int) (Size, error) {
	content, err := readFile(p.tree, p.files[i])
	if err == nil {
		var read Size
		if read.Height, read.Width, err = decodeWhole(content, pixels, size); err == nil {
			return read, nil
		}
	}
	return Size{}, fmt.Errorf("%s: %w", filepath.Join(p.Name, p.files[i]), err)
}

// Labels returns the label of each image and the names of the classes. As in ImageNet's layout, the class of an image is the name of its
// folder, and classes are sorted by name. An image outside the class folders, and a class with two folders, are errors.
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

// Skip names image i, which could not be read because of err, as records and warnings do: below the folder's name.
func (p *ImageFolder) Skip(i int, err error) Skipped {
	name := filepath.Join(p.Name, p.files[i])
	return Skipped{name, strings.TrimPrefix(err.Error(), name+": ")}
}

// File returns the path of image i within the folder.
func (p *ImageFolder) File(i int) string { return p.files[i] }

// Preprocess reads image i for evaluation, upright by its EXIF orientation; see [Preprocessing.Apply]. The error names the file.
func (p *ImageFolder) Preprocess(i int, by Preprocessing, size, patch int) ([]uint8, Size, error) {
	content, err := readFile(p.tree, p.files[i])
	if err == nil {
		var pixels []uint8
		var read Size
		if pixels, read, err = by.decode(content, size, patch); err == nil {
			return pixels, read, nil
		}
	}
	return nil, Size{}, fmt.Errorf("%s: %w", filepath.Join(p.Name, p.files[i]), err)
}
