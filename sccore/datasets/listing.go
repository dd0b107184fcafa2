package datasets

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

func readImage(tree fs.FS, name string, size int) ([]uint8, error) {
	content, err := readFile(tree, name)
	if err != nil {
		return nil, err
	}
	return decode(content, size)
}

// maxFileBytes and maxFolderDepth bound what a folder or an archive may ask for.
const (
	maxFileBytes   = 1 << 26 // 64 MiB for one image file.
	maxFolderDepth = 16
)

// readFile reads a file of at most maxFileBytes.
func readFile(tree fs.FS, name string) ([]byte, error) {
	file, err := tree.Open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	// The size spares copies. It is a hint, as pipes have none.
	var content bytes.Buffer
	if info, err := file.Stat(); err == nil && info.Size() <= maxFileBytes {
		content.Grow(int(info.Size()) + bytes.MinRead)
	}
	_, err = content.ReadFrom(io.LimitReader(file, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, reason(err)
	case content.Len() == 0:
		return nil, errors.New("is empty")
	case content.Len() > maxFileBytes:
		return nil, fmt.Errorf("is larger than %d MiB", maxFileBytes>>20)
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
		return nil, errors.New("no class folder contains a .jpg, .jpeg or .png file")
	}
	slices.Sort(names)
	return names, nil
}
