package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
)

// The verbs that show what records say.
var (
	tableVerb = verb{
		name:    "table",
		summary: "print an experiment's tables from its records: paper, ours, difference",
		args:    "EXPERIMENT",
		example: "semcon table effect-aug --format md\nsemcon table video_seg",
		run:     runTable,
	}
	claimsVerb = verb{
		name:    "claims",
		summary: "print the scoreboard of the paper's claims from records",
		example: "semcon claims --profile quick",
		run:     runClaims,
	}
	compareVerb = verb{
		name:    "compare",
		summary: "compare two runs: settings that differ, curves, and differences of their numbers paired by seed",
		args:    "RUN RUN",
		example: "semcon compare ablation/line2 ablation/line5\nsemcon compare out/pretrain other/pretrain --to compared.html\n" +
			"semcon compare noise-tolerance/cotap/flipped0.2@3f2a noise-tolerance/cotap/flipped0.2@91bc",
		run: runCompare,
	}
	reportVerb = verb{
		name:    "report",
		summary: "write one page with every table, figure and claim that the records give, and what is missing",
		example: "semcon report --profile smoke\nsemcon report --profile full --data data --models --format pdf --to results.pdf",
		run:     runReport,
	}
)

// readRecords reads the records of experiments in a folder. It says which lines are broken, and if none has the wanted profile which profiles there are.
func readRecords(verbName, out string, wanted study.Profile, in string, all ...study.Experiment) (records []study.Record, err error) {
	if out != "out" {
		if err := requireFolder("out", out); err != nil {
			return nil, err
		}
	}
	for _, e := range all {
		broken, err := study.BrokenLines(study.Folder(out, e.Name))
		if err != nil {
			return nil, err
		}
		for _, line := range broken {
			fmt.Fprintf(os.Stderr, "%s (\"semcon doctor --repair --out %s\" moves it aside)\n", line, out)
		}
		some, err := study.Records(study.Folder(out, e.Name))
		if err != nil {
			return nil, err
		}
		records = append(records, some...)
	}
	if others := otherProfiles(records, wanted); others != nil {
		fmt.Fprintf(os.Stderr, "semcon %s: no records of profile %s in %s; there are some of --profile %s\n", verbName, wanted, in, strings.Join(others, ", --profile "))
	}
	return records, nil
}

// otherProfiles returns the sorted profiles of the records if none of them has the wanted profile.
func otherProfiles(records []study.Record, wanted study.Profile) (others []string) {
	for _, r := range records {
		if r.Profile == wanted {
			return nil
		}
		others = append(others, string(r.Profile))
	}
	slices.Sort(others)
	return slices.Compact(others)
}

func runTable(_ context.Context, args []string) error {
	flags := newFlags("table")
	profile := profileFlag(flags, "of the runs shown")
	out := flags.String("out", "out", "`FOLDER` of the records")
	format := choiceFlag(flags, "format", "`FORMAT`: "+strings.Join(figures.Formats, ", "), figures.Formats...)
	experiment, label, err := oneExperiment(must(parse(flags, args)))
	check(err)
	folder := filepath.Join(*out, experiment.Name)
	records := must(readRecords("table", *out, *profile, folder, experiment))
	if len(records) == 0 {
		fmt.Fprintf(os.Stderr, "semcon table: no records in %s; \"%s\" makes them\n", folder, commandFor("run", experiment.Name, *profile, *out))
	}
	tables := must(experiment.Tables(records, *profile))
	shown := namedTables(tables, label)
	if measured := figures.Measured(shown); label == "" && len(measured) < len(shown) {
		fmt.Fprintf(os.Stderr, "semcon table: left out, as they show the paper's numbers alone: %s\n", paperAlone(shown))
		shown = measured
	} else if label != "" && len(figures.Measured(tables)) < len(tables) && paperAlone(shown) != "" {
		fmt.Fprintf(os.Stderr, "semcon table: no run on the paper's data; \"%s\" shows the others\n", commandFor("table", experiment.Name, *profile, *out))
	}
	for i, table := range shown {
		text := must(table.Format(*format))
		switch {
		case i > 0 && *format == "csv": // All tables share one header.
			_, text, _ = strings.Cut(text, "\n")
		case i > 0:
			fmt.Println()
		}
		fmt.Print(text)
	}
	return nil
}

// namedTables returns the tables that show the paper's table or figure with the label. They are all tables if no title has the label: the paper's figures of
// noise-rate and over-dispersion have no numbers, and their tables have titles of their own.
func namedTables(tables []figures.Table, label string) (named []figures.Table) {
	for _, table := range tables {
		title := strings.TrimPrefix(strings.TrimPrefix(table.Title, "Tab. "), "Fig. ")
		if rest, ok := strings.CutPrefix(title, label); label == "" || ok && (rest == "" || strings.ContainsAny(rest[:1], " ,")) {
			named = append(named, table)
		}
	}
	if len(named) == 0 {
		return tables
	}
	return named
}

