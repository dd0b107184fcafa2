//go:build !linux

package setup

import "os/exec"

// DieWithParent does nothing: this system has no signal for the end of a parent.
func DieWithParent(*exec.Cmd) {}
