package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v2"
)

func submitVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "submit slurm|k8s EXPERIMENT", Short: "write an experiment as a job of a cluster, one task a cell, and print the command that starts it",
		Example: "semcon submit slurm ablation --profile full --data data --gpus 1 --at-once 8\n" +
			"semcon submit k8s ablation --profile full --data data --dir /work --claim shared --image registry.example/semcon",
	}
	o, flags := studyFlags(c), c.Flags()
	complete(c, "", "slurm", "k8s")
	job := clusterJob{Time: slurmTime(24 * time.Hour)}
	flags.IntVar(&job.GPUs, "gpus", 1, "`NUMBER` of GPUs of a task, which share each batch")
	flags.IntVar(&job.CPUs, "cpus", 8, "`NUMBER` of CPU cores of a task")
	flags.StringVar(&job.Memory, "memory", "64G", "`SIZE` of the main memory of a task")
	flags.Var(parsed[slurmTime]{"string", &job.Time, parseSlurmTime}, "time", "`TIME` after which Slurm ends a task, which then goes back into the queue: 36h, or as Slurm writes it, 1-12:00:00 or minutes")
	flags.IntVar(&job.AtOnce, "at-once", 0, "`NUMBER` of tasks that run at once; by default all that the cluster has room for")
	flags.IntVar(&job.Retries, "retries", 3, "`NUMBER` of times that a task is started again after a failure")
	flags.StringVar(&job.Partition, "partition", "", "`NAME` of a partition of Slurm")
	flags.StringVar(&job.Image, "image", "", "`NAME` of the container image for k8s; Containerfile builds one")
	flags.StringVar(&job.Claim, "claim", "", "`NAME` of the persistent volume claim for k8s, which is mounted at --dir")
	dir := flags.String("dir", "", "`FOLDER` in which tasks run, on storage that they share; by default this one, and /work for k8s")
	binary := flags.String("binary", "", "`FILE` of semcon on the nodes; by default this one, and semcon for k8s")
	start := flags.Bool("run", false, "also start the job")
	c.Run = func(c *cobra.Command, names []string) {
		refuse(len(names) != 2, "want slurm or k8s and the name of an experiment, got %s", listed(names))
		kind := names[0]
		refuse(clusters[kind].start == nil, "cluster %q is unknown; want slurm or k8s", kind)
		experiment, _ := completeStudy(c, o, names[1:])
		requireWritable("out", o.Out)
		o.Warn = say
		cells := statusOf(experiment, *o)
		job.Cells = lo.FilterMap(cells, func(cell study.CellStatus, _ int) (string, bool) { return cell.Name, cell.State != study.Done })
		if len(job.Cells) == 0 {
			fmt.Printf("%s: all recorded\n", plural.Count(len(cells), "cell"))
			return
		}
		folder := try.E1(filepath.Abs(study.Folder(o.Out, experiment.Name)))
		job.Name, job.Logs, job.Folder = "semcon-"+experiment.Name, filepath.Join(folder, "logs"), *dir
		if kind == "k8s" {
			job.Folder, *binary = cmp.Or(job.Folder, "/work"), cmp.Or(*binary, "semcon")
		} else {
			job.Folder = try.E1(filepath.Abs(job.Folder))
		}
		shared := *o
		shared.Only = nil
		job.Command = append([]string{cmp.Or(*binary, installedBinary()), "run", experiment.Name, "--wait", "--parallel", "1"}, flagsOf(shared)...)
		if job.GPUs > 1 {
			job.Command = append(job.Command, "--devices", fmt.Sprint(job.GPUs))
		}
		text := job.write(kind)
		file := filepath.Join(folder, "job"+filepath.Ext(clusters[kind].template))
		try.E(atomicfile.WriteBytes(file, []byte(text)))
		try.E(os.MkdirAll(job.Logs, 0o777)) // Slurm does not make it.
		command := append(slices.Clone(clusters[kind].start), file)
		fmt.Printf("%s: %s\n", file, plural.Count(len(job.Cells), "task"))
		if !*start {
			fmt.Printf("start it: %s\nhow far it is: %s\n", commandLine(command...), commandFor("status", experiment.Name, *o))
			return
		}
		cmd := exec.CommandContext(c.Context(), command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		fail(err != nil, "%s: %w", commandLine(command...), err)
	}
	return c
}

// installedBinary is the path of this binary, or its name if "go run" has built it in a folder that goes away.
func installedBinary() string {
	path, err := os.Executable()
	return lo.Ternary(err != nil || strings.HasPrefix(path, filepath.Join(os.TempDir(), "go-build")), "semcon", path)
}

