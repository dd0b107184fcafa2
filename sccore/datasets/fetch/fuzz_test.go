package fetch

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzUntar unpacks any archive: an error of one line, or files that are in the archive. Nothing is written outside the folder.
func FuzzUntar(f *testing.F) {
	unzipped := func(headers ...tar.Header) []byte {
		zipped, err := gzip.NewReader(bytes.NewReader(tarred(f, headers)))
		if err != nil {
			f.Fatal(err)
		}
		content, err := io.ReadAll(zipped)
		if err != nil {
			f.Fatal(err)
		}
		return content
	}
	f.Add(unzipped(tar.Header{Name: "a/", Typeflag: tar.TypeDir}, tar.Header{Name: "a/b.bin", Size: 9}))
	f.Add(unzipped(tar.Header{Name: "../up", Size: 1}))
	f.Add(unzipped(tar.Header{Name: "a", Size: 1}, tar.Header{Name: "a/b", Size: 1}, tar.Header{Name: "a", Size: 2}))
	f.Add(unzipped(tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "link/x", Size: 1}))
	f.Add(unzipped(tar.Header{Name: strings.Repeat("long/", 60) + "name", Size: 3, PAXRecords: map[string]string{"comment": "x"}}))
	f.Fuzz(func(t *testing.T, content []byte) {
		var total int64
		for entries := tar.NewReader(bytes.NewReader(content)); ; {
			entry, err := entries.Next()
			if err != nil {
				break
			}
			if total += max(0, entry.Size); total > 1<<20 {
				return // A sparse file: right or wrong, it takes long.
			}
		}
		home := t.TempDir()
		work, archive := filepath.Join(home, "work"), filepath.Join(home, "archive.tar.gz")
		if err := os.Mkdir(work, 0o777); err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write(content)
		if err := errors.Join(w.Close(), os.WriteFile(archive, packed.Bytes(), 0o666)); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(work)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := untar(archive, root); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q is not one line", err)
		}
		if entries, err := os.ReadDir(home); err != nil || len(entries) != 2 {
			t.Errorf("%v beside the archive and the folder, %v", entries, err)
		}
		var unpacked int64
		err = filepath.WalkDir(work, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil && !info.Mode().IsRegular() {
				t.Errorf("%s is %s", path, info.Mode())
			}
			unpacked += info.Size()
			return err
		})
		if err != nil || unpacked > total {
			t.Errorf("%d bytes of an archive of %d, %v", unpacked, total, err)
		}
	})
}
