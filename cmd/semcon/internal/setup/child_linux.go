package setup

import (
	"os/exec"
	"syscall"
)

// DieWithParent makes the system end a program when this process ends, however it ends: a SIGKILL leaves no server and no set-up behind.
func DieWithParent(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGTERM
}
