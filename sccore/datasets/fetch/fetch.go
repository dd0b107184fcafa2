// Package fetch downloads datasets into a data folder, in their official layouts, where package datasets reads them. An interrupted download or unpacking
// goes on, and a dataset's folder appears only when it is complete.
//
// To add a dataset, add an entry to table.yaml, with the digests that its authors publish.
package fetch

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/datasets"
	"go.yaml.in/yaml/v2"
)

// Options are the settings of [Datasets]. The zero value downloads from the official places and reports nothing.
type Options struct {
	BaseURL  string                               // Folder of a mirror that has all archives; the official places if empty.
	Say      func(line string)                    // Receives what is fetched from where, terms, sizes, and digests that are recorded. Nil for nothing.
	Progress func(what string, done, total int64) // Called as bytes arrive or are unpacked; total is 0 if it is not known. Nil for nothing.
}

// Datasets downloads the archives of datasets, by their keys in [Table], checks them against the published digests, and unpacks them below dir, where package
// datasets finds them. What is there stays, and only what is missing is downloaded. A dataset that is a part of the official one is an error.
//
// It first says what it does, and does nothing unless all of it fits on the disk. After an interruption the next call goes on, if the server supports it. A
// dataset's folder appears only when it is complete; until then all is in KEY.partial. An archive with a wrong digest is removed. If no digest is published,
// fetched.sha256 records the digest of the first download, and later ones must have the same. The error is one line that names the address or the file.
func Datasets(ctx context.Context, dir string, options Options, keys ...string) error {
	var wanted []Dataset
	for _, key := range keys {
		i := slices.IndexFunc(Table, func(d Dataset) bool { return d.Key == key && d.Archives != nil })
		if i < 0 {
			return fmt.Errorf("cannot fetch dataset %q", key)
		}
		wanted = append(wanted, Table[i])
	}
	return fetchAll(ctx, dir, options, wanted...)
}

func fetchAll(ctx context.Context, dir string, options Options, wanted ...Dataset) (err error) {
	defer try.Handle(&err)
	if options.Say == nil {
		options.Say = func(string) {}
	}
	if options.Progress == nil {
		options.Progress = func(string, int64, int64) {}
	}
	var lacking []Dataset
	var needed, largest int64
	for _, d := range wanted {
		if dir == "" {
			return fmt.Errorf("%s needs a data folder", d.Name)
		}
		folder, missing := try.E2(d.lacks(dir))
		if len(missing) == 0 {
			continue
		}
		lacking = append(lacking, d)
		options.Say(fmt.Sprintf("%s: %s, into %s", d.Key, d.Name, folder))
		if d.Terms != "" {
			options.Say("  terms: " + strings.ReplaceAll(d.Terms, "DATA", dir))
		}
		staged := d.staged(dir)
		for _, a := range missing {
			if len(a.without(staged).Take) == 0 { // An interrupted call has unpacked it.
				continue
			}
			checked := lo.Ternary(a.Digest != "", kinds[len(a.Digest)].name+" published", "no digest is published: that of the first fetch is recorded")
			options.Say(fmt.Sprintf("  %s: %s, unpacked at most %s; %s", a.Address, Size(a.Size), Size(a.Unpacked), checked))
			needed, largest = needed+a.Unpacked, max(largest, a.Size)
		}
		needed -= taken(d.partial(dir)) - taken(staged)
	}
	if len(lacking) == 0 {
		return nil
	}
	free := try.E1(freeBytes(dir))
	needed = max(0, needed+largest) // An archive is removed when it is unpacked.
	options.Say(fmt.Sprintf("%s of disk needed, %s free", Size(needed), Size(free)))
	if needed > free {
		return fmt.Errorf("%s needs %s of disk, %s are free", dir, Size(needed), Size(free))
	}
	for _, d := range lacking {
		try.E(d.fetch(ctx, dir, options))
	}
	return nil
}

// freeBytes is [Free]. Tests change it.
var freeBytes = Free

// Free returns how many bytes a user may write to the disk that a folder is on, or will be.
func Free(folder string) (_ int64, err error) {
	defer try.Handle(&err)
	folder = try.E1(filepath.Abs(folder))
	for !exists(folder) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(folder, &disk); err != nil {
		return 0, fmt.Errorf("%s: %w", folder, err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil
}

// Size writes a number of bytes for people: "1.5 GB".
func Size(bytes int64) string {
	return lo.Ternary(bytes < 100e6, fmt.Sprintf("%.1f MB", float64(bytes)/1e6), fmt.Sprintf("%.1f GB", float64(bytes)/1e9))
}

// partial is the folder of what is fetched until it is complete: archives, and the dataset as in a data folder.
func (d Dataset) partial(dir string) string { return filepath.Join(dir, d.Key+".partial") }

// staged is the folder of the dataset in it.
func (d Dataset) staged(dir string) string { return filepath.Join(d.partial(dir), d.Folders[0]) }

// taken returns how many bytes the files below a folder have.
func taken(folder string) (bytes int64) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // What cannot be read counts nothing.
	})
	return bytes
}

