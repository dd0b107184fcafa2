package datasets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Bounds on what a folder or an archive may ask for.
const (
	maxFileBytes   = 1 << 26 // 64 MiB an image file.
	maxFolderDepth = 16      // Symbolic links may lead in circles.
)

// Broken says what becomes of an image file that cannot be read.
type Broken int

const (
	FailOnBroken Broken = iota // The reader stops with an error that names the file.
	SkipBroken                 // The file is left out and listed in [Images.Skipped].
)

// ReadFolder reads class folders of JPEG and PNG images: the class of an image is the name of the folder that it lies in, at any depth
// below dir, and labels count the classes in the order of their names. Images come in the order of their paths, as size×size pixels:
// the largest square about the centre, upright by a JPEG's EXIF orientation, resampled bicubically unless it has that size already.
//
// Hidden files are passed over; other files that are no images are listed in [Images.Skipped]. The error is one line that names the
// file or folder at fault: no images, an image outside class folders, a class in two folders, an unreadable image (see [Broken]).
func ReadFolder(dir string, size int, broken Broken) (*Images, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, reason(err))
	} else if !info.IsDir() {
		return nil, fmt.Errorf("image folder %s: is a file", dir)
	}
	im, err := readClasses(os.DirFS(dir), size, broken, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, fmt.Errorf("image folder %s: %w", dir, err)
	}
	im.Name = filepath.Base(dir)
	im.Identify("folder " + im.Name)
	return im, nil
}

// readClasses reads a tree of class folders, the same whatever the number of workers.
func readClasses(tree fs.FS, size int, broken Broken, workers int) (*Images, error) {
	if size < 1 {
		return nil, fmt.Errorf("image size %d, want at least 1 pixel", size)
	}
	var found listing
	if err := found.add(tree, ".", 0); err != nil {
		return nil, err
	}
	classes, err := found.classes()
	if err != nil {
		return nil, err
	}
	im := &Images{Height: size, Width: size, Classes: classes, Skipped: found.others}
	im.Pixels = make([]uint8, len(found.images)*im.imageBytes())
	faults := im.decodeAll(tree, found.images, broken, workers)

	// What was skipped leaves a gap, which the next image fills.
	for i, name := range found.images {
		if faults[i] != nil && broken == FailOnBroken {
			return nil, fmt.Errorf("%s: %w", name, faults[i])
		} else if faults[i] != nil {
			im.Skipped = append(im.Skipped, Skipped{name, faults[i].Error()})
			continue
		}
		label, _ := slices.BinarySearch(classes, path.Base(path.Dir(name)))
		copy(im.Pixels[im.Len()*im.imageBytes():], im.Pixels[i*im.imageBytes():(i+1)*im.imageBytes()])
		im.Labels = append(im.Labels, int32(label))
	}
	im.Pixels = im.Pixels[:im.Len()*im.imageBytes()]
	slices.SortFunc(im.Skipped, func(a, b Skipped) int { return strings.Compare(a.File, b.File) })
	if im.Len() == 0 {
		return nil, fmt.Errorf("no image can be read: %s: %s", im.Skipped[0].File, im.Skipped[0].Reason)
	}
	return im, nil
}

// decodeAll fills Pixels, and returns what is wrong with each image. Unless broken ones are skipped, no image behind the first broken
// one needs to have been read.
func (im *Images) decodeAll(tree fs.FS, names []string, broken Broken, workers int) []error {
	faults := make([]error, len(names))
	var next atomic.Int64
	var stop atomic.Bool
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			// Workers take images in order, so all those before a broken one are taken, and the first broken one is always found.
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(names) {
					return
				}
				var pixels []uint8
				if pixels, faults[i] = readImage(tree, names[i], im.Height); faults[i] == nil {
					copy(im.Pixels[i*len(pixels):], pixels)
				} else if broken == FailOnBroken {
					stop.Store(true)
				}
			}
		})
	}
	wait.Wait()
	return faults
}

func readImage(tree fs.FS, name string, size int) ([]uint8, error) {
	content, err := readFile(tree, name)
	if err != nil {
		return nil, err
	}
	return decode(content, size)
}

// readFile reads an image file of a permitted size.
func readFile(tree fs.FS, name string) ([]byte, error) {
	file, err := tree.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, reason(err)
	case len(content) == 0:
		return nil, errors.New("is empty")
	case len(content) > maxFileBytes:
		return nil, fmt.Errorf("is larger than %d MiB", maxFileBytes>>20)
	}
	return content, nil
}

// listing is what lies in a tree of class folders, by path.
type listing struct {
	images []string
	bytes  []int64 // The size of each image's file.
	others []Skipped
}

// add lists a folder and those below it, and follows symbolic links.
func (l *listing) add(tree fs.FS, folder string, depth int) error {
	if depth > maxFolderDepth {
		return fmt.Errorf("%s: is more than %d folders deep", folder, maxFolderDepth)
	}
	entries, err := fs.ReadDir(tree, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, reason(err))
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__MACOSX" {
			continue
		}
		info, err := fs.Stat(tree, name)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, reason(err))
		case info.IsDir():
			if err := l.add(tree, name, depth+1); err != nil {
				return err
			}
		case slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(path.Ext(name))):
			l.images = append(l.images, name)
			l.bytes = append(l.bytes, info.Size())
		default:
			l.others = append(l.others, Skipped{name, "is neither .jpg, .jpeg nor .png"})
		}
	}
	return nil
}

// classes returns the sorted names of the folders that hold images.
func (l *listing) classes() ([]string, error) {
	folders := map[string]string{}
	var names []string
	for _, name := range l.images {
		folder := path.Dir(name)
		class := path.Base(folder)
		first, known := folders[class]
		switch {
		case folder == ".":
			return nil, fmt.Errorf("%s: lies outside the class folders", name)
		case known && first != folder:
			return nil, fmt.Errorf("class %q has two folders, %s and %s", class, first, folder)
		case !known:
			folders[class] = folder
			names = append(names, class)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no class folder with a .jpg, .jpeg or .png in it")
	}
	slices.Sort(names)
	return names, nil
}
