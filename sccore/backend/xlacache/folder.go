// Package xlacache keeps the programs that XLA compiles in a folder, so that no process compiles a program that another one has compiled before it.
//
// [Install] puts a compiler of its own into a PJRT plugin's function table. The key of a program in the folder is a digest of everything that decides
// what the plugin makes of it: the program and its options, the plugin's file and its platform's version, XLA's flags, the device, its driver, and the instructions and the number of the
// processor's cores, because folders are shared between machines. An entry that is damaged, or that the plugin refuses, is
// compiled anew. A folder that others can write is not used: what is in it would run with the user's rights.
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
	"syscall"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
)

// EnvVar names the environment variable that moves the folder, or turns the cache off by the value "off".
const EnvVar = "SEMCON_XLA_CACHE"

// maxBytes bounds the folder. The programs that were not used for the longest time go first.
const maxBytes = 2 << 30

// Dir returns the folder of compiled programs: $SEMCON_XLA_CACHE or a folder in the user's cache. It is empty if the cache is off, or if the user has no
// folder for caches.
func Dir() string {
	dir := os.Getenv(EnvVar)
	if cache, err := os.UserCacheDir(); dir == "" && err == nil {
		return filepath.Join(cache, "semcon", "xla")
	}
	return lo.Ternary(dir == "off", "", dir)
}

// Trusted returns an error unless a file or folder is the user's alone: programs run with the user's rights.
func Trusted(dir string) error {
	info, err := os.Stat(dir)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case !ok || int(stat.Uid) != os.Getuid():
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others", dir)
	}
	return nil
}

// programSuffix and digestSuffix are the ends of the names of entries: programs, and digests of plugins. Nothing else in the folder is counted or removed.
const programSuffix, digestSuffix = ".program", ".digest"

// Usage returns the number of programs in the folder and their size in bytes.
func Usage() (programs int, size int64) {
	all := entries(Dir(), programSuffix)
	return len(all), sizeOf(all)
}

func sizeOf(files []fs.FileInfo) int64 { return lo.SumBy(files, fs.FileInfo.Size) }

// Clear removes all entries. Processes that have loaded them go on.
func Clear() error {
	for _, e := range entries(Dir(), programSuffix, digestSuffix) {
		if err := os.Remove(filepath.Join(Dir(), e.Name())); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// entries lists the entries of a folder whose names end so, the one that was not used for the longest time first. What killed writers have left is among them.
func entries(dir string, suffixes ...string) (all []fs.FileInfo) {
	files, _ := os.ReadDir(dir) // A folder that cannot be read has no entries.
	for _, file := range files {
		if info, err := file.Info(); err == nil && info.Mode().IsRegular() && slices.Contains(suffixes, filepath.Ext(info.Name())) {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	return all
}

// folder holds entries by their names, each behind its checksum. Processes may share it.
type folder struct {
	dir   string
	bound int64
}

// read returns the content of an entry. It removes a damaged one, and leaves alone what another user has put there.
func (f folder) read(name string) ([]byte, bool) {
	path := filepath.Join(f.dir, name)
	content, err := os.ReadFile(path)
	if err != nil || Trusted(path) != nil {
		return nil, false
	}
	written, content := content[:min(sha256.Size, len(content))], content[min(sha256.Size, len(content)):]
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], written) {
		f.remove(name)
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // Only the order of removal depends on it.
	return content, true
}

// write keeps an entry, and removes programs beyond the bound. The cache saves time only, so that a full disk or a folder that cannot be written is no error.
func (f folder) write(name string, content []byte) {
	sum := sha256.Sum256(content)
	path := filepath.Join(f.dir, name)
	_ = os.MkdirAll(f.dir, 0o700) // Whatever the umask, nobody else may write programs that the user runs.
	if atomicfile.WriteBytes(path, append(sum[:], content...)) != nil || os.Chmod(path, 0o600) != nil {
		return
	}
	all := entries(f.dir, programSuffix)
	for size := sizeOf(all); size > f.bound && len(all) > 0; all = all[1:] {
		f.remove(all[0].Name())
		size -= all[0].Size()
	}
}

// remove removes an entry, such as a program that the plugin refuses.
func (f folder) remove(name string) { _ = os.Remove(filepath.Join(f.dir, name)) }

// machine identifies what decides the code that a plugin generates, beside the program and its options. The folder keeps the digest of the plugin's file, which
// is large, for as long as its size and its modification time stay.
func (f folder) machine(plugin, device, flags string) (_ string, err error) {
	defer try.Handle(&err)
	file := try.E1(os.Open(plugin))
	defer file.Close()
	info := try.E1(file.Stat())
	name := keyOf([]byte(plugin), fmt.Appendf(nil, "%d %d", info.Size(), info.ModTime().UnixNano())) + digestSuffix
	digest, known := f.read(name)
	if !known {
		sum := sha256.New()
		try.E1(io.Copy(sum, file))
		digest = sum.Sum(nil)
		f.write(name, digest)
	}
	driver, _ := os.ReadFile("/proc/driver/nvidia/version") // Without a GPU there is none.
	return fmt.Sprintf("%x\n%s\n%s\n%s\n%s\n%d\n%s", digest, device, driver, flags, runtime.GOARCH, runtime.NumCPU(), processor("/proc/cpuinfo")), nil
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
