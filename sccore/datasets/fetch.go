package datasets

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
)

// OfficialURL is where the authors of CIFAR publish it.
const OfficialURL = "https://www.cs.toronto.edu/~kriz/"

// FetchOptions are the choices of [Fetch]. The zero value fetches from [OfficialURL] without a word.
type FetchOptions struct {
	BaseURL  string                  // The folder of a mirror; [OfficialURL] if empty.
	Progress func(done, total int64) // Called as bytes arrive; total is 0 where the server does not say.
}

// Fetch downloads the official archive of a dataset, "cifar10" or "cifar100", checks it against the published MD5 digest, and unpacks it
// below dir, where [CIFAR10] or [CIFAR100] find it. It does nothing if the whole dataset is there, and fails if a part of it is.
//
// Whenever it is stopped, it goes on from there at the next call, if the server lets it, and the dataset's folder appears only when it
// is whole. The error is one line that names the address or the file at fault. An archive with a wrong digest is removed.
func Fetch(ctx context.Context, key, dir string, options FetchOptions) error {
	for _, c := range fetchable {
		if c.key == key {
			return c.fetch(ctx, dir, options)
		}
	}
	return fmt.Errorf("no dataset %q to fetch, only %s and %s", key, cifar10.key, cifar100.key)
}

func (c *cifar) fetch(ctx context.Context, dir string, options FetchOptions) error {
	if dir == "" {
		return fmt.Errorf("%s needs a data folder to go to", c.name)
	}
	if folder, err := c.locate(dir); err == nil {
		if err := c.complete(folder); err != nil {
			return fmt.Errorf("%s is there and not whole (%w): move it away to fetch it", folder, err)
		}
		return nil
	}
	home := filepath.Join(dir, c.key)
	if err := os.MkdirAll(home, 0o777); err != nil {
		return err
	}
	archive := filepath.Join(home, c.archive)
	if !exists(archive) {
		base := options.BaseURL
		if base == "" {
			base = OfficialURL
		}
		address, err := url.JoinPath(base, c.archive)
		if err != nil {
			return fmt.Errorf("address %q: %w", base, err)
		}
		progress := options.Progress
		if progress == nil {
			progress = func(done, total int64) {}
		}
		if err := download(ctx, address, archive, progress); err != nil {
			return err
		}
	}
	if err := checkMD5(archive, c.md5); err != nil {
		return err
	}
	if err := c.unpack(archive, home); err != nil {
		return err
	}
	return os.Remove(archive)
}

// complete checks that a folder holds as many images as the dataset has.
func (c *cifar) complete(folder string) error {
	for _, split := range []Split{Train, Test} {
		_, count, err := c.find(folder, split)
		if err != nil {
			return err
		}
		if count != c.official[split] {
			return fmt.Errorf("%d of %d %s images", count, c.official[split], split)
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
