package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/spelling"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a mistake in the command line. Its exit status is 2.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// usagef makes a [usageError].
func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// refuse ends the verb with an error of wrong usage if there is a mistake.
func refuse(mistake bool, format string, args ...any) {
	if mistake {
		try.E(usagef(format, args...))
	}
}

// fail ends the verb with an error if there is a fault.
func fail(fault bool, format string, args ...any) {
	if fault {
		try.E(fmt.Errorf(format, args...))
	}
}

// listFlag is the value of a flag of values with commas between them, and spaces. If it is given twice, the second list counts; an empty text is no list.
type listFlag[T any] struct {
	to    *[]T
	parse func(string) (T, error)
}

func (f listFlag[T]) String() string { return strings.Trim(fmt.Sprint(*f.to), "[]") }

func (f listFlag[T]) Type() string { return "list" }

func (f listFlag[T]) Set(text string) (err error) {
	defer try.Handle(&err)
	*f.to = nil
	if strings.TrimSpace(text) != "" {
		*f.to = lo.Map(strings.Split(text, ","), func(part string, _ int) T { return try.E1(f.parse(strings.TrimSpace(part))) })
	}
	return nil
}

// flagTexts describe the flags of a verb by name.
type flagTexts map[string]flagText

// flagText describes a flag. Its type is that of the field that gets its value.
type flagText struct {
	Usage   string
	Default string   // As it is typed; $NAME is a variable of the environment.
	Range   string   // Of a number, as the tags of settings have it.
	OneOf   []string // The only values.
}

// bind adds the flags that have the names of fields: the field SetupOnly of one of the structs gets the value of --setup-only.
func (texts flagTexts) bind(c *cobra.Command, structs ...any) {
	for _, s := range structs {
		for field, value := range reflect.ValueOf(s).Elem().Fields() {
			name := strings.ReplaceAll(settings.Key(field.Name), "_", "-")
			text, known := texts[name]
			if !known || !field.IsExported() {
				continue
			}
			usage := placeholders.Replace(text.Usage)
			if len(os.Args) > 1 && os.Args[1] == cobra.ShellCompRequestCmd { // Shells show a usage as it is, with the quotes around its placeholder.
				usage = strings.ReplaceAll(usage, "`", "")
			}
			addFlag(c.Flags(), value, name, usage)
			flag := c.Flags().Lookup(name)
			if text.OneOf != nil || text.Range != "" {
				flag.Value = checkedFlag{flag.Value, name, text}
				complete(c, name, text.OneOf...)
			}
			if given := os.ExpandEnv(text.Default); given != "" {
				try.E(flag.Value.Set(given))
				flag.DefValue = flag.Value.String()
			}
		}
	}
}

// addFlag adds a flag of a field.
func addFlag(flags *pflag.FlagSet, field reflect.Value, name, usage string) {
	switch to := field.Addr().Interface().(type) {
	case *bool:
		flags.BoolVar(to, name, false, usage)
	case *int:
		flags.IntVar(to, name, 0, usage)
	case *uint64:
		flags.Uint64Var(to, name, 0, usage)
	case *float64:
		flags.Float64Var(to, name, 0, usage)
	case *time.Duration:
		flags.DurationVar(to, name, 0, usage)
	case *[]string:
		flags.StringArrayVar(to, name, nil, usage)
	case *[]int:
		flags.Var(listFlag[int]{to, strconv.Atoi}, name, usage)
	case *[]float64:
		flags.Var(listFlag[float64]{to, func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }}, name, usage)
	case pflag.Value:
		flags.Var(to, name, usage)
	default: // Texts of a type of their own, such as profiles.
		flags.StringVar(field.Addr().Convert(reflect.TypeFor[*string]()).Interface().(*string), name, "", usage)
	}
}

// checkedFlag is the value of a flag that takes not all values of its type.
type checkedFlag struct {
	pflag.Value
	name string
	text flagText
}

func (f checkedFlag) Set(given string) error {
	values := f.text.OneOf
	switch err := f.Value.Set(given); {
	case err != nil:
		return err
	case values != nil && !slices.Contains(values, given):
		return fmt.Errorf("want %s", settings.Or(values))
	case f.text.Range == "":
		return nil
	}
	number, err := strconv.ParseFloat(f.Value.String(), 64)
	return cmp.Or(err, settings.InRange(f.name, f.text.Range, number))
}

