// Package datasets reads images and their annotations. A reader takes a data folder with datasets in their official layouts and a split. It returns [Images],
// labelled and held in memory; [Segmentation], with a class for every pixel; [Instances], with annotated objects; [Videos], with object masks; or
// [ImageFolder], which needs no labels. [Loader] makes training batches. Each dataset has an Identity, which goes into the records of a run.
//
// Add a dataset with a class for every pixel to table.yaml, and one of another kind to available.go. Package synthetic draws synthetic data, package fetch downloads archives.
package datasets

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
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

// What keeps a file from being read.
var (
	errTooLarge   = fmt.Errorf("is larger than %d MiB", maxFileBytes>>20)
	errNotRegular = errors.New("is not a regular file")
	errEmpty      = errors.New("is empty")
)

// readFile reads a regular file whose stated size is at most maxFileBytes. Opening a pipe would wait for its writer.
func readFile(tree fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(tree, name)
	switch {
	case err != nil:
		return nil, Reason(err)
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > maxFileBytes:
		return nil, errTooLarge
	case info.Size() == 0:
		return nil, errEmpty
	}
	content, err := fs.ReadFile(tree, name)
	return content, Reason(err)
}

// fileDigest identifies files by their names and sizes.
type fileDigest struct{ hash.Hash }

func newFileDigest() fileDigest { return fileDigest{sha256.New()} }

func (d fileDigest) add(name string, size int64) {
	fmt.Fprintf(d, "%q %d\n", filepath.ToSlash(name), size)
}

// addFile adds a file below a folder. Its error is no [fs.ErrNotExist]: an incomplete dataset is not a missing one.
func (d fileDigest) addFile(folder, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%s: %v", path, Reason(err))
	}
	name, err := filepath.Rel(folder, path)
	d.add(name, info.Size())
	return err
}

// String returns the first 16 hexadecimal digits.
func (d fileDigest) String() string { return fmt.Sprintf("%x", d.Sum(nil)[:8]) }

// Size is the height and width of an image in pixels, each at least 1. Images of different sizes share a batch by padding at the right and at the bottom.
type Size struct{ Height, Width int }

