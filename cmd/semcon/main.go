// Command semcon sets the project up, opens its notebooks, runs its experiments and prints their tables.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	_ "github.com/semcon/semcon/sccore/backend/buffers" // The program keeps large buffers between steps.
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"go.yaml.in/yaml/v2"
)

// verbsFile describes the verbs. Verbs of one subject share a file of code.
//
//go:embed verbs.yaml
var verbsFile string

// verbs complete the commands of verbsFile, by name, with the flags that are described there and with what they do. A verb stops soon after its context ends, and the next call resumes. Its error is
// one line that names the file, the flag or the value. Functions that return no error end the verb with theirs, by [refuse], [fail] or package try.
var verbs = map[string]func(c *cobra.Command, flags flagTexts){
	"lab": labVerb, "notebooks": notebooksVerb, "doctor": doctorVerb, "bench": benchVerb, "data": dataVerb, "list": listVerb, "train": trainVerb, "run": runVerb, "status": statusVerb,
	"watch": watchVerb, "submit": submitVerb, "table": tableVerb, "claims": claimsVerb, "records": recordsVerb, "compare": compareVerb, "report": reportVerb,
	"reproduce": reproduceVerb, "import": importVerb, "features": featuresVerb, "segment": segmentVerb, "detect": detectVerb, "attention": attentionVerb, "show": showVerb,
	"evaluate": evaluateVerb, "settings": settingsVerb, "version": versionVerb, "help": helpVerb,
}

// placeholders are what texts of verbsFile stand for.
var placeholders = strings.NewReplacer("INPUTS", inputsHelp, "ARCHITECTURES", strings.Join(encoder.ViTNames(), ", "), "BROWSERS", strings.Join(browsers[:3], ", "))

// kept names the annotation of a verb that says what an interrupted call keeps for the next one.
const kept = "kept"

// outVariable names the folder of the results of a notebook's session.
const outVariable = "SEMCON_OUT"

// usualOut is the folder of the results where a command line names none.
func usualOut() string { return cmp.Or(os.Getenv(outVariable), "out") }

// newRoot returns the command line with all verbs.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "semcon", Short: "semcon reproduces Semantic Concentration for Self-Supervised Dense Representations Learning.",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.SetFlagErrorFunc(flagError)
	cobra.EnableCommandSorting = false
	var file struct {
		Shared any
		Verbs  []*struct {
			cobra.Command `yaml:",inline"`
			Described     flagTexts `yaml:"flags"`
		}
	}
	try.E(yaml.UnmarshalStrict([]byte(verbsFile), &file))
	for _, verb := range file.Verbs {
		c := &verb.Command
		if c.Long = placeholders.Replace(c.Long); !strings.Contains(c.Use, " ") {
			c.Args = noNames
		}
		verbs[c.Name()](c, verb.Described)
		if c.Name() == "help" {
			root.SetHelpCommand(c)
		}
		if out := c.Flags().Lookup("out"); out != nil && out.DefValue == "out" { // Commands in cells of a notebook find the records of its runs.
			out.Usage += "; $" + outVariable + " is another default"
			if folder := os.Getenv(outVariable); folder != "" {
				out.DefValue = folder
				try.E(out.Value.Set(folder))
			}
		}
		for _, one := range append(c.Commands(), c) {
			one.Example = "  " + strings.ReplaceAll(one.Example, "\n", "\n  ")
			run := one.Run
			one.RunE = func(c *cobra.Command, args []string) error {
				return panics.Catch(func() error { return ended(func() { run(c, args) }) })
			}
		}
		root.AddCommand(c)
	}
	return root
}

// ended runs a part of a verb and returns the error that ends it.
func ended(run func()) (err error) {
	defer try.Handle(&err)
	run()
	return nil
}

// grace is how long a verb may take to stop, and childGrace how long a program that it has started. XLA compiles for minutes and cannot be interrupted, so the
// process then ends without waiting. That is safe: records are on disk, and checkpoints are written atomically. A file that is being written has until saving.
const grace, childGrace, saving = 4 * time.Second, 15 * time.Second, 100 * time.Second

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // Most memory of Go is images and features, which are collected fast, and most time passes in the backend.
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // As by nohup.
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(context.Background())
	exited := make(chan int, 1)
	go func() { exited <- command(ctx, os.Args[1:], os.Stderr) }()
	select {
	case status := <-exited:
		os.Exit(status)
	case <-signals:
	}
	signal.Ignore(syscall.SIGHUP) // A terminal that closes sends two.
	signal.Stop(signals)          // A second of the others kills at once.
	cancel()
	c, _, _ := newRoot().Find(os.Args[1:]) // It exists, or the command would have ended.
	patience := time.After(grace + lo.Ternary(c.Name() == "lab" || c.Name() == "notebooks", childGrace, 0))
	for begun := time.Now(); ; patience = time.After(grace) {
		select {
		case status := <-exited:
			os.Exit(status)
		case <-patience:
		}
		if atomicfile.Writing() && time.Since(begun) < saving { // Such as the checkpoint of a large training on a slow disk.
			continue
		}
		if progress.IsTerminal(os.Stderr) {
			fmt.Fprintln(os.Stderr) // Ends the line of an open bar.
		}
		os.Exit(stopped(c, os.Stderr))
	}
}

