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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/spelling"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a mistake in the command line. Its exit status is 2.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// usagef makes a [usageError].
func usagef(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// parsed is the value of a flag that is checked when it is read.
type parsed[T any] struct {
	kind  string // "string" or "list".
	value *T
	parse func(string) (T, error)
}

func (p parsed[T]) String() string { return strings.Trim(fmt.Sprint(*p.value), "[]") }

func (p parsed[T]) Type() string { return p.kind }

func (p parsed[T]) Set(text string) (err error) {
	*p.value, err = p.parse(text)
	return err
}

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
func listFlag[T any](to *[]T, parse func(string) (T, error)) parsed[[]T] {
	return parsed[[]T]{"list", to, func(text string) (list []T, err error) {
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		for part := range strings.SplitSeq(text, ",") {
			value, err := parse(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		return list, nil
	}}
}

// flagError says what is wrong with a flag: the flag first, as it is typed.
func flagError(c *cobra.Command, err error) error {
	said := err.Error()
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		said = "there is no flag -" + unknown.GetSpecifiedShortnames()
	case errors.As(err, &unknown):
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		typed := "--" + unknown.GetSpecifiedName()
		said = "there is no flag " + typed + spelling.DidYouMean(typed, names)
	case errors.As(err, &invalid):
		reason := invalid.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(reason, &number) {
			reason = fmt.Errorf("%q cannot be read", number.Num)
		}
		said = fmt.Sprintf("--%s %q: %v", invalid.GetFlag().Name, invalid.GetValue(), reason)
		if strings.HasPrefix(reason.Error(), invalid.GetFlag().Name+" ") { // It names the flag and the value.
			said = "--" + reason.Error()
		}
	}
	return usagef("%s (\"%s --help\" lists the flags)", said, c.CommandPath())
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

// dataFlag adds the flag --data.
func dataFlag(c *cobra.Command, folder *string) {
	c.Flags().StringVar(folder, "data", os.Getenv("SEMCON_DATA"), "`FOLDER` of the datasets; by default $SEMCON_DATA")
}

// profileNames are the names of the profiles.
func profileNames() []string {
	return lo.Map(study.Profiles, func(p study.Profile, _ int) string { return string(p) })
}

// profileFlag adds the flag --profile, whose profile is that of what it names.
func profileFlag(c *cobra.Command, profile *study.Profile, of string) {
	*profile = study.Quick
	c.Flags().Var(parsed[study.Profile]{"string", profile, study.ParseProfile}, "profile", "`PROFILE` "+of+": smoke, quick, real or full")
	complete(c, "profile", profileNames()...)
}

// recordFlags adds the flags --profile and --out of verbs that make or read records, whose profile and folder are those of what the texts say.
func recordFlags(c *cobra.Command, of, folder string) *study.Options {
	o := &study.Options{}
	profileFlag(c, &o.Profile, of)
	c.Flags().StringVar(&o.Out, "out", "out", "`FOLDER` "+folder)
	return o
}

// choiceFlag adds a flag that takes one of several values. The default is the first.
func choiceFlag(c *cobra.Command, name, usage string, values ...string) *string {
	value := values[0]
	c.Flags().Var(parsed[string]{"string", &value, func(text string) (string, error) {
		switch {
		case slices.Contains(values, text):
			return text, nil
		case len(values) == 2:
			return "", fmt.Errorf("want %s or %s", values[0], values[1])
		}
		return "", fmt.Errorf("want one of %s", strings.Join(values, ", "))
	}}, name, usage)
	complete(c, name, values...)
	return &value
}

// formatFlag adds the flag --format of verbs that print text or JSON.
func formatFlag(c *cobra.Command) *string {
	return choiceFlag(c, "format", "`FORMAT`: text or json", "text", "json")
}

// printAs prints a result as one of the formats of [formatFlag]. It ends the verb with an error.
func printAs(format, text string, result any) {
	if format == "json" {
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		try.E(out.Encode(result))
		return
	}
	fmt.Print(text)
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
			if name == "values" { // NaN is that of a failed run.
				line[name] = json.RawMessage("[" + strings.ReplaceAll(strings.Join(strings.Fields(row[i]), ","), "NaN", "null") + "]")
			} else if slices.Contains(csvNumbers, name) {
				line[name] = json.RawMessage(cmp.Or(row[i], "null"))
			}
		}
		lines = append(lines, line)
	}
	printAs("json", "", lines)
}

// weightsFlag adds the flag of a file of weights.
func weightsFlag(c *cobra.Command) *string {
	return c.Flags().String("weights", "", "`WEIGHTS`: a file, .pth or .safetensors, a folder with one, or a name of the Hugging Face Hub such as facebook/dino-vits16")
}

// trainingFlags adds the flags of the verbs that train, and returns the number of devices.
func trainingFlags(c *cobra.Command, cache *string, checkpointEvery *time.Duration) (devices *int) {
	c.Flags().StringVar(cache, "cache", "", "`FOLDER` that keeps training images decoded and shrunk, for later epochs and runs; 3 bytes a pixel")
	c.Flags().DurationVar(checkpointEvery, "checkpoint-every", 20*time.Second, "`TIME` between checkpoints: the most that a kill loses")
	return c.Flags().Int("devices", 1, "`NUMBER` of devices of this host that share each batch: GPUs, or parts of the CPU on XLA's CPU plugin")
}

func parallelFlag(c *cobra.Command, n *int) {
	c.Flags().IntVar(n, "parallel", 0, "`NUMBER` of runs at the same time; by default 1 in full, and one per core in quick and smoke")
}

// requireFolder ends the verb with an error if the folder that a flag names does not exist. An empty flag names none.
func requireFolder(flag, folder string) {
	info, err := os.Stat(folder)
	fail(folder != "" && (err != nil || !info.IsDir()), "--%s %s: the folder does not exist", flag, folder)
}

// requireWritable ends the verb with an error if files cannot be written in the folder that a flag names. Verbs call it before they do any work.
func requireWritable(flag, folder string) {
	refuse(folder == "", "--%s is empty: want a folder", flag)
	err := atomicfile.Writable(folder)
	fail(err != nil, "--%s: %w", flag, err)
}

// requireWritableFile is [requireWritable] for a file.
func requireWritableFile(flag, file string) {
	info, err := os.Stat(file)
	fail(err == nil && info.IsDir(), "--%s %s: is a folder, want a file", flag, file)
	requireWritable(flag, filepath.Dir(file))
}

// listed says how many names a command line has, and which.
func listed(names []string) string {
	return lo.Ternary(len(names) == 0, "none", fmt.Sprintf("%d (%s)", len(names), strings.Join(names, ", ")))
}

// commandLine joins words as a shell reads them.
func commandLine(words ...string) string {
	return strings.Join(lo.Map(words, func(word string, _ int) string { return quote(word) }), " ")
}

// plainWord matches what means itself in a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@=,+-]+$`)

// quote makes a word of the shell.
func quote(word string) string {
	return lo.Ternary(plainWord.MatchString(word), word, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
}
