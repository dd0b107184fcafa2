package datasets

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// ImageFolder is a folder of JPEG and PNG images of any size. Images are read from disk on demand.
type ImageFolder struct {
	Name string // The folder's name.

	// Identity identifies the files: their number, and the first 16 hexadecimal digits of the SHA-256 digest of their paths and sizes.
	// A digest of their contents would take as long as an epoch.
	Identity string

	// Skipped lists what lies below the folder and is left out: other files, broken links, pipes, and folders that cannot be listed.
	Skipped []Skipped

	dir   string // Absolute.
	tree  fs.FS
	files []string // In the order of the walk; identities depend on it.
	cache *Cache   // Nil for none.

	digest fileDigest // Of all files.
}

// errNoImages is the error of a folder.
var errNoImages = errors.New("contains no .jpg, .jpeg or .png file")

// OpenImageFolder lists the images at any depth below dir, sorted by path. Both a flat folder and ImageNet's class folders work. It ignores
// hidden files. The error is one line that names the folder.
func OpenImageFolder(dir string) (_ *ImageFolder, err error) {
	if err := checkFolder("image folder", dir); err != nil {
		return nil, err
	}
	defer try.HandleF(&err, func() { err = fmt.Errorf("image folder %s: %w", dir, err) })
	absolute, p := try.E1(filepath.Abs(dir)), try.E1(listImages(os.DirFS(dir)))
	if p.Len() == 0 {
		try.E(errNoImages)
	}
	p.Name, p.dir = filepath.Base(dir), absolute
	p.identify()
	return p, nil
}

// listImages lists the images of a folder or an archive.
func listImages(tree fs.FS) (*ImageFolder, error) {
	p := &ImageFolder{tree: tree, digest: newFileDigest()}
	return p, p.add(".")
}

// add lists a folder and its subfolders. It follows symbolic links, and skips what it cannot use: broken links, links back to a folder above, pipes,
// folders without permission.
func (p *ImageFolder) add(folder string, above ...fs.FileInfo) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("%s: %w", folder, Reason(err)) })
	itself, entries := try.E1(fs.Stat(p.tree, folder)), try.E1(fs.ReadDir(p.tree, folder))
	above = append(above[:len(above):len(above)], itself)
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__MACOSX" {
			continue
		}
		skip := func(why string) { p.Skipped = append(p.Skipped, Skipped{strings.ToValidUTF8(name, "\uFFFD"), why}) }
		info, err := fs.Stat(p.tree, name)
		switch {
		case !utf8.ValidString(name):
			skip("its name is not UTF-8")
		case err != nil:
			skip(Reason(err).Error())
		case info.IsDir() && slices.ContainsFunc(above, func(other fs.FileInfo) bool { return os.SameFile(info, other) }):
			skip("links back to a folder above it")
		case info.IsDir() && isRun(p.tree, name):
			skip("is the folder of a training, with pictures of its own")
		case info.IsDir() && len(above) > maxFolderDepth:
			skip(fmt.Sprintf("is more than %d folders deep", maxFolderDepth))
		case info.IsDir():
			if err := p.add(name, above...); errors.Is(err, fs.ErrPermission) {
				skip(errors.Unwrap(err).Error())
			} else if err != nil {
				return err
			}
		case !info.Mode().IsRegular():
			skip(errNotRegular.Error())
		case isImageName(name):
			p.files = append(p.files, name)
			p.digest.add(name, info.Size())
		default:
			p.Skipped = append(p.Skipped, Skipped{name, notImage})
		}
	}
	return nil
}

// RunFile is the name of the file that marks the folder of a training on a user's images. Pictures in such a folder are not among the images, even if it lies inside
// their folder.
const RunFile = "run.json"

func isRun(tree fs.FS, folder string) bool {
	_, err := fs.Stat(tree, path.Join(folder, RunFile))
	return err == nil
}

// classOfFile is the class of an image: the folder of the first level that it lies in, as in torchvision's ImageFolder; "." for none.
func classOfFile(name string) string {
	class, _, below := strings.Cut(name, "/")
	return lo.Ternary(below, class, ".")
}

// root returns the one folder that holds everything in an archive of a name, as archivers add it, with a slash at the end; "" for none. It is called like the
// archive or like a split. Another one is a class.
func (p *ImageFolder) root(archive string) string {
	if len(p.files) == 0 {
		return ""
	}
	root := classOfFile(p.files[0]) + "/"
	if !slices.Contains(append(splitNames, strings.TrimSuffix(archive, path.Ext(archive))), strings.TrimSuffix(root, "/")) {
		return ""
	}
	for _, name := range p.files {
		if below, ok := strings.CutPrefix(name, root); !ok || classOfFile(below) == "." {
			return ""
		}
	}
	return root
}

// splitNames are the names of folders that hold class folders.
var splitNames = []string{"train", "test", "val"}

