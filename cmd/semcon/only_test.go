package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

// documented is a call of an experiment, as a page prints it.
type documented struct {
	page, text string
	experiment study.Experiment
	options    study.Options
}

var (
	shellWord  = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|\$\([^)]*\)|[^\s'"$]+)+`)
	shellQuote = regexp.MustCompile(`['"]`)
	// In a cell of code: the patterns, and the package of the experiment.
	goOnly  = regexp.MustCompile(`Only = \[\]string\{([^}]*)\}`)
	goStudy = regexp.MustCompile(`(\w+)\.Study\.Run`)
)

// documentedOnly lists the calls with --only of pages and of notebooks' Markdown, and the cells of notebooks that choose cells.
func documentedOnly(t *testing.T) (calls []documented) {
	pages, err := readPages(repository)
	if err != nil {
		t.Fatal(err)
	}
	notebooks, err := filepath.Glob(filepath.Join(repository, "notebooks", "*.ipynb"))
	if err != nil || len(notebooks) == 0 {
		t.Fatal(notebooks, err)
	}
	for _, file := range notebooks {
		content, err := os.ReadFile(file)
		var notebook struct {
			Cells []struct {
				Type   string `json:"cell_type"`
				Source []string
			}
		}
		if err != nil || json.Unmarshal(content, &notebook) != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, c := range notebook.Cells {
			text, name := strings.Join(c.Source, ""), filepath.Base(file)
			if c.Type == "markdown" {
				pages = append(pages, parsePage(name, text))
			}
			only, of := goOnly.FindStringSubmatch(text), goStudy.FindStringSubmatch(text)
			if only == nil || of == nil {
				continue
			}
			at := slices.IndexFunc(experiments.All(), func(e study.Experiment) bool { return strings.ReplaceAll(e.Name, "-", "") == of[1] })
			if at < 0 {
				t.Errorf("%s: there is no experiment %s", name, of[1])
				continue
			}
			o := study.Options{Profile: study.Quick, Only: strings.Split(strings.ReplaceAll(only[1], `"`, ""), ", ")}
			calls = append(calls, documented{name, only[0], experiments.All()[at], o})
		}
	}
	for _, p := range pages {
		for i, block := range p.Blocks { // A command may go on behind a backslash.
			p.Blocks[i] = strings.Split(strings.ReplaceAll(strings.Join(block, "\n"), "\\\n", " "), "\n")
		}
		for _, command := range append(p.Commands("semcon"), p.Commands("go run ./cmd/semcon")...) {
			call := documented{page: p.Path, text: command, options: study.Options{Profile: study.Quick}}
			words := shellWord.FindAllString(command, -1)
			for i, word := range words {
				words[i] = shellQuote.ReplaceAllString(word, "")
				if e, _, err := experiments.Find(words[i]); err == nil && call.experiment.Name == "" {
					call.experiment = e
				}
			}
			for i, word := range words[:len(words)-1] {
				switch value := words[i+1]; word {
				case "--only":
					call.options.Only = append(call.options.Only, value)
				case "--profile":
					call.options.Profile = study.Profile(value)
				case "--set":
					if !strings.Contains(value, "$(") { // Such a file is on the reader's machine.
						call.options.Set = append(call.options.Set, value)
					}
				case "--seeds":
					if err := json.Unmarshal([]byte(value), &call.options.Seeds); err != nil {
						t.Errorf("%s: %q: %v", p.Path, command, err)
					}
				}
			}
			if call.options.Only != nil && call.options.Only[0] != "PATTERN" {
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// TestDocumentedPatternsMatchCells: each pattern behind --only on a page matches a cell of its experiment on one of the datasets that the experiment reads.
func TestDocumentedPatternsMatchCells(t *testing.T) {
	calls := documentedOnly(t)
	for _, call := range calls {
		e, o := call.experiment, call.options
		if e.Name == "" {
			t.Errorf("%s: %q: no experiment", call.page, call.text)
			continue
		}
		for _, pattern := range o.Only {
			if why := unmatched(e, o, pattern, t.TempDir()); why != nil {
				t.Errorf("%s: %q: %v", call.page, call.text, why)
			}
		}
	}
	if len(calls) < 9 {
		t.Errorf("the pages have %d calls with --only", len(calls))
	}
}

// unmatched says why a pattern matches no cell of an experiment with the options; nil if it matches one.
func unmatched(e study.Experiment, o study.Options, pattern, out string) (why error) {
	for _, dataset := range slices.Concat([]string{"synthetic", ""}, fullDatasets[e.Name], e.Reads) {
		o.Out, o.Data = out, ""
		if dataset != "synthetic" && !e.GeneratesData {
			o.Data = "data"
		}
		cells, err := e.Cells(o, dataset)
		if err == nil {
			var names []string
			for _, c := range cells {
				names = append(names, c.Name)
			}
			kinds := slices.Repeat([]string{"part"}, strings.Count(cells[0].Name, "/")+1)
			_, err = study.Select(names, kinds, []string{pattern})
		}
		if err == nil {
			return nil
		}
		why = errors.Join(why, fmt.Errorf("on %s: %w", dataset, err))
	}
	return why
}
