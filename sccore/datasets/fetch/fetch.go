package fetch

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
)

// OfficialURL is where the authors of CIFAR publish it.
const OfficialURL = "https://www.cs.toronto.edu/~kriz/"

// Options are the choices of [Dataset]. The zero value fetches from [OfficialURL] without a word.
type Options struct {
	BaseURL  string                  // The folder of a mirror; [OfficialURL] if empty.
	Progress func(done, total int64) // Called as bytes arrive; total is 0 where the server does not say.
}

// archive is a dataset as its authors publish it.
type archive struct {
	key, name string // As package datasets has them.
	file      string // The archive, below [OfficialURL].
	folder    string // What it unpacks into.
	md5       string // Its digest, as published there, in hexadecimal digits.

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
// below dir, where [datasets.CIFAR10] or [datasets.CIFAR100] find it. It does nothing if the whole dataset is there, and fails if a part of it
// is.
//
// Whenever it is stopped, it goes on from there at the next call, if the server lets it, and the dataset's folder appears only when it
// is whole. The error is one line that names the address or the file at fault. An archive with a wrong digest is removed.
func Dataset(ctx context.Context, key, dir string, options Options) error {
	var known []string
	for _, a := range archives {
		if a.key == key {
			return a.fetch(ctx, dir, options)
		}
		known = append(known, a.key)
	}
	return fmt.Errorf("no dataset %q to fetch, only %s", key, strings.Join(known, " and "))
}

func (a archive) fetch(ctx context.Context, dir string, options Options) error {
	if dir == "" {
		return fmt.Errorf("%s needs a data folder to go to", a.name)
	}
	if found := a.found(dir); found[0].Folder != "" {
		if err := complete(found); err != nil {
			return fmt.Errorf("%s is there and not whole (%w): move it away to fetch it", found[0].Folder, err)
		}
		return nil
	}
	home := filepath.Join(dir, a.key)
	if err := os.MkdirAll(home, 0o777); err != nil {
		return err
	}
	file := filepath.Join(home, a.file)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		base := options.BaseURL
		if base == "" {
			base = OfficialURL
		}
		address, err := url.JoinPath(base, a.file)
		if err != nil {
			return fmt.Errorf("address %q: %w", base, err)
		}
		progress := options.Progress
		if progress == nil {
			progress = func(done, total int64) {}
		}
		if err := download(ctx, address, file, progress); err != nil {
			return err
		}
	}
	if err := checkMD5(file, a.md5); err != nil {
		return err
	}
	if err := a.unpack(file, home); err != nil {
		return err
	}
	return os.Remove(file)
}

// complete checks that there are as many images of each split as the dataset has.
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

// checkMD5 compares a file with its published digest, and removes it if they differ.
func checkMD5(file, want string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	digest := md5.New()
	if _, err := io.Copy(digest, in); err != nil {
		return fmt.Errorf("%s: %w", file, reason(err))
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != want {
		if err := os.Remove(file); err != nil {
			return err
		}
		return fmt.Errorf("%s: MD5 digest %s, want %s: removed", file, got, want)
	}
	return nil
}

// reason returns what went wrong without the path, which the caller names.
func reason(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		return pathError.Err
	}
	return err
}
