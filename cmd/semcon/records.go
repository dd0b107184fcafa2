package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/parquet-go/parquet-go"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
	"github.com/spf13/cobra"
)

// readRecords reads the records of experiments in a folder. It says which lines are broken, and if none has the wanted profile which profiles there are. It ends
// the verb with an error.
func readRecords(verbName string, o *study.Options, in string, all ...study.Experiment) (records []study.Record) {
	if o.Out != cmp.Or(os.Getenv(outVariable), "out") {
		requireFolder("out", o.Out)
	}
	for _, e := range all {
		for _, line := range try.E1(study.BrokenLines(study.Folder(o.Out, e.Name))) {
			fmt.Fprintf(os.Stderr, "%s (\"semcon doctor --repair --out %s\" moves it aside)\n", line, quote(o.Out))
		}
		records = append(records, try.E1(study.Records(study.Folder(o.Out, e.Name)))...)
	}
	if others := otherProfiles(records, o.Profile); others != nil {
		fmt.Fprintf(os.Stderr, "semcon %s: no records of profile %s in %s; there are some of --profile %s\n", verbName, o.Profile, in, strings.Join(others, ", --profile "))
	}
	return records
}

// otherProfiles returns the sorted profiles of the records if none of them has the wanted profile.
func otherProfiles(records []study.Record, wanted study.Profile) []string {
	others := lo.Uniq(lo.Map(records, func(r study.Record, _ int) string { return string(r.Profile) }))
	if slices.Contains(others, string(wanted)) {
		return nil
	}
	return slices.Sorted(slices.Values(others))
}

func tableVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "table EXPERIMENT", Short: "print an experiment's tables from its records: paper, ours, difference",
		Example: "semcon table effect-aug --format md\nsemcon table video_seg",
	}
	completeExperiments(c)
	o := recordFlags(c, "of the runs shown", "of the records")
	formats := append(slices.Clone(figures.Formats), "json")
	format := choiceFlag(c, "format", "`FORMAT`: "+strings.Join(formats, ", ")+"; by default text in a terminal, and md elsewhere", formats...)
	setFlag(c, o)
	c.Run = func(c *cobra.Command, names []string) {
		experiment, label := oneExperiment(names)
		locateSettings(c, &o.Set)
		folder := filepath.Join(o.Out, experiment.Name)
		records := readRecords("table", o, folder, experiment)
		if len(records) == 0 {
			fmt.Fprintf(os.Stderr, "semcon table: no records in %s; \"%s\" makes them\n", folder, commandFor("run", experiment.Name, *o))
		}
		recorded := len(records)
		records = try.E1(experiment.Selected(records, *o))
		if recorded > 0 && len(records) == 0 {
			fmt.Fprintf(os.Stderr, "semcon table: no runs with --set %s in %s\n", strings.Join(o.Set, " --set "), folder)
		}
		tables := try.E1(experiment.Tables(records, o.Profile))
		shown := namedTables(tables, label)
		if measured := figures.Measured(shown); label == "" && len(measured) < len(shown) {
			fmt.Fprintf(os.Stderr, "semcon table: left out, as they show the paper's numbers alone: %s\n", paperAlone(shown))
			shown = measured
		} else if label != "" && len(figures.Measured(tables)) < len(tables) && paperAlone(shown) != "" {
			fmt.Fprintf(os.Stderr, "semcon table: no run on the paper's data; \"%s\" shows the others\n", commandFor("table", experiment.Name, *o))
		}
		written := *format
		switch {
		case written == "json":
			written = "csv"
		case !c.Flags().Changed("format") && progress.IsTerminal(os.Stdout):
			written = "text"
		}
		all := ""
		for i, table := range shown {
			text := try.E1(table.Format(written))
			switch {
			case i > 0 && written == "csv": // All tables share one header.
				_, text, _ = strings.Cut(text, "\n")
			case i > 0:
				text = "\n" + text
			}
			all += text
		}
		if *format == "json" {
			printLines(all)
			return
		}
		fmt.Print(all)
	}
	return c
}

// setFlag adds the flag that chooses runs by their settings.
func setFlag(c *cobra.Command, o *study.Options) {
	c.Flags().StringArrayVar(&o.Set, "set", nil, "show the runs with a changed setting: `KEY=VALUE`, as it was given to run; may be repeated")
	completeSettings(c)
}