// wanted says what functions of strconv read.
var wanted = map[string]string{"Atoi": "a whole number", "ParseInt": "a whole number", "ParseUint": "a whole number, 0 or more", "ParseFloat": "a number"}

// flagError says what is wrong with a flag: the flag first, as it is typed.
func flagError(c *cobra.Command, err error) error {
	said := err.Error()
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		said = "there is no flag -" + unknown.GetSpecifiedShortnames()
	case errors.As(err, &unknown):
		if c.HasSubCommands() {
			if names := arguments(c); len(names) > 0 { // A subcommand that there is not would have the flag.
				return ended(func() { c.Run(c, names) })
			}
		}
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		typed := "--" + unknown.GetSpecifiedName()
		near := spelling.DidYouMean(typed, names)
		if near == "" && c.Flags().Lookup("set") != nil {
			near = fmt.Sprintf("; a setting is --set %s=VALUE", typed[2:])
		}
		said = "there is no flag " + typed + near
	case errors.As(err, &invalid):
		reason := invalid.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(reason, &number) {
			reason = fmt.Errorf("%q cannot be read, want %s", number.Num, cmp.Or(wanted[number.Func], "true or false"))
		}
		whole := strings.HasPrefix(reason.Error(), invalid.GetFlag().Name+" ") // It names the flag and the value.
		said = lo.Ternary(whole, "--"+reason.Error(), fmt.Sprintf("--%s %q: %v", invalid.GetFlag().Name, invalid.GetValue(), reason))
	}
	return usagef("%s (\"%s --help\" lists the flags)", said, c.CommandPath())
}

// arguments parses the command line again, ignoring unknown flags, and returns what is neither a flag nor the value of one.
func arguments(c *cobra.Command) []string {
	_, args, _ := c.Root().Find(os.Args[1:])
	c.FParseErrWhitelist.UnknownFlags = true
	c.ParseFlags(args) // As far as it can: what is wrong is known.
	return c.Flags().Args()
}

// unknownVerb is the error of a name that is no verb.
func unknownVerb(root *cobra.Command, name string) error {
	names := lo.Map(root.Commands(), func(verb *cobra.Command, _ int) string { return verb.Name() })
	return usagef("unknown verb %q%s (\"semcon help\" lists the verbs)", name, spelling.DidYouMean(name, names))
}

// noNames is the Args of verbs that take only flags.
func noNames(_ *cobra.Command, names []string) error {
	if len(names) > 0 {
		return usagef("unexpected argument %q", names[0])
	}
	return nil
}

// complete makes the shell complete the value of a flag, or, without a name, the first arguments of a verb.
func complete(c *cobra.Command, flag string, values ...string) {
	if flag == "" {
		c.ValidArgsFunction = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	} else if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // The verb lacks the flag.
	}
}

// completeExperiments makes the shell complete the names of experiments and of the paper's tables, and more.
func completeExperiments(c *cobra.Command, more ...string) {
	for _, e := range experiments.All() {
		more = append(append(more, e.Name), e.Labels...)
	}
	complete(c, "", lo.Uniq(more)...)
}

// profileNames are the names of the profiles.
func profileNames() []string {
	return lo.Map(study.Profiles, func(p study.Profile, _ int) string { return string(p) })
}

// studyFlags adds the flags that choose an experiment's cells, and those of other structs. [completeStudy] completes the options after they are parsed.
func studyFlags(c *cobra.Command, flags flagTexts, others ...any) *study.Options {
	completeExperiments(c)
	return shownRuns(c, flags, append(others, &struct{ Config string }{})...)
}

