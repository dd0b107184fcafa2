// Package backend opens the device that computation graphs run on: XLA through PJRT where its plugin is installed, GoMLX's
// pure-Go engine otherwise.
//
// [Open] decides in this order, and never downloads anything:
//
//  1. $GOMLX_BACKEND, if set: "go", "xla:/path/to/plugin.so", and "xla:cuda" or "xla:cpu" for an installed plugin, each with
//     upstream's options behind a comma, as in "xla:cuda,tf32=false";
//  2. a plugin under .semcon/ of the checkout, put there by "semcon lab": CUDA if the machine has an NVIDIA driver, else the CPU's;
//  3. the same in the user's cache folder, put there by "semcon lab --setup-only --global";
//  4. the pure-Go engine.
//
// [Engine] says which one it is.
package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // The engine that is always there.
	"github.com/gomlx/gomlx/support/exceptions"
)

// Go is the configuration of GoMLX's pure-Go engine. It is opened to run the operations of a graph one after the other, each on all cores: left
// to itself, it runs several at once, which take up all workers and then wait for a free one without end.
const Go = "go"

// SetupDir is the folder, inside a checkout, that "semcon lab" installs into.
const SetupDir = ".semcon"

// Open opens the backend that [Config] names. The caller keeps it for the life of the process.
func Open() (compute.Backend, error) {
	return OpenConfig(Config())
}

// OpenConfig opens the backend of one configuration, as $GOMLX_BACKEND would hold it. The error names the configuration.
func OpenConfig(config string) (b compute.Backend, err error) {
	if err := forbidDownloads(); err != nil {
		return nil, err
	}
	opened := config
	if config == Go {
		opened = Go + ":ops_sequential"
	}
	if caught := exceptions.TryCatch[error](func() { b, err = compute.NewWithConfig(opened) }); caught != nil {
		err = caught
	}
	if err != nil {
		return nil, fmt.Errorf("backend %q does not open: %s (\"semcon doctor\" says what is installed)", config, firstLine(err.Error()))
	}
	return b, nil
}

// forbidDownloads keeps upstream from installing plugins by itself. Once, as XLA's threads may read the environment later.
var forbidDownloads = sync.OnceValue(func() error { return os.Setenv("GOMLX_NO_AUTO_INSTALL", "1") })

// Name says what [Config] opens without where it lies, for records: "go", "xla:xla_cpu_pjrt.so", "xla:cuda,tf32=false".
func Name() string {
	name, plugin, ok := strings.Cut(Config(), ":")
	if !ok {
		return name
	}
	return name + ":" + filepath.Base(plugin)
}

// Config returns the configuration that [Open] uses.
func Config() string {
	if config := os.Getenv(compute.ConfigEnvVar); config != "" {
		plugin, options, _ := strings.Cut(strings.TrimPrefix(config, "xla:"), ",")
		for _, installed := range Plugins() {
			if hasXLA && strings.HasPrefix(config, "xla:") && strings.HasPrefix(filepath.Base(installed), "xla_"+plugin+"_") {
				return strings.TrimSuffix("xla:"+installed+","+options, ",")
			}
		}
		return config
	}
	if hasXLA {
		for _, plugin := range Plugins() {
			return "xla:" + plugin
		}
	}
	return Go
}

// CanLoadXLA tells whether this binary loads PJRT plugins, which it does when it was built with a C compiler at hand.
func CanLoadXLA() bool { return hasXLA }

// Plugins lists the PJRT plugins that this machine can use, best first: those of the checkout, or of the user's cache where the
// checkout has none.
func Plugins() []string { return pluginsOf(installs()) }

// An install is a folder that set-up installs into.
type install struct {
	folder string
	owner  string // Whose it is, for people.
}

// installs lists the folders that may hold plugins, in the order in which they are looked at.
func installs() []install {
	var all []install
	for _, root := range checkouts() {
		all = append(all, install{filepath.Join(root, SetupDir), "the checkout " + root})
	}
	if cache, err := CacheDir(); err == nil {
		all = append(all, install{cache, "the user's cache " + cache})
	}
	return all
}

func pluginsOf(installs []install) []string {
	for _, in := range installs {
		var found []string
		packages := filepath.Join(in.folder, "venv", "lib", "python3*", "site-packages")
		if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
			found = append(found, glob(packages, "jax_plugins", "xla_cuda*", "xla_cuda_plugin.so")...)
		}
		found = append(found, glob(packages, "xla_plugins", "xla_cpu_pjrt", "xla_cpu_pjrt.so")...)
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// CacheDir returns the folder, in the user's cache, that "semcon lab --setup-only --global" installs into.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "semcon"), err
}

// CheckoutRoot returns the folder of the checkout that the process belongs to: the one around the working folder, the executable,
// or the source that the binary was built from. It is empty for a binary far from any checkout.
func CheckoutRoot() string {
	for _, root := range checkouts() {
		return root
	}
	return ""
}

func checkouts() []string {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if exe, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(exe))
	}
	if _, source, _, ok := runtime.Caller(0); ok && filepath.IsAbs(source) {
		starts = append(starts, filepath.Dir(source))
	}
	var roots []string
	for _, dir := range starts {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if strings.Contains(filepath.Base(dir), "@") {
				break // Go's module cache holds copies that nothing is installed into.
			}
			if isFile(filepath.Join(dir, "go.mod")) && isFile(filepath.Join(dir, "cmd", "semcon", "main.go")) {
				roots = append(roots, dir)
				break
			}
		}
	}
	return roots
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func glob(elements ...string) []string {
	matches, err := filepath.Glob(filepath.Join(elements...))
	if err != nil {
		panic(err) // The patterns are constants.
	}
	return matches
}

func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' {
			return s[:i]
		}
	}
	return s
}
