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
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	_ "github.com/gomlx/compute/gobackend" // The pure-Go engine.
	"github.com/gomlx/go-xla/stablehlo"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend/xlacache"
)

// Go is the configuration of GoMLX's pure-Go engine. It runs the operations of a graph one after the other, each on all cores. By default the
// engine runs several operations at once, which can occupy all workers and then deadlock. Operations run in the order in which the graph was built: the engine's
// own order, by the distance to the results, begins everything before it ends anything, and holds it all.
const Go = "go"

// SetupDir is the folder in a checkout that "semcon lab" installs into.
const SetupDir = ".semcon"

// Open opens the backend that [Config] names. The caller keeps it for the life of the process.
func Open() (compute.Backend, error) { return OpenConfig(Config()) }

// OpenConfig opens the backend of a configuration in the syntax of $GOMLX_BACKEND. The error names the configuration.
func OpenConfig(config string) (compute.Backend, error) {
	opened := lo.Ternary(config == Go, Go+":ops_sequential,creation_order", config)
	return openAs(config, func() (compute.Backend, error) { return compute.NewWithConfig(opened) })
}

// openAs opens the backend of a configuration with open.
func openAs(config string, open func() (compute.Backend, error)) (b compute.Backend, err error) {
	defer try.Handle(&err)
	try.E(forbidDownloads())
	try.E(checkCUDA(config, HasGPU()))
	try.E(setFlags(config))
	engine, plugin, _ := split(config)
	if engine == "xla" && filepath.IsAbs(plugin) && isFile(plugin) { // Or opening it says what is wrong.
		err = xlacache.Install(plugin, GPUModel()) // Puts the cache of compiled programs before the plugin's compiler.
	}
	if err == nil {
		err = Catch(func() error { b, err = open(); return err })
	}
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, fmt.Errorf("cannot open backend %q: %s (\"semcon doctor\" shows what is installed)", config, line)
	}
	return b, nil
}

// Catch runs f and returns its error, or what it panics with: GoMLX panics where a graph cannot be built.
func Catch(f func() error) (err error) {
	caught := exceptions.TryCatch[error](func() { err = f() })
	return cmp.Or(caught, err)
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
	return lo.Ternary(!ok, name, name+":"+filepath.Base(plugin))
}

// Config returns the configuration that [Open] uses.
func Config() string {
	config := os.Getenv(compute.ConfigEnvVar)
	if config != "" && !strings.HasPrefix(config, "xla:") || !hasXLA {
		return cmp.Or(config, Go)
	}
	_, name, options := split(config)
	plugin, found := lo.Find(Plugins(), func(plugin string) bool {
		return config == "" || strings.HasPrefix(filepath.Base(plugin), "xla_"+name+"_")
	})
	return lo.Ternary(found, strings.TrimSuffix("xla:"+plugin+","+options, ","), cmp.Or(config, Go))
}

// TF32 reports whether [Open] lets GPUs round the factors of float32 products to TF32.
func TF32() bool {
	_, _, options := split(Config())
	return !strings.Contains(options, "tf32=false")
}

// IsGo reports whether [Open] opens the pure-Go engine, which is fine for tests but slow for training.
func IsGo() bool {
	engine, _, _ := split(Config())
	return engine == Go
}

// CanLoadXLA reports whether this binary can load PJRT plugins. Only binaries built with a C compiler can.
func CanLoadXLA() bool { return hasXLA }

// Plugins lists the PJRT plugins that this machine can use, best first. It looks in the checkout first, and in the user's cache if the checkout has none.
func Plugins() []string { return pluginsOf(installs()) }

// install is a folder into which set-up installs plugins.
type install struct {
	folder string
	owner  string // Description for messages.
}

// installs lists the folders that may hold plugins, in the order of the search.
func installs() []install {
	all := lo.Map(checkouts(), func(root string, _ int) install {
		return install{filepath.Join(root, SetupDir), "the checkout " + root}
	})
	if cache, err := CacheDir(); err == nil {
		all = append(all, install{cache, "the user's cache " + cache})
	}
	return all
}

