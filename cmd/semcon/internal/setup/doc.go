// Package setup installs what the notebooks need into the .semcon folder of a checkout: Python with JupyterLab, the XLA plugin, the Go kernel
// and a warm build cache. For binaries outside a checkout it installs only the XLA plugin, into the user's cache.
//
// Set-up is a short list of steps. A finished step leaves a stamp with a hash of everything that it depends on. A step whose stamp is missing or
// differs is done again from the beginning. So set-up may be interrupted at any time and is free if everything is up to date.
package setup
