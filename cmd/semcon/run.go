package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/ownimages"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

func trainVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "train IMAGES…", Short: "train on your own images, from weights of yours or of others",
		Long: "Train on your own images, from weights of yours or of others. " + inputsHelp,
		Example: "semcon train photos --init dino_deitsmall16_pretrain.pth --out runs/photos\n" +
			"semcon train streets --objects products --init model.safetensors --out runs/both\n" +
			"semcon train photos --profile smoke --out runs/try",
		Annotations: map[string]string{kept: "checkpoint kept"},
	}
	o, flags := ownimages.Options{}, c.Flags()
	flags.StringVar(&o.Start.Init, "init", "", "`WEIGHTS` to start from: a file, .pth or .safetensors, a folder with one, or a name of the Hugging Face Hub; without it random weights of vit-tiny")
	flags.StringVar(&o.Folders.Objects, "objects", "", "`IMAGES` that show one object each: a folder, a pattern or a list; the others then count as scenes")
	flags.StringVar(&o.Out, "out", "", "`FOLDER` for the encoder, its curves and report.html; by default out/train/ and the name of the images' folder")
	profile := choiceFlag(c, "profile", "`PROFILE`: full, or smoke, which shows in a minute that it works", "full", "smoke")
	flags.Uint64Var(&o.Seed, "seed", 0, "`NUMBER` that seeds all random draws")
	flags.StringArrayVar(&o.Start.Ignore, "ignore", nil, "leave out the keys of --init that match `PATTERN`, with * for any text; can be given several times")
	flags.StringArrayVar(&o.Start.Set, "set", nil, "change a setting: `KEY=VALUE`, such as rate=1e-5, steps=2000, batch=64 or encoder=vit-s16; may be repeated")
	completeSettings(c)
	devices := trainingFlags(c, &o.Folders.Cache, &o.CheckpointEvery)
	c.Run = func(c *cobra.Command, names []string) {
		refuse(len(names) == 0, "want at least one image: files, folders, patterns or lists")
		o.Folders.Images, o.Start.Smoke = names, *profile == "smoke"
		if o.Out == "" {
			folder := try.E1(filepath.Abs(names[0]))
			if info, err := os.Stat(folder); err != nil || !info.IsDir() {
				folder = filepath.Dir(folder)
			}
			o.Out = filepath.Join("out", "train", filepath.Base(folder))
		}
		if o.Start.Init != "" {
			locateFlag(c, "init", &o.Start.Init)
		}
		requireWritable("out", o.Out)
		engine := openDevices(*devices, o.CheckpointEvery)
		o.Command = commandLine(append([]string{"semcon"}, os.Args[1:]...)...)
		announceEngine(os.Stderr, *devices)
		o.Say, o.Bar = say, newBar
		did := lo.Ternary(ownimages.Finished(o.Out), "already finished:", "wrote")
		try.E(ownimages.Train(c.Context(), engine, o))
		fmt.Printf("%s %s and %s\n", did, filepath.Join(o.Out, ownimages.EncoderFile), filepath.Join(o.Out, ownimages.ReportFile))
	}
	return c
}

// studyFlags adds the flags that choose an experiment's cells. [completeStudy] completes the options after they are parsed.
func studyFlags(c *cobra.Command) *study.Options {
	o, flags := recordFlags(c, "of the run", "for records and checkpoints"), c.Flags()
	dataFlag(c, &o.Data)
	flags.IntVar(&o.Seeds, "seeds", 0, "`NUMBER` of seeds instead of the profile's own")
	flags.StringArrayVar(&o.Set, "set", nil, "change the configuration: `KEY=VALUE`; may be repeated")
	flags.String("config", "", "`FILE` of settings in YAML, as \"semcon settings EXPERIMENT --format yaml\" prints it; --set goes before it")
	flags.StringArrayVar(&o.Only, "only", nil, "run only the cells that match `PATTERN`, such as dataset/method/row/seed; may be repeated")
	completeExperiments(c)
	completeSettings(c)
	return o
}

// completeStudy completes the options of an experiment and finds the experiment that names has. table is the table by whose name it is given, if it is. It ends
// the verb with an error.
func completeStudy(c *cobra.Command, o *study.Options, names []string) (e study.Experiment, table string) {
	if i := slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, "=") }); i >= 0 {
		try.E(usagef("%s is not the name of an experiment; a setting is --set %[1]s, each with its own --set", names[i]))
	}
	e, table = oneExperiment(names)
	refuse(c.Flags().Changed("seeds") && o.Seeds < 1, "--seeds %d is not positive", o.Seeds)
	if !c.Flags().Changed("data") && (e.GeneratesData || e.DataBySet && e.DataFor(*o) == "") {
		o.Data = "" // $SEMCON_DATA is for others.
	}
	if !e.GeneratesData {
		requireFolder("data", o.Data)
	}
	if file := c.Flags().Lookup("config").Value.String(); file != "" {
		set, err := readConfig(file)
		refuse(err != nil, "--config %s: %v", file, err)
		o.Set = append(set, o.Set...)
	}
	locateSettings(c, &o.Set)
	return e, table
}

