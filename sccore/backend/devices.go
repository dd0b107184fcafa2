package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/go-xla/stablehlo"
)

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
	name, plugin, _ := split(config)
	switch {
	case n < 1:
		return nil, fmt.Errorf("devices %d: want 1 or more", n)
	case name == Go:
		return nil, fmt.Errorf("devices %d: the pure-Go engine has 1", n)
	case strings.Contains(filepath.Base(plugin), "cpu"):
		b, err = openAs(config, func() (compute.Backend, error) { return openCPUs(config, n) })
	default:
		b, err = OpenConfig(config)
	}
	if err != nil {
		return nil, err
	}
	if has := b.NumDevices(); has < n {
		b.Finalize()
		return nil, fmt.Errorf("devices %d: backend %q has %d", n, config, has)
	}
	mesh, err := distributed.NewDeviceMesh([]int{n}, []string{BatchAxis})
	if err != nil {
		return nil, err
	}
	meshes.Store(b, mesh)
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
