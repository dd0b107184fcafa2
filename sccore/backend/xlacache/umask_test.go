//go:build cgo && linux

package xlacache

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestGroupsThatMayWriteDoNotMatter: with a umask of 002 the folder and its entries are still the user's alone, so that the next process uses them.
func TestGroupsThatMayWriteDoNotMatter(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o002))
	dir := filepath.Join(t.TempDir(), "new", "xla")
	f := folder{dir: dir, bound: 1 << 20}
	f.write("a"+programSuffix, []byte("program"))
	if err := Trusted(dir); err != nil {
		t.Error(err)
	}
	if content, ok := f.read("a" + programSuffix); !ok || string(content) != "program" {
		t.Errorf("%q, %v", content, ok)
	}
	if err := os.Chmod(filepath.Join(dir, "a"+programSuffix), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.read("a" + programSuffix); ok {
		t.Error("a program that others may write is loaded")
	}
}
