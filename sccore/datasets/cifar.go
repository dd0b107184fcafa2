package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
)

// CIFAR images are 32×32, stored as a red, a green and a blue plane with one byte per pixel, each row-major.
const (
	cifarSize  = 32
	cifarPlane = cifarSize * cifarSize
)

// cifar is the official binary layout of CIFAR-10 or CIFAR-100, an entry of table.yaml.
type cifar struct {
	Key        string             // Name on the command line and of the surrounding folder.
	Name       string             // Name in print.
	Folder     string             // Folder in the official archive.
	Python     string             // Folder in the archive of the Python version.
	Files      map[Split][]string // The batches, in official order.
	Official   map[Split]int      // Number of images.
	LabelBytes int                `yaml:"labels"` // Bytes of labels before the pixels of a record; the last one counts.
	NamesFile  string             `yaml:"names"`  // File with the names of the classes, one per line.
	Classes    []string           // The names if that file is missing.
}

// CIFAR10 reads a split of CIFAR-10 (Krizhevsky 2009) in its official binary version. dir is the folder of the batches,
// cifar-10-batches-bin, or a data folder that holds it, directly or below cifar10.
//
// Batches may be short or missing as long as one exists; [Images.Identity] says which were read and how many images they hold. The error for a missing dataset
// is an [fs.ErrNotExist]. Other errors name the file and, if there is one, the record: a file that does not hold whole records, or a label out of range.
func CIFAR10(dir string, split Split) (*Images, error) { return table().CIFAR[0].read(dir, split) }

// CIFAR100 reads a split of CIFAR-100 (Krizhevsky 2009) in its official binary version, with the 100 fine labels. dir is the folder
// cifar-100-binary or a data folder that holds it, directly or below cifar100. Otherwise it works as [CIFAR10] does.
func CIFAR100(dir string, split Split) (*Images, error) { return table().CIFAR[1].read(dir, split) }

func (c *cifar) read(dir string, split Split) (_ *Images, err error) {
	defer try.Handle(&err)
	folder, files, total := try.E3(c.find(dir, split))
	im := &Images{Name: c.Name, Height: cifarSize, Width: cifarSize}
	im.Classes = try.E1(c.classNames(folder))
	im.Pixels = make([]uint8, 0, total*im.imageBytes())
	im.Labels = make([]int32, 0, total)
	for _, name := range files {
		content, err := readFile(os.DirFS(folder), name)
		if err == nil {
			err = c.readRecords(im, content)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(folder, name), err)
		}
	}
	im.Identify(fmt.Sprintf("%s %s (%s)", c.Name, split, strings.Join(files, " ")))
	return im, nil
}

func (c *cifar) recordSize() int { return c.LabelBytes + 3*cifarPlane }

// locate returns the folder of the batches at or below dir.
func (c *cifar) locate(dir string) (_ string, err error) {
	defer try.Handle(&err)
	try.E(dataFolder(c.Name, dir))
	for _, folder := range []string{dir, filepath.Join(dir, c.Folder), filepath.Join(dir, c.Key, c.Folder)} {
		if slices.ContainsFunc(slices.Concat(c.Files[Train], c.Files[Test]), func(file string) bool { return exists(filepath.Join(folder, file)) }) {
			return folder, nil
		}
	}
	for _, folder := range []string{dir, filepath.Join(dir, c.Python), filepath.Join(dir, c.Key, c.Python)} {
		pickle := filepath.Join(folder, strings.TrimSuffix(c.Files[Train][0], ".bin"))
		// CIFAR-100's file is called train, and a user's class folders may be too.
		if info, err := os.Stat(pickle); err == nil && info.Mode().IsRegular() {
			return "", fmt.Errorf("%s belongs to the Python version of %s, want the binary version (\"semcon data fetch %s --data %s\" downloads it)",
				pickle, c.Name, c.Key, dir)
		}
	}
	return "", missingf("no %s in %s: %s/%s does not exist (\"semcon data fetch %s --data %s\" downloads it)", c.Name, dir, c.Key, c.Folder, c.Key, dir)
}

// find returns the folder, the names of the split's batches that exist, at least one, and the number of images in them, computed from the sizes of the files.
func (c *cifar) find(dir string, split Split) (folder string, files []string, total int, err error) {
	defer try.Handle(&err)
	folder = try.E1(c.locate(dir))
	try.E1(partOf(c.Name, split, "", ""))
	for _, name := range c.Files[split] {
		path := filepath.Join(folder, name)
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			err = Reason(err)
		case !info.Mode().IsRegular():
			err = errNotRegular
		case info.Size() == 0:
			err = errEmpty
		default:
			err = c.checkSize(int(info.Size()))
		}
		if err != nil {
			return folder, nil, 0, fmt.Errorf("%s: %w", path, err)
		}
		files, total = append(files, name), total+int(info.Size())/c.recordSize()
	}
	if len(files) == 0 {
		err = missingf("%s has no %s images: %s does not exist", c.Name, split, filepath.Join(folder, c.Files[split][0]))
	}
	return folder, files, total, err
}

// checkSize checks that a batch of so many bytes holds whole records.
func (c *cifar) checkSize(bytes int) error {
	size := c.recordSize()
	if bytes%size != 0 {
		return fmt.Errorf("%d stray bytes after %d records of %d bytes: truncated, or not a %s file", bytes%size, bytes/size, size, c.Name)
	}
	return nil
}

// classNames reads the names beside the batches, or returns the official ones if that file is missing.
func (c *cifar) classNames(folder string) (_ []string, err error) {
	defer try.Handle(&err)
	path := filepath.Join(folder, c.NamesFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return slices.Clone(c.Classes), nil
	}
	try.E(err)
	names := strings.Fields(string(text))
	if len(names) != len(c.Classes) {
		return nil, fmt.Errorf("%s: %d class names, want %d", path, len(names), len(c.Classes))
	}
	return names, nil
}

// readRecords appends the images of a batch.
func (c *cifar) readRecords(im *Images, batch []byte) (err error) {
	defer try.Handle(&err)
	try.E(c.checkSize(len(batch)))
	for i := 0; len(batch) > 0; i++ {
		label, planes := int32(batch[c.LabelBytes-1]), batch[c.LabelBytes:c.recordSize()]
		if int(label) >= len(c.Classes) {
			return fmt.Errorf("record %d has label %d, want 0 to %d", i, label, len(c.Classes)-1)
		}
		im.Labels = append(im.Labels, label)
		for p := range cifarPlane {
			im.Pixels = append(im.Pixels, planes[p], planes[cifarPlane+p], planes[2*cifarPlane+p])
		}
		batch = batch[c.recordSize():]
	}
	return nil
}
