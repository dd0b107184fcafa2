// Package atomicfile writes files atomically: a file is either complete or does not exist.
package atomicfile
