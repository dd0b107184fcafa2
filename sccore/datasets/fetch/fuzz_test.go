package fetch

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path"
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
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.Write(content)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
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
		unpackAny(t, "archive.tar.gz", packed.Bytes(), total)
	})
}

// FuzzUnzip is FuzzUntar for zips.
func FuzzUnzip(f *testing.F) {
	f.Add(zipped(f, "a/", "", "a/b.bin", "123456789"))
	f.Add(zipped(f, "../up", "1", "/absolute", "2", "a", "3", "a/b", "4", "a", "5"))
	f.Add(zipped(f, "a/inner.zip", string(zipped(f, "inner/x", "1", "../up", "2"))))
	f.Fuzz(func(t *testing.T, content []byte) {
		var total int64
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err == nil {
			for _, entry := range archive.File {
				if total += int64(min(entry.UncompressedSize64, 1<<30)); total > 1<<20 {
					return
				}
			}
		}
		unpackAny(t, "archive.zip", content, total)
	})
}

// unpackAny unpacks an archive whose entries have so many bytes.
func unpackAny(t *testing.T, name string, content []byte, total int64) {
	home := t.TempDir()
	work, archive := filepath.Join(home, "work"), filepath.Join(home, name)
	if err := os.WriteFile(archive, content, 0o666); err != nil {
		t.Fatal(err)
	}
	a := Archive{Unpacked: 1 << 20, Take: map[string]string{"a/inner": "."}}
	eachEntry(archive, func(name string, _ fs.FileMode, _ int64, _ io.Reader) error {
		first, _, _ := strings.Cut(path.Clean(name), "/")
		a.Take[first] = "."
		return nil
	})
	if err := a.unpack(t.Context(), archive, work, func(int64) {}); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("%q is not one line", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 2 {
		t.Errorf("%v beside the archive and the folder, %v", entries, err)
	}
	var unpacked int64
	err := filepath.WalkDir(work, func(path string, entry fs.DirEntry, err error) error {
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
	if err != nil || unpacked > total+(2<<20) { // With what is packed twice.
		t.Errorf("%d bytes of an archive of %d, %v", unpacked, total, err)
	}
}
