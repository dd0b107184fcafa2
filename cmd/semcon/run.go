package main

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v2"
)

func trainVerb(c *cobra.Command, flags flagTexts) {
	var o ownimages.Options
	var f struct {
		Profile string
		Devices int
	}
	flags.bind(c, &o, &o.Start, &o.Folders, &f, &struct{ Config string }{})
	completeSettings(c)
	c.Run = func(c *cobra.Command, names []string) {
		refuse(len(names) == 0, "want at least one image: files, folders, patterns or lists")
		o.Folders.Images, o.Start.Smoke = names, f.Profile == "smoke"
		configured(c, &o.Start.Set)
		if o.Out == "" {
			folder := try.E1(filepath.Abs(names[0]))
			folder = lo.Ternary(datasets.IsFolder(folder), folder, filepath.Dir(folder))
			o.Out = filepath.Join(usualOut(), "train", filepath.Base(folder))
		}
		if o.Start.Init != "" {
			locateFlag(c, "init", &o.Start.Init)
		}
		requireWritable("out", o.Out)
		engine := openDevices(f.Devices, o.CheckpointEvery)
		o.Command = shellescape.QuoteCommand(append([]string{"semcon"}, os.Args[1:]...))
		announced(&o.Bar, &o.Say, f.Devices)
		did := lo.Ternary(ownimages.Finished(o.Out), "already finished:", "wrote")
		try.E(ownimages.Train(c.Context(), engine, o))
		fmt.Printf("%s %s and %s\n", did, filepath.Join(o.Out, ownimages.EncoderFile), filepath.Join(o.Out, ownimages.ReportFile))
	}
}

// announced makes a run print its engine before anything else. A refused run prints only the reason.
func announced(bar *func(title string, total int) progress.Bar, warn *func(line string), devices int) {
	announce := sync.OnceFunc(func() { announceEngine(os.Stderr, devices) })
	*bar = func(title string, total int) progress.Bar { announce(); return newBar(title, total) }
	*warn = func(line string) { announce(); say(line) }
}

// completeParallel checks the number of runs at the same time on so many devices, and sets it to the default of its profile if it is 0.
func completeParallel(o *study.Options, devices int) {
	refuse(devices > 1 && o.Parallel > 1, "--parallel %d: runs on several devices go one after the other", o.Parallel)
	switch {
	case o.Parallel > 0:
	case o.Profile == study.Full, o.Profile == study.Real, devices > 1: // A step of full size fills the device, and two runs that wait for each other's devices would wait for ever.
		o.Parallel = 1
	default:
		o.Parallel = runtime.NumCPU() // A small step fills only one core.
	}
}

func runVerb(c *cobra.Command, flags flagTexts) {
	var f struct{ Devices int }
	o := studyFlags(c, flags, &f)
	c.Run = func(c *cobra.Command, names []string) {
		announced(&o.Bar, &o.Warn, f.Devices)
		experiment, table := completeStudy(c, o, names)
		completeParallel(o, f.Devices)
		requireWritable("out", o.Out)
		if terminal := progress.IsTerminal(os.Stdin) && progress.IsTerminal(os.Stderr); terminal && !c.Flags().Changed("profile") && len(o.Only) == 0 {
			try.E(askBeforeHours(c.Context(), os.Stdin, os.Stderr, experiment, *o))
		}
		try.E(experiment.Run(c.Context(), openDevices(f.Devices, o.CheckpointEvery), *o))
		fmt.Fprintf(os.Stderr, "show the table: %s\n", commandFor("table", cmp.Or(table, experiment.Name), study.Options{Profile: o.Profile, Out: o.Out, Set: o.Set}))
	}
}

// manyMinutes matches the cost of a profile that takes more than ten minutes.
var manyMinutes = regexp.MustCompile(`hour|\d\d minutes`)

// askBeforeHours asks a person who has named no profile whether the default one shall begin, if it takes long and has no record yet. Any answer but yes is an error.
func askBeforeHours(ctx context.Context, stdin io.Reader, stderr io.Writer, e study.Experiment, o study.Options) error {
	records, err := study.Records(study.Folder(o.Out, e.Name))
	begun := slices.ContainsFunc(records, func(r study.Record) bool { return r.Profile == o.Profile })
	if err != nil || begun || !manyMinutes.MatchString(e.Cost[o.Profile]) {
		return err
	}
	fmt.Fprintf(stderr, "%s, profile %s: %s\nprofile smoke: %s\nbegin %[2]s? [y/N] ", e.Name, o.Profile, e.Cost[o.Profile], e.Cost[study.Smoke])
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdin).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-answer:
		if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
			return fmt.Errorf("not begun; --profile %s begins without a question, --profile smoke is short", o.Profile)
		}
	}
	return nil
}

// commandFor returns the command that runs an experiment or shows its results.
func commandFor(verb, name string, o study.Options) string {
	return shellescape.QuoteCommand(append([]string{"semcon", verb, name}, flagsOf(o)...))
}

// flagsOf returns the flags of [studyFlags] that differ from their defaults.
func flagsOf(o study.Options) (words []string) {
	add := func(flag string, values ...string) {
		for _, value := range values {
			words = append(words, flag, value)
		}
	}
	if o.Profile != study.Quick {
		add("--profile", string(o.Profile))
	}
	if o.Out != "out" || os.Getenv(outVariable) != "" { // Where the command runs, the variable may have another value.
		add("--out", o.Out)
	}
	if o.Data != "" {
		add("--data", o.Data)
	}
	if o.Seeds > 0 {
		add("--seeds", fmt.Sprint(o.Seeds))
	}
	add("--set", o.Set...)
	add("--only", o.Only...)
	return words
}

