package figures

import (
	"encoding/csv"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files in testdata instead of comparing with them")

// golden compares text with testdata/name; go test ./figures -update rewrites it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs; got\n%s", path, text)
	}
}

// contains checks that text holds each of the parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// equal checks one value.
func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// small has cells of every kind: both numbers, one seed, no paper number, no runs, nothing, a failed seed.
func small() Table {
	nan := math.NaN()
	return Table{
		Title:   "Tab. small_one",
		Caption: "k-NN accuracy of A & B, 100% of them.",
		Unit:    "%",
		Profile: "quick",
		Data:    []string{"CIFAR-10 (train 4068, test 1017, sha256 0123abcd)"},
		RowHeads: []RowHead{
			{Name: "random_crop", Switch: true}, {Name: "gaussian_blur", Switch: true}, {Name: "note"},
		},
		Columns: []string{"CIFAR-10/SimCLR", "CIFAR-10/Barlow Twins", "CIFAR-100/SimCLR"},
		Rows: []Row{
			{Heads: []string{"1", "1", "a|b_c"}, Cells: []Cell{{Paper: 88.5, Ours: []float64{60, 61, 62}}, {Paper: 85.4, Ours: []float64{90}}, {Paper: 55.4}}},
			{Heads: []string{"same", "", ""}, Cells: []Cell{{Paper: nan, Ours: []float64{40.25, 40.75}}, {Paper: nan}, {Paper: 10, Ours: []float64{nan, 10}}}},
		},
	}
}

func TestTableGolden(t *testing.T) {
	for format, file := range map[string]string{"md": "small.md", "html": "small.html", "latex": "small.tex", "csv": "small.csv"} {
		text, err := small().Format(format)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, text)
	}
	_, err := small().Format("xls")
	if err == nil || err.Error() != `unknown format "xls"; there are csv, html, latex, md, text` {
		t.Error(err)
	}
}

func TestTableLeavesUnknownCellsEmpty(t *testing.T) {
	table := Table{
		RowHeads: []RowHead{{Name: "method"}},
		Columns:  []string{"mIoU"},
		Rows:     []Row{{Heads: []string{"DINO"}, Cells: []Cell{{Paper: math.NaN()}}}},
	}
	contains(t, table.Markdown(), "| DINO |  |\n", "No runs.")
	contains(t, table.LaTeX(), "DINO &  \\\\[2pt]\n")
	contains(t, table.HTML(), "#999\"></td>")
	equal(t, table.CSV(), "table,row,column,paper,mean,sd,n,values,unit,profile,data,caption\n,method=DINO,mIoU,,,,0,,,,,\n")
}

func TestTableSaysHowManySeeds(t *testing.T) {
	table := func(a, b []float64) Table {
		return Table{RowHeads: []RowHead{{Name: "m"}}, Columns: []string{"x", "y"},
			Rows: []Row{{Heads: []string{"r"}, Cells: []Cell{{Paper: 1, Ours: a}, {Paper: 1, Ours: b}}}}}
	}
	same := table([]float64{1, 2, 3}, []float64{4, 5, 6}).Markdown()
	contains(t, same, "3 seeds.")
	if strings.Contains(same, "n = ") {
		t.Error("the number of seeds is shown in each cell, although all have the same\n", same)
	}
	contains(t, table([]float64{1, 2, 3}, []float64{4}).Markdown(), "1 to 3 seeds", "**2.0 ± 1.0** (+1.0), n = 3", "**4.0** (+3.0), n = 1")
	contains(t, table([]float64{1}, nil).Markdown(), "1 seed, so no sd.")
}

