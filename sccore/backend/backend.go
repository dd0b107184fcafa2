// Package backend opens the engine that computation graphs run on: XLA through PJRT if its plugin is installed, else GoMLX's pure-Go engine.
//
// [Open] chooses in this order and never downloads anything:
//
//  1. $GOMLX_BACKEND, if set: "go", "xla:/path/to/plugin.so", or "xla:cuda" or "xla:cpu" for an installed plugin. GoMLX's options may follow
//     after a comma, as in "xla:cuda,tf32=false".
//  2. A plugin under .semcon/ in the checkout, installed by "semcon lab": CUDA if the machine has an NVIDIA driver, else CPU.
//  3. The same in the user's cache folder, installed by "semcon lab --setup-only --global".
//  4. The pure-Go engine.
//
// [Engine] describes the choice.
package backend

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend" // The pure-Go engine.
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend/xlacache"
)

// Go is the configuration of GoMLX's pure-Go engine. It runs the operations of a graph one after the other, each on all cores. By default the
// engine runs several operations at once, which can occupy all workers and then deadlock. Operations run in the order in which the graph was built: the engine's
// own order, by the distance to the results, begins everything before it ends anything, and holds it all.
const Go = "go"

// SetupDir is the folder in a checkout that "semcon lab" installs into.
const SetupDir = ".semcon"

// Open opens the backend that [Config] names. The caller keeps it for the life of the process.
func Open() (compute.Backend, error) {
	return OpenConfig(Config())
}

// OpenConfig opens the backend of a configuration in the syntax of $GOMLX_BACKEND. The error names the configuration.
func OpenConfig(config string) (compute.Backend, error) {
	opened := config
	if config == Go {
		opened = Go + ":ops_sequential,creation_order"
	}
	return openAs(config, func() (compute.Backend, error) { return compute.NewWithConfig(opened) })
}

// openAs opens the backend of a configuration with open.
func openAs(config string, open func() (compute.Backend, error)) (b compute.Backend, err error) {
	defer try.Handle(&err)
	try.E(forbidDownloads())
	try.E(checkCUDA(config, HasGPU()))
	try.E(setFlags(config))
	if err = cachePrograms(config); err == nil {
		if caught := exceptions.TryCatch[error](func() { b, err = open() }); caught != nil {
			err = caught
		}
	}
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("cannot open backend %q: %s (\"semcon doctor\" shows what is installed)", config, line)
	}
	return b, nil
}

// cachePrograms puts the cache of compiled programs before the compiler of the plugin that a configuration names by its path.
func cachePrograms(config string) error {
	engine, plugin, _ := split(config)
	if engine != "xla" || !filepath.IsAbs(plugin) || !isFile(plugin) { // Opening it says what is wrong.
		return nil
	}
	return xlacache.Install(plugin, GPUModel())
}

// split splits a configuration: "xla:cuda,tf32=false" into "xla", "cuda" and "tf32=false".
func split(config string) (engine, plugin, options string) {
	engine, rest, _ := strings.Cut(config, ":")
	plugin, options, _ = strings.Cut(rest, ",")
	return engine, plugin, options
}

// forbidDownloads keeps GoMLX from installing plugins. It runs once, because XLA's threads may read the environment later.
var forbidDownloads = sync.OnceValue(func() error { return os.Setenv("GOMLX_NO_AUTO_INSTALL", "1") })

// Name returns the configuration without the plugin's folder, for records: "go", "xla:xla_cpu_pjrt.so", "xla:cuda,tf32=false".
func Name() string {
	name, plugin, ok := strings.Cut(Config(), ":")
	if !ok {
		return name
	}
	return name + ":" + filepath.Base(plugin)
}

// Config returns the configuration that [Open] uses.
func Config() string {
	config := os.Getenv(compute.ConfigEnvVar)
	if config != "" && !strings.HasPrefix(config, "xla:") || !hasXLA {
		return cmp.Or(config, Go)
	}
	_, name, options := split(config)
	for _, plugin := range Plugins() {
		if config == "" || strings.HasPrefix(filepath.Base(plugin), "xla_"+name+"_") {
			return strings.TrimSuffix("xla:"+plugin+","+options, ",")
		}
	}
	return cmp.Or(config, Go)
}

// TF32 reports whether [Open] lets GPUs round the factors of float32 products to TF32.
func TF32() bool {
	_, _, options := split(Config())
	return !strings.Contains(options, "tf32=false")
}

// IsGo reports whether [Open] opens the pure-Go engine, which is fine for tests but slow for training.
func IsGo() bool { return isGo(Config()) }

func isGo(config string) bool {
	engine, _, _ := split(config)
	return engine == Go
}

// CanLoadXLA reports whether this binary can load PJRT plugins. Only binaries built with a C compiler can.
func CanLoadXLA() bool { return hasXLA }

// Plugins lists the PJRT plugins that this machine can use, best first. It looks in the checkout and, if there are none, in the user's cache.
func Plugins() []string { return pluginsOf(installs()) }

// install is a folder that set-up installs into.
type install struct {
	folder string
	owner  string // Description for messages.
}

// installs lists the folders that may hold plugins, in the order of the search.
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
		if HasGPU() {
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

// CheckoutRoot returns the folder of the checkout that contains the working folder, the executable, or the source that the binary was built
// from. It is empty if there is none.
func CheckoutRoot() string { return append(checkouts(), "")[0] }

func checkouts() (roots []string) {
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
	for _, dir := range starts {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if strings.Contains(filepath.Base(dir), "@") {
				break // Nothing is installed into the copies in Go's module cache.
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
