package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"al.essio.dev/pkg/shellescape"
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
	"golang.org/x/term"
)

// readRecords reads the records of experiments in a folder. It says which lines are broken, and if none has the wanted profile which profiles there are.
func readRecords(verbName string, o *study.Options, in string, all ...study.Experiment) (records []study.Record) {
	if o.Out != usualOut() {
		requireFolder("out", o.Out)
	}
	for _, e := range all {
		for _, line := range try.E1(study.BrokenLines(study.Folder(o.Out, e.Name))) {
			fmt.Fprintf(os.Stderr, "%s (\"semcon doctor --repair --out %s\" moves it aside)\n", line, shellescape.Quote(o.Out))
		}
		records = append(records, try.E1(study.Records(study.Folder(o.Out, e.Name)))...)
	}
	if others := study.OtherProfiles(records, o.Profile); others != nil {
		fmt.Fprintf(os.Stderr, "semcon %s: no records of profile %s in %s; there are some of --profile %s\n", verbName, o.Profile, in, strings.Join(others, ", --profile "))
	}
	return records
}

func tableVerb(c *cobra.Command, flags flagTexts) {
	completeExperiments(c)
	var f struct{ Format string }
	o := shownRuns(c, flags, &f)
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
		written, width := f.Format, math.MaxInt
		switch {
		case written == "json":
			written = "csv"
		case !c.Flags().Changed("format") && progress.IsTerminal(os.Stdout):
			columns, _, _ := term.GetSize(int(os.Stdout.Fd()))
			written, width = "text", cmp.Or(columns, width) // A terminal may not know its size.
		}
		all := ""
		for i, table := range shown {
			text := lo.Ternary(written == "text", table.TextWithin(width), try.E1(table.Format(written)))
			switch {
			case i > 0 && written == "csv": // All tables share one header.
				_, text, _ = strings.Cut(text, "\n")
			case i > 0:
				text = "\n" + text
			}
			all += text
		}
		if f.Format == "json" {
			printLines(all)
			return
		}
		try.E1(fmt.Print(all)) // The disk may be full.
	}
}

// shownRuns adds the flags that choose runs by their settings, and those of other structs.
func shownRuns(c *cobra.Command, flags flagTexts, others ...any) (o *study.Options) {
	o = &study.Options{}
	flags.bind(c, append(others, o)...)
	completeSettings(c)
	return o
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

func claimsVerb(c *cobra.Command, flags flagTexts) {
	var f struct{ Format string }
	o := shownRuns(c, flags, &f)
	c.Run = func(c *cobra.Command, _ []string) {
		readRecords("claims", o, o.Out, experiments.All()...)
		locateSettings(c, &o.Set)
		scoreboard := try.E1(experiments.Claims(o.Out, o.Profile, o.Set...))
		if f.Format == "json" {
			printLines(scoreboard.CSV())
			return
		}
		try.E1(fmt.Print(try.E1(scoreboard.Format(f.Format))))
	}
}

func compareVerb(c *cobra.Command, flags flagTexts) {
	var o study.Options
	var f struct{ To, Format string }
	flags.bind(c, &o, &f)
	c.Run = func(_ *cobra.Command, runs []string) {
		refuse(len(runs) != 2, "want two runs, such as ablation/line2, got %s", listed(runs))
		if f.To != "" {
			refuse(!strings.EqualFold(filepath.Ext(f.To), ".html"), "--to %s: want a file that ends with .html", f.To)
			requireWritableFile("to", f.To)
		}
		compared := try.E1(report.Compare(try.E1(report.Select(o.Out, runs[0], o.Profile)), try.E1(report.Select(o.Out, runs[1], o.Profile))))
		if f.To == "" {
			printAs(f.Format, compared.Text(), compared)
			return
		}
		try.E(compared.Write(f.To))
		fmt.Printf("wrote %s\n", f.To)
	}
}

func reportVerb(c *cobra.Command, flags flagTexts) {
	var target reportTarget
	var f struct{ Models bool }
	o := shownRuns(c, flags, &target, &f)
	c.Run = func(c *cobra.Command, _ []string) {
		requireFolder("out", o.Out)
		requireFolder("data", o.Data)
		target.check(o.Out)
		locateSettings(c, &o.Set)
		shown := report.Options{Profile: o.Profile, Out: o.Out, Data: o.Data, Set: o.Set}
		if f.Models {
			shown.Backend = try.E1(backend.Open())
		}
		target.write(c.Context(), shown)
	}
}

// browsers are the programs that print a report, in this order.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge", "brave-browser"}

// reportTarget is where a report goes.
type reportTarget struct{ Format, To, browser string }

// check completes the target. It ends the verb with an error if the report cannot be written there.
func (t *reportTarget) check(out string) {
	if t.Format == "pdf" {
		t.browser, _ = lo.Find(browsers, func(name string) bool { _, err := exec.LookPath(name); return err == nil })
		fail(t.browser == "", "--format pdf: a PDF needs a browser that prints, and none is installed: looked for %s; open the HTML page in yours and print it", strings.Join(browsers, ", "))
	}
	t.To = cmp.Or(t.To, filepath.Join(out, "report."+t.Format))
	requireWritableFile("to", t.To)
	refuse(!strings.EqualFold(filepath.Ext(t.To), "."+t.Format), "--to %s: want a file that ends with .%s", t.To, t.Format)
}

// write writes the report and prints its name.
func (t *reportTarget) write(ctx context.Context, o report.Options) {
	o.Command = func(e study.Experiment, options study.Options) string { return commandFor("run", e.Name, options) }
	if t.browser == "" {
		try.E(report.Write(t.To, o))
	} else {
		try.E(os.MkdirAll(filepath.Dir(t.To), 0o777))
		work := try.E1(filepath.Abs(try.E1(os.MkdirTemp(filepath.Dir(t.To), ".semcon-report")))) // The browser needs whole paths, and may have a /tmp of its own.
		defer os.RemoveAll(work)
		page := filepath.Join(work, "report.html")
		try.E(report.Write(page, o))
		t.print(ctx, page, work)
	}
	fmt.Printf("wrote %s\n", t.To)
}

// print prints a page to a PDF by the browser, without a window, in a folder of its own.
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
	try.E(atomicfile.WriteBytes(t.To, content))
}

func recordsVerb(c *cobra.Command, flags flagTexts) {
	completeExperiments(c)
	var f struct{ Out, Format string }
	flags.bind(c, &f)
	c.Run = func(c *cobra.Command, names []string) {
		refuse(f.Format == "parquet" && progress.IsTerminal(os.Stdout), "--format parquet: not for a terminal; add > records.parquet")
		if c.Flags().Changed("out") {
			requireFolder("out", f.Out)
		}
		all := lo.FlatMap(inOrder(names), func(e study.Experiment, _ int) []study.Quantity {
			return study.Quantities(try.E1(study.Records(study.Folder(f.Out, e.Name))))
		})
		switch f.Format {
		case "json":
			printAs("json", "", all)
		case "parquet":
			try.E(parquet.Write(os.Stdout, all))
		default:
			lines := lo.Map(all, func(q study.Quantity, _ int) []string { return q.Texts() })
			try.E(csv.NewWriter(os.Stdout).WriteAll(append([][]string{study.QuantityNames()}, lines...)))
		}
	}
}