func pluginsOf(installs []install) []string {
	const packages = "venv/lib/python3*/site-packages/"
	for _, in := range installs {
		var found []string
		if HasGPU() {
			found = append(found, glob(in.folder, packages+"jax_plugins/xla_cuda*/xla_cuda_plugin.so")...)
		}
		found = append(found, glob(in.folder, packages+"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so")...)
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
	working, _ := os.Getwd()
	executable, _ := os.Executable()
	_, source, _, _ := runtime.Caller(0)
	for _, dir := range []string{working, filepath.Dir(executable), filepath.Dir(source)} {
		for ; filepath.IsAbs(dir) && dir != filepath.Dir(dir); dir = filepath.Dir(dir) { // What cannot be told is not absolute.
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

// glob lists the files below a folder that match a pattern. The folder's name is no pattern.
func glob(folder, pattern string) []string {
	matches, _ := fs.Glob(os.DirFS(folder), pattern) // Its only error is of a pattern, and the patterns are constants.
	return lo.Map(matches, func(name string, _ int) string { return filepath.Join(folder, name) })
}

// BatchAxis is the axis of [Mesh].
const BatchAxis = "batch"

// meshes has a mesh for each backend that [OpenDevices] has opened for several devices.
var meshes sync.Map

// Mesh is the row of devices that training on a backend divides a batch over; nil unless [OpenDevices] opened it for several. It is the same in each call, as
// GoMLX wants for graphs that share variables.
func Mesh(b compute.Backend) *distributed.DeviceMesh {
	if mesh, ok := meshes.Load(b); ok {
		return mesh.(*distributed.DeviceMesh)
	}
	return nil
}

// Devices is the number of devices that training on a backend divides a batch over.
func Devices(b compute.Backend) int {
	if mesh := Mesh(b); mesh != nil {
		return mesh.NumDevices()
	}
	return 1
}

// OpenDevices is [Open] for training on n devices of this host: GPUs with XLA's CUDA plugin, virtual devices with its CPU plugin, which share the cores.
// With 1 it is Open. The error says why there are not as many.
func OpenDevices(n int) (compute.Backend, error) {
	if n == 1 {
		return Open()
	}
	return openDevices(Config(), n)
}

func openDevices(config string, n int) (b compute.Backend, err error) {
	defer try.Handle(&err)
	name, plugin, _ := split(config)
	switch {
	case n < 1:
		return nil, fmt.Errorf("devices %d: want 1 or more", n)
	case name == Go:
		return nil, fmt.Errorf("devices %d: the pure-Go engine has 1", n)
	case strings.Contains(filepath.Base(plugin), "cpu"):
		b = try.E1(openAs(config, func() (compute.Backend, error) { return openCPUs(config, n) }))
	default:
		b = try.E1(OpenConfig(config))
	}
	if has := b.NumDevices(); has < n {
		b.Finalize()
		return nil, fmt.Errorf("devices %d: backend %q has %d", n, config, has)
	}
	meshes.Store(b, try.E1(distributed.NewDeviceMesh([]int{n}, []string{BatchAxis})))
	return b, nil
}

// Alias lets a result of a program take the memory of a parameter, an old value that the caller gives away. Without it XLA allocates the result anew
// and copies. On backends that manage their own memory it does nothing. It reports whether it did something, and says once on standard error if XLA did not let it.
//
// PJRT reads the pairs from an attribute of the parameter, which go-xla can write but does not let callers set; hence the reflection.
func Alias(parameter compute.Value, result int) bool {
	node := reflect.ValueOf(parameter)
	if node.Kind() != reflect.Pointer || node.Elem().Kind() != reflect.Struct || !strings.Contains(node.Type().String(), "xla") {
		return false
	}
	field := node.Elem().FieldByName("value")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*stablehlo.Value]() {
		notAliased.Do(func() {
			fmt.Fprintln(os.Stderr, "this version of go-xla has its parameters in another place: steps copy the weights, and need more memory")
		})
		return false
	}
	value := (*stablehlo.Value)(field.UnsafePointer())
	if value.Attributes == nil {
		value.Attributes = map[string]any{}
	}
	value.Attributes["tf.aliasing_output"] = int32(result)
	return true
}

var notAliased sync.Once
