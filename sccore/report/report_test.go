package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/experiments/noisetolerance"
	"github.com/semcon/semcon/sccore/study"
)

func goBackend(t *testing.T) compute.Backend {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// recorded runs noise-tolerance in smoke and returns the folder of its records.
func recorded(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	if err := noisetolerance.Study.Run(t.Context(), goBackend(t), study.Options{Profile: study.Smoke, Out: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

func written(t *testing.T, file string, o Options) string {
	t.Helper()
	o.Command = func(e study.Experiment, o study.Options) string {
		return strings.Join(lo.Compact(append([]string{"semcon run", e.Name, "--smoke", o.Data}, o.Set...)), " ")
	}
	if err := Write(file, o); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// external matches what a browser would fetch.
var external = regexp.MustCompile(`(?i)(?:\b(?:src|href|srcset|action|poster)\s*=\s*["']?|url\(\s*["']?|@import\s+["']?)\s*((?:https?:)?//[^"')\s>]*)`)

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func TestExternalLinksAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		`<img src="https://a.b/c.png">`: true, `<link href='//cdn/x.css'>`: true, `{background: url(http://a/b)}`: true, `@import "https://a"`: true,
		`<img src="data:image/png;base64,aaaa">`: false, `<a href="#records">`: false, `see https://a.b`: false, `<a href="pretrain/runs.jsonl">`: false,
	} {
		if external.MatchString(text) != want {
			t.Errorf("%s: %t", text, !want)
		}
	}
}

func TestReportShowsWhatIsThereAndWhatIsMissing(t *testing.T) {
	out := recorded(t)
	file := filepath.Join(out, study.Folder("", noisetolerance.Name), study.RunsFile)
	lines, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(lines), "\n")
	if err := os.WriteFile(file, []byte(first+"\n{\"cell\": 7}\n"+rest), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(out, "pages", "report.html")
	o := Options{Profile: study.Smoke, Out: out, Failures: map[string]error{"theory": errors.New("no trained encoder\nand a stack")}}
	text := written(t, to, o)

	if found := external.FindStringSubmatch(text); found != nil {
		t.Errorf("the page asks for %s", found[1])
	}
	results, err := noisetolerance.Study.Load(study.Options{Out: out, Profile: study.Smoke})
	if err != nil {
		t.Fatal(err)
	}
	tables := noisetolerance.Study.Tables(results)
	for _, table := range tables {
		contains(t, text, "<b>"+table.Title+".</b>")
	}
	for _, e := range experiments.All() {
		missing := strings.Contains(text, "\nsemcon run "+e.Name+" --smoke\n") || strings.Contains(text, "<pre>semcon run "+e.Name+" --smoke\n")
		if missing == (e.Name == noisetolerance.Name) {
			t.Errorf("%s: named as missing: %t", e.Name, missing)
		}
	}
	contains(t, text, file+", line 2 is not a record", `<img src="data:image/svg`, "4 of 4", "<b>Failed:</b> no trained encoder</td>",
		`href="../noise-tolerance/runs.jsonl"`, "flipped=0 | 0.2", "patches of synthetic classes", "C25")
	if strings.Contains(text, "and a stack") {
		t.Error("an error has more than a line")
	}

	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if ids[id[1]] {
			t.Errorf("the anchor %s is there twice", id[1])
		}
		ids[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if !ids[link[1]] {
			t.Errorf("a link leads to #%s, which is not there", link[1])
		}
	}
	// The broken line counts: the third record is line 4.
	cell := results.Of("cotap", "0 % flipped")[0]
	linked := regexp.MustCompile(`<a href="#(noise-tolerance-\d+)"><b>` + regexp.QuoteMeta(strings.TrimSpace(oneDigit(cell.Value))) + `</b>`).FindStringSubmatch(text)
	if linked == nil {
		t.Fatal("the number does not link to its record")
	}
	_, row, _ := strings.Cut(text, `<tr id="`+linked[1]+`">`)
	row, _, _ = strings.Cut(row, "</tr>")
	if !strings.Contains(row, "<td>cotap</td>") || !strings.Contains(row, "("+strings.TrimPrefix(cell.Place(), "noise-tolerance:")+")") {
		t.Errorf("the link leads to %s", row)
	}
	if again := written(t, to, o); again != text {
		t.Error("the same records give another page")
	}
}

func TestReportOfOtherProfilesRecords(t *testing.T) {
	out := recorded(t)
	text := written(t, filepath.Join(out, "report.html"), Options{Profile: study.Quick, Out: out})
	contains(t, text, "semcon run noise-tolerance --smoke\n", "There are records of other profiles: smoke.", fmt.Sprintf("of 0 of %d experiments", len(experiments.All())))
}

// TestCommandsOfReal begin where recorded runs do, or have placeholders, and are of the experiments that have the profile.
func TestCommandsOfReal(t *testing.T) {
	out := t.TempDir()
	for _, r := range []study.Record{
		{Experiment: "pretrain", Cell: "images/seed0", Row: "full method", Column: "rank", Config: []byte(`{"init":"start.safetensors"}`)},
		{Experiment: "extended-training", Cell: "images/dino/start/seed0", Row: "start", Column: "DINO/rank", Config: []byte(`{"weights":"dino.safetensors"}`)},
		{Experiment: "ablation", Cell: "line2/seed0", Row: "2", Column: "rank", Config: []byte(`{"init":""}`)},
	} {
		r.Profile, r.Kind = study.Real, figures.Real
		if err := r.Append(study.Folder(out, r.Experiment)); err != nil {
			t.Fatal(err)
		}
	}
	text := written(t, filepath.Join(out, "report.html"), Options{Profile: study.Real, Out: out})
	_, text, _ = strings.Cut(text, "make what is missing:</p>\n<pre>")
	text, _, _ = strings.Cut(text, "</pre>")
	if want := `semcon run pretrain --smoke DIR init=start.safetensors
semcon run teacher-quality --smoke DIR init=FILE teacher=FILE
semcon run ablation --smoke DIR init=FILE
semcon run extended-training --smoke DIR dino.weights=dino.safetensors
semcon run main --smoke DIR
semcon run transfer --smoke DIR
semcon run fine-tune --smoke DIR
semcon run video --smoke DIR
semcon run noise-rate --smoke DIR
semcon run over-dispersion --smoke DIR init=FILE
semcon run patch-recall --smoke DIR
`; text != want {
		t.Errorf("the commands are\n%s", text)
	}
}

func TestAFigureThatCannotBeDrawnIsNamed(t *testing.T) {
	out := t.TempDir()
	e, _, err := experiments.Find("over-dispersion")
	if err != nil {
		t.Fatal(err)
	}
	cells, err := e.Cells(study.Options{Profile: study.Smoke}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"mIoU per 100 epochs", "mIoU"} {
		r := study.Record{Experiment: e.Name, Cell: "line2/seed0", Row: "2", Column: column, Value: 31.25, Profile: study.Smoke, Config: study.EncodeConfig(cells[0].Config), Curve: "gone.jsonl"}
		if err := r.Append(study.Folder(out, e.Name)); err != nil {
			t.Fatal(err)
		}
	}
	text := written(t, filepath.Join(out, "report.html"), Options{Profile: study.Smoke, Out: out})
	contains(t, text, "over-dispersion: figure over-dispersion: ", "gone.jsonl", "<b>31.2</b>")
}

// TestRunsOfReportHaveItsSettings where the experiment knows their keys.
func TestRunsOfReportHaveItsSettings(t *testing.T) {
	for name, want := range map[string]int{"main": 1, "noise-tolerance": 0} {
		e, _, err := experiments.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{"images=16"}}
		if got := o.run(e).Set; len(got) != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
