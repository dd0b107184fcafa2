package atomicfile_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
)

func TestWriteReplacesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "file")
	for _, content := range []string{"first", "second, longer", ""} {
		if err := atomicfile.WriteBytes(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Errorf("file holds %q, want %q", got, content)
		}
	}
}

func TestFailureKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := atomicfile.WriteBytes(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err := atomicfile.Write(path, func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		return full
	})
	if !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %q does not name the cause and the file", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("file holds %q after a failed write", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestSweepRemovesWhatAKillLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]*")
	if err := errors.Join(atomicfile.Sweep(dir), os.Mkdir(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".writing-file.123", "file", ".hidden"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := atomicfile.Sweep(dir); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left %v, want file and .hidden", entries)
	}
}

// TestSweepBesideAWriter: a file that its writer renames between the listing and the removal is no error of Sweep.
func TestSweepBesideAWriter(t *testing.T) {
	dir, done := t.TempDir(), make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			atomicfile.WriteBytes(filepath.Join(dir, "progress.json"), []byte("{}")) // Sweep may take its file away.
		}
	}()
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		if err := atomicfile.Sweep(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAWriteReplacesWhatAKillLeft: the next write of a file takes the place of what a killed writer left, and waits for a living one. Its mode is a new file's.
func TestAWriteReplacesWhatAKillLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file[1]")
	for _, name := range []string{".writing-file[1]", ".writing-other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half of a longer one"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error)
	err := atomicfile.Write(path, func(w io.Writer) error {
		go func() { ended <- atomicfile.WriteBytes(path, []byte("second")) }()
		select {
		case <-ended:
			t.Error("two writers at once")
		case <-time.After(50 * time.Millisecond):
		}
		_, err := w.Write([]byte("first"))
		return err
	})
	if err = errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "second" {
		t.Errorf("file holds %q", got)
	}
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	want, _ := os.Stat(plain)
	if got, err := os.Stat(path); err != nil || got.Mode() != want.Mode() {
		t.Errorf("mode %v, a new file has %v, %v", got.Mode(), want.Mode(), err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("left %v, want file[1], plain and the temporary file of another one", entries)
	}
}

// TestDiskFull writes to a device that is always full, if the system has one.
func TestDiskFull(t *testing.T) {
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Logf("no /dev/full here (%v): the failing writer above stands for it", err)
		return
	}
	defer device.Close()
	path := filepath.Join(t.TempDir(), "file")
	err = atomicfile.Write(path, func(io.Writer) error {
		_, err := device.Write([]byte("x"))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a half-written file stands: %v", err)
	}
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	left := filepath.Join(dir, ".writing-probe") // By a call that was killed.
	if err := errors.Join(os.WriteFile(file, nil, 0o644), os.WriteFile(left, nil, 0o600), os.Symlink(filepath.Join(dir, "nowhere"), link)); err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{dir, filepath.Join(dir, "new", "folder"), "new/folder", "."} {
		if err := atomicfile.Writable(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{file, filepath.Join(file, "folder"), link, filepath.Join(link, "folder")} {
		if err := atomicfile.Writable(bad); err == nil || !strings.HasPrefix(err.Error(), "cannot write in "+bad+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}