func TestCSVHasSevenDigits(t *testing.T) {
	table := small()
	table.Rows[0].Cells[0].Ours = []float64{1.0 / 3, 1.0 / 3}
	records, err := csv.NewReader(strings.NewReader(table.CSV())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Tab. small_one", "random_crop=1;gaussian_blur=1;note=a|b_c", "CIFAR-10/SimCLR", "88.5", "0.3333333", "0", "2", "0.3333333 0.3333333"}
	if !slices.Equal(records[1][:len(want)], want) {
		t.Errorf("got %q, want %q", records[1], want)
	}
}

func TestMisshapenTablePanics(t *testing.T) {
	table := small()
	table.Rows[0].Cells = table.Rows[0].Cells[:2]
	defer func() {
		equal(t, recover(), `figures: row 0 of table "Tab. small_one" has 3 heads and 2 cells; the table has 3 row heads and 3 columns`)
	}()
	table.Markdown()
}

func TestDecimal(t *testing.T) {
	equal(t, decimal(-0.04, 1), "0.0")
	equal(t, decimal(-0.06, 1), "−0.1")
	equal(t, decimal(-0.004, 2), "0.00")
	equal(t, signed(0.06), "+0.1")
	equal(t, signed(0.04), "0.0")
	equal(t, signed(math.NaN()), "NaN")
}

func TestEachFileOfTheDataIsNamedOnce(t *testing.T) {
	g := Grid{Data: []string{"A, sha256 1; weights, sha256 2; measured on A, sha256 1; B, sha256 3; 4 shares", "A, sha256 1; weights, sha256 2; C, sha256 4; 4 shares"}}
	if want := "Data: A, sha256 1; weights, sha256 2; B, sha256 3; 4 shares; C, sha256 4; 4 shares."; g.note() != want {
		t.Errorf("got  %s\nwant %s", g.note(), want)
	}
	if g = (Grid{Data: []string{"A, sha256 1; measured on B, sha256 3"}}); g.note() != "Data: A, sha256 1; measured on B, sha256 3." {
		t.Errorf("got %s", g.note())
	}
}

// TestCaptionsAreAsWideAsThePage checks that captions stand outside the table. Inside it they would be as narrow as the table, and long identities of
// data would make them tall; these stand below the table.
func TestCaptionsAreAsWideAsThePage(t *testing.T) {
	table := small()
	board := Scoreboard{Data: table.Data}
	for name, text := range map[string]string{"table": table.HTML(), "scoreboard": board.HTML()} {
		if strings.Contains(text, "<caption") {
			t.Errorf("%s: the caption stands within the table", name)
		}
		data := strings.Index(text, "Data: CIFAR-10")
		if data < strings.Index(text, "</table>") || strings.Index(text, "<p") > strings.Index(text, "<table") {
			t.Errorf("%s: the caption is not above the table, or the data not below it:\n%s", name, text)
		}
	}
	for format, end := range map[string]string{"md": "|\n\n", "latex": "\\end{tabular}"} {
		text, err := table.Format(format)
		if err != nil || strings.Index(text, "Data: CIFAR-10") < strings.LastIndex(text, end) {
			t.Errorf("%s: %v, the data are not below the table:\n%s", format, err, text)
		}
	}
}

func TestLinkedHTMLLinksNumbersToTheirRecords(t *testing.T) {
	table := small()
	table.Rows[0].Cells[0].Records = []string{"a:1", "a:2", "b:3", "none"}
	text := table.LinkedHTML(func(record string) string {
		if record == "none" {
			return ""
		}
		return "#" + record[:1] + "\""
	})
	contains(t, text, `<a href="#a&#34;"><b>`, `</b></a><sup><a href="#b&#34;">[2]</a></sup>`)
	if n := strings.Count(text, "<a "); n != 2 {
		t.Errorf("%d links: records with one target share theirs, and those without have none", n)
	}
	if table.LinkedHTML(func(string) string { return "" }) != small().HTML() {
		t.Error("a table without links differs")
	}
}

func TestMeasuredLeavesOutThePaperAlone(t *testing.T) {
	table := func(title string, c Cell) Table {
		return Table{Title: title, Columns: []string{"x"}, Rows: []Row{{Cells: []Cell{c}}}}
	}
	paper, both := table("paper", Cell{Paper: 1}), table("both", Cell{Paper: 1, Ours: []float64{2}})
	ours, empty := table("ours", Cell{Paper: math.NaN(), Ours: []float64{2}}), table("empty", Cell{Paper: math.NaN()})
	titles := func(tables ...Table) (names string) {
		for _, t := range Measured(tables) {
			names += t.Title + " "
		}
		return names
	}
	equal(t, titles(paper, both, ours, empty), "both ours empty ")
	equal(t, titles(paper, paper), "paper paper ")
	equal(t, titles(paper, ours), "ours ")
}

// TestATableWithoutColumns has no records yet, and is rendered in every format.
func TestATableWithoutColumns(t *testing.T) {
	for _, format := range []string{"md", "csv", "latex", "html"} {
		for _, table := range []Table{{Title: "empty"}, {Title: "empty", RowHeads: []RowHead{{Name: "method"}}}} {
			if text, err := table.Format(format); err != nil || format != "csv" && !strings.Contains(text, "empty") {
				t.Errorf("%s: %q, %v", format, text, err)
			}
		}
	}
}

func TestColumnsBeyondATerminalFollowBelow(t *testing.T) {
	table := Table{Title: "T", RowHeads: []RowHead{{Name: "row"}}, Columns: []string{"d/a", "d/b", "d/c"}}
	table.Rows = []Row{{Heads: []string{"first"}, Cells: []Cell{{Paper: 1, Ours: []float64{10}}, {Paper: 2, Ours: []float64{20}}, {Paper: 3, Ours: []float64{30}}}}}
	whole, narrow := table.Text(), table.TextWithin(45)
	if table.TextWithin(1000) != whole {
		t.Errorf("a wide terminal changes the table:\n%s", table.TextWithin(1000))
	}
	if got := strings.Count(narrow, "\nfirst "); got != 2 || !strings.Contains(narrow, "d c") || strings.Count(narrow, "Each cell") != 1 {
		t.Errorf("the row stands %d times in 45 columns, want 2, and one caption:\n%s", got, narrow)
	}
	for line := range strings.Lines(strings.Split(narrow, "Each cell")[0]) {
		if len([]rune(strings.TrimRight(line, " \n"))) > 45 {
			t.Errorf("the line %q is longer than 45", line)
		}
	}
}
