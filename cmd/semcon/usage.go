package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/study"
)

// usageError is a mistake in the command line. Its exit status is 2.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// usagef makes a [usageError].
func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// errHelpShown is returned by [parse] after --help. It is not a failure.
var errHelpShown = errors.New("help shown")

// newFlags returns an empty flag set for a verb, to be filled and passed to [parse].
func newFlags(verbName string) *flag.FlagSet {
	flags := flag.NewFlagSet(verbName, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags
}

// parse reads the arguments of a verb, with flags and names in any order, and returns the names. The caller returns errors of parse unchanged.
func parse(flags *flag.FlagSet, args []string) (names []string, err error) {
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			printUsage(os.Stdout, flags)
			return nil, errHelpShown
		} else if err != nil {
			return nil, usagef("%s (\"semcon %s --help\" lists the flags)", inOurWords(err), flags.Name())
		}
		if flags.NArg() == 0 {
			return names, nil
		}
		consumed := len(args) - flags.NArg()
		if consumed > 0 && args[consumed-1] == "--" {
			return append(names, flags.Args()...), nil
		}
		names = append(names, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// notDefined and invalidValue are what package flag says of a flag that does not exist and of a value that it cannot read.
var (
	notDefined   = regexp.MustCompile(`^flag provided but not defined: -+(.+)$`)
	invalidValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([a-z-]+): (.+)$`)
)

// inOurWords says what package flag says of an argument with two dashes and the flag first.
func inOurWords(err error) string {
	if m := notDefined.FindStringSubmatch(err.Error()); m != nil {
		return "there is no flag --" + m[1]
	}
	if m := invalidValue.FindStringSubmatch(err.Error()); m != nil && m[3] == "parse error" {
		return fmt.Sprintf("--%s %s cannot be read", m[2], m[1])
	} else if m != nil {
		return fmt.Sprintf("--%s %s: %s", m[2], m[1], m[3])
	}
	return err.Error()
}

// dataFlag adds the flag --data.
func dataFlag(flags *flag.FlagSet) *string {
	return flags.String("data", os.Getenv("SEMCON_DATA"), "`FOLDER` of the datasets; by default $SEMCON_DATA")
}

// parseProfile reads the value of --profile.
func parseProfile(name string) (study.Profile, error) {
	profile, err := study.ParseProfile(name)
	if err != nil {
		return "", usagef("--%v", err)
	}
	return profile, nil
}

// noNames is parse for verbs that take only flags.
func noNames(flags *flag.FlagSet, args []string) error {
	names, err := parse(flags, args)
	if err == nil && len(names) > 0 {
		err = usagef("unexpected argument %q", names[0])
	}
	return err
}

func printUsage(w io.Writer, flags *flag.FlagSet) {
	v, _ := findVerb(flags.Name())
	fmt.Fprintf(w, "semcon %s: %s\n\nUsage:\n  semcon %s\n", v.name, v.summary, strings.Join(slices.DeleteFunc([]string{v.name, v.args, "[flags]"}, func(s string) bool { return s == "" }), " "))
	first := true
	flags.VisitAll(func(f *flag.Flag) {
		if first {
			fmt.Fprint(w, "\nFlags:\n")
			first = false
		}
		kind, text := flag.UnquoteUsage(f)
		head := "--" + f.Name
		if kind != "" {
			head += " " + kind
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(w, "  %-18s %s\n", head, text)
	})
	fmt.Fprintf(w, "\nExample:\n  %s\n", strings.ReplaceAll(v.example, "\n", "\n  "))
}

var helpVerb = verb{
	name:    "help",
	summary: "list the verbs, or describe one",
	args:    "[VERB]",
	example: "semcon help lab",
	run: func(ctx context.Context, args []string) error {
		names, err := parse(newFlags("help"), args)
		if err != nil {
			return err
		}
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

// listed says how many names a command line has, and which.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}

// counted is a number with what it counts: "1 cell", "2 cells". The plural of one ends with s or, after s, with es.
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if strings.HasSuffix(one, "s") {
		one += "e"
	}
	return fmt.Sprintf("%d %ss", n, one)
}
