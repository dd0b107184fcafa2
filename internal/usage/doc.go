// Package usage measures the CPU time and the memory that a piece of work costs this process.
package usage
