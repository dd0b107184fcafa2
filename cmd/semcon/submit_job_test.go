package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

func jobOfTwo() clusterJob {
	return clusterJob{
		Name: "semcon-ablation", Command: []string{"/opt/semcon", "run", "ablation", "--set", "a=it's b"}, Cells: []string{"line1/seed0", "crop+flip/seed[1]"},
		Folder: "/shared/work", Logs: "/shared/work/out/logs", GPUs: 2, CPUs: 8, Memory: "64G", Time: slurmTime(36 * time.Hour), AtOnce: 1, Retries: 3,
		Partition: "gpu", Image: "registry.example/semcon:1", Claim: "shared",
	}
}

func writtenJob(t *testing.T, kind string, j clusterJob) string {
	t.Helper()
	return j.write(kind)
}

// TestTimesOfSlurm reads the forms of sbatch's manual, and Go's.
func TestTimesOfSlurm(t *testing.T) {
	for text, want := range map[string]string{
		"90": "01:30:00", "90:30": "01:30:30", "36:00:00": "36:00:00", "2-0": "48:00:00", "1-12:30": "36:30:00", "2-00:00:00": "48:00:00", "36h": "36:00:00", "1h30m": "01:30:00",
	} {
		var read slurmTime
		if err := read.Set(text); err != nil || read.String() != want {
			t.Errorf("%s is %v, %v; want %s", text, read, err, want)
		}
	}
	for _, text := range []string{"", "soon", "1-", "-5", "1:2:3:4", "1-2:3:4:5", "1-12h", "300000-0", "200000-0"} {
		var read slurmTime
		if err := read.Set(text); err == nil {
			t.Errorf("%q passes for %v", text, read)
		}
	}
}

// TestKubernetesReadsOddNames: what is read back is what was written.
func TestKubernetesReadsOddNames(t *testing.T) {
	want := jobOfTwo()
	want.Cells, want.Folder, want.Image = []string{"a: 'b\n c\"", "\x01\t# {[&*!|>%@`"}, "/it's: #1/\"x\"", "1:2"
	var j kubernetesJob
	if err := yaml.UnmarshalStrict([]byte(writtenJob(t, "k8s", want)), &j); err != nil {
		t.Fatal(err)
	}
	c := j.Spec.Template.Spec.Containers[0]
	if c.Args[0] != want.Script() || c.WorkingDir != want.Folder || c.VolumeMounts[0].MountPath != want.Folder || c.Image != want.Image {
		t.Errorf("%q", c)
	}
}

