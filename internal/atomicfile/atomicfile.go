// Package atomicfile writes files atomically: a file is either complete or does not exist.
package atomicfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/internal/filelock"
)

// Write writes the file at path by way of a temporary file beside it: write, sync, rename. On an error the old file, if any, is unchanged, unless
// only the folder could not be synced. The temporary file is removed, and the error names path. Write creates missing folders.
func Write(path string, fill func(w io.Writer) error) (err error) {
	defer Begin()()
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	// Writers of one file take turns. A lock ends with its process, and the next writer writes over what a killed one has left.
	name := filepath.Join(dir, temporary+filepath.Base(path))
	unlock, err := filelock.Wait(context.Background(), name, nil)
	if err != nil { // A file system without locks: each process has a name of its own.
		unlock, name = func() {}, fmt.Sprintf("%s.%d", name, os.Getpid())
	}
	defer unlock()
	temp, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(name)
		}
		err = errors.Join(err, temp.Close())
	}()
	defer try.Handle(&err)
	buffered := bufio.NewWriterSize(temp, 1<<20)
	try.E(fill(buffered))
	try.E(buffered.Flush())
	try.E(temp.Sync())
	try.E(os.Rename(name, path))
	if runtime.GOOS == "windows" { // It cannot sync folders.
		return nil
	}
	folder := try.E1(os.Open(dir)) // The new name survives a loss of power.
	return errors.Join(folder.Sync(), folder.Close())
}

// temporary is the prefix of files that are being written.
const temporary = ".writing-"

// Sweep removes the temporary files of killed writers in dir. No other writer may be running there, except one whose failure does not matter.
func Sweep(dir string) (err error) {
	defer try.Handle(&err)
	for _, name := range try.E1(fs.Glob(os.DirFS(dir), temporary+"*")) { // The folder's name is no pattern.
		if err := os.Remove(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) { // Its writer may have renamed it meanwhile.
			try.E(err)
		}
	}
	return nil
}

var writing atomic.Int32 // Calls of Write, and others that prepare one.

// Begin says that a file is about to be written, until end is called.
func Begin() (end func()) {
	writing.Add(1)
	return func() { writing.Add(-1) }
}

// Writing reports whether the process is writing a file.
func Writing() bool { return writing.Load() > 0 }

// WriteBytes is [Write] with the content given as bytes.
func WriteBytes(path string, content []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Writable returns an error that names a folder in which files cannot be written. The folder need not exist. Writable leaves nothing behind.
func Writable(dir string) (err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("cannot write in %s: %w", dir, err) })
	existing := filepath.Clean(dir)
	for _, err := os.Lstat(existing); errors.Is(err, fs.ErrNotExist) && existing != filepath.Dir(existing); _, err = os.Lstat(existing) {
		existing = filepath.Dir(existing)
	}
	if !try.E1(os.Stat(existing)).IsDir() {
		try.E(fmt.Errorf("%s is not a folder", existing))
	}
	// The file has a fixed name, so that the next call removes one that a killed call has left. Another process may be probing too.
	name := filepath.Join(existing, temporary+"probe")
	probe := try.E1(os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600))
	closed, gone := probe.Close(), os.Remove(name)
	if errors.Is(gone, fs.ErrNotExist) {
		gone = nil
	}
	try.E(errors.Join(closed, gone))
	return nil
}