// namedTables returns the tables that show the paper's table or figure with the label. They are all tables if no title has the label: the paper's figures of
// noise-rate and over-dispersion have no numbers, and their tables have titles of their own.
func namedTables(tables []figures.Table, label string) (named []figures.Table) {
	named = lo.Filter(tables, func(t figures.Table, _ int) bool {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(t.Title, "Tab. "), "Fig. "), label)
		return label == "" || ok && (rest == "" || strings.ContainsAny(rest[:1], " ,"))
	})
	return lo.Ternary(len(named) == 0, tables, named)
}

// paperAlone lists the tables that show the paper's numbers alone, by their names in the paper.
func paperAlone(tables []figures.Table) string {
	names := lo.FilterMap(tables, func(t figures.Table, _ int) (string, bool) {
		return strings.TrimPrefix(t.Title, "Tab. "), t.PaperAlone()
	})
	return strings.Join(names, ", ")
}

func claimsVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "claims", Short: "print the scoreboard of the paper's claims from records", Args: noNames, Example: "semcon claims --profile quick",
	}
	o := recordFlags(c, "of the runs", "of the records")
	setFlag(c, o)
	formats := append(slices.Clone(figures.ScoreboardFormats), "json")
	format := choiceFlag(c, "format", "`FORMAT`: "+strings.Join(formats, ", "), formats...)
	c.Run = func(c *cobra.Command, _ []string) {
		readRecords("claims", o, o.Out, experiments.All()...)
		locateSettings(c, &o.Set)
		scoreboard := try.E1(experiments.Claims(o.Out, o.Profile, o.Set...))
		if *format == "json" {
			printLines(scoreboard.CSV())
			return
		}
		fmt.Print(try.E1(scoreboard.Format(*format)))
	}
	return c
}

func compareVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "compare RUN RUN", Short: "compare two runs: settings that differ, curves, and differences of their numbers paired by seed",
		Example: "semcon compare ablation/line2 ablation/line5\nsemcon compare out/pretrain other/pretrain --to compared.html\nsemcon compare runs/photos runs/longer\n" +
			"semcon compare noise-tolerance/cotap/flipped0.2@3f2a noise-tolerance/cotap/flipped0.2@91bc",
	}
	o := recordFlags(c, "of the runs", "of the records of runs that are named as EXPERIMENT/CELL; a run may also be the path of an experiment's folder, or the folder of a training by semcon train")
	to := c.Flags().String("to", "", "`FILE` of a page with the comparison and its curves; .html")
	format := formatFlag(c)
	c.Run = func(_ *cobra.Command, runs []string) {
		refuse(len(runs) != 2, "want two runs, such as ablation/line2, got %s", listed(runs))
		if *to != "" {
			refuse(!strings.EqualFold(filepath.Ext(*to), ".html"), "--to %s: want a file that ends with .html", *to)
			requireWritableFile("to", *to)
		}
		compared := try.E1(report.Compare(try.E1(report.Select(o.Out, runs[0], o.Profile)), try.E1(report.Select(o.Out, runs[1], o.Profile))))
		if *to == "" {
			printAs(*format, compared.Text(), compared)
			return
		}
		try.E(compared.Write(*to))
		fmt.Printf("wrote %s\n", *to)
	}
	return c
}

func reportVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "report", Short: "write one page with every table, figure and claim that the records give, and what is missing", Args: noNames,
		Example: "semcon report --profile smoke\nsemcon report --profile full --data data --models --format pdf --to results.pdf",
	}
	o := recordFlags(c, "of the records", "of the records")
	dataFlag(c, &o.Data)
	setFlag(c, o)
	models := c.Flags().Bool("models", false, "also draw what the models of the runs make of images, which computes")
	target := reportFlags(c)
	c.Run = func(c *cobra.Command, _ []string) {
		requireFolder("out", o.Out)
		requireFolder("data", o.Data)
		target.check(o.Out)
		locateSettings(c, &o.Set)
		shown := report.Options{Profile: o.Profile, Out: o.Out, Data: o.Data, Set: o.Set}
		if *models {
			shown.Backend = try.E1(backend.Open())
		}
		target.write(c.Context(), shown)
	}
	return c
}

// browsers are the programs that print a report, in this order.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "brave-browser"}

// reportTarget is where a report goes.
type reportTarget struct {
	format      *string
	to, browser string
}

