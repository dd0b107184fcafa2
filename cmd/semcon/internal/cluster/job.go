package cluster

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// Job is a study as a job of a cluster. Its tasks share storage: the same folders have the same paths on every node.
type Job struct {
	Name    string   // In lower-case letters, digits and "-".
	Command []string // Runs the cells that --only selects, and is stopped by SIGTERM after it has saved its state.
	Cells   []string // One task each.
	Folder  string   // The working folder of the tasks.
	Logs    string   // The folder of their logs. Kubernetes keeps the logs itself.

	GPUs, CPUs int           // Of a task.
	Memory     string        // Of a task, such as "64G".
	Time       time.Duration // Of a task until it goes back into the queue.
	AtOnce     int           // Tasks that run at once; 0 for as many as the cluster gives.
	Retries    int           // How often a task that fails is started again.

	Partition string // Of Slurm; empty for its default.

	Image, Claim string // Of Kubernetes: the container image, and the claim of the volume that is mounted at Folder.
}

// Kind is a kind of cluster.
type Kind struct {
	Name string
	File string   // The ending of the job's file.
	Args []string // The command that starts the job, without the file.

	template string
}

// Kinds are the kinds of clusters.
var Kinds = []Kind{
	{"slurm", ".sbatch", []string{"sbatch"}, "slurm.sbatch"},
	{"k8s", ".yaml", []string{"kubectl", "create", "-f"}, "kubernetes.yaml"},
}

// KindByName returns the kind with the given name.
func KindByName(name string) (Kind, error) {
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return Kinds[i], nil
	}
	return Kind{}, fmt.Errorf("cluster %q is unknown; want slurm or k8s", name)
}

//go:embed slurm.sbatch kubernetes.yaml
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"quote": quote, "last": func(cells []string) int { return len(cells) - 1 }, "clock": clock, "seconds": func(d time.Duration) int { return int(d.Seconds()) },
	"quantity": quantity, "line": func(words []string) string { return strings.Join(quoted(words), " ") }, "only": only,
}).ParseFS(files, "*"))

var (
	jobName   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?$`)
	memory    = regexp.MustCompile(`^[1-9][0-9]*[MGT]$`)
	plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@=,+-]+$`)
)

// Check returns an error that names the first field, as a flag, that a cluster would refuse.
func (j Job) Check(k Kind) error {
	switch {
	case !jobName.MatchString(j.Name):
		return fmt.Errorf("job name %q: want lower-case letters, digits and \"-\", at most 52", j.Name)
	case len(j.Cells) == 0:
		return fmt.Errorf("%s: no cells are left to run", j.Name)
	case j.GPUs < 0:
		return fmt.Errorf("--gpus %d is negative", j.GPUs)
	case j.CPUs < 1:
		return fmt.Errorf("--cpus %d is not positive", j.CPUs)
	case !memory.MatchString(j.Memory):
		return fmt.Errorf("--memory %q: want a number and M, G or T, such as 64G", j.Memory)
	case j.Time < 5*time.Minute:
		return fmt.Errorf("--time %v: want at least 5m", j.Time)
	case j.AtOnce < 0:
		return fmt.Errorf("--at-once %d is negative", j.AtOnce)
	case j.Retries < 0:
		return fmt.Errorf("--retries %d is negative", j.Retries)
	case j.Partition != "" && !plainWord.MatchString(j.Partition):
		return fmt.Errorf("--partition %q: not the name of a partition", j.Partition)
	case k.Name == "k8s" && !plainWord.MatchString(j.Image):
		return fmt.Errorf("--image %q: want the name of a container image, which Containerfile builds", j.Image)
	case k.Name == "k8s" && !jobName.MatchString(j.Claim):
		return fmt.Errorf("--claim %q: want the name of a persistent volume claim", j.Claim)
	}
	for _, path := range []string{j.Folder, j.Logs} {
		if strings.ContainsAny(path, "\n%\\") { // sbatch expands % in the names of logs.
			return fmt.Errorf("%q: a folder of a cluster's job may not have %%, a backslash or a line break in its name", path)
		}
	}
	return nil
}

// Write returns the file that starts the job on a kind of cluster.
func (j Job) Write(k Kind) (string, error) {
	if err := j.Check(k); err != nil {
		return "", err
	}
	var text bytes.Buffer
	err := templates.ExecuteTemplate(&text, k.template, j)
	return text.String(), err
}

// quote makes a word of the shell.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func quoted(words []string) (all []string) {
	for _, word := range words {
		all = append(all, quote(word))
	}
	return all
}

// only is the pattern of --only that matches one cell.
func only(cell string) string {
	return quote(regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(cell, `\$0`))
}

// clock writes a time as Slurm does: hours:minutes:seconds.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// quantity writes an amount of memory as Kubernetes does: 64G of Slurm are 64·2³⁰ bytes.
func quantity(memory string) string { return memory + "i" }
