package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/report"
	"github.com/semcon/semcon/sccore/study"
)

var reportVerb = verb{
	name:    "report",
	summary: "write one page with every table, figure and claim that the records give, and what is missing",
	example: "semcon report --profile smoke\nsemcon report --profile full --data data --models --format pdf --to results.pdf",
	run: func(ctx context.Context, args []string) error {
		flags := newFlags("report")
		profile := flags.String("profile", string(study.Quick), "`PROFILE` of the records: smoke, quick or full")
		data := dataFlag(flags)
		out := flags.String("out", "out", "`FOLDER` of the records")
		models := flags.Bool("models", false, "also draw what the models of the runs make of images, which computes")
		target := reportFlags(flags)
		if err := noNames(flags, args); err != nil {
			return err
		}
		wanted, err := parseProfile(*profile)
		if err != nil {
			return err
		}
		if err := requireFolder("out", *out); err != nil {
			return err
		}
		if *data != "" {
			if err := requireFolder("data", *data); err != nil {
				return err
			}
		}
		if err := target.check(*out); err != nil {
			return err
		}
		o := report.Options{Profile: wanted, Out: *out, Data: *data}
		if *models {
			if o.Backend, err = backend.Open(); err != nil {
				return err
			}
		}
		return target.write(ctx, o)
	},
}

// reportTarget is where a report goes.
type reportTarget struct{ format, to, browser string }

// reportFlags adds the flags that say where a report goes.
func reportFlags(flags *flag.FlagSet) *reportTarget {
	t := &reportTarget{}
	flags.StringVar(&t.format, "format", "html", "`FORMAT`: html, or pdf, which a browser prints: "+strings.Join(report.Browsers[:3], ", ")+" or another")
	flags.StringVar(&t.to, "to", "", "`FILE` of the report; by default report.html or report.pdf in the folder of the records")
	return t
}

// check completes the target, and returns an error if the report cannot be written there.
func (t *reportTarget) check(out string) (err error) {
	switch t.format {
	case "html":
	case "pdf":
		if t.browser, err = report.Browser(); err != nil {
			return fmt.Errorf("--format pdf: %w", err)
		}
	default:
		return usagef("--format %q: want html or pdf", t.format)
	}
	t.to = cmp.Or(t.to, filepath.Join(out, "report."+t.format))
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