// completeStudy completes the options of an experiment and finds the experiment that names has. table is the table by whose name it is given, if it is.
func completeStudy(c *cobra.Command, o *study.Options, names []string) (e study.Experiment, table string) {
	setting, given := lo.Find(names, func(name string) bool { return strings.Contains(name, "=") })
	refuse(given, "%s is not the name of an experiment; a setting is --set %[1]s, each with its own --set", setting)
	e, table = oneExperiment(names)
	if !c.Flags().Changed("data") && (e.GeneratesData || e.DataBySet && e.DataFor(*o) == "") {
		o.Data = "" // $SEMCON_DATA is for others.
	}
	if !e.GeneratesData {
		requireFolder("data", o.Data)
	}
	configured(c, &o.Set)
	locateSettings(c, &o.Set)
	return e, table
}

// configured puts the settings of the file of --config before others.
func configured(c *cobra.Command, set *[]string) {
	if file := c.Flags().Lookup("config").Value.String(); file != "" {
		settings, err := readConfig(file)
		refuse(err != nil, "--config %s: %v", file, err)
		*set = append(settings, *set...)
	}
}

// oneExperiment finds the experiment with the given name, or the one with a table of that name in the paper, which it then returns as table.
func oneExperiment(names []string) (e study.Experiment, table string) {
	refuse(len(names) != 1, "want the name of one experiment, got %s (\"semcon list\" names them)", listed(names))
	e, table, err := experiments.Find(names[0])
	refuse(err != nil, "%v", err)
	return e, table
}

// printAs prints a result as text or JSON.
func printAs(format, text string, result any) {
	if format == "json" {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		try.E(out.Encode(result))
		return
	}
	try.E1(fmt.Print(text)) // The disk may be full.
}

// textOf returns where a verb prints its text: nowhere if the format is JSON.
func textOf(format string) io.Writer {
	return lo.Ternary[io.Writer](format == "json", io.Discard, os.Stdout)
}

// csvNumbers are the columns of tables and claims in CSV that are numbers in JSON. What is missing is null, and "values" a list.
var csvNumbers = []string{"paper", "mean", "sd", "low", "high", "n", "p", "corrected_p", "family", "images_low", "images_high", "images"}

// printLines prints a CSV text with a header as JSON: an object for each line.
func printLines(text string) {
	rows := try.E1(csv.NewReader(strings.NewReader(text)).ReadAll())
	lines := []map[string]any{}
	for _, row := range rows[min(1, len(rows)):] {
		line := map[string]any{}
		for i, name := range rows[0] {
			line[name] = row[i]
			if name == "values" { // A failed run has NaN, and so has a rank correlation of equal values.
				line[name] = json.RawMessage("[" + strings.ReplaceAll(strings.Join(strings.Fields(row[i]), ","), "NaN", "null") + "]")
			} else if slices.Contains(csvNumbers, name) {
				line[name] = json.RawMessage(cmp.Or(strings.TrimPrefix(row[i], "NaN"), "null"))
			}
		}
		lines = append(lines, line)
	}
	printAs("json", "", lines)
}

// requireFolder ends the verb with an error if the folder that a flag names does not exist. An empty flag names none.
func requireFolder(flag, folder string) {
	fail(folder != "" && !datasets.IsFolder(folder), "--%s %s: the folder does not exist", flag, folder)
}

// requireWritable ends the verb with an error if files cannot be written in the folder that a flag names. Verbs call it before they do any work.
func requireWritable(flag, folder string) {
	refuse(folder == "", "--%s is empty: want a folder", flag)
	err := atomicfile.Writable(folder)
	fail(err != nil, "--%s: %w", flag, err)
}

// requireWritableFile is [requireWritable] for a file, which is none of the verb's inputs.
func requireWritableFile(flag, file string, inputs ...string) {
	fail(datasets.IsFolder(file), "--%s %s: is a folder, want a file", flag, file)
	requireInputsKept(flag, file, inputs...)
	requireWritable(flag, filepath.Dir(file))
}

// requireInputsKept ends the verb with an error if a file that it writes for a flag is one of its inputs.
func requireInputsKept(flag, file string, inputs ...string) {
	to, _ := os.Stat(file)
	for _, input := range inputs {
		from, _ := os.Stat(input)
		refuse(os.SameFile(from, to), "--%s: %s would replace the input %s; name another", flag, file, input)
	}
}

// listed says how many names a command line has, and which.
func listed(names []string) string {
	return lo.Ternary(len(names) == 0, "none", fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", ")))
}