// lacks returns the dataset's folder, and the archives that have what it lacks, which alone is left in take.
func (d Dataset) lacks(dir string) (folder string, missing []Archive, err error) {
	folders := lo.Map(d.Folders, func(folder string, _ int) string { return filepath.Join(dir, folder) })
	folder = lo.FindOrElse(folders, folders[0], exists)
	found := d.splits(dir)
	if err = complete(found); err == nil {
		return folder, nil, nil
	}
	missing = lo.FilterMap(d.Archives, func(a Archive, _ int) (Archive, bool) {
		a = a.without(folder)
		return a, len(a.Take) > 0
	})
	whole := lo.SomeBy(found, func(s datasets.Status) bool { return s.Err == nil && s.Count == s.Official })
	part := lo.SomeBy(found, func(s datasets.Status) bool {
		return s.Err == nil && s.Count != s.Official || s.Err != nil && !s.Missing()
	})
	if len(missing) == 0 || part && !whole { // Annotations of all images do not belong to a sample.
		return folder, nil, fmt.Errorf("%s exists but is incomplete (%w): move it away to fetch it", folder, err)
	}
	return folder, missing, nil
}

func (d Dataset) fetch(ctx context.Context, dir string, options Options) (err error) {
	defer try.Handle(&err)
	partial, lock := d.partial(dir), filepath.Join(dir, "."+d.Key+".lock")
	isNew := !exists(dir)
	try.E(os.MkdirAll(dir, 0o777))
	// Two processes would write to one part.
	unlock, err := filelock.Wait(ctx, lock, func() {
		options.Say(fmt.Sprintf("another process is fetching %s into %s; waiting for it", d.Key, dir))
	})
	if err != nil {
		return fmt.Errorf("waiting for another process that fetches %s: %w", d.Name, err)
	}
	defer unlock()
	defer func() {
		os.Remove(lock)
		os.Remove(partial) // If nothing has come to it: a folder with files stays.
		if isNew {
			os.Remove(dir)
		}
	}()
	folder, missing, err := d.lacks(dir)
	if err != nil || len(missing) == 0 {
		return err
	}
	try.E(os.MkdirAll(partial, 0o777))
	staged := d.staged(dir)
	for _, a := range missing {
		try.E(a.fetch(ctx, dir, partial, staged, options))
	}
	if arrange := arrangements[d.Key]; arrange != nil {
		try.E(arrange(staged))
	}
	syscall.Sync() // Much faster than for each of a hundred thousand files.
	if !exists(folder) {
		if err := complete(d.splits(partial)); err != nil {
			return fmt.Errorf("%s does not hold %s (%w): remove it to fetch again", partial, d.Name, err)
		}
	}
	try.E(cmp.Or(merge(staged, folder), os.RemoveAll(partial)))
	if err := complete(d.splits(dir)); err != nil {
		return fmt.Errorf("%s is not whole: %w", folder, err)
	}
	return nil
}

// splits looks for the splits of the dataset in a data folder.
func (d Dataset) splits(dir string) []datasets.Status {
	if d.found != nil {
		return d.found(dir)
	}
	return datasets.Available(dir, d.Key)
}

// merge moves files and folders to where they are missing.
func merge(from, to string) error {
	if !exists(to) {
		return cmp.Or(os.MkdirAll(filepath.Dir(to), 0o777), os.Rename(from, to))
	}
	entries, err := os.ReadDir(from)
	for _, entry := range entries {
		err = cmp.Or(err, merge(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())))
	}
	return err
}

// complete checks that each split has its official number of images.
func complete(found []datasets.Status) error {
	for _, s := range found {
		if s.Err != nil {
			return s.Err
		}
		if s.Count != s.Official {
			return fmt.Errorf("%d of %d %s images", s.Count, s.Official, s.Split)
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

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
func (d Dataset) Bytes() int64 { return lo.SumBy(d.Archives, func(a Archive) int64 { return a.Size }) }

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
func sortTinyImageNet(folder string) (err error) {
	defer try.Handle(&err)
	boxes, err := filepath.Glob(filepath.Join(folder, "train", "*", "*_boxes.txt"))
	for _, file := range boxes {
		err = errors.Join(err, os.Remove(file))
	}
	try.E(err)
	list := filepath.Join(folder, "val_annotations.txt")
	content := try.E1(os.ReadFile(list))
	for line := range strings.Lines(string(content)) {
		columns := strings.Fields(line) // The image, its class and a box.
		if len(columns) < 2 || !filepath.IsLocal(columns[0]) || !filepath.IsLocal(columns[1]) {
			return fmt.Errorf("%s: %.80q is no image and its class", list, line)
		}
		class := filepath.Join(folder, "test", columns[1])
		try.E(os.MkdirAll(class, 0o777))
		err := os.Rename(filepath.Join(folder, "test", columns[0]), filepath.Join(class, columns[0]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // An interrupted call has moved it.
			return err
		}
	}
	return nil
}
