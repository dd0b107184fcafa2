package datasets

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
)

// FindImages returns the paths of the images that inputs name, in their order. An input is an image file, a folder, whose images count at any depth, a pattern of
// [filepath.Glob] of both, a file that lists paths, one a line, or "-" for such a list on standard input. Hidden files do not count. Files of folders and
// patterns that are no images are skipped. An image need not be there: whoever reads it says so. The error is one line that names the input.
func FindImages(inputs ...string) (paths []string, skipped []Skipped, err error) {
	defer try.Handle(&err)
	for _, input := range inputs {
		info, err := os.Stat(input)
		matches, _ := filepath.Glob(input)
		switch {
		case input == "-" || err == nil && !info.IsDir() && !isImageName(input) && isText(input):
			listed := try.E1(listedPaths(input))
			paths = append(paths, listed...)
		case err != nil && len(matches) > 0:
			for _, match := range matches {
				if strings.HasPrefix(filepath.Base(match), ".") {
					continue
				}
				if info, err := os.Stat(match); err == nil && !info.IsDir() && !isImageName(match) {
					skipped = append(skipped, Skipped{match, notImage})
					continue
				}
				found, others := try.E2(FindImages(match))
				paths, skipped = append(paths, found...), append(skipped, others...)
			}
		case err != nil && !isImageName(input):
			return nil, nil, fmt.Errorf("%s: %w", input, reason(err))
		case err == nil && info.IsDir():
			folder := try.E1(OpenImageFolder(input))
			for _, file := range folder.files {
				paths = append(paths, filepath.Join(input, filepath.FromSlash(file)))
			}
			skipped = append(skipped, folder.Skipped...)
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
	if info, err := os.Stat(inputs[0]); len(inputs) == 1 && err == nil && info.IsDir() {
		return OpenImageFolder(inputs[0])
	}
	paths, skipped := try.E2(FindImages(inputs...))
	sizes := map[string]int64{} // Of the absolute paths.
	for _, file := range paths {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, reason(err))
		}
		if info, err := os.Stat(absolute); err != nil {
			skipped = append(skipped, Skipped{file, reason(err).Error()})
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

// isText reports whether a file can be a list: the beginnings of images, of all kinds, have zeros.
func isText(name string) bool {
	if filepath.Ext(name) == ".txt" {
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
		err = fmt.Errorf("%s: %w", name, reason(err))
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
	for lines.Scan() {
		path := strings.TrimPrefix(strings.TrimSuffix(lines.Text(), "\r"), "\ufeff") // Windows writes a mark of byte order.
		if path == "" {
			continue
		}
		if paths = append(paths, path); len(paths) > maxPaths {
			return nil, fmt.Errorf("lists more than %d images", maxPaths)
		}
		if strings.ContainsRune(path, 0) {
			return nil, fmt.Errorf("line %d is not a path: %s", len(paths), want)
		}
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("line %d: %w: %s", len(paths)+1, lines.Err(), want)
	}
	if len(paths) == 0 {
		return nil, errors.New("lists no images")
	}
	return paths, nil
}