// oneExperiment finds the experiment with the given name, or the one with a table of that name in the paper, which it then returns as table. It ends the verb
// with an error.
func oneExperiment(names []string) (e study.Experiment, table string) {
	refuse(len(names) != 1, "want the name of one experiment, got %s (\"semcon list\" names them)", listed(names))
	e, table, err := experiments.Find(names[0])
	refuse(err != nil, "%v", err)
	return e, table
}

// announced makes a run print its engine before anything else. A refused run prints only the reason.
func announced(o *study.Options, devices int) {
	announce := sync.OnceFunc(func() { announceEngine(os.Stderr, devices) })
	o.Bar = func(title string, total int) progress.Bar { announce(); return newBar(title, total) }
	o.Warn = func(line string) { announce(); say(line) }
}

// completeParallel checks the number of runs at the same time on so many devices, and sets it to the default of its profile if it is 0. It ends the verb with an
// error.
func completeParallel(o *study.Options, devices int) {
	refuse(o.Parallel < 0, "--parallel %d is negative", o.Parallel)
	refuse(devices > 1 && o.Parallel > 1, "--parallel %d: runs on several devices go one after the other", o.Parallel)
	switch {
	case o.Parallel > 0:
	case o.Profile == study.Full, o.Profile == study.Real, devices > 1: // A step of full size fills the device, and two runs that wait for each other's devices would wait for ever.
		o.Parallel = 1
	default:
		o.Parallel = runtime.NumCPU() // A small step fills only one core.
	}
}

func runVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "run EXPERIMENT", Short: "run an experiment, or what is left of it", Annotations: keeps,
		Example: "semcon run effect-aug --profile quick --data data\nsemcon run effect-aug --data data --only 'cifar10/simclr/*/seed0' --set simclr.rate=0.1",
	}
	o := studyFlags(c)
	devices := trainingFlags(c, &o.Cache, &o.CheckpointEvery)
	parallelFlag(c, &o.Parallel)
	c.Flags().BoolVar(&o.Wait, "wait", false, "wait for cells that another process is running, instead of skipping them")
	c.Run = func(c *cobra.Command, names []string) {
		announced(o, *devices)
		experiment, table := completeStudy(c, o, names)
		completeParallel(o, *devices)
		requireWritable("out", o.Out)
		if terminal := progress.IsTerminal(os.Stdin) && progress.IsTerminal(os.Stderr); terminal && !c.Flags().Changed("profile") && len(o.Only) == 0 {
			try.E(askBeforeHours(c.Context(), os.Stdin, os.Stderr, experiment, *o))
		}
		try.E(experiment.Run(c.Context(), openDevices(*devices, o.CheckpointEvery), *o))
		fmt.Fprintf(os.Stderr, "show the table: %s\n", commandFor("table", cmp.Or(table, experiment.Name), study.Options{Profile: o.Profile, Out: o.Out, Set: o.Set}))
	}
	return c
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
	return commandLine(append([]string{"semcon", verb, name}, flagsOf(o)...)...)
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

func reproduceVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "reproduce [EXPERIMENT…]", Short: "run every experiment of a profile, or the rest of them, and write the report", Annotations: keeps,
		Example: "semcon reproduce --profile smoke --out smoke\nsemcon reproduce --profile quick --data data\nsemcon reproduce pretrain transfer video",
	}
	completeExperiments(c)
	o := recordFlags(c, "of the runs", "for records, checkpoints and the report")
	o.CheckpointEvery = 20 * time.Second
	dataFlag(c, &o.Data)
	c.Flags().IntVar(&o.Seeds, "seeds", 0, "`NUMBER` of seeds instead of each profile's own")
	parallelFlag(c, &o.Parallel)
	target := reportFlags(c)
	c.Run = func(c *cobra.Command, names []string) {
		chosen := inOrder(names)
		refuse(o.Seeds < 0, "--seeds %d is negative", o.Seeds)
		completeParallel(o, 1)
		requireFolder("data", o.Data)
		requireWritable("out", o.Out)
		target.check(o.Out)
		b := try.E1(backend.Open())
		announced(o, 1)
		failures := map[string]error{}
		var failed []string
		for i, e := range chosen {
			fmt.Fprintf(os.Stderr, "%d of %d: %s\n", i+1, len(chosen), e.Name)
			options := *o
			if options.Data = e.DataFor(*o); options.Data == "" && o.Data != "" && !e.GeneratesData {
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
	return c
}

// inOrder returns the named experiments, or all if there are no names, each after those whose runs it reads. It ends the verb with an error.
func inOrder(names []string) (chosen []study.Experiment) {
	wanted := lo.Map(names, func(name string, _ int) string { e, _ := oneExperiment([]string{name}); return e.Name })
	return lo.Filter(experiments.All(), func(e study.Experiment, _ int) bool { return len(names) == 0 || slices.Contains(wanted, e.Name) })
}