// checkFolder checks that a folder is there. The error begins with what it is.
func checkFolder(what, dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("%s %s: %w", what, dir, Reason(err))
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
// /SegmentationClass/NAME.png, which have one name. Names of videos may have spaces.
func readList(list string, videos bool) ([]string, error) {
	one, many := "an image, nor the paths of an image and its mask", "images"
	if videos {
		one, many = "a folder", "videos"
	}
	return loadPath(list, func(text []byte) (names []string, err error) {
		for i, line := range strings.Split(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
			line = strings.TrimSpace(line)
			name, fields := line, strings.Fields(line)
			switch {
			case line == "":
				continue
			case !videos && len(fields) > 1:
				stem := func(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }
				name = stem(fields[0])
				if len(fields) > 2 || name != stem(fields[1]) || slices.Contains(fields, name) {
					name = ""
				}
			}
			if !isName(name) {
				return nil, fmt.Errorf("line %d: %.80q is not the name of %s", i+1, line, one)
			}
			names = append(names, name)
		}
		if len(names) == 0 {
			return nil, errors.New("lists no " + many)
		}
		return names, nil
	})
}

// isName says that a text from a file is the name of a file, and leads nowhere else.
func isName(text string) bool {
	return text != "" && filepath.Base(text) == text && text != "." && text != ".."
}

// IsFolder reports whether there is a folder at a path.
func IsFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Reason strips the path from an error; the caller names the path.
func Reason(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// Missing is the error for data that does not exist, as opposed to damaged data. It is an [fs.ErrNotExist].
type Missing string

func missingf(format string, args ...any) error { return Missing(fmt.Sprintf(format, args...)) }

// Error says what is missing.
func (m Missing) Error() string { return string(m) }

// Is reports whether the target is [fs.ErrNotExist].
func (Missing) Is(target error) bool { return target == fs.ErrNotExist }

// FindImages returns the paths of the images that inputs name, in their order. An input is an image file, a folder, whose images count at any depth, a pattern of
// [filepath.Glob] of both, a file that lists paths, one a line, or "-" for such a list on standard input. Hidden files do not count. Files of folders and
// patterns that are no images are skipped, as are folders of patterns without images. An image need not be there: whoever reads it says so. The error is one line that names the input.
func FindImages(inputs ...string) (paths []string, skipped []Skipped, err error) {
	defer try.Handle(&err)
	for _, input := range inputs {
		info, err := os.Stat(input)
		matches, _ := filepath.Glob(input)
		switch {
		case input == "-" || err == nil && !info.IsDir() && !isImageName(input) && isText(input, info):
			listed := try.E1(listedPaths(input))
			paths = append(paths, listed...)
		case err != nil && len(matches) > 0 && !slices.Equal(matches, []string{input}): // A broken link matches itself.
			for _, match := range matches {
				info, err := os.Stat(match)
				switch {
				case strings.HasPrefix(filepath.Base(match), "."):
				case err != nil:
					skipped = append(skipped, Skipped{match, Reason(err).Error()})
				case !info.IsDir() && !isImageName(match):
					skipped = append(skipped, Skipped{match, notImage})
				default:
					found, others, err := FindImages(match)
					if errors.Is(err, errNoImages) {
						others, err = []Skipped{{match, errNoImages.Error()}}, nil
					}
					try.E(err)
					paths, skipped = append(paths, found...), append(skipped, others...)
				}
			}
		case err != nil && !isImageName(input):
			return nil, nil, fmt.Errorf("%s: %w", input, Reason(err))
		case err == nil && info.IsDir():
			folder := try.E1(OpenImageFolder(input))
			paths = append(paths, lo.Map(folder.files, func(file string, _ int) string { return filepath.Join(input, filepath.FromSlash(file)) })...)
			skipped = append(skipped, lo.Map(folder.Skipped, func(s Skipped, _ int) Skipped { return Skipped{filepath.Join(input, s.File), s.Reason} })...)
		default: // Whoever reads it says whether it is there.
			paths = append(paths, input)
		}
	}
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("%s: no .jpg, .jpeg or .png file", strings.Join(inputs, ", "))
	}
	return paths, skipped, nil
}

// OpenImages opens the images that inputs name, as [FindImages] takes them, each once. A single folder is opened as by [OpenImageFolder]. Several inputs have
// as their folder the deepest one that holds all images, so that the folders of classes can be the inputs.
func OpenImages(inputs ...string) (_ *ImageFolder, err error) {
	defer try.Handle(&err)
	if len(inputs) == 1 && IsFolder(inputs[0]) {
		return OpenImageFolder(inputs[0])
	}
	paths, skipped := try.E2(FindImages(inputs...))
	sizes := map[string]int64{} // Of the absolute paths.
	for _, file := range paths {
		absolute := try.E1(filepath.Abs(file))
		if info, err := os.Stat(absolute); err != nil {
			skipped = append(skipped, Skipped{file, Reason(err).Error()})
		} else {
			sizes[absolute] = info.Size()
		}
	}
	if len(sizes) == 0 {
		return nil, fmt.Errorf("%s: none of the images is there, such as %s", strings.Join(inputs, ", "), paths[0])
	}
	paths = slices.Sorted(maps.Keys(sizes))
	folder := filepath.Dir(paths[0])
	for _, file := range []string{paths[0], paths[len(paths)-1]} { // What the first and the last share, all do.
		for !strings.HasPrefix(file, strings.TrimSuffix(folder, string(filepath.Separator))+string(filepath.Separator)) {
			folder = filepath.Dir(folder)
		}
	}
	p := &ImageFolder{Name: filepath.Base(folder), Skipped: skipped, dir: folder, tree: os.DirFS(folder), digest: newFileDigest()}
	for _, file := range paths {
		name := try.E1(filepath.Rel(folder, file))
		p.files = append(p.files, filepath.ToSlash(name))
		p.digest.add(name, sizes[file])
	}
	p.identify()
	return p, nil
}

// isImageName reports whether a name has the ending of an image that can be read.
func isImageName(name string) bool {
	return slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(path.Ext(name)))
}

// notImage is why a file of a folder is skipped.
const notImage = "is neither .jpg, .jpeg nor .png"

// isText reports whether a file can be a list: the beginnings of images, of all kinds, have zeros. What comes from a pipe can only be read once, and is a list.
func isText(name string, info fs.FileInfo) bool {
	if filepath.Ext(name) == ".txt" || !info.Mode().IsRegular() {
		return true
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	head, err := io.ReadAll(io.LimitReader(file, 512))
	return err == nil && bytes.IndexByte(head, 0) < 0
}

// listedPaths reads the paths in a file or, for "-", on standard input.
func listedPaths(input string) (paths []string, err error) {
	file, name := os.Stdin, "standard input"
	if input != "-" {
		name = input
		if file, err = os.Open(input); err == nil {
			defer file.Close()
		}
	}
	if err == nil {
		paths, err = readPaths(file)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, Reason(err))
	}
	return paths, err
}

// maxPaths bounds the number of images in a list, and maxPath the length of a line.
const maxPaths, maxPath = 1 << 25, 1 << 12

// readPaths reads paths, one a line. Empty lines do not count.
func readPaths(r io.Reader) (paths []string, err error) {
	const want = "want a list of the paths of images, one a line"
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxPath)
	number := 1
	for ; lines.Scan(); number++ {
		path := strings.TrimPrefix(strings.TrimSuffix(lines.Text(), "\r"), "\ufeff") // Windows writes a mark of byte order.
		if path == "" {
			continue
		}
		if paths = append(paths, path); len(paths) > maxPaths {
			return nil, fmt.Errorf("lists more than %d images", maxPaths)
		}
		if strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("line %d is not a path: %s", number, want)
		}
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("line %d: %w: %s", number, lines.Err(), want)
	}
	if len(paths) == 0 {
		return nil, errors.New("lists no images")
	}
	return paths, nil
}
