package fetch

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

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
