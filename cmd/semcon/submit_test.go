package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWorkersOfAClusterThatAreKilled runs the tasks of a job in three workers, as Slurm would, and kills each task at random moments. Cells need each other's
// results, and tasks wait for them.
func TestWorkersOfAClusterThatAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	const seed = 1
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	binary := filepath.Join(dir, "semcon")
	text := fmt.Sprintf("#!/bin/bash\nexport SEMCON_TEST_ROLE=semcon GOMLX_BACKEND=go\nunset SEMCON_DATA\nexec %s \"$@\"\n", os.Args[0])
	if err := os.WriteFile(binary, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), binary, args...)
		c.Dir = dir
		output, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("semcon %s: %v\n%s", strings.Join(args, " "), err, output)
		}
		return string(output)
	}
	cells := []string{"ablation", "--profile", "smoke", "--only", "stage1", "--only", "line1", "--only", "line5",
		"--set", "first.encoder=vit-tiny", "--set", "second.encoder=vit-tiny"} // They train long enough to be killed.
	call(append([]string{"run", "--out", "whole"}, cells...)...)
	call(append([]string{"submit", "slurm", "--out", "killed", "--gpus", "0", "--retries", "0", "--binary", binary}, cells...)...)
	if status := call(append([]string{"status", "--out", "killed"}, cells...)...); !strings.Contains(status, "3 cells: 3 to do\n") {
		t.Error(status)
	}

	tasks, kills := make(chan int, 3), make(chan int, 3)
	for task := range 3 {
		tasks <- task
	}
	close(tasks)
	for worker := range 3 {
		random := rand.New(rand.NewPCG(seed, uint64(worker)))
		go func() {
			killed := 0
			defer func() { kills <- killed }()
			for task := range tasks {
				for attempt := range 30 {
					c := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, "killed", "ablation", "job.sbatch"))
					c.Env = append(os.Environ(), fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", task))
					c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
					if err := c.Start(); err != nil {
						t.Error(err)
						return
					}
					if attempt < 3 {
						timer := time.AfterFunc(time.Duration(random.IntN(2000))*time.Millisecond, func() { syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
						defer timer.Stop()
					}
					if c.Wait() == nil {
						break
					}
					killed++
				}
			}
		}()
	}
	killed := 0
	for range 3 {
		killed += <-kills
	}
	if killed == 0 {
		t.Error("no task was killed")
	}
	if status := call(append([]string{"status", "--out", "killed"}, cells...)...); !strings.Contains(status, "3 cells: 3 done\n") {
		t.Error(status)
	}
	for _, rest := range []string{"logs", "job.sbatch"} {
		if err := os.RemoveAll(filepath.Join(dir, "killed", "ablation", rest)); err != nil {
			t.Fatal(err)
		}
	}
	result, err := compareRuns(filepath.Join(dir, "whole"), filepath.Join(dir, "killed"))
	if err != nil || len(result.Differences) > 0 || result.Records == 0 {
		t.Errorf("after %d kills: %v, %v", killed, result, err)
	}
	t.Logf("%d kills, %d files and %d records are the same", killed, result.Files, result.Records)
}

func TestSubmitRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"want slurm or k8s and the name": {"ablation"}, `cluster "pbs"`: {"pbs", "ablation"}, `--image ""`: {"k8s", "ablation"}, "--memory": {"slurm", "ablation", "--memory", "4"},
		"experiment": {"slurm", "nothing"}, "--only": {"slurm", "ablation", "--only", "x"},
	} {
		out := t.TempDir()
		var stderr bytes.Buffer
		if status := command(t.Context(), append([]string{"submit"}, append(args, "--profile", "smoke", "--out", out)...), &stderr); status == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("submit %s: %s, want an error with %q", strings.Join(args, " "), &stderr, want)
		}
		if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
			t.Errorf("submit %s leaves %v, %v", strings.Join(args, " "), left, err)
		}
	}
}
