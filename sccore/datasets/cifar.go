package datasets

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CIFAR images are 32×32, stored as a red, a green and a blue plane with one byte per pixel, each row-major.
const (
	cifarSize  = 32
	cifarPlane = cifarSize * cifarSize
)

// cifar is the official binary layout of CIFAR-10 or CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html).
type cifar struct {
	key        string             // Name on the command line and of the surrounding folder.
	name       string             // Name in print.
	folder     string             // Folder in the official archive.
	python     string             // Folder in the archive of the Python version.
	files      map[Split][]string // The batches, in official order.
	official   map[Split]int      // Number of images.
	labelBytes int                // Bytes of labels before the pixels of a record; the last one counts.
	namesFile  string             // File with the names of the classes, one per line.
	classes    []string           // The names if that file is missing.
}

var cifar10 = &cifar{
	key: "cifar10", name: "CIFAR-10", folder: "cifar-10-batches-bin", python: "cifar-10-batches-py",
	files: map[Split][]string{
		Train: {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
		Test:  {"test_batch.bin"},
	},
	official:   map[Split]int{Train: 50000, Test: 10000},
	labelBytes: 1,
	namesFile:  "batches.meta.txt",
	classes:    strings.Fields("airplane automobile bird cat deer dog frog horse ship truck"),
}

var cifar100 = &cifar{
	key: "cifar100", name: "CIFAR-100", folder: "cifar-100-binary", python: "cifar-100-python",
	files:      map[Split][]string{Train: {"train.bin"}, Test: {"test.bin"}},
	official:   map[Split]int{Train: 50000, Test: 10000},
	labelBytes: 2, // The coarse label, then the fine one.
	namesFile:  "fine_label_names.txt",
	classes: strings.Fields(`apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
		castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish forest
		fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse
		mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
		road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
		telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm`),
}

// CIFAR10 reads a split of CIFAR-10 (Krizhevsky 2009) in its official binary version. dir is the folder of the batches,
// cifar-10-batches-bin, or a data folder that holds it, directly or below cifar10.
//
// Batches may be short or missing as long as one exists; [Images.Identity] says which were read and how many images they hold. The error for
// a missing dataset is an [fs.ErrNotExist]. Other errors name the file and, if there is one, the record: a file that does not hold whole
// records, or a label out of range.
func CIFAR10(dir string, split Split) (*Images, error) { return cifar10.read(dir, split) }

// CIFAR100 reads a split of CIFAR-100 (Krizhevsky 2009) in its official binary version, with the 100 fine labels. dir is the folder
// cifar-100-binary or a data folder that holds it, directly or below cifar100. Otherwise it works as [CIFAR10] does.
func CIFAR100(dir string, split Split) (*Images, error) { return cifar100.read(dir, split) }

func (c *cifar) read(dir string, split Split) (*Images, error) {
	folder, err := c.locate(dir)
	if err != nil {
		return nil, err
	}
	files, err := c.present(folder, split)
	if err != nil {
		return nil, err
	}
	im := &Images{Name: c.name, Height: cifarSize, Width: cifarSize}
	if im.Classes, err = c.classNames(folder); err != nil {
		return nil, err
	}
	total, err := c.count(folder, files)
	if err != nil {
		return nil, err
	}
	im.Pixels = make([]uint8, 0, total*im.imageBytes())
	im.Labels = make([]int32, 0, total)
	for _, file := range files {
		if err := c.readBatch(im, filepath.Join(folder, file)); err != nil {
			return nil, err
		}
	}
	im.Identify(fmt.Sprintf("%s %s (%s)", c.name, split, strings.Join(files, " ")))
	return im, nil
}

func (c *cifar) recordSize() int { return c.labelBytes + 3*cifarPlane }

// locate returns the folder of the batches at or below dir.
func (c *cifar) locate(dir string) (string, error) {
	if err := dataFolder(c.name, dir); err != nil {
		return "", err
	}
	for _, folder := range []string{dir, filepath.Join(dir, c.folder), filepath.Join(dir, c.key, c.folder)} {
		for _, file := range slices.Concat(c.files[Train], c.files[Test]) {
			if exists(filepath.Join(folder, file)) {
				return folder, nil
			}
		}
	}
	for _, folder := range []string{dir, filepath.Join(dir, c.python), filepath.Join(dir, c.key, c.python)} {
		pickle := filepath.Join(folder, strings.TrimSuffix(c.files[Train][0], ".bin"))
		// CIFAR-100's file is called train, and a user's class folders may be too.
		if info, err := os.Stat(pickle); err == nil && info.Mode().IsRegular() {
			return "", fmt.Errorf("%s belongs to the Python version of %s, want the binary version (\"semcon data fetch %s --data %s\" downloads it)",
				pickle, c.name, c.key, dir)
		}
	}
	return "", missingf("no %s in %s: %s/%s does not exist (\"semcon data fetch %s --data %s\" downloads it)", c.name, dir, c.key, c.folder, c.key, dir)
}

// present returns the names of the split's batches that exist in the folder. There is at least one.
func (c *cifar) present(folder string, split Split) ([]string, error) {
	if _, err := partOf(c.name, split, "", ""); err != nil {
		return nil, err
	}
	var files []string
	for _, file := range c.files[split] {
		if exists(filepath.Join(folder, file)) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, missingf("%s has no %s images: %s does not exist", c.name, split, filepath.Join(folder, c.files[split][0]))
	}
	return files, nil
}

// count returns the number of images in the batches, computed from the sizes of the files.
func (c *cifar) count(folder string, files []string) (total int, err error) {
	for _, file := range files {
		path := filepath.Join(folder, file)
		info, err := os.Stat(path)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, reason(err))
		} else if !info.Mode().IsRegular() {
			return 0, fmt.Errorf("%s: is not a regular file", path)
		} else if info.Size() == 0 {
			return 0, fmt.Errorf("%s: is empty", path)
		}
		whole, stray := int(info.Size())/c.recordSize(), int(info.Size())%c.recordSize()
		if stray != 0 {
			return 0, fmt.Errorf("%s: %w", path, c.strayBytes(stray, whole))
		}
		total += whole
	}
	return total, nil
}

