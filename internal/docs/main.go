// Command docs writes the tables of numbers on the project's pages from docs/records.jsonl. A page says where a table stands by two comments:
//
//	<!-- table NAME: what the rows are -->
//	<!-- end -->
//
// It runs in the repository's root. With --table it first takes the numbers of that table from the records of an experiment.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const numbersFile = "docs/records.jsonl"

func main() {
	name := flag.String("table", "", "NAME of the table to take from records; without it pages alone are written")
	out := flag.String("out", "out", "FOLDER of the records")
	experiment := flag.String("experiment", "", "EXPERIMENT of the records")
	profile := flag.String("profile", "quick", "PROFILE of the records")
	data := flag.String("data", "", "what the records were measured on, in a few WORDS")
	flag.Parse()
	if err := run(*name, *out, *experiment, *profile, *data, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(name, out, experiment, profile, data string, rows []string) error {
	all, err := readNumbers(numbersFile)
	if err != nil {
		return err
	}
	if name != "" {
		added, err := measured(name, out, experiment, profile, data, rows)
		if err != nil {
			return err
		}
		isOld := func(n number) bool { return n.Table == name }
		at := slices.IndexFunc(all, isOld)
		if at < 0 {
			at = len(all)
		}
		all = slices.Insert(slices.DeleteFunc(all, isOld), at, added...)
		if err := writeNumbers(numbersFile, all); err != nil {
			return err
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		return err
	}
	for _, page := range append(pages, "README.md") {
		old, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		text, err := filled(string(old), all)
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if text != string(old) {
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

var markers = regexp.MustCompile(`(?s)<!-- table ([\w-]+): ([^\n]*) -->\n.*?<!-- end -->`)

// filled is a page with its tables written anew.
func filled(page string, all []number) (text string, err error) {
	text = markers.ReplaceAllStringFunc(page, func(block string) string {
		name := markers.FindStringSubmatch(block)
		body, failed := table(all, name[1], name[2])
		if err == nil {
			err = failed
		}
		return fmt.Sprintf("<!-- table %s: %s -->\n%s<!-- end -->", name[1], name[2], body)
	})
	if strings.Count(page, "<!-- table ") != len(markers.FindAllString(page, -1)) && err == nil {
		err = fmt.Errorf("a table has no end")
	}
	return text, err
}
