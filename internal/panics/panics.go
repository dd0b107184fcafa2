// Package panics turns a panic into an error. In goes a function, out comes its error: a panic in a goroutine ends the process unless the goroutine
// itself recovers, so every goroutine that does an experiment's work runs through [Catch].
package panics

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// Catch runs f and returns its error, or a panic of f as an error of one line, "internal error: …". It prints the stack if SEMCON_DEBUG is set.
func Catch(f func() error) (err error) {
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		if os.Getenv("SEMCON_DEBUG") != "" {
			fmt.Fprintf(os.Stderr, "%v\n%s", caught, debug.Stack())
		}
		if known, ok := caught.(caughtError); ok { // A goroutine's, which its caller panics with.
			err = known
			return
		}
		err = caughtError(FirstLine(fmt.Sprint(caught)))
	}()
	return f()
}

// caughtError is what remains of a panic.
type caughtError string

func (e caughtError) Error() string { return "internal error: " + string(e) }

// FirstLine returns the first line of an error or a panic that is not blank. Those of other libraries may include stack traces.
func FirstLine(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return "an error without a message"
}
