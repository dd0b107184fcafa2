package main

import (
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
			return nil, flagError(flags.Name(), err.Error())
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

// noNames is parse for verbs that take only flags.
func noNames(flags *flag.FlagSet, args []string) error {
	names, err := parse(flags, args)
	if err == nil && len(names) > 0 {
		err = usagef("unexpected argument %q", names[0])
	}
	return err
}

// notDefined and invalidValue are what package flag says of a flag that does not exist and of a value that it cannot read.
var (
	notDefined   = regexp.MustCompile(`^flag provided but not defined: -+(.+)$`)
	invalidValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-([a-z-]+): (.+)$`)
)

// flagError says what package flag says of an argument with two dashes and the flag first.
func flagError(verbName, said string) error {
	if m := notDefined.FindStringSubmatch(said); m != nil {
		said = "there is no flag --" + m[1]
	} else if m := invalidValue.FindStringSubmatch(said); m != nil {
		switch reason := m[3]; {
		case reason == "parse error":
			said = fmt.Sprintf("--%s %s cannot be read", m[2], m[1])
		case strings.HasPrefix(reason, m[2]+" "): // It names the flag and the value.
			return usagef("--%s", reason)
		case strings.HasPrefix(reason, "want "):
			return usagef("--%s %s: %s", m[2], m[1], reason)
		default:
			said = fmt.Sprintf("--%s %s: %s", m[2], m[1], reason)
		}
	}
	return usagef("%s (\"semcon %s --help\" lists the flags)", said, verbName)
}

// given reports whether a flag is on the command line.
func given(flags *flag.FlagSet, name string) (is bool) {
	flags.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// dataFlag adds the flag --data.
func dataFlag(flags *flag.FlagSet) *string {
	return flags.String("data", os.Getenv("SEMCON_DATA"), "`FOLDER` of the datasets; by default $SEMCON_DATA")
}

// parsed is the value of a flag that is checked when it is read.
type parsed[T ~string] struct {
	value *T
	parse func(string) (T, error)
}

func (p parsed[T]) String() string { return string(*p.value) }

func (p parsed[T]) Set(text string) (err error) {
	*p.value, err = p.parse(text)
	return err
}

// profileFlag adds the flag --profile, whose profile is that of what it names.
func profileFlag(flags *flag.FlagSet, of string) *study.Profile {
	profile := study.Quick
	flags.Var(parsed[study.Profile]{&profile, study.ParseProfile}, "profile", "`PROFILE` "+of+": smoke, quick or full")
	return &profile
}

// choiceFlag adds a flag that takes one of several values. The default is the first.
func choiceFlag(flags *flag.FlagSet, name, usage string, values ...string) *string {
	value := values[0]
	flags.Var(parsed[string]{&value, func(text string) (string, error) {
		if slices.Contains(values, text) {
			return text, nil
		}
		if len(values) == 2 {
			return "", fmt.Errorf("want %s or %s", values[0], values[1])
		}
		return "", fmt.Errorf("want one of %s", strings.Join(values, ", "))
	}}, name, usage)
	return &value
}

// listFlag adds a flag that can be given several times.
func listFlag(flags *flag.FlagSet, list *[]string, name, usage string) {
	flags.Func(name, usage, func(value string) error {
		*list = append(*list, value)
		return nil
	})
}

func printUsage(w io.Writer, flags *flag.FlagSet) {
	v, _ := findVerb(flags.Name())
	usage := v.name + " "
	if v.args != "" {
		usage += v.args + " "
	}
	fmt.Fprintf(w, "semcon %s: %s\n\nUsage:\n  semcon %s[flags]\n", v.name, v.summary, usage)
	title := "\nFlags:\n"
	flags.VisitAll(func(f *flag.Flag) {
		kind, text := flag.UnquoteUsage(f)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(w, "%s  %-18s %s\n", title, strings.TrimSpace("--"+f.Name+" "+kind), text)
		title = ""
	})
	fmt.Fprintf(w, "\nExample:\n  %s\n", strings.ReplaceAll(v.example, "\n", "\n  "))
}

// listed says how many names a command line has, and which.
func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", "))
}

// commandLine joins words as a shell reads them.
func commandLine(words []string) string {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, quote(word))
	}
	return strings.Join(quoted, " ")
}

// quote makes a word of the shell.
func quote(word string) string {
	if word == "" || strings.ContainsAny(word, " \t\n\"'`$&|;<>()*?[]{}~#!\\") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
