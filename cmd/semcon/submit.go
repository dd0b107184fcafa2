package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/semcon/semcon/cmd/semcon/internal/cluster"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/study"
)

var submitVerb = verb{
	name:    "submit",
	summary: "write an experiment as a job of a cluster, one task a cell, and print the command that starts it",
	args:    "slurm|k8s EXPERIMENT",
	example: "semcon submit slurm ablation --profile full --data data --gpus 1 --at-once 8\n" +
		"semcon submit k8s ablation --profile full --data data --dir /work --claim shared --image registry.example/semcon",
	run: runSubmit,
}

func runSubmit(ctx context.Context, args []string) error {
	flags := newFlags("submit")
	choice := studyFlags(flags)
	var job cluster.Job
	flags.IntVar(&job.GPUs, "gpus", 1, "`NUMBER` of GPUs of a task, which share each batch")
	flags.IntVar(&job.CPUs, "cpus", 8, "`NUMBER` of CPU cores of a task")
	flags.StringVar(&job.Memory, "memory", "64G", "`SIZE` of the main memory of a task")
	flags.DurationVar(&job.Time, "time", 24*time.Hour, "`TIME` after which Slurm ends a task, which then goes back into the queue")
	flags.IntVar(&job.AtOnce, "at-once", 0, "`NUMBER` of tasks that run at once; by default all that the cluster has room for")
	flags.IntVar(&job.Retries, "retries", 3, "`NUMBER` of times that a task is started again after a failure")
	flags.StringVar(&job.Partition, "partition", "", "`NAME` of a partition of Slurm")
	flags.StringVar(&job.Image, "image", "", "`NAME` of the container image for k8s; Containerfile builds one")
	flags.StringVar(&job.Claim, "claim", "", "`NAME` of the persistent volume claim for k8s, which is mounted at --dir")
	dir := flags.String("dir", "", "`FOLDER` in which tasks run, on storage that they share; by default this one, and /work for k8s")
	binary := flags.String("binary", "", "`FILE` of semcon on the nodes; by default this one, and semcon for k8s")
	start := flags.Bool("run", false, "also start the job")
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(names) != 2 {
		return usagef("want slurm or k8s and the name of an experiment, got %s", listed(names))
	}
	kind, err := cluster.KindByName(names[0])
	if err != nil {
		return usagef("%v", err)
	}
	experiment, _, err := choice.complete(flags, names[1:])
	if err != nil {
		return err
	}
	o := choice.options
	if err := requireWritable("out", o.Out); err != nil {
		return err
	}
	o.Warn = func(line string) { fmt.Fprintln(os.Stderr, line) }
	cells, err := statusOf(experiment, o)
	if err != nil {
		return err
	}
	for _, c := range cells {
		if c.State != study.Done {
			job.Cells = append(job.Cells, c.Name)
		}
	}
	if len(job.Cells) == 0 {
		fmt.Printf("%s: all recorded\n", plural.Count(len(cells), "cell"))
		return nil
	}
	folder, err := filepath.Abs(study.Folder(o.Out, experiment.Name))
	if err != nil {
		return err
	}
	job.Name, job.Logs = "semcon-"+experiment.Name, filepath.Join(folder, "logs")
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	job.Folder = *dir
	if kind.Name == "k8s" {
		job.Folder, *binary = cmp.Or(job.Folder, "/work"), cmp.Or(*binary, "semcon")
	} else if job.Folder, err = filepath.Abs(cmp.Or(job.Folder, here)); err != nil {
		return err
	}
	job.Command = append([]string{cmp.Or(*binary, installedBinary()), "run", experiment.Name}, taskFlags(o, job.GPUs)...)
	text, err := job.Write(kind)
	if err != nil {
		return usagef("%v", err)
	}
	file := filepath.Join(folder, "job"+kind.File)
	if err := atomicfile.WriteBytes(file, []byte(text)); err != nil {
		return err
	}
	if err := os.MkdirAll(job.Logs, 0o755); err != nil { // Slurm does not make it.
		return err
	}
	command := append(kind.Args, file)
	fmt.Printf("%s: %s\n", file, plural.Count(len(job.Cells), "task"))
	if !*start {
		fmt.Printf("start it: %s\nhow far it is: %s\n", strings.Join(command, " "), statusCommand(experiment.Name, o))
		return nil
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return nil
}

// statusCommand is the command that shows how far the cells of a job are.
func statusCommand(name string, o study.Options) string {
	command := commandFor("status", name, o.Profile, o.Out)
	if o.Data != "" {
		command += " --data " + o.Data
	}
	for _, value := range o.Set {
		command += " --set '" + value + "'"
	}
	for _, pattern := range o.Only {
		command += " --only '" + pattern + "'"
	}
	return command
}

// taskFlags are the flags of a task's run on so many GPUs, without the cell.
func taskFlags(o study.Options, gpus int) []string {
	flags := []string{"--profile", string(o.Profile), "--out", o.Out, "--wait", "--parallel", "1"}
	if gpus > 1 {
		flags = append(flags, "--devices", fmt.Sprint(gpus))
	}
	if o.Data != "" {
		flags = append(flags, "--data", o.Data)
	}
	if o.Seeds > 0 {
		flags = append(flags, "--seeds", fmt.Sprint(o.Seeds))
	}
	for _, set := range o.Set {
		flags = append(flags, "--set", set)
	}
	return flags
}

// installedBinary is the path of this binary, or its name if "go run" has built it in a folder that goes away.
func installedBinary() string {
	path, err := os.Executable()
	if err != nil || strings.HasPrefix(path, filepath.Clean(os.TempDir())+string(filepath.Separator)+"go-build") {
		return "semcon"
	}
	return path
}
