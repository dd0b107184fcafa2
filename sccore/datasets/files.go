// Package datasets reads images and their annotations. A reader takes a data folder with datasets in their official layouts and a split. It
// returns [Images], labelled and held in memory; [Segmentation], with a class for every pixel; [Instances], with annotated objects; [Videos],
// with object masks; or [ImageFolder], which needs no labels. [Loader] makes training batches. Each dataset has an Identity, which goes into
// the records of a run.
//
// Add a dataset with a class for every pixel to layouts.go, and one of another kind to available.go. Package synthetic draws synthetic data, package fetch downloads archives.
package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxFileBytes and maxFolderDepth bound what a folder or an archive may ask for.
const (
	maxFileBytes   = 1 << 28 // 256 MiB for one image file.
	maxFolderDepth = 16
)

// load reads a file below a folder and decodes it. The error begins with the label.
func load[T any](tree fs.FS, name, label string, decode func(content []byte) (T, error)) (value T, err error) {
	content, err := readFile(tree, name)
	if err == nil {
		value, err = decode(content)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", label, err)
	}
	return value, err
}

// loadPath is load of a file by its path, which is the label.
func loadPath[T any](path string, decode func(content []byte) (T, error)) (T, error) {
	return load(os.DirFS(filepath.Dir(path)), filepath.Base(path), path, decode)
}

var errTooLarge = fmt.Errorf("is larger than %d MiB", maxFileBytes>>20)

// readFile reads a regular file of at most maxFileBytes. Opening a pipe would wait for its writer.
func readFile(tree fs.FS, name string) ([]byte, error) {
	if info, err := fs.Stat(tree, name); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	file, err := tree.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	// The size spares copies. It is a hint, as pipes have none.
	var content bytes.Buffer
	if info, err := file.Stat(); err == nil && info.Size() > maxFileBytes {
		return nil, errTooLarge
	} else if err == nil {
		content.Grow(int(info.Size()) + bytes.MinRead)
	}
	_, err = content.ReadFrom(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, reason(err)
	case content.Len() == 0:
		return nil, errors.New("is empty")
	case content.Len() > maxFileBytes:
		return nil, errTooLarge
	}
	return content.Bytes(), nil
}

// listing holds the files of a folder tree, sorted by path.
type listing struct {
	images []string
	bytes  []int64 // Size of each image file.
	others []Skipped
}

// add lists a folder and its subfolders. It follows symbolic links, and skips what it cannot use: broken links, links back to a folder above, pipes,
// folders without permission.
func (l *listing) add(tree fs.FS, folder string, above ...fs.FileInfo) error {
	itself, err := fs.Stat(tree, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, reason(err))
	}
	entries, err := fs.ReadDir(tree, folder)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, reason(err))
	}
	above = append(above[:len(above):len(above)], itself)
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "__MACOSX" {
			continue
		}
		skip := func(why string) { l.others = append(l.others, Skipped{strings.ToValidUTF8(name, "\uFFFD"), why}) }
		info, err := fs.Stat(tree, name)
		switch {
		case !utf8.ValidString(name):
			skip("its name is not UTF-8")
		case err != nil:
			skip(reason(err).Error())
		case info.IsDir() && slices.ContainsFunc(above, func(other fs.FileInfo) bool { return os.SameFile(info, other) }):
			skip("links back to a folder above it")
		case info.IsDir() && len(above) > maxFolderDepth:
			skip(fmt.Sprintf("is more than %d folders deep", maxFolderDepth))
		case info.IsDir():
			if err := l.add(tree, name, above...); errors.Is(err, fs.ErrPermission) {
				skip(errors.Unwrap(err).Error())
			} else if err != nil {
				return err
			}
		case !info.Mode().IsRegular():
			skip("is not a regular file")
		case isImageName(name):
			l.images = append(l.images, name)
			l.bytes = append(l.bytes, info.Size())
		default:
			l.others = append(l.others, Skipped{name, notImage})
		}
	}
	return nil
}

// classOfFile is the class of an image: the folder of the first level that it lies in, as in torchvision's ImageFolder; "." for none.
func classOfFile(name string) string {
	class, _, below := strings.Cut(name, "/")
	if !below {
		return "."
	}
	return class
}

// root returns the one folder that holds everything in an archive of a name, as archivers add it, with a slash at the end; "" for none. It is called like the
// archive or like a split. Another one is a class.
func (l *listing) root(archive string) string {
	if len(l.images) == 0 {
		return ""
	}
	root := classOfFile(l.images[0]) + "/"
	if !slices.Contains(append(splitNames, strings.TrimSuffix(archive, path.Ext(archive))), strings.TrimSuffix(root, "/")) {
		return ""
	}
	for _, name := range l.images {
		if below, ok := strings.CutPrefix(name, root); !ok || classOfFile(below) == "." {
			return ""
		}
	}
	return root
}

// splitNames are the names of folders that hold class folders.
var splitNames = []string{"train", "test", "val"}

// classes returns the sorted names of the class folders that hold images, below a root of [listing.root].
func (l *listing) classes(root string) (names []string, err error) {
	splits := 0
	for _, name := range l.images {
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

// Size is the height and width of an image in pixels, each at least 1. Images of different sizes share a batch by padding at the right and
// at the bottom.
type Size struct{ Height, Width int }

// checkFolder checks that a folder is there. The error begins with what it is.
func checkFolder(what, dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%s %s: %w", what, dir, reason(err))
	} else if !info.IsDir() {
		return fmt.Errorf("%s %s: is a file", what, dir)
	}
	return nil
}

// dataFolder checks that there is a data folder.
func dataFolder(name, dir string) error {
	if dir == "" {
		return missingf("%s needs a data folder (--data DIR or SEMCON_DATA)", name)
	}
	return checkFolder("data folder", dir)
}

// partOf returns what a dataset calls a split.
func partOf(name string, split Split, train, test string) (string, error) {
	switch split {
	case Train:
		return train, nil
	case Test:
		return test, nil
	}
	return "", fmt.Errorf("%s has no split %q, only %q and %q", name, split, Train, Test)
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

// isName says that a text from a file is the name of a file, and leads nowhere else.
func isName(text string) bool {
	return text != "" && filepath.Base(text) == text && text != "." && text != ".."
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// reason strips the path from an error; the caller names the path.
func reason(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// missing is the error for data that does not exist, as opposed to damaged data. It is an [fs.ErrNotExist].
type missing string

func missingf(format string, args ...any) error { return missing(fmt.Sprintf(format, args...)) }

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == fs.ErrNotExist }
