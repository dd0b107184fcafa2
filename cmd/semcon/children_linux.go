package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the system end a program when this process ends, however it ends: a SIGKILL leaves no server and no set-up behind.
func dieWithParent(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Pdeathsig = syscall.SIGTERM
}

// adoptOrphans makes this process the parent of its descendants whose own parent ends. A server that is told to stop kills its kernels, and these leave the
// programs behind that complete code for them.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// endChildren ends all children of this process, and theirs, and waits some seconds until they have. It is for the end of a program that adopts orphans.
func endChildren() {
	for range 50 {
		left := children()
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGTERM)
			syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// children are the processes whose parent is this one.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // Its only error is of the pattern.
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // It has ended.
		}
		// The name of the program, in parentheses, may hold anything. Its state and its parent follow.
		fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}
