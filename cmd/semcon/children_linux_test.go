package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestEndChildren runs a copy of the test program, whose shell leaves a sleeping program behind.
func TestEndChildren(t *testing.T) {
	if os.Getenv("ADOPT_ORPHANS") != "" {
		if err := adoptOrphans(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!").Output()
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); err != nil {
			t.Fatalf("the orphan does not run: %v", err)
		}
		endChildren()
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
		return
	}
	child := exec.Command(os.Args[0], "-test.run=TestEndChildren")
	child.Env = append(os.Environ(), "ADOPT_ORPHANS=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