func reproduceVerb(c *cobra.Command, flags flagTexts) {
	completeExperiments(c)
	o, target := study.Options{CheckpointEvery: 20 * time.Second}, reportTarget{}
	flags.bind(c, &o, &target)
	c.Run = func(c *cobra.Command, names []string) {
		chosen := inOrder(names)
		completeParallel(&o, 1)
		requireFolder("data", o.Data)
		requireWritable("out", o.Out)
		target.check(o.Out)
		b := try.E1(backend.Open())
		announced(&o.Bar, &o.Warn, 1)
		failures := map[string]error{}
		var failed []string
		for i, e := range chosen {
			fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(chosen), e.Name)
			options := o
			if options.Data = e.DataFor(o); options.Data == "" && o.Data != "" && !e.GeneratesData {
				why := lo.Ternary(e.DataBySet, "needs files for photographs that --set names", fmt.Sprintf("has none of its datasets in %s", o.Data))
				fmt.Fprintf(os.Stderr, "%s %s: it takes synthetic images\n", e.Name, why)
			}
			err := panics.Catch(func() error { return e.Run(c.Context(), b, options) })
			if c.Context().Err() != nil {
				try.E(cmp.Or(err, c.Context().Err()))
			}
			if err != nil {
				failures[e.Name], failed = err, append(failed, e.Name)
				fmt.Fprintf(os.Stderr, "%s failed: %s\n", e.Name, oneLine(err))
			}
		}
		fmt.Fprintln(os.Stderr, "the report")
		target.write(c.Context(), report.Options{Profile: o.Profile, Out: o.Out, Data: o.Data, Backend: b, Failures: failures})
		fail(len(failed) > 0, "%d of %d experiments failed: %s; the report says why", len(failed), len(chosen), strings.Join(failed, ", "))
	}
}

// inOrder returns the named experiments, or all if there are no names, each after those whose runs it reads.
func inOrder(names []string) (chosen []study.Experiment) {
	wanted := lo.Map(names, func(name string, _ int) string { e, _ := oneExperiment([]string{name}); return e.Name })
	return lo.Filter(experiments.All(), func(e study.Experiment, _ int) bool { return len(names) == 0 || slices.Contains(wanted, e.Name) })
}

func submitVerb(c *cobra.Command, flags flagTexts) {
	var job clusterJob
	var f struct {
		Dir, Binary string
		Run         bool
	}
	o := studyFlags(c, flags, &job, &f)
	complete(c, "", "slurm", "k8s")
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
		job.Name, job.Logs, job.Folder = "semcon-"+experiment.Name, filepath.Join(folder, "logs"), f.Dir
		if kind == "k8s" {
			job.Folder, f.Binary = cmp.Or(job.Folder, "/work"), cmp.Or(f.Binary, "semcon")
		} else {
			job.Folder = try.E1(filepath.Abs(job.Folder))
		}
		shared := *o
		shared.Only = nil
		job.Command = append([]string{cmp.Or(f.Binary, installedBinary()), "run", experiment.Name, "--wait", "--parallel", "1"}, flagsOf(shared)...)
		if job.GPUs > 1 {
			job.Command = append(job.Command, "--devices", fmt.Sprint(job.GPUs))
		}
		text := job.write(kind)
		file := filepath.Join(folder, "job"+filepath.Ext(clusters[kind].template))
		try.E(atomicfile.WriteBytes(file, []byte(text)))
		try.E(os.MkdirAll(job.Logs, 0o777)) // Slurm does not make it.
		command := append(slices.Clone(clusters[kind].start), file)
		fmt.Printf("%s: %s\n", file, plural.Count(len(job.Cells), "task"))
		if !f.Run {
			fmt.Printf("start it: %s\nhow far it is: %s\n", shellescape.QuoteCommand(command), commandFor("status", experiment.Name, *o))
			return
		}
		cmd := exec.CommandContext(c.Context(), command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		fail(err != nil, "%s: %w", shellescape.QuoteCommand(command), err)
	}
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
	return fmt.Sprintf("cells=(\n  %s\n)\nexec %s --only \"${cells[$JOB_COMPLETION_INDEX]}\"\n", strings.Join(cells, "\n  "), shellescape.QuoteCommand(j.Command))
}

// onlyCell is the pattern of --only that matches one cell, as a word of the shell.
func onlyCell(cell string) string {
	return shellescape.Quote(regexp.MustCompile(`[*?\[\\]`).ReplaceAllString(cell, `\$0`))
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
	"quote": shellescape.Quote, "line": shellescape.QuoteCommand, "last": func(cells []string) int { return len(cells) - 1 },
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

// Type is what the help calls a time.
func (t *slurmTime) Type() string { return "string" }

// Set reads a time.
func (t *slurmTime) Set(text string) error {
	if d, err := time.ParseDuration(text); err == nil {
		*t = slurmTime(d)
		return nil
	}
	*t = 0
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
		if err != nil || i >= len(units) || n > uint64(math.MaxInt64/len(units)/int(units[i])) {
			return errors.New("want a time such as 36h, or as Slurm writes it: 1-12:00:00, 36:00:00 or minutes")
		}
		*t += slurmTime(time.Duration(n) * units[i])
	}
	return nil
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
	refuse(j.Partition != "" && shellescape.Quote(j.Partition) != j.Partition, "--partition %q: not the name of a partition", j.Partition)
	if kind == "k8s" {
		refuse(j.Image == "" || shellescape.Quote(j.Image) != j.Image, "--image %q: want the name of a container image, which Containerfile builds", j.Image)
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
