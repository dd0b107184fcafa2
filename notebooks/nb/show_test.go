package nb

import (
	"encoding/json"
	"fmt"
	"image"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/janpfeifer/gonb/gonbui/protocol"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// draw is a cell that shows tables and figures.
func draw() {
	display := NewDisplay()
	Show([]figures.Table{{Title: "one"}, {Title: "two"}}, nil)
	Show(figures.Scoreboard{Profile: "smoke"}, nil)
	curves := figures.Curves{X: "step", Y: "loss", Series: []figures.Series{{Name: "a", X: []float64{0, 1}, Y: []float64{2, 1}}}}
	Keep("somewhere/loss", curves)
	Show(figures.ImageGrid{Images: [][]image.Image{{image.NewRGBA(image.Rect(0, 0, 8, 8))}}})
	display.Show(curves)
	if all := Records("lines"); len(all) != 1 || len(Records("others")) != 0 {
		panic(fmt.Sprint(all))
	}
	Show("a sentence")
}

func TestShowDrawsFiguresAndTables(t *testing.T) {
	t.Setenv("SEMCON_OUT", t.TempDir())
	record := study.Record{Experiment: "lines", Cell: "line/seed0", Row: "line", Column: "mIoU", Profile: study.Smoke, ConfigHash: "abc", Data: "scenes", Metric: "mIoU", Value: 2.5, Config: json.RawMessage("{}")}
	if err := record.Append(study.Folder(os.Getenv("SEMCON_OUT"), "lines")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEMCON_PROFILE", "quick")
	sent, stderr, _ := listenTo(t, "draws", nil)
	if stderr != "error: a string is neither a figure nor a table\n" && !strings.HasPrefix(stderr, "error: a string is neither a figure nor a table\n\t") {
		t.Errorf("said %q", stderr)
	}
	if len(sent) != 7 || !strings.Contains(sent[5].Data[protocol.MIMETextHTML].(string), ">2.5<") {
		t.Fatalf("%d outputs", len(sent))
	}
	if html := sent[0].Data[protocol.MIMETextHTML].(string); strings.Count(html, "<table") != 2 {
		t.Errorf("two tables are %s", html)
	}
	for i, want := range []struct{ html, svg, png bool }{{html: true}, {html: true}, {svg: true, png: true}, {png: true}, {svg: true, png: true}, {html: true}, {html: true}} {
		_, html := sent[i].Data[protocol.MIMETextHTML]
		_, svg := sent[i].Data[protocol.MIMEImageSVG]
		_, png := sent[i].Data[protocol.MIMEImagePNG]
		if html != want.html || svg != want.svg || png != want.png {
			t.Errorf("output %d has HTML %t, SVG %t and PNG %t", i, html, svg, png)
		}
	}
	for _, extension := range []string{"svg", "png", "csv"} {
		if _, err := os.Stat(filepath.Join(os.Getenv("SEMCON_OUT"), "somewhere", "loss."+extension)); err != nil {
			t.Error(err)
		}
	}
}

// showPrinted is a cell that shows a table of ours and one of the paper alone.
func showPrinted() {
	table := func(title string, c figures.Cell) figures.Table {
		return figures.Table{Title: title, Columns: []string{"mIoU"}, Rows: []figures.Row{{Cells: []figures.Cell{c}}}}
	}
	Show([]figures.Table{table("printed", figures.Cell{Paper: 41.5}), table("ours", figures.Cell{Paper: math.NaN(), Ours: []float64{1}})})
	Show(figures.ImageGrid{Images: [][]image.Image{{image.NewRGBA(image.Rect(0, 0, 8, 8))}}}, []figures.Table{{Title: "more"}})
}

// TestPrintedNumbersAndSmoke: printed numbers that none of ours compares with are folded up below ours, and smoke says once what it is worth.
func TestPrintedNumbersAndSmoke(t *testing.T) {
	for profile, want := range map[string]int{"quick": 3, "smoke": 4} {
		t.Setenv("SEMCON_PROFILE", profile)
		sent, stderr, _ := listenTo(t, "printed", nil)
		if len(sent) != want || stderr != "" {
			t.Fatalf("%s: %d outputs, want %d: %s", profile, len(sent), want, stderr)
		}
		if first := sent[0].Data[protocol.MIMETextHTML].(string); strings.Contains(first, "means nothing") != (profile == "smoke") {
			t.Errorf("%s begins with %s", profile, first)
		}
		html := sent[want-3].Data[protocol.MIMETextHTML].(string)
		if ours, printed := strings.Index(html, "<b>ours."), strings.Index(html, "<details>"); ours < 0 || printed < ours {
			t.Errorf("%s: %s", profile, html)
		}
	}
}