// classes returns the sorted names of the class folders that hold images, below a root of [ImageFolder.root].
func (p *ImageFolder) classes(root string) (names []string, err error) {
	splits := 0
	for _, name := range p.files {
		class := classOfFile(strings.TrimPrefix(name, root))
		if class == "." {
			return nil, fmt.Errorf("%s: lies outside the class folders", name)
		}
		if at, known := slices.BinarySearch(names, class); !known {
			names = slices.Insert(names, at, class)
			if slices.Contains(splitNames, class) {
				splits++
			}
		}
	}
	switch {
	case len(names) == 0:
		return nil, errors.New("no class folder contains a .jpg, .jpeg or .png file")
	case splits == len(names):
		return nil, fmt.Errorf("%s: is a split and not a class", strings.Join(names, " and "))
	}
	return names, nil
}

// identify sets the identity by the digest of the files' paths and sizes.
func (p *ImageFolder) identify() {
	p.Identity = fmt.Sprintf("folder %s: %d files, sha256 of names and sizes %s", p.Name, p.Len(), p.digest)
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
	return load(p.tree, p.files[i], filepath.Join(p.Name, p.files[i]), func(content []byte) (Size, error) { return decodeWhole(content, pixels, size) })
}

// Times is a digest of the paths, sizes and times of the last change of the images. While it stays, so do the images.
func (p *ImageFolder) Times() string {
	digest := sha256.New()
	for _, file := range p.files {
		if info, err := fs.Stat(p.tree, file); err == nil {
			fmt.Fprintf(digest, "%q %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%x", digest.Sum(nil)[:8])
}

// Content is a digest of the paths and bytes of the images, which reads them all. An image that cannot be read counts by its error.
func (p *ImageFolder) Content(ctx context.Context) (string, error) {
	sums := make([][sha256.Size]byte, p.Len())
	err := EachImage(ctx, p.Len(), 0, func(i int) error {
		content, err := readFile(p.tree, p.files[i])
		if err != nil {
			content = []byte(err.Error())
		}
		sums[i] = sha256.Sum256(content)
		return nil
	})
	digest := sha256.New()
	for i, file := range p.files {
		fmt.Fprintf(digest, "%q %x\n", file, sums[i])
	}
	return fmt.Sprintf("%x", digest.Sum(nil)[:8]), err
}

// Labels returns the label of each image and the names of the classes. As in torchvision's ImageFolder, the class of an image is the folder of
// the first level, and classes are sorted by name. An image outside the class folders is an error.
func (p *ImageFolder) Labels() (labels []int32, names []string, err error) {
	if names, err = p.classes(""); err != nil {
		return nil, nil, fmt.Errorf("image folder %s: %w", p.Name, err)
	}
	labels, err = p.LabelsOf(names)
	return labels, names, err
}

// LabelsOf returns the label of each image by sorted names of classes, such as the classes of the training images. An image of another class is an error.
func (p *ImageFolder) LabelsOf(classes []string) (labels []int32, err error) {
	for _, file := range p.files {
		label, known := slices.BinarySearch(classes, classOfFile(file))
		if !known {
			return nil, fmt.Errorf("image folder %s: %s: is of no class that trains", p.Name, file)
		}
		labels = append(labels, int32(label))
	}
	return labels, nil
}

// Skip names image i, which could not be read because of err, as records and warnings do: below the folder's name.
func (p *ImageFolder) Skip(i int, err error) Skipped {
	name := filepath.Join(p.Name, p.files[i])
	return Skipped{name, strings.TrimPrefix(err.Error(), name+": ")}
}

// File returns the path of image i within the folder.
func (p *ImageFolder) File(i int) string { return p.files[i] }

// Preprocess reads image i for evaluation, upright by its EXIF orientation; see [Preprocessing.Apply]. The error names the file.
func (f *ImageFolder) Preprocess(i int, by Preprocessing, size, patch int) ([]uint8, Size, error) {
	return by.read(f.tree, f.files[i], filepath.Join(f.Name, f.files[i]), size, patch)
}

var imageNetOfficial = map[Split]int{Train: 1281167, Test: 50000}

// ImageNet opens the labelled images of ImageNet-1k (Russakovsky et al. 2015) in class folders (see [ImageFolder.Labels]):
// dir/imagenet/train, 1,281,167 images of 1,000 classes, and dir/imagenet/val, 50,000, the test split here. The error is an
// [fs.ErrNotExist] if a folder is missing or if images lie outside the class folders and so have no labels.
func ImageNet(dir string, split Split) (_ *ImageFolder, err error) {
	defer try.Handle(&err)
	const name = "ImageNet-1k"
	try.E(dataFolder(name, dir))
	part := try.E1(partOf(name, split, "train", "val"))
	folder := filepath.Join(dir, "imagenet", part)
	switch {
	case exists(folder):
	case exists(filepath.Dir(folder)):
		return nil, missingf("%s has no labelled %s images: %s does not exist, and images in %s itself have no labels",
			name, split, folder, filepath.Dir(folder))
	default:
		return nil, missingf("%s has no %s images: %s does not exist", name, split, folder)
	}
	images := try.E1(OpenImageFolder(folder))
	if file, outside := lo.Find(images.files, func(file string) bool { return path.Dir(file) == "." }); outside {
		return nil, missingf("%s has no labelled %s images: %s lies outside the class folders", name, split, filepath.Join(folder, file))
	}
	return images, nil
}

// Cache keeps images as training reads them, decoded and shrunk to the canvas, in files below a folder. Later epochs and runs, of this process and of others,
// read them from there and get the same pixels. A file has 3 bytes a pixel. It is found by the path, size and time of the image's file, the size of the
// canvas and [JPEGDecoder], so that a changed image is decoded again. It may be deleted at any time.
type Cache struct {
	dir  string
	warn func(line string)
	full atomic.Bool // A file could not be written.
}

// OpenCache makes the folder if it is missing. If a file cannot be written, because the disk is full for instance, warn, which may be nil, is told once, and
// nothing more is kept. The error names the folder.
func OpenCache(dir string, warn func(line string)) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return &Cache{dir: dir, warn: warn}, nil
}

// Cached returns the same images, kept in a cache as [ImageFolder.Read] reads them. A nil cache keeps nothing.
func (p *ImageFolder) Cached(c *Cache) *ImageFolder {
	cached := *p
	cached.cache = c
	return &cached
}

// readCached is [ImageFolder.read] through the cache.
func (p *ImageFolder) readCached(i int, pixels []uint8, size int) (Size, error) {
	info, err := fs.Stat(p.tree, p.files[i])
	if err != nil {
		return p.read(i, pixels, size) // Which says what is wrong.
	}
	// The 2 is the version of decoding: PNGs are turned by their EXIF orientation since it.
	key := sha256.Sum256(fmt.Appendf(nil, "2 %q %q %d %d %d %s", p.dir, p.files[i], info.Size(), info.ModTime().UnixNano(), size, JPEGDecoder))
	file := filepath.Join(p.cache.dir, fmt.Sprintf("%x", key[:1]), fmt.Sprintf("%x", key[1:16]))
	if read, ok := readCacheFile(file, pixels, size); ok {
		return read, nil
	}
	read, err := p.read(i, pixels, size)
	if err == nil && !p.cache.full.Load() {
		p.cache.keep(file, cacheFile(pixels, size, read))
	}
	return read, err
}

// keep writes a file in place. A reader that meets half of it sees a wrong checksum.
func (c *Cache) keep(file string, content []byte) {
	err := cmp.Or(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, content, 0o666))
	if err != nil && c.full.CompareAndSwap(false, true) && c.warn != nil {
		c.warn(fmt.Sprintf("cache %s: nothing more is kept: %v", c.dir, Reason(err)))
	}
}

