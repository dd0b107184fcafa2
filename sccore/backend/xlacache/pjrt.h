// The part of PJRT's C interface that the cache of compiled programs uses. The interface only grows at its end, so these declarations fit every plugin
// of version 0.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct semcon_error semcon_error;
typedef struct semcon_client semcon_client;
typedef struct semcon_executable semcon_executable;
typedef struct semcon_loaded semcon_loaded;

typedef struct {
	size_t struct_size;
	void *extensions;
	char *code;
	size_t code_size;
	const char *format;
	size_t format_size;
} semcon_program;

typedef struct {
	size_t struct_size;
	void *extensions;
	semcon_client *client;
	const semcon_program *program;
	const char *options;
	size_t options_size;
	semcon_loaded *loaded; // Out.
} semcon_compile_args;

// A function table: its size, its version, and functions, of which the cache knows a few by their place.
typedef struct {
	size_t struct_size;
	void *extensions;
	size_t version_size;
	void *version_extensions;
	int major, minor;
	void *functions[];
} semcon_api;

// semcon_load loads a plugin and copies its function table, with semconCompile in the place of its compiler. It returns an error's text or NULL.
const char *semcon_load(const char *path, semcon_api **copy);

// semcon_compile calls the plugin's own compiler.
semcon_error *semcon_compile(semcon_compile_args *args);

// semcon_version returns the version of a client's platform, such as that of CUDA, of so many bytes.
char *semcon_version(semcon_client *client, size_t *size);

// semcon_deserialize loads a serialized program. It returns NULL if the plugin refuses it.
semcon_loaded *semcon_deserialize(semcon_client *client, const char *bytes, size_t size);

// semcon_serialize serializes a program, and calls semconStore with the bytes. It does nothing if the plugin cannot.
void semcon_serialize(semcon_loaded *loaded, const char *key);

// semcon_peak_memory returns the most bytes that were in use on the first device of the client that has compiled last, or 0 if the plugin does not say.
int64_t semcon_peak_memory(void);