// kubernetesJob has the fields of a Job of batch/v1 that the file uses, as the types of Kubernetes have them.
type kubernetesJob struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		GenerateName string `yaml:"generateName"`
		Labels       map[string]string
	}
	Spec struct {
		CompletionMode       string `yaml:"completionMode"`
		Completions          int32
		Parallelism          int32
		BackoffLimitPerIndex int32 `yaml:"backoffLimitPerIndex"`
		MaxFailedIndexes     int32 `yaml:"maxFailedIndexes"`
		PodFailurePolicy     struct {
			Rules []struct {
				Action          string
				OnPodConditions []struct{ Type, Status string } `yaml:"onPodConditions"`
			}
		} `yaml:"podFailurePolicy"`
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				RestartPolicy                 string `yaml:"restartPolicy"`
				TerminationGracePeriodSeconds int64  `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Name, Image   string
					WorkingDir    string `yaml:"workingDir"`
					Command, Args []string
					Resources     struct{ Requests, Limits map[string]string }
					VolumeMounts  []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name                  string
					PersistentVolumeClaim struct {
						ClaimName string `yaml:"claimName"`
					} `yaml:"persistentVolumeClaim"`
					EmptyDir struct{ Medium string } `yaml:"emptyDir"`
				}
			}
		}
	}
}

func TestKubernetesAcceptsTheJob(t *testing.T) {
	var j kubernetesJob
	if err := yaml.UnmarshalStrict([]byte(writtenJob(t, "k8s", jobOfTwo())), &j); err != nil {
		t.Fatal(err)
	}
	container := j.Spec.Template.Spec.Containers[0]
	if j.APIVersion != "batch/v1" || j.Kind != "Job" || j.Spec.Template.Spec.RestartPolicy != "Never" {
		t.Errorf("%v", j)
	}
	if j.Spec.CompletionMode != "Indexed" || j.Spec.Completions != 2 || j.Spec.Parallelism != 1 || j.Spec.BackoffLimitPerIndex != 3 {
		t.Errorf("%v", j.Spec)
	}
	limits := container.Resources.Limits // Of Kubernetes' suffixes, Gi is 2³⁰ bytes, as G of Slurm is.
	if limits["nvidia.com/gpu"] != "2" || limits["memory"] != "64Gi" || j.Spec.PodFailurePolicy.Rules[0].Action != "Ignore" {
		t.Errorf("%v", limits)
	}
	if container.WorkingDir != "/shared/work" || container.VolumeMounts[0].MountPath != "/shared/work" || j.Spec.Template.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "shared" {
		t.Errorf("%v", container)
	}
	// The shell of the container runs one cell.
	script := strings.ReplaceAll(container.Args[0], "exec /opt/semcon", "printf '%s\\n'")
	command := exec.Command("bash", "-c", script)
	command.Env = append(os.Environ(), "JOB_COMPLETION_INDEX=1")
	words, err := command.Output()
	if want := "run\nablation\n--set\na=it's b\n--only\ncrop+flip/seed\\[1]\n"; err != nil || string(words) != want {
		t.Errorf("the task runs %q, %v; want %q", words, err, want)
	}
}

func TestSlurmDirectives(t *testing.T) {
	lines := strings.Split(writtenJob(t, "slurm", jobOfTwo()), "\n")
	for _, want := range []string{
		"--job-name=semcon-ablation", "--array=0-1%1", "--cpus-per-task=8", "--mem=64G", "--gres=gpu:2", "--partition=gpu", "--time=36:00:00", "--requeue",
		"--open-mode=append", "--signal=B:USR2@120", `--output="/shared/work/out/logs/%A_%a.log"`,
	} {
		if !slices.Contains(lines, "#SBATCH "+want) {
			t.Errorf("no directive %s", want)
		}
	}
	// sbatch reads no directive after the first command.
	if first := slices.IndexFunc(lines, func(line string) bool { return line != "" && line[0] != '#' }); slices.ContainsFunc(lines[first:], func(line string) bool { return strings.HasPrefix(line, "#SBATCH") }) {
		t.Error("a directive follows the first command")
	}
	j := jobOfTwo()
	j.GPUs, j.Partition, j.AtOnce = 0, "", 0
	if text := writtenJob(t, "slurm", j); strings.Contains(text, "gres") || strings.Contains(text, "partition") || !strings.Contains(text, "--array=0-1\n") {
		t.Error(text)
	}
}

// TestSlurmTask runs the file as Slurm does, with a command that takes its time, and a scontrol that notes what it is asked.
func TestSlurmTask(t *testing.T) {
	for _, test := range []struct {
		name, command, signal string
		failures              string
		status                int
		requeued              bool
	}{
		{name: "done", command: "exit 0"},
		{name: "fails", command: "exit 1", requeued: true},
		{name: "fails too often", command: "exit 1", failures: "1\n1\n1\n", status: 1},
		{name: "its time is over", command: "trap 'exit 130' TERM; touch begun; sleep 60 & wait", signal: "USR2", requeued: true},
		{name: "done when its time is over", command: "trap 'exit 0' TERM; touch begun; sleep 60 & wait", signal: "USR2"},
		{name: "preempted", command: "trap 'exit 130' TERM; touch begun; sleep 60 & wait", signal: "TERM", status: 130},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"scontrol": "#!/bin/bash\necho \"$@\" > " + dir + "/asked\n", "semcon": "#!/bin/bash\n" + test.command + "\n", "7_1.failures": test.failures} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			j := jobOfTwo()
			j.Folder, j.Logs, j.Command = dir, dir, []string{filepath.Join(dir, "semcon")}
			task := exec.CommandContext(t.Context(), "bash", "-c", writtenJob(t, "slurm", j))
			task.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=1", "SLURM_RESTART_COUNT=9") // It ran out of time nine times.
			if err := task.Start(); err != nil {
				t.Fatal(err)
			}
			if test.signal != "" {
				for {
					if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if err := exec.Command("bash", "-c", "kill -"+test.signal+" \"$0\"", strconv.Itoa(task.Process.Pid)).Run(); err != nil {
					t.Fatal(err)
				}
			}
			task.Wait() // Its error is the exit status.
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if requeued := err == nil; requeued != test.requeued || requeued && string(asked) != "requeue 7_1\n" {
				t.Errorf("scontrol was asked %q", asked)
			}
			if status := task.ProcessState.ExitCode(); status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
		})
	}
}

func TestCheckNamesTheFlag(t *testing.T) {
	for want, change := range map[string]func(*clusterJob){
		"no cells": func(j *clusterJob) { j.Cells = nil }, "--gpus -1": func(j *clusterJob) { j.GPUs = -1 }, "--cpus 0": func(j *clusterJob) { j.CPUs = 0 },
		`--memory "64"`: func(j *clusterJob) { j.Memory = "64" }, "--time 1s": func(j *clusterJob) { j.Time = slurmTime(time.Second) }, "--at-once -1": func(j *clusterJob) { j.AtOnce = -1 },
		"--retries -1": func(j *clusterJob) { j.Retries = -1 }, `--partition "a b"`: func(j *clusterJob) { j.Partition = "a b" }, `--image ""`: func(j *clusterJob) { j.Image = "" },
		`--claim "A"`: func(j *clusterJob) { j.Claim = "A" }, "line break": func(j *clusterJob) { j.Folder = "a\nb" },
	} {
		j := jobOfTwo()
		change(&j)
		if err := ended(func() { j.write("k8s") }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %s", err, want)
		}
	}
}
