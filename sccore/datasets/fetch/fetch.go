// Package fetch downloads datasets into a data folder, in their official layouts, where package datasets reads them. An interrupted download
// resumes, and a dataset's folder appears only when it is complete.
//
// To add a dataset, add an entry to archives, with the digest that its authors publish.
package fetch

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/datasets"
)

// OfficialURL is the address at which the authors of CIFAR publish it.
const OfficialURL = "https://www.cs.toronto.edu/~kriz/"

// Options are the settings of [Dataset]. The zero value downloads from [OfficialURL] and reports no progress.
type Options struct {
	BaseURL  string                  // Folder of a mirror; [OfficialURL] if empty.
	Progress func(done, total int64) // Called as bytes arrive; total is 0 if the server does not send it.
	Waiting  func()                  // Called once if another process is fetching the dataset; Dataset waits for it. Nil for nothing.
}

// archive is a dataset as its authors publish it.
type archive struct {
	key, name string // As in package datasets.
	file      string // The archive, below [OfficialURL].
	folder    string // The folder in the archive.
	md5       string // The published digest, in hexadecimal digits.

	// found looks for the splits of the dataset in a folder.
	found func(dir string) []datasets.Status
}

var archives = []archive{
	{
		key: "cifar10", name: "CIFAR-10", file: "cifar-10-binary.tar.gz", folder: "cifar-10-batches-bin",
		md5: "c32a1d4ab5d03f1284b67883e8d87530", found: cifar("cifar10"),
	},
	{
		key: "cifar100", name: "CIFAR-100", file: "cifar-100-binary.tar.gz", folder: "cifar-100-binary",
		md5: "03b5dce01913d631647c71ecec9e9cb8", found: cifar("cifar100"),
	},
}

func cifar(key string) func(dir string) []datasets.Status {
	return func(dir string) []datasets.Status {
		return slices.DeleteFunc(datasets.AvailableCIFAR(dir), func(s datasets.Status) bool { return s.Key != key })
	}
}

// Dataset downloads the official archive of a dataset, "cifar10" or "cifar100", checks it against the published MD5 digest, and unpacks it
// below dir, where [datasets.CIFAR10] or [datasets.CIFAR100] find it. It does nothing if the complete dataset is already there, and fails if
// a part of it is.
//
// After an interruption the next call resumes, if the server supports it. The dataset's folder appears only when it is complete. The error
// is one line that names the address or the file. An archive with a wrong digest is removed.
func Dataset(ctx context.Context, key, dir string, options Options) error {
	var known []string
	for _, a := range archives {
		if a.key == key {
			return a.fetch(ctx, dir, options)
		}
		known = append(known, a.key)
	}
	return fmt.Errorf("cannot fetch dataset %q, only %s", key, strings.Join(known, " and "))
}

func (a archive) fetch(ctx context.Context, dir string, options Options) error {
	if dir == "" {
		return fmt.Errorf("%s needs a data folder", a.name)
	}
	if found := a.found(dir); found[0].Folder != "" {
		if err := complete(found); err != nil {
			return fmt.Errorf("%s exists but is incomplete (%w): move it away to fetch it", found[0].Folder, err)
		}
		return nil
	}
	home, lock := filepath.Join(dir, a.key), filepath.Join(dir, "."+a.key+".lock")
	_, err := os.Stat(dir)
	isNew := errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	// Two processes would write to one part.
	unlock, waited, err := filelock.Wait(ctx, lock, options.Waiting)
	if err != nil {
		return fmt.Errorf("waiting for another process that fetches %s: %w", a.name, err)
	}
	defer unlock()
	defer func() {
		os.Remove(lock)
		os.Remove(home) // If nothing has come to it: a folder with files stays.
		if isNew {
			os.Remove(dir)
		}
	}()
	if err := os.MkdirAll(home, 0o777); err != nil {
		return err
	}
	if waited {
		if found := a.found(dir); found[0].Folder != "" {
			return complete(found)
		}
	}
	address, err := url.JoinPath(cmp.Or(options.BaseURL, OfficialURL), a.file)
	if err != nil {
		return fmt.Errorf("address %q: %w", options.BaseURL, err)
	}
	file := filepath.Join(home, a.file)
	if err := (File{Address: address, Path: file, Most: maxArchive, Digest: md5.New, Want: a.md5, Progress: options.Progress}).Get(ctx); err != nil {
		return err
	}
	if err := a.unpack(file, home); err != nil {
		return err
	}
	return os.Remove(file)
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

// reason strips the path from an error; the caller names the path.
func reason(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}

// maxArchive bounds a download in bytes, far above the archives that are known. Tests shorten it.
var maxArchive int64 = 1 << 30

// maxUnpackedBytes is more than any archive of CIFAR holds.
const maxUnpackedBytes = 1 << 30

// unpack makes the dataset's folder in home from its archive. A rename makes the folder appear when it is complete.
func (a archive) unpack(file, home string) error {
	work := filepath.Join(home, ".unpacking-"+a.folder)
	if err := os.RemoveAll(work); err != nil { // Left by an interrupted call.
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Mkdir(work, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(work)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := untar(file, root); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	unpacked := filepath.Join(work, a.folder)
	if err := complete(a.found(unpacked)); err != nil {
		return fmt.Errorf("%s does not hold %s: %w", file, a.name, err)
	}
	return os.Rename(unpacked, filepath.Join(home, a.folder))
}

// untar unpacks the folders and files of a gzipped tar archive below root. Other kinds of entries and names that lead out of root are
// errors.
func untar(archive string, root *os.Root) error {
	file, err := os.Open(archive)
	if err != nil {
		return reason(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	entries := tar.NewReader(unzipped)
	var total int64
	for {
		entry, err := entries.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		switch entry.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeDir, tar.TypeReg:
		default:
			return fmt.Errorf("%q is neither a file nor a folder", entry.Name)
		}
		if !filepath.IsLocal(entry.Name) {
			return fmt.Errorf("%q leads out of the folder", entry.Name)
		}
		if total += entry.Size; entry.Size > maxUnpackedBytes || total > maxUnpackedBytes {
			return fmt.Errorf("with %q it unpacks to more than %d bytes", entry.Name, maxUnpackedBytes)
		}
		if err := writeEntry(root, path.Clean(entry.Name), entry.Typeflag, entries); err != nil {
			return fmt.Errorf("%q: %w", entry.Name, err)
		}
	}
}

func writeEntry(root *os.Root, name string, kind byte, content io.Reader) error {
	if kind == tar.TypeDir {
		return root.MkdirAll(name, 0o777)
	}
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	out, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, content)
	return cmp.Or(err, out.Sync(), out.Close())
}
