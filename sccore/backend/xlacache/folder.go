package xlacache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
)

// EnvVar names the environment variable that moves the folder, or turns the cache off by the value "off".
const EnvVar = "SEMCON_XLA_CACHE"

// maxBytes bounds the folder. The programs that were not used for the longest time go first.
const maxBytes = 2 << 30

// Dir returns the folder of compiled programs: $SEMCON_XLA_CACHE or a folder in the user's cache. It is empty if the cache is off, or if the user has no
// folder for caches.
func Dir() string {
	switch dir := os.Getenv(EnvVar); dir {
	case "":
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return filepath.Join(cache, "semcon", "xla")
	case "off":
		return ""
	default:
		return dir
	}
}

// suffix is the end of the names of entries. Nothing else in the folder is counted or removed.
const suffix = ".program"

// Usage returns the number of programs in the folder and their size in bytes.
func Usage() (programs int, size int64) {
	all := entries(Dir())
	for _, e := range all {
		size += e.Size()
	}
	return len(all), size
}

// Clear removes all programs. Processes that have loaded them go on.
func Clear() error {
	sweep(Dir())
	for _, e := range entries(Dir()) {
		if err := os.Remove(filepath.Join(Dir(), e.Name())); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// sweep removes what killed writers have left: programs that are being written for an hour.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, ".writing-*"+suffix+".*")) // The pattern is well formed.
	for _, path := range left {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(path)
		}
	}
}

// entries lists the programs of a folder, the one that was not used for the longest time first.
func entries(dir string) (all []fs.FileInfo) {
	files, _ := os.ReadDir(dir) // A folder that cannot be read has no programs.
	for _, file := range files {
		if info, err := file.Info(); err == nil && info.Mode().IsRegular() && strings.HasSuffix(info.Name(), suffix) {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	return all
}

// folder holds programs by their keys. Processes may share it.
type folder struct {
	dir   string
	bound int64
}

// read returns the program with a key. It removes a damaged one.
func (f folder) read(key string) ([]byte, bool) {
	path := filepath.Join(f.dir, key+suffix)
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	if len(content) < sha256.Size {
		f.remove(key)
		return nil, false
	}
	program := content[sha256.Size:]
	if sum := sha256.Sum256(program); !bytes.Equal(sum[:], content[:sha256.Size]) {
		f.remove(key)
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // Only the order of removal depends on it.
	return program, true
}

// write keeps a program, and removes others beyond the bound. The cache saves time only, so that a full disk or a folder that cannot be written is no error.
func (f folder) write(key string, program []byte) {
	sum := sha256.Sum256(program)
	err := atomicfile.Write(filepath.Join(f.dir, key+suffix), func(w io.Writer) error {
		_, err := w.Write(append(sum[:], program...))
		return err
	})
	if err != nil {
		return
	}
	sweep(f.dir)
	all, size := entries(f.dir), int64(0)
	for _, e := range all {
		size += e.Size()
	}
	for _, e := range all {
		if size <= f.bound {
			break
		}
		_ = os.Remove(filepath.Join(f.dir, e.Name()))
		size -= e.Size()
	}
}

// remove removes a program that the plugin refuses.
func (f folder) remove(key string) { _ = os.Remove(filepath.Join(f.dir, key+suffix)) }

// machine identifies what decides the code that a plugin generates, beside the program and its options.
func machine(plugin, device, flags string) (string, error) {
	file, err := os.Open(plugin)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x\n%s\n%s\n%s\n%d\n%s", digest.Sum(nil), device, flags, runtime.GOARCH, runtime.NumCPU(), processor("/proc/cpuinfo")), nil
}

// processor returns the lines that name the first core's model and instructions.
func processor(cpuinfo string) string {
	content, _ := os.ReadFile(cpuinfo)
	first, _, _ := strings.Cut(string(content), "\n\n")
	var named []string
	for line := range strings.Lines(first) {
		name, _, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant":
			named = append(named, line)
		}
	}
	return strings.Join(named, "")
}

// keyOf is the key of a program. Each part is preceded by its length, so that no two lists of parts are alike.
func keyOf(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d\n", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:20])
}