// stopped prints that a verb was interrupted and what is kept, if anything, and returns the exit status.
func stopped(c *cobra.Command, stderr io.Writer) int {
	what := c.Annotations[kept]
	left := lo.Ternary(what == "", "", "; "+what+"; run it again to continue")
	fmt.Fprintf(stderr, "%s: stopped%s\n", c.CommandPath(), left)
	return 130
}

// command runs one command line and returns its exit status: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted.
func command(ctx context.Context, args []string, stderr io.Writer) int {
	root := newRoot()
	if len(args) == 0 {
		root.SetOut(stderr)
		root.Help() // It cannot fail.
		return 2
	}
	switch args[0] {
	case "-v", "-version", "--version":
		args = []string{"version"}
	}
	root.SetArgs(args)
	c, err := root.ExecuteContextC(ctx)
	if wrong := (study.BadOption{}); errors.As(err, &wrong) {
		err = usageError{wrong.Error()}
	} else if err != nil && c == root && !errors.As(err, new(usageError)) {
		err = unknownVerb(root, args[0])
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.As(err, new(*exec.ExitError))): // An error that kept work from being saved is printed.
		return stopped(c, stderr)
	}
	typed := strings.TrimSuffix(c.CommandPath(), c.Name()) + cmp.Or(c.CalledAs(), c.Name()) // It may be an alias.
	fmt.Fprintf(stderr, "%s: %s%s\n", typed, oneLine(err), elsewhere(c, oneLine(err)))
	if ctx.Err() == nil && errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

// weightFlag matches a flag that says how to read weights.
var weightFlag = regexp.MustCompile(`--(arch|branch|epsilon|heads|ignore|positions)\b`)

// elsewhere says which verb has the flags of weights that an error advises, if the failed verb lacks one.
func elsewhere(failed *cobra.Command, advice string) string {
	name, lacks := lo.Find(weightFlag.FindAllString(advice, -1), func(name string) bool { return failed.Flags().Lookup(name[2:]) == nil })
	return lo.Ternary(lacks, fmt.Sprintf("; %s is a flag of \"semcon import\", which writes a file that every verb reads", name), "")
}

// oneLine returns the first line of an error that is not blank, without the middle of a very long one. Errors of other libraries may include stack traces, and
// values of a file may have a million digits.
func oneLine(err error) string {
	const most, end = 3000, 1000
	line := panics.FirstLine(err.Error())
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most-end], "") + " … " + strings.ToValidUTF8(line[len(line)-end:], "")
	}
	return line
}

func helpVerb(c *cobra.Command, flags flagTexts) {
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, _ string) (verbs []string, how cobra.ShellCompDirective) {
		verbs = lo.Map(c.Root().Commands(), func(verb *cobra.Command, _ int) string { return verb.Name() + "\t" + verb.Short })
		return verbs, cobra.ShellCompDirectiveNoFileComp
	}
	var f struct{ Man string }
	flags.bind(c, &f)
	c.Run = func(c *cobra.Command, names []string) {
		if f.Man != "" {
			try.E(os.MkdirAll(f.Man, 0o777))
			try.E(doc.GenManTree(c.Root(), &doc.GenManHeader{Section: "1"}, f.Man))
			return
		}
		described, _, err := c.Root().Find(names)
		if err != nil {
			try.E(unknownVerb(c.Root(), names[0]))
		}
		described.InitDefaultHelpFlag()
		try.E(described.Help())
	}
}

func versionVerb(c *cobra.Command, _ flagTexts) {
	c.Run = func(*cobra.Command, []string) {
		versions := backend.Versions()
		fmt.Printf("%-8s %s, %s\n", "semcon", backend.Version, cmp.Or(versions["semcon"], "unknown commit"))
		fmt.Printf("%-8s %s\n", "engine", backend.Engine())
		for _, name := range []string{"gomlx", "compute", "go-xla"} {
			fmt.Printf("%-8s %s\n", name, cmp.Or(versions[name], "not in this program"))
		}
		fmt.Printf("%-8s %s, %s/%s\n", "go", versions["go"], runtime.GOOS, runtime.GOARCH)
	}
}
