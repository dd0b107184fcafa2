package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/experiments"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// longFlag matches a flag in a text.
var longFlag = regexp.MustCompile(`--[a-z][a-z-]*`)

// TestDocsPrintCommandsThatThereAre: every "semcon VERB" of the pages is a verb, every flag behind it one of its own, and what run and table name is an
// experiment or one of its tables.
func TestDocsPrintCommandsThatThereAre(t *testing.T) {
	pages, err := readPages(repository)
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{} // By verb.
	var all []string
	root := newRoot()
	root.InitDefaultCompletionCmd()
	for _, v := range root.Commands() {
		for _, c := range append(v.Commands(), v) {
			flags[v.Name()] = append(flags[v.Name()], longFlag.FindAllString(c.Short+c.UsageString()+" --help", -1)...)
		}
		all = append(all, flags[v.Name()]...)
	}
	placeholder := regexp.MustCompile(`^[A-Z]+$`)
	count := 0
	for _, p := range pages {
		for _, command := range append(p.Commands("semcon"), p.Commands("go run ./cmd/semcon")...) {
			words := strings.Fields(strings.TrimPrefix(strings.TrimPrefix(command, "go run ./cmd/"), "semcon"))
			if len(words) == 0 || placeholder.MatchString(words[0]) {
				continue
			}
			count++
			verb := words[0]
			if flags[verb] == nil {
				t.Errorf("%s: %q: unknown verb %s", p.Path, command, verb)
				continue
			}
			for _, name := range longFlag.FindAllString(command, -1) {
				if !slices.Contains(flags[verb], name) {
					t.Errorf("%s: %q: %s has no flag %s", p.Path, command, verb, name)
				}
			}
			if (verb == "run" || verb == "table") && len(words) > 1 && !placeholder.MatchString(words[1]) && !strings.HasPrefix(words[1], "--") {
				if _, _, err := experiments.Find(words[1]); err != nil {
					t.Errorf("%s: %q: %v", p.Path, command, err)
				}
			}
		}
		for _, code := range p.Inline {
			if name := longFlag.FindString(code); strings.HasPrefix(code, "--") && !slices.Contains(all, name) {
				t.Errorf("%s: no verb has the flag %s", p.Path, name)
			}
		}
	}
	if count < 40 {
		t.Errorf("the pages print %d commands", count)
	}
}

// TestTheCommandLineIsDocumented: docs/cli.md has the help of every verb.
func TestTheCommandLineIsDocumented(t *testing.T) {
	t.Setenv("SEMCON_DATA", "")
	t.Setenv("SEMCON_PROFILE", "")
	page := bytes.NewBufferString("# The command line\n\nWhat `--help` says of every verb. `semcon completion --help` sets up completion in a shell; in bash it needs the package bash-completion.\n\n")
	for _, v := range newRoot().Commands() {
		for _, c := range append([]*cobra.Command{v}, v.Commands()...) {
			c.DisableAutoGenTag = true
			if err := doc.GenMarkdownCustom(c, page, func(string) string { return "#the-command-line" }); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := regexp.MustCompile(`(?s)### SEE ALSO\n.*?\n\n`).ReplaceAll(page.Bytes(), nil)
	const file = "../../docs/cli.md"
	if *updateSettings {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/cli.md is not what the verbs say, %v; \"go test ./cmd/semcon -run Documented -update\" writes it", err)
	}
}

// TestDocsListTheExperiments: the README has a row of each.
func TestDocsListTheExperiments(t *testing.T) {
	pages, err := readPages(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		for _, e := range experiments.All() {
			row := func(line string) bool { return strings.HasPrefix(strings.Trim(line, "| ["), "`"+e.Name+"`") }
			if p.Path == "README.md" && !slices.ContainsFunc(p.Lines, row) || p.Path == "docs/results.md" && !slices.Contains(p.Inline, e.Name) {
				t.Errorf("%s does not list %s", p.Path, e.Name)
			}
		}
	}
}