// cacheHeader is the number of bytes before the pixels: CRC-32C of what follows it, height, width.
const cacheHeader = 3 * 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// cacheFile returns the file of an image in the top left corner of a canvas: a header, then its rows.
func cacheFile(pixels []uint8, size int, image Size) []byte {
	content := make([]byte, 4, cacheHeader+3*image.Height*image.Width)
	content = binary.LittleEndian.AppendUint32(content, uint32(image.Height))
	content = binary.LittleEndian.AppendUint32(content, uint32(image.Width))
	for y := range image.Height {
		content = append(content, pixels[3*y*size:][:3*image.Width]...)
	}
	binary.LittleEndian.PutUint32(content, crc32.Checksum(content[4:], castagnoli))
	return content
}

// readCacheFile reads a file of [cacheFile] into a canvas. It is not ok if there is no file, or if the file is not whole.
func readCacheFile(file string, pixels []uint8, size int) (image Size, ok bool) {
	content, err := os.ReadFile(file)
	if err != nil || len(content) < cacheHeader || binary.LittleEndian.Uint32(content) != crc32.Checksum(content[4:], castagnoli) {
		return image, false
	}
	height, width := binary.LittleEndian.Uint32(content[4:]), binary.LittleEndian.Uint32(content[8:])
	if height < 1 || width < 1 || height > uint32(size) || width > uint32(size) || len(content) != cacheHeader+3*int(height)*int(width) {
		return image, false
	}
	image = Size{Height: int(height), Width: int(width)}
	for y, rows := 0, content[cacheHeader:]; y < image.Height; y, rows = y+1, rows[3*image.Width:] {
		clear(pixels[3*y*size+copy(pixels[3*y*size:], rows[:3*image.Width]) : 3*(y+1)*size])
	}
	clear(pixels[3*image.Height*size:])
	return image, true
}
