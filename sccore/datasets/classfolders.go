package datasets

import (
	"archive/zip"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/internal/panics"
)

// FindClassFolders reports whether dir holds labelled images in the layout of [ReadFolder]: the folders train and test, or
// the archives train.zip and test.zip. ext is what follows the split's name: "" or ".zip".
func FindClassFolders(dir string) (ext string, ok bool) {
	for _, ext := range []string{"", ".zip"} {
		found := 0
		for _, split := range []Split{Train, Test} {
			if info, err := os.Stat(filepath.Join(dir, string(split)+ext)); err == nil && info.IsDir() == (ext == "") {
				found++
			}
		}
		if found == 2 {
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
		return nil, fmt.Errorf("%s %s: %w", kind, path, reason(err))
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
	root := ""
	if archive != "" {
		root = found.root(archive)
	}
	classes := try.E1(found.classes(root))
	im := &Images{Height: size, Width: size, Classes: classes, Skipped: found.Skipped}
	im.Pixels = make([]uint8, len(found.files)*im.imageBytes())
	faults := make([]error, len(found.files))
	err = EachImage(context.Background(), len(found.files), workers, func(i int) error {
		faults[i] = panics.Catch(func() error {
			content, err := readFile(tree, found.files[i])
			if err != nil {
				return err
			}
			pixels, err := decode(content, size)
			copy(im.Pixels[i*im.imageBytes():], pixels)
			return err
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
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