// clusterJob is a study as a job of a cluster: an array of Slurm or an Indexed Job of Kubernetes, with one task a cell. The cluster schedules. The tasks share
// storage: the same folders have the same paths on every node.
type clusterJob struct {
	Name    string   // In lower-case letters, digits and "-".
	Command []string // Runs the cells that --only selects, and is stopped by SIGTERM after it has saved its state.
	Cells   []string // One task each.
	Folder  string   // The working folder of the tasks.
	Logs    string   // The folder of their logs. Kubernetes keeps the logs itself.

	GPUs    int       `json:"gpus" range:"[0,2^10]"` // Of a task.
	CPUs    int       `json:"cpus" range:"[1,2^14]"`
	Memory  string    // Of a task, such as "64G".
	Time    slurmTime // Of a task until it goes back into the queue.
	AtOnce  int       `json:"at-once" range:"[0,2^20]"` // Tasks that run at once; 0 for as many as the cluster gives.
	Retries int       `json:"retries" range:"[0,2^10]"` // How often a task that fails is started again.

	Partition string // Of Slurm; empty for its default.

	Image, Claim string // Of Kubernetes: the container image, and the claim of the volume that is mounted at Folder.
}

// Script is what the shell of a task of Kubernetes runs.
func (j clusterJob) Script() string {
	cells := lo.Map(j.Cells, func(cell string, _ int) string { return onlyCell(cell) })
	return fmt.Sprintf("cells=(\n  %s\n)\nexec %s --only \"${cells[$JOB_COMPLETION_INDEX]}\"\n", strings.Join(cells, "\n  "), commandLine(j.Command...))
}

// onlyCell is the pattern of --only that matches one cell, as a word of the shell.
func onlyCell(cell string) string {
	return quote(regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(cell, `\$0`))
}

// clusters are the kinds of clusters: the template of a job's file, which gives the file its ending, and the command that starts the job, without the file.
var clusters = map[string]struct {
	template string
	start    []string
}{"slurm": {"slurm.sbatch", []string{"sbatch"}}, "k8s": {"kubernetes.yaml", []string{"kubectl", "create", "-f"}}}

//go:embed slurm.sbatch kubernetes.yaml
var files embed.FS

// The templates write what is not of our own making as the YAML library does, with its lines behind an indentation.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"quote": quote, "line": func(words []string) string { return commandLine(words...) }, "last": func(cells []string) int { return len(cells) - 1 },
	"only": onlyCell,
	"yaml": func(indentation int, text string) (string, error) {
		encoded, err := yaml.Marshal(text)
		return strings.ReplaceAll(strings.TrimSuffix(string(encoded), "\n"), "\n", "\n"+strings.Repeat(" ", indentation)), err
	},
}).ParseFS(files, "*"))

// slurmTime is a time that is read as Go or as Slurm writes it: 36h, minutes, minutes:seconds, hours:minutes:seconds or days-hours:minutes:seconds.
type slurmTime time.Duration

func (t slurmTime) String() string {
	s := int(time.Duration(t).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

func parseSlurmTime(text string) (t slurmTime, err error) {
	if d, err := time.ParseDuration(text); err == nil {
		return slurmTime(d), nil
	}
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	units := []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second}
	parts := append([]string{days}, strings.Split(clock, ":")...)
	if !hasDays && len(parts) < 4 {
		units = slices.Delete(units, 1, 2) // Without days, one or two numbers are minutes and seconds.
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || i >= len(units) {
			return 0, errors.New("want a time such as 36h, or as Slurm writes it: 1-12:00:00, 36:00:00 or minutes")
		}
		t += slurmTime(time.Duration(n) * units[i])
	}
	return t, nil
}

var (
	jobName    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$`)
	memorySize = regexp.MustCompile(`^[1-9][0-9]*[MGT]$`)
)

// write returns the file that starts the job on a kind of cluster. It ends the verb with an error that names the first field, as a flag, that a cluster would
// refuse.
func (j clusterJob) write(kind string) string {
	err := settings.Check(j)
	refuse(err != nil, "--%v", err)
	refuse(!jobName.MatchString(j.Name), "job name %q: want lower-case letters, digits and \"-\", at most 52", j.Name)
	refuse(len(j.Cells) == 0, "%s: no cells are left to run", j.Name)
	refuse(!memorySize.MatchString(j.Memory), "--memory %q: want a number and M, G or T, such as 64G", j.Memory)
	refuse(j.Time < slurmTime(5*time.Minute), "--time %v: want at least 5m", time.Duration(j.Time))
	refuse(j.Partition != "" && !plainWord.MatchString(j.Partition), "--partition %q: not the name of a partition", j.Partition)
	if kind == "k8s" {
		refuse(!plainWord.MatchString(j.Image), "--image %q: want the name of a container image, which Containerfile builds", j.Image)
		refuse(!jobName.MatchString(j.Claim), "--claim %q: want the name of a persistent volume claim", j.Claim)
	}
	for _, path := range []string{j.Folder, j.Logs} {
		refuse(strings.ContainsAny(path, "\n%\\"), // sbatch expands % in the names of logs.
			"%q: a folder of a cluster's job may not have %%, a backslash or a line break in its name", path)
	}
	var text strings.Builder
	try.E(templates.ExecuteTemplate(&text, clusters[kind].template, j))
	return text.String()
}
