package fetch

import (
	"archive/tar"
	"archive/zip"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore/datasets"
)

// without returns the archive with what is not in a folder yet.
func (a Archive) without(folder string) Archive {
	a.Take = maps.Clone(a.Take)
	maps.DeleteFunc(a.Take, func(_, to string) bool {
		return exists(filepath.Join(folder, to)) || exists(filepath.Join(folder, "images", to)) // Many keep COCO's images in a folder.
	})
	return a
}

// fetch downloads and unpacks the archive in the folder partial and moves what it takes to staged, which is below it. What is there is not fetched again.
func (a Archive) fetch(ctx context.Context, dir, partial, staged string, options Options) (err error) {
	defer try.Handle(&err)
	if a = a.without(staged); len(a.Take) == 0 {
		return nil
	}
	address := try.E1(url.Parse(a.Address))
	name := path.Base(address.Path)
	if options.BaseURL != "" {
		if a.Address, err = url.JoinPath(options.BaseURL, name); err != nil {
			return fmt.Errorf("address %q: %w", options.BaseURL, err)
		}
	}
	want, most, file := a.Digest, a.Size+a.Size/8, filepath.Join(partial, name)
	if want == "" {
		want, most = recorded(dir, name), 4*a.Size
	}
	get := File{Address: a.Address, Path: file, Most: most, Digest: kinds[len(want)].new, Want: want}
	get.Progress = func(done, total int64) { options.Progress(name, done, total) }
	if err = get.Get(ctx); errors.Is(err, errDigest) && want != a.Digest {
		return fmt.Errorf("%w (%s has the digest of the first fetch)", err, filepath.Join(dir, digests))
	}
	try.E(err)
	work := file + ".unpacked"
	err = a.unpack(ctx, file, work, func(done int64) { options.Progress("unpacking "+name, min(done, a.Unpacked), a.Unpacked) })
	if err != nil && ctx.Err() == nil {
		os.RemoveAll(work)
		if want == "" { // Perhaps a page of the server instead of the archive.
			os.Remove(file)
		}
		return fmt.Errorf("%s: %w", file, err)
	}
	try.E(err)
	if want == "" {
		try.E(record(dir, file, options.Say))
	}
	syscall.Sync() // The new names below mean that the images are complete, after a loss of power, too.
	for from, to := range a.Take {
		to = filepath.Join(staged, to)
		try.E(cmp.Or(os.MkdirAll(filepath.Dir(to), 0o777), os.Rename(filepath.Join(work, from), to)))
	}
	return cmp.Or(os.RemoveAll(work), os.Remove(file))
}

// digests is the file in a data folder with the digests of archives for which none is published, in the form of the program sha256sum.
const digests = "fetched.sha256"

// recorded returns the digest of an archive in that file, or "".
func recorded(dir, name string) string {
	content, _ := os.ReadFile(filepath.Join(dir, digests)) // Without the file none is recorded.
	for line := range strings.Lines(string(content)) {
		if digest, file, _ := strings.Cut(strings.TrimSpace(line), "  "); file == name && len(digest) == 2*sha256.Size {
			return digest
		}
	}
	return ""
}

// record writes the digest of an archive to that file.
func record(dir, archive string, say func(line string)) (err error) {
	defer try.Handle(&err)
	digest := try.E1(sum(archive, sha256.New()))
	path, name := filepath.Join(dir, digests), filepath.Base(archive)
	file := try.E1(os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o666))
	_, err = fmt.Fprintf(file, "%s  %s\n", digest, name)
	if err = cmp.Or(err, file.Sync(), file.Close()); err == nil {
		say(fmt.Sprintf("recorded the SHA-256 digest of %s in %s, which later fetches are compared with", name, path))
	}
	return err
}

// maxEntries bounds the files and folders of an archive. Tests shorten it.
var maxEntries = 1 << 18

// unpack writes what the archive takes below the folder work, where an interrupted call may have left files.
func (a Archive) unpack(ctx context.Context, file, work string, progress func(done int64)) (err error) {
	defer try.Handle(&err)
	try.E(os.MkdirAll(work, 0o777))
	root := try.E1(os.OpenRoot(work))
	defer root.Close()
	try.E(a.unpackBelow(ctx, file, root, ".", progress))
	for from := range a.Take {
		if _, err := root.Stat(from); err != nil {
			return fmt.Errorf("has no %s", from)
		}
	}
	return nil
}

