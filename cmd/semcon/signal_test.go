package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/spf13/cobra"
)

// busyVerb computes and ignores its context, like XLA while it compiles.
func busyVerb(c *cobra.Command, _ flagTexts) {
	c.Run = func(*cobra.Command, []string) {
		fmt.Println("begun")
		select {}
	}
}

// TestSignalsEndWhatDoesNotListen sends one signal and waits for the grace period, or sends two signals, of which the second kills the process within it.
func TestSignalsEndWhatDoesNotListen(t *testing.T) {
	for _, test := range []struct {
		name    string
		signals []syscall.Signal
	}{
		{"SIGINT", []syscall.Signal{syscall.SIGINT}},
		{"SIGTERM", []syscall.Signal{syscall.SIGTERM}},
		{"two", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), os.Args[0], "busy")
			c.Env = append(os.Environ(), "SEMCON_TEST_ROLE=busy semcon")
			var stderr bytes.Buffer
			c.Stderr = &stderr
			stdout, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			took := end(t, c, test.signals...)
			if len(test.signals) > 1 {
				if by := c.ProcessState.Sys().(syscall.WaitStatus).Signal(); by != syscall.SIGINT {
					t.Errorf("it ended by itself after %s, with status %d", took, c.ProcessState.ExitCode())
				}
				return // The shell says how it ended.
			}
			if took > 5*time.Second {
				t.Errorf("it ended after %s", took)
			}
			if status := c.ProcessState.ExitCode(); status != 130 {
				t.Errorf("exit status %d", status)
			}
			wantLine(t, stderr.String(), "semcon busy: stopped; checkpoint kept; run it again to continue")
		})
	}
}

// end sends signals and returns how long the process still ran. It sends the second again and again: one is lost if the process has not taken the first.
func end(t *testing.T, c *exec.Cmd, signals ...syscall.Signal) time.Duration {
	t.Helper()
	start := time.Now()
	if err := c.Process.Signal(signals[0]); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for _, second := range signals[1:] {
		for len(ended) == 0 {
			c.Process.Signal(second) // Its error is that the process has ended.
			time.Sleep(50 * time.Millisecond)
		}
	}
	<-ended // The error is the exit status, which the caller looks at.
	return time.Since(start)
}

// TestARunThatCompilesEndsSoon interrupts pretraining while its step is being compiled.
func TestARunThatCompilesEndsSoon(t *testing.T) {
	config := backend.Config()
	m := newMachine(t)
	c := semcon(t, m, "run", "pretrain", "--profile", "quick", "--seeds", "1", "--parallel", "1", "--out", t.TempDir())
	c.Env = append(c.Env, "GOMLX_BACKEND="+config)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "engine: ") {
		t.Fatalf("it begins with %q", lines.Text())
	}
	time.Sleep(2 * time.Second)
	last := make(chan string)
	go func() {
		var line string
		for lines.Scan() {
			line = lines.Text()
		}
		last <- line
	}()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	line := <-last
	c.Wait()
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it ended after %s", took)
	} else {
		t.Logf("%s, it ended after %s", config, took)
	}
	if status := c.ProcessState.ExitCode(); status != 130 || line != "semcon run: stopped; what was saved is kept; run it again to continue" {
		t.Errorf("exit status %d, said %q", status, line)
	}
}
