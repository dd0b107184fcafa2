//go:build cgo && linux

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "_cgo_export.h"

enum { error_destroy = 0, platform_version = 14, addressable_devices = 16, client_compile = 20, memory_stats = 34, executable_destroy = 40, executable_serialize = 49, loaded_executable = 51, deserialize_and_load = 56 };

static semcon_api *plugin; // The plugin's own table.
static semcon_client *last; // The client that has compiled last.

// call calls a function of the plugin that takes one structure, and drops its error. It reports success.
static int call(int function, void *args) {
	semcon_error *error = ((semcon_error * (*)(void *)) plugin->functions[function])(args);
	if (!error) {
		return 1;
	}
	struct {
		size_t struct_size;
		void *extensions;
		semcon_error *error;
	} destroyed = {sizeof destroyed, NULL, error};
	((void (*)(void *))plugin->functions[error_destroy])(&destroyed);
	return 0;
}

const char *semcon_load(const char *path, semcon_api **copy) {
	void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library) {
		static char reason[1024]; // The library's own text belongs to this thread, which the caller may have left when it reads it.
		strncpy(reason, dlerror(), sizeof reason - 1);
		return reason;
	}
	semcon_api *(*get)(void) = (semcon_api * (*)(void)) dlsym(library, "GetPjrtApi");
	semcon_api *own = get ? get() : NULL;
	if (!own || own->major != 0 || own->struct_size < offsetof(semcon_api, functions) + (deserialize_and_load + 1) * sizeof(void *)) {
		return "it is not a PJRT plugin of version 0";
	}
	plugin = own;
	*copy = malloc(own->struct_size);
	memcpy(*copy, own, own->struct_size);
	(*copy)->functions[client_compile] = (void *)semconCompile;
	return NULL;
}

semcon_error *semcon_compile(semcon_compile_args *args) {
	return ((semcon_error * (*)(void *)) plugin->functions[client_compile])(args);
}

char *semcon_version(semcon_client *client, size_t *size) {
	struct {
		size_t struct_size;
		void *extensions;
		semcon_client *client;
		const char *version;
		size_t size;
	} args = {sizeof args, NULL, client, NULL, 0};
	last = client;
	*size = call(platform_version, &args) ? args.size : 0;
	return (char *)args.version;
}

semcon_loaded *semcon_deserialize(semcon_client *client, const char *bytes, size_t size) {
	struct {
		size_t struct_size;
		void *extensions;
		semcon_client *client;
		const char *bytes;
		size_t size;
		semcon_loaded *loaded;
		const char *options;
		size_t options_size;
	} args = {sizeof args, NULL, client, bytes, size, NULL, NULL, 0};
	return call(deserialize_and_load, &args) ? args.loaded : NULL;
}

void semcon_serialize(semcon_loaded *loaded, const char *key) {
	struct {
		size_t struct_size;
		void *extensions;
		semcon_loaded *loaded;
		semcon_executable *executable;
	} got = {sizeof got, NULL, loaded, NULL};
	if (!call(loaded_executable, &got)) {
		return;
	}
	struct {
		size_t struct_size;
		void *extensions;
		const semcon_executable *executable;
		const char *bytes;
		size_t size;
		void *serialized;
		void (*delete)(void *);
	} serialized = {sizeof serialized, NULL, got.executable, NULL, 0, NULL, NULL};
	if (call(executable_serialize, &serialized)) {
		semconStore((char *)key, (char *)serialized.bytes, serialized.size);
		serialized.delete(serialized.serialized);
	}
	struct {
		size_t struct_size;
		void *extensions;
		semcon_executable *executable;
	} destroyed = {sizeof destroyed, NULL, got.executable};
	call(executable_destroy, &destroyed);
}

int64_t semcon_peak_memory(void) {
	struct {
		size_t struct_size;
		void *extensions;
		semcon_client *client;
		void **devices;
		size_t count;
	} found = {sizeof found, NULL, last, NULL, 0};
	struct {
		size_t struct_size;
		void *extensions, *device;
		int64_t in_use, peak;
		bool has_peak;
		int64_t more[64]; // Of what later versions add.
	} memory = {sizeof memory, NULL, NULL, 0, 0, false, {0}};
	if (!last || !call(addressable_devices, &found) || found.count == 0) {
		return 0;
	}
	memory.device = found.devices[0];
	return call(memory_stats, &memory) && memory.has_peak ? memory.peak : 0;
}