func (c *cifar) strayBytes(stray, whole int) error {
	return fmt.Errorf("%d stray bytes after %d records of %d bytes: truncated, or not a %s file", stray, whole, c.recordSize(), c.name)
}

// classNames reads the names beside the batches, or returns the official ones if that file is missing.
func (c *cifar) classNames(folder string) ([]string, error) {
	path := filepath.Join(folder, c.namesFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return slices.Clone(c.classes), nil
	} else if err != nil {
		return nil, err
	}
	names := strings.Fields(string(text))
	if len(names) != len(c.classes) {
		return nil, fmt.Errorf("%s: %d class names, want %d", path, len(names), len(c.classes))
	}
	return names, nil
}

// readBatch appends the images of one file.
func (c *cifar) readBatch(im *Images, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := c.readRecords(im, bufio.NewReaderSize(file, 1<<20)); err != nil {
		return fmt.Errorf("%s: %w", path, reason(err))
	}
	return nil
}

// readRecords appends the images of a stream of records.
func (c *cifar) readRecords(im *Images, r io.Reader) error {
	record := make([]byte, c.recordSize())
	for i := 0; ; i++ {
		n, err := io.ReadFull(r, record)
		switch {
		case err == io.EOF:
			return nil
		case err == io.ErrUnexpectedEOF:
			return c.strayBytes(n, i)
		case err != nil:
			return err
		}
		label := int32(record[c.labelBytes-1])
		if int(label) >= len(c.classes) {
			return fmt.Errorf("record %d has label %d, want 0 to %d", i, label, len(c.classes)-1)
		}
		im.Labels = append(im.Labels, label)
		planes := record[c.labelBytes:]
		for p := range cifarPlane {
			im.Pixels = append(im.Pixels, planes[p], planes[cifarPlane+p], planes[2*cifarPlane+p])
		}
	}
}