// reportFlags adds the flags that say where a report goes.
func reportFlags(c *cobra.Command) *reportTarget {
	t := &reportTarget{format: choiceFlag(c, "format", "`FORMAT`: html, or pdf, which a browser prints: "+strings.Join(browsers[:3], ", ")+" or another", "html", "pdf")}
	c.Flags().StringVar(&t.to, "to", "", "`FILE` of the report; by default report.html or report.pdf in the folder of the records")
	return t
}

// check completes the target. It ends the verb with an error if the report cannot be written there.
func (t *reportTarget) check(out string) {
	if *t.format == "pdf" {
		for _, name := range slices.Backward(browsers) {
			if path, err := exec.LookPath(name); err == nil {
				t.browser = path
			}
		}
		fail(t.browser == "", "--format pdf: a PDF needs a browser that prints, and none is installed: looked for %s; open the HTML page in yours and print it", strings.Join(browsers, ", "))
	}
	t.to = cmp.Or(t.to, filepath.Join(out, "report."+*t.format))
	requireWritableFile("to", t.to)
}

// write writes the report and prints its name. It ends the verb with an error.
func (t *reportTarget) write(ctx context.Context, o report.Options) {
	o.Command = func(e study.Experiment) string {
		options := study.Options{Profile: o.Profile, Out: o.Out, Data: o.Data}
		options.Data = e.DataFor(options)
		return commandFor("run", e.Name, options)
	}
	if t.browser == "" {
		try.E(report.Write(t.to, o))
	} else {
		work := try.E1(filepath.Abs(try.E1(os.MkdirTemp("", "semcon-report")))) // The browser needs whole paths.
		defer os.RemoveAll(work)
		page := filepath.Join(work, "report.html")
		try.E(report.Write(page, o))
		t.print(ctx, page, work)
	}
	fmt.Printf("wrote %s\n", t.to)
}

// print prints a page to a PDF by the browser, without a window, in a folder of its own. It ends the verb with an error.
func (t *reportTarget) print(ctx context.Context, page, work string) {
	printed := filepath.Join(work, "page.pdf")
	args := []string{"--headless", "--disable-gpu", "--no-first-run", "--user-data-dir=" + filepath.Join(work, "profile"), "--no-pdf-header-footer", "--print-to-pdf=" + printed}
	if os.Getuid() == 0 { // Chromium refuses its sandbox to root.
		args = append(args, "--no-sandbox")
	}
	said, err := exec.CommandContext(ctx, t.browser, append(args, "file://"+filepath.ToSlash(page))...).CombinedOutput()
	fail(err != nil, "%s cannot print %s: %w", t.browser, page, err)
	content, err := os.ReadFile(printed)
	fail(err != nil, "%s has printed nothing of %s: %s", t.browser, page, oneLine(errors.New(string(said))))
	try.E(atomicfile.WriteBytes(t.to, content))
}

func recordsVerb() *cobra.Command {
	c := &cobra.Command{
		Use: "records [EXPERIMENT…]", Short: "write all records as one table with a line for each number, for pandas, polars or DuckDB",
		Example: "semcon records > records.csv\nsemcon records --format parquet > records.parquet\nsemcon records pretrain transfer --format json",
	}
	completeExperiments(c)
	out := c.Flags().String("out", "out", "`FOLDER` of the records")
	format := choiceFlag(c, "format", "`FORMAT`: csv, json or parquet", "csv", "json", "parquet")
	c.Run = func(c *cobra.Command, names []string) {
		refuse(*format == "parquet" && progress.IsTerminal(os.Stdout), "--format parquet: not for a terminal; add > records.parquet")
		if c.Flags().Changed("out") {
			requireFolder("out", *out)
		}
		all := lo.FlatMap(inOrder(names), func(e study.Experiment, _ int) []study.Quantity {
			return study.Quantities(try.E1(study.Records(study.Folder(*out, e.Name))))
		})
		switch *format {
		case "json":
			printAs("json", "", all)
			return
		case "parquet":
			try.E(parquet.Write(os.Stdout, all))
			return
		}
		w := csv.NewWriter(os.Stdout)
		w.Write(study.QuantityNames())
		for _, q := range all {
			w.Write(q.Texts())
		}
		w.Flush()
		try.E(w.Error())
	}
	return c
}
