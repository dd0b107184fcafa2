package fetch

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"go.yaml.in/yaml/v2"
)

// Dataset is a dataset as its authors publish it.
type Dataset struct {
	Key, Name string
	Steps     string    // What a person has to do, in lines, if there are no archives. DATA is the data folder.
	Terms     string    // What is to be known of its use, with DATA likewise.
	Folders   []string  // Where package datasets finds it below the data folder. It is fetched to the first.
	Archives  []Archive // In this order.

	found func(dir string) []datasets.Status // Looks for its splits. Tests change it; nil for [datasets.Available].
}

// Bytes returns how many bytes there are to download.
func (d Dataset) Bytes() (bytes int64) {
	for _, a := range d.Archives {
		bytes += a.Size
	}
	return bytes
}

// Archive is a .zip, .tar or .tar.gz archive, or another file, on a server.
type Archive struct {
	Address  string
	Digest   string            // The published MD5 or SHA-256 digest, in hexadecimal digits; empty if none is published.
	Size     int64             // In bytes. An eighth more may be downloaded, or four times as many without a digest.
	Unpacked int64             // The disk that it takes, in bytes, rather too much. Twice as many may be unpacked.
	Take     map[string]string // Files and folders, and their places below the dataset's folder, "." for itself. A folder may be packed in a .zip of its name.
}

// Table lists the datasets: first those with archives, which [Datasets] fetches.
var Table = func() (table []Dataset) {
	if err := yaml.UnmarshalStrict(embedded, &table); err != nil {
		panic(err)
	}
	return table
}()

//go:embed table.yaml
var embedded []byte

// arrangements change the layout of archives to the layout that package datasets reads. They may run twice.
var arrangements = map[string]func(folder string) error{"tiny-imagenet": sortTinyImageNet}

// sortTinyImageNet makes class folders of the test images, which lie in one folder, and removes the boxes among the training images.
func sortTinyImageNet(folder string) error {
	boxes, err := filepath.Glob(filepath.Join(folder, "train", "*", "*_boxes.txt"))
	for _, file := range boxes {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return err
	}
	list := filepath.Join(folder, "val_annotations.txt")
	content, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		columns := strings.Fields(line) // The image, its class and a box.
		if len(columns) < 2 || !filepath.IsLocal(columns[0]) || !filepath.IsLocal(columns[1]) {
			return fmt.Errorf("%s: %.80q is no image and its class", list, line)
		}
		class := filepath.Join(folder, "test", columns[1])
		if err := os.MkdirAll(class, 0o777); err != nil {
			return err
		}
		err := os.Rename(filepath.Join(folder, "test", columns[0]), filepath.Join(class, columns[0]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // An interrupted call has moved it.
			return err
		}
	}
	return nil
}