// paperAlone lists the tables that show the paper's numbers alone, by their names in the paper.
func paperAlone(tables []figures.Table) string {
	var names []string
	for _, table := range tables {
		if table.PaperAlone() {
			names = append(names, strings.TrimPrefix(table.Title, "Tab. "))
		}
	}
	return strings.Join(names, ", ")
}

func runClaims(_ context.Context, args []string) error {
	flags := newFlags("claims")
	profile := profileFlag(flags, "of the runs")
	out := flags.String("out", "out", "`FOLDER` of the records")
	format := choiceFlag(flags, "format", "`FORMAT`: "+strings.Join(figures.ScoreboardFormats, ", "), figures.ScoreboardFormats...)
	check(noNames(flags, args))
	must(readRecords("claims", *out, *profile, *out, experiments.All()...))
	fmt.Print(must(must(experiments.Claims(*out, *profile)).Format(*format)))
	return nil
}

func runCompare(_ context.Context, args []string) error {
	flags := newFlags("compare")
	profile := profileFlag(flags, "of the runs")
	out := flags.String("out", "out", "`FOLDER` of the records of runs that are named as EXPERIMENT/CELL; a run may also be the path of an experiment's folder")
	to := flags.String("to", "", "`FILE` of a page with the comparison and its curves; .html")
	runs := must(parse(flags, args))
	if len(runs) != 2 {
		return usagef("want two runs, such as ablation/line2, got %s", listed(runs))
	}
	if *to != "" {
		if !strings.EqualFold(filepath.Ext(*to), ".html") {
			return usagef("--to %s: want a file that ends with .html", *to)
		}
		check(requireWritableFile("to", *to))
	}
	compared := must(report.Compare(must(report.Select(*out, runs[0], *profile)), must(report.Select(*out, runs[1], *profile))))
	if *to == "" {
		fmt.Print(compared.Text())
		return nil
	}
	check(compared.Write(*to))
	fmt.Printf("wrote %s\n", *to)
	return nil
}

func runReport(ctx context.Context, args []string) error {
	flags := newFlags("report")
	o := report.Options{}
	profile, data := profileFlag(flags, "of the records"), dataFlag(flags)
	flags.StringVar(&o.Out, "out", "out", "`FOLDER` of the records")
	models := flags.Bool("models", false, "also draw what the models of the runs make of images, which computes")
	target := reportFlags(flags)
	check(noNames(flags, args))
	o.Profile, o.Data = *profile, *data
	check(requireFolder("out", o.Out))
	check(requireFolder("data", o.Data))
	check(target.check(o.Out))
	if *models {
		o.Backend = must(backend.Open())
	}
	return target.write(ctx, o)
}

// reportTarget is where a report goes.
type reportTarget struct {
	format      *string
	to, browser string
}

// reportFlags adds the flags that say where a report goes.
func reportFlags(flags *flag.FlagSet) *reportTarget {
	t := &reportTarget{format: choiceFlag(flags, "format", "`FORMAT`: html, or pdf, which a browser prints: "+strings.Join(report.Browsers[:3], ", ")+" or another", "html", "pdf")}
	flags.StringVar(&t.to, "to", "", "`FILE` of the report; by default report.html or report.pdf in the folder of the records")
	return t
}

// check completes the target, and returns an error if the report cannot be written there.
func (t *reportTarget) check(out string) (err error) {
	if *t.format == "pdf" {
		if t.browser, err = report.Browser(); err != nil {
			return fmt.Errorf("--format pdf: %w", err)
		}
	}
	t.to = cmp.Or(t.to, filepath.Join(out, "report."+*t.format))
	return requireWritableFile("to", t.to)
}

// write writes the report and prints its name.
func (t *reportTarget) write(ctx context.Context, o report.Options) error {
	o.Command = func(e study.Experiment) string {
		command := commandFor("run", e.Name, o.Profile, o.Out)
		if data := e.DataFor(study.Options{Profile: o.Profile, Out: o.Out, Data: o.Data}); data != "" {
			command += " --data " + commandLine([]string{data})
		}
		return command
	}
	page := t.to
	if t.browser != "" {
		folder, err := os.MkdirTemp("", "semcon-report")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		page = filepath.Join(folder, "report.html")
	}
	if err := report.Write(page, o); err != nil {
		return err
	}
	if t.browser != "" {
		if err := report.Print(ctx, t.browser, page, t.to); err != nil {
			return err
		}
	}
	fmt.Printf("wrote %s\n", t.to)
	return nil
}
