//go:build cgo && linux

package xlacache

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "pjrt.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/dsnet/try"
	"github.com/gomlx/go-xla/pjrt"
)

var (
	installing sync.Mutex
	installed  string // The plugin whose compiler is replaced; one in a process.
	refused    bool   // Whether others can write the folder, which is said once.
	cache      folder
	environ    []byte // What every key begins with.
)

// Install loads a PJRT plugin and puts the cache before its compiler. Backends that are opened by the plugin's path use it from then on. device names the kind
// of the device, XLA_FLAGS must be set already. Without a folder that is the user's alone, or if the process has another plugin, Install does nothing.
func Install(plugin, device string) (err error) {
	defer try.Handle(&err)
	installing.Lock()
	defer installing.Unlock()
	if Dir() == "" || installed != "" || refused {
		return nil
	}
	if err := Trusted(Dir()); err != nil {
		refused = true
		fmt.Fprintf(os.Stderr, "warning: compiled programs are not kept: %v\n", err)
		return nil
	}
	cache = folder{Dir(), maxBytes}
	on := try.E1(cache.machine(plugin, device, os.Getenv("XLA_FLAGS")))
	path := C.CString(plugin)
	defer C.free(unsafe.Pointer(path))
	var api *C.semcon_api
	if reason := C.semcon_load(path, &api); reason != nil {
		return fmt.Errorf("cannot load PJRT plugin %s: %s", plugin, C.GoString(reason))
	}
	environ = fmt.Appendf(nil, "%s\nPJRT %d.%d", on, api.major, api.minor)
	try.E(pjrt.RegisterPreloadedPlugin(plugin, uintptr(unsafe.Pointer(api))))
	installed = plugin
	return nil
}

// DeviceMemory is the most bytes that were in use on the first device of the client that compiled last. That client must be open. It is 0 if the cache is off,
// or if the plugin does not say, as the plugin for CPUs.
func DeviceMemory() int64 { return int64(C.semcon_peak_memory()) }

// semconCompile stands in the place of PJRT_Client_Compile.
//
//export semconCompile
func semconCompile(call unsafe.Pointer) unsafe.Pointer {
	args := (*C.semcon_compile_args)(call)
	program := args.program
	var size C.size_t
	version := C.semcon_version(args.client, &size)
	key := keyOf(environ, bytesAt(version, size), bytesAt(program.format, program.format_size), bytesAt(args.options, args.options_size), bytesAt(program.code, program.code_size)) + programSuffix
	if found, ok := cache.read(key); ok && len(found) > 0 {
		if args.loaded = C.semcon_deserialize(args.client, (*C.char)(unsafe.Pointer(&found[0])), C.size_t(len(found))); args.loaded != nil {
			return nil
		}
		cache.remove(key)
	}
	if err := C.semcon_compile(args); err != nil {
		return unsafe.Pointer(err)
	}
	name := C.CString(key)
	defer C.free(unsafe.Pointer(name))
	C.semcon_serialize(args.loaded, name)
	return nil
}

// semconStore keeps a serialized program, whose memory belongs to the plugin.
//
//export semconStore
func semconStore(key, program *C.char, size C.size_t) {
	cache.write(C.GoString(key), bytesAt(program, size))
}

// bytesAt is memory of C as a slice.
func bytesAt(start *C.char, size C.size_t) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(start)), int(size))
}
