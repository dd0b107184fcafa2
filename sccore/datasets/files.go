// Package datasets reads images and their annotations. A reader takes a data folder with datasets in their official layouts and a split. It
// returns [Images], labelled and held in memory; [Segmentation], with a class for every pixel; [Instances], with annotated objects; [Videos],
// with object masks; or [ImageFolder], which needs no labels. [Loader] makes training batches. Each dataset has an Identity, which goes into
// the records of a run.
//
// Add a dataset with a class for every pixel to table.yaml, and one of another kind to available.go. Package synthetic draws synthetic data, package fetch downloads archives.
package datasets

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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

// readFile reads a regular file of at most maxFileBytes. Opening a pipe would wait for its writer.
func readFile(tree fs.FS, name string) ([]byte, error) {
	if info, err := fs.Stat(tree, name); err == nil && !info.Mode().IsRegular() {
		return nil, errNotRegular
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
		return nil, errEmpty
	case content.Len() > maxFileBytes:
		return nil, errTooLarge
	}
	return content.Bytes(), nil
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
		return fmt.Errorf("%s: %v", path, reason(err))
	}
	name, err := filepath.Rel(folder, path)
	d.add(name, info.Size())
	return err
}

// String returns the first 16 hexadecimal digits.
func (d fileDigest) String() string { return fmt.Sprintf("%x", d.Sum(nil)[:8]) }

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

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
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
