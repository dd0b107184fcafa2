// Command semcon sets the project up, opens its notebooks, runs its experiments and prints their tables.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/progress"
)

// verb is a command of semcon, in a file named for it.
type verb struct {
	name    string
	summary string // One line, for "semcon help".
	args    string // The arguments that are not flags, for the usage line; may be empty.
	example string // A command line to copy, for "semcon NAME --help".

	kept  string        // What an interrupted call keeps for the next one, for the message; may be empty.
	grace time.Duration // How long it may take to stop, if longer than [grace].

	// run does the work. It stops soon after ctx ends, and the next call resumes. Its error is one line that names the file, the flag or the
	// value. [usagef] makes errors of wrong usage, and [check] ends run with an error.
	run func(ctx context.Context, args []string) error
}

// failure is the error that ends a verb.
type failure struct{ error }

// check ends the verb that calls it with err, unless it is nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns value, or ends the verb as [check] does.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// call runs the verb and returns its error, also that of [check].
func (v verb) call(ctx context.Context, args []string) (err error) {
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case failure:
			err = caught.error
		default:
			panic(caught)
		}
	}()
	return v.run(ctx, args)
}

// verbs is filled by init because the verbs look up their usage in it.
var verbs []verb

func init() {
	verbs = []verb{
		labVerb, notebooksVerb, doctorVerb, dataVerb, listVerb, trainVerb, runVerb, statusVerb, submitVerb, tableVerb, claimsVerb, compareVerb, reportVerb,
		reproduceVerb, importVerb, featuresVerb, segmentVerb, detectVerb, attentionVerb, showVerb, evaluateVerb, settingsVerb, versionVerb, helpVerb,
	}
}

// grace is how long a verb may take to stop. XLA compiles for minutes and cannot be interrupted, so the process then ends without waiting. That is
// safe: records are on disk, and checkpoints are written atomically.
const grace = 4 * time.Second

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // Most memory of Go is images and features, which are collected fast, and most time passes in the backend.
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- command(ctx, os.Args[1:], os.Stderr) }()
	select {
	case status := <-ended:
		os.Exit(status)
	case <-signals:
	}
	signal.Stop(signals) // A second signal kills at once.
	cancel()
	v, _ := findVerb(os.Args[1]) // It exists, or the command would have ended.
	select {
	case status := <-ended:
		os.Exit(status)
	case <-time.After(cmp.Or(v.grace, grace)):
		if progress.IsTerminal(os.Stderr) {
			fmt.Fprintln(os.Stderr) // Ends the line of an open bar.
		}
		os.Exit(stopped(v, os.Stderr))
	}
}

// stopped prints that a verb was interrupted and what is kept, if anything, and returns the exit status.
func stopped(v verb, stderr io.Writer) int {
	kept := ""
	if v.kept != "" {
		kept = "; " + v.kept + "; run it again to continue"
	}
	fmt.Fprintf(stderr, "semcon %s: stopped%s\n", v.name, kept)
	return 130
}

// command runs one command line and returns its exit status: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted.
func command(ctx context.Context, args []string, stderr io.Writer) int {
	if len(args) == 0 {
		printHelp(stderr)
		return 2
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		name = helpVerb.name
	case "-v", "-version", "--version":
		name = versionVerb.name
	}
	v, ok := findVerb(name)
	if !ok {
		fmt.Fprintf(stderr, "semcon: unknown verb %q (\"semcon help\" lists the verbs)\n", name)
		return 2
	}
	err := panics.Catch(func() error { return v.call(ctx, args[1:]) })
	switch {
	case err == nil || errors.Is(err, errHelpShown):
		return 0
	case ctx.Err() != nil:
		// Errors that come from the interrupt are not printed. An error that kept work from being saved is.
		if !errors.Is(err, context.Canceled) && !errors.As(err, new(*exec.ExitError)) {
			fmt.Fprintf(stderr, "semcon %s: %s\n", v.name, oneLine(err))
			return 1
		}
		return stopped(v, stderr)
	}
	fmt.Fprintf(stderr, "semcon %s: %s\n", v.name, oneLine(err))
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

func findVerb(name string) (verb, bool) {
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == name })
	if i < 0 {
		return verb{}, false
	}
	return verbs[i], true
}

// oneLine returns the first line of an error that is not blank. Errors of other libraries may include stack traces.
func oneLine(err error) string {
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return fmt.Sprintf("%T without a message", err)
}

var helpVerb = verb{
	name:    "help",
	summary: "list the verbs, or describe one",
	args:    "[VERB]",
	example: "semcon help lab",
	run: func(ctx context.Context, args []string) error {
		names := must(parse(newFlags("help"), args))
		if len(names) == 0 {
			printHelp(os.Stdout)
			return nil
		}
		v, ok := findVerb(names[0])
		if !ok {
			return usagef("unknown verb %q (\"semcon help\" lists the verbs)", names[0])
		}
		return v.run(ctx, []string{"--help"})
	},
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "semcon reproduces Semantic Concentration for Self-Supervised Dense Representations Learning.\n\nVerbs:\n")
	for _, v := range verbs {
		fmt.Fprintf(w, "  %-10s %s\n", v.name, v.summary)
	}
	fmt.Fprint(w, "\n\"semcon VERB --help\" shows a verb's flags and an example.\n")
}

var versionVerb = verb{
	name:    "version",
	summary: "print the commit of this program, the engine, and the versions of what computes",
	example: "semcon version",
	run: func(_ context.Context, args []string) error {
		check(noNames(newFlags("version"), args))
		versions := backend.Versions()
		fmt.Printf("%-8s %s\n", "semcon", cmp.Or(versions["semcon"], "unknown commit"))
		fmt.Printf("%-8s %s\n", "engine", backend.Engine())
		for _, name := range []string{"gomlx", "compute", "go-xla"} {
			fmt.Printf("%-8s %s\n", name, cmp.Or(versions[name], "not in this program"))
		}
		fmt.Printf("%-8s %s, %s/%s\n", "go", versions["go"], runtime.GOOS, runtime.GOARCH)
		return nil
	},
}