// unpackBelow unpacks the files that are taken below a folder of root. Names that lead out of it, and entries that are neither files nor folders, are errors.
func (a Archive) unpackBelow(ctx context.Context, file string, root *os.Root, folder string, progress func(done int64)) error {
	seen, total, most := map[string]bool{}, int64(0), 2*a.Unpacked
	return eachEntry(file, func(entry string, kind fs.FileMode, size int64, content io.Reader) error {
		name := path.Join(folder, entry)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !kind.IsDir() && !kind.IsRegular():
			return fmt.Errorf("%q is neither a file nor a folder", entry)
		case !filepath.IsLocal(entry):
			return fmt.Errorf("%q leads out of the folder", entry)
		case size < 0 || size > most-total:
			return fmt.Errorf("with %q it unpacks to more than %d bytes", entry, most)
		case len(seen) == maxEntries:
			return fmt.Errorf("has more than %d files and folders", maxEntries)
		case seen[name] && kind.IsRegular():
			return fmt.Errorf("%q: is there twice", entry)
		}
		seen[name], total = true, total+size
		progress(total)
		taken, packed := a.takes(name)
		if !taken {
			return nil
		}
		if err := writeEntry(root, name, kind, size, content); err != nil {
			return fmt.Errorf("%q: %w", entry, datasets.Reason(err))
		}
		if packed {
			if err := a.unpackBelow(ctx, filepath.Join(root.Name(), name), root, path.Dir(name), progress); err != nil {
				return fmt.Errorf("%q: %w", entry, err)
			}
			return root.Remove(name)
		}
		return nil
	})
}

// takes says whether a file is taken, and whether what is taken is packed in it. What macOS adds to archives is not taken.
func (a Archive) takes(name string) (taken, packed bool) {
	for from := range a.Take {
		packed = packed || name == from+".zip"
		taken = taken || packed || name == from || strings.HasPrefix(name, from+"/")
	}
	return taken && !strings.HasPrefix(path.Base(name), "._"), packed
}

// writeEntry writes a file or folder below root, unless it is there: an interrupted call leaves at most one file, which is too short.
func writeEntry(root *os.Root, name string, kind fs.FileMode, size int64, content io.Reader) (err error) {
	defer try.Handle(&err)
	if kind.IsDir() {
		return root.MkdirAll(name, 0o777)
	}
	if info, err := root.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == size {
		return nil
	}
	try.E(root.MkdirAll(path.Dir(name), 0o777))
	out := try.E1(root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666))
	n, err := io.Copy(out, io.LimitReader(content, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("has %d bytes or more, the archive says %d", n, size)
	}
	return cmp.Or(err, out.Close())
}

// eachEntry calls do for each entry of an archive, until it returns an error. kind has the bits of the entry's type. Another file is its only entry.
func eachEntry(file string, do func(name string, kind fs.FileMode, size int64, content io.Reader) error) (err error) {
	defer try.Handle(&err)
	in, err := os.Open(file)
	try.E(datasets.Reason(err))
	defer in.Close()
	info := try.E1(in.Stat())
	var unzipped io.Reader = in
	switch {
	case strings.HasSuffix(file, ".zip"):
		archive := try.E1(zip.NewReader(in, info.Size()))
		for _, f := range archive.File {
			content := try.E1(f.Open())
			try.E(cmp.Or(do(f.Name, f.Mode().Type(), int64(f.UncompressedSize64), content), content.Close()))
		}
		return nil
	case strings.HasSuffix(file, ".tar.gz"):
		unzipped = try.E1(gzip.NewReader(in))
	case !strings.HasSuffix(file, ".tar"):
		return do(filepath.Base(file), 0, info.Size(), in)
	}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		try.E(err)
		kind := fs.ModeIrregular
		switch header.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeDir:
			kind = fs.ModeDir
		case tar.TypeReg:
			kind = 0
		}
		try.E(do(header.Name, kind, header.Size, archive))
	}
}
