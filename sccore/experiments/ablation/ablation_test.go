package ablation

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
	encoders "github.com/semcon/semcon/sccore/weights"
)

// TestAblationTrainsAndResumes runs two lines at smoke size, once in one call and once in three.
func TestAblationTrainsAndResumes(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	small := []string{"first.encoder=vit-16x2x2p8-grid6", "second.encoder=vit-16x2x2p8-grid6"} // Resuming does not depend on the width.
	run := func(out string, only ...string) {
		t.Helper()
		if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Out: out, Only: only, Parallel: 2, Set: small}); err != nil {
			t.Fatal(err)
		}
	}
	whole, parts := t.TempDir(), t.TempDir()
	run(whole, "random", "stage1", "line1", "line4", "line7", "line8", "line9")
	run(parts, "line4")
	run(parts, "random")
	run(parts, "stage1", "line1", "line4", "line7", "line8", "line9")

	values := func(out string) map[string]float64 {
		t.Helper()
		records := studytest.Records(t, out, Name)
		values := map[string]float64{}
		for _, r := range records {
			key := r.Cell + " " + r.Row + " " + r.Column
			if _, twice := values[key]; twice {
				t.Errorf("%s is recorded twice", key)
			}
			if !(r.Value >= 0 && r.Value <= 100) || r.Unit != "%" || r.Profile != study.Smoke || r.Data == "" {
				t.Errorf("record %+v", r)
			}
			values[key] = r.Value
		}
		return values
	}
	one, other := values(whole), values(parts)
	if len(one) != 8*len(maintable.Columns) || len(other) != len(one) {
		t.Fatalf("%d and %d numbers, want 8 rows of 4", len(one), len(other))
	}
	for key, value := range one {
		if other[key] != value {
			t.Errorf("%s is %g in one call and %g in three", key, value, other[key])
		}
	}
	weights := func(out string) string {
		found, err := filepath.Glob(filepath.Join(out, Name, "cells", "*", "line4", "target.safetensors"))
		if err != nil || len(found) != 1 {
			t.Fatalf("encoders %v, %v", found, err)
		}
		content, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	if weights(whole) != weights(parts) {
		t.Error("the two encoders of line 4 differ")
	}
	found, err := filepath.Glob(filepath.Join(whole, Name, "cells", "*", "line8", "online.safetensors"))
	if err != nil || len(found) != 1 {
		t.Fatalf("encoders %v, %v", found, err)
	}
	if v, err := encoders.Identify(found[0]); err != nil || v.Prototypes != 4 || v.BlocksAfterFilter != 1 {
		t.Errorf("line 8 left %+v, %v", v, err)
	}

	all, err := Study.Load(study.Options{Out: whole, Profile: study.Smoke})
	results := all.Kinds()[0]
	if err != nil {
		t.Fatal(err)
	}
	tables := tables(results)
	rows := map[string]figures.Row{}
	for _, row := range tables[0].Rows {
		rows[row.Heads[0]] = row
	}
	if got := rows["1"].Cells[0]; !math.IsNaN(got.Paper) || len(got.Ours) != 1 || len(rows["2"].Cells[0].Ours) != 0 { // The paper's is of other images.
		t.Errorf("line 1 in the table: %+v, line 2: %+v", got, rows["2"].Cells[0])
	}
	before, block := rows[beforeRow], rows["9: a residual block of as many parameters for the filter"]
	if len(before.Cells) == 0 || len(block.Cells) == 0 || len(before.Cells[0].Ours) != 1 || len(block.Cells[0].Ours) != 1 || !strings.Contains(tables[0].Caption, "does not come from object prototypes") {
		t.Errorf("line 7 before the filter: %+v; line 9: %+v; %s", before, block, tables[0].Caption)
	}
	// Linear segmentation sees the filter, [CLS] does not.
	for column, same := range map[string]bool{maintable.ColumnKNN: true, maintable.ColumnMIoU: false} {
		if one["line7/seed0 7 "+column] == one["line7/seed0 "+beforeRow+" "+column] != same {
			t.Errorf("%s: %v with the filter and before it", column, one)
		}
	}
	last := rows["8: the filter before the last attention"]
	if len(last.Heads) == 0 || !math.IsNaN(last.Cells[0].Paper) || len(last.Cells[0].Ours) != 1 || !strings.Contains(tables[0].Caption, "Line 8 is not in the paper") {
		t.Errorf("last row %+v of %s", last, tables[0].Caption)
	}
}

func TestAblationRefusesWhatItCannotDo(t *testing.T) {
	data, none := t.TempDir(), filepath.Join(t.TempDir(), "none.pth")
	for want, options := range map[string]study.Options{
		"init=FILE":             {Profile: study.Full, Data: data},
		"init=" + none:          {Profile: study.Smoke, Set: []string{"init=" + none}},
		"second.batch":          {Profile: study.Smoke, Set: []string{"second.batch=1"}},
		"second.lambda":         {Profile: study.Smoke, Set: []string{"second.lambda=1"}},
		`no key "segmentation"`: {Profile: study.Smoke, Set: []string{"segmentation.rate=1"}},
		"segmentation.rate 0":   {Profile: study.Smoke, Data: data, Set: []string{"segmentation.rate=0"}},
		"line12":                {Profile: study.Smoke, Only: []string{"line12"}},
		`second.filter "block"`: {Profile: study.Smoke, Set: []string{"second.filter=block", "second.lambdas.prototypes=0"}},
		"blocks_after_filter 1": {Profile: study.Smoke, Set: []string{"second.blocks_after_filter=1"}},
		`dataset "lime4"`:       {Profile: study.Smoke, Data: data, Only: []string{"lime4"}},
		"linear.epochs 0":       {Profile: study.Smoke, Set: []string{"linear.epochs=0"}},
	} {
		options.Out = t.TempDir()
		err := Study.Run(t.Context(), nil, options)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(study.BadOption)) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := Study.Run(t.Context(), nil, study.Options{Profile: study.Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data DIR") {
		t.Errorf("full without data: %v", err)
	}
	if err := Study.Run(t.Context(), nil, study.Options{Profile: study.Smoke, Data: data, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), data) {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestAblationOfOneBlock: a transformer of one block has no attention after the filter, and so no line 8.
func TestAblationOfOneBlock(t *testing.T) {
	for encoder, want := range map[string]int{"vit-tiny": 2 + 11, "vit-64x1x4p8": 2 + 10} {
		all, err := cells(study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{"first.encoder=" + encoder, "second.encoder=" + encoder}}, "synthetic")
		if err != nil {
			t.Fatal(err)
		}
		earlier := slices.ContainsFunc(all, func(c study.Cell[maintable.Config]) bool { return c.Row == "8" })
		if len(all) != want || earlier != (want == 2+11) {
			t.Errorf("%s: %d cells, with line 8: %t", encoder, len(all), earlier)
		}
	}
}

// TestAblationClaims judges made-up numbers.
func TestAblationClaims(t *testing.T) {
	config := study.EncodeConfig(maintable.ProfileConfig(study.Quick, false))
	var records []study.Record
	for seed := range 3 {
		for row, value := range map[string]float64{"1": 10, "2": 30, "3": 25, "4": 14, "5": 33, "6": 27, "7": 28, "8": 40} {
			for _, column := range maintable.Columns {
				v := value + float64(seed)
				if column == maintable.ColumnKNN {
					v = 50 - value
				}
				records = append(records, study.Record{Row: row, Column: column, Value: v, Seed: seed, Profile: study.Quick, Config: config, Data: "made up"})
			}
		}
	}
	grouped, err := Study.Results(records, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	grouped.Kind = figures.Synthetic
	results := grouped
	want := map[string]float64{
		"C13 k-NN": 20, "C13 mIoU": 20, "C14 k-NN": -15, "C14 mIoU": -5, "C15 ": -4, "C16 ": 3, "C17 ": 2, "C18 k-NN": -1, "C18 mIoU": 1,
	}
	for _, claim := range figures.Claims() {
		if claim.Experiment != Name {
			continue
		}
		key := claim.ID + " " + claim.Part
		got := grouped.Evidence(recipe.RowRandom, claim)[0].Values
		if len(got) != 3 || slices.ContainsFunc(got, func(v float64) bool { return math.Abs(v-want[key]) > 1e-12 }) {
			t.Errorf("%s is %v, want 3 times %g", key, got, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("no claims %v", want)
	}
	tables := tables(results)
	if got := tables[1].Rows[3].Cells[0]; !math.IsNaN(got.Paper) || len(got.Ours) != 3 || got.Ours[0] != 3 {
		t.Errorf("line 5 − line 2: %+v", got)
	}
	differences := map[string]figures.Cell{}
	for _, row := range tables[1].Rows {
		differences[row.Heads[0]] = row.Cells[0]
	}
	for title, want := range map[string]float64{"line 8 − line 6: + filter before the last attention": 13, "line 8 − line 7: the filter's place": 12} {
		if got := differences[title]; !math.IsNaN(got.Paper) || len(got.Ours) != 3 || got.Ours[0] != want {
			t.Errorf("%s: %+v", title, got)
		}
	}
	ours, paper := TradeOff(results).Panels[0].Series[0], TradeOff(results).Panels[1].Series[0]
	if len(ours.Labels) != 8 || len(ours.Values) != 8 || !math.IsNaN(paper.X[7]) || math.IsNaN(paper.X[6]) {
		t.Errorf("between two tasks: %+v, %+v", ours, paper)
	}
	// CoTAP is the third part: it adds 3 points here, and 2.8 in the paper.
	ours, paper = Parts(results).Series[0], Parts(results).Series[1]
	if len(ours.Values) != len(parts) || len(ours.Values[2]) != 3 || ours.Values[2][0] != 3 || !(math.Abs(paper.Y[2]-2.8) <= 1e-9) {
		t.Errorf("parts: %+v, %+v", ours, paper)
	}
}

// TestAblationOfOtherClasses: the paper's numbers stand beside those of ImageNet-1k alone, not beside those of other class folders.
func TestAblationOfOtherClasses(t *testing.T) {
	for data, compared := range map[string]bool{
		"folder photographs: 9 files; measured on folder train: 5 files; folder val: 2 files":                                                                    true,
		"folder photographs: 9 files; measured on a fifth of (folder train: 5 files; folder val: 2 files; 200 classes in imagenet/, where ImageNet-1k has 1000)": false,
	} {
		grouped, err := Study.Results([]study.Record{{
			Cell: "images/line1/seed0", Row: "1", Column: maintable.ColumnKNN, Value: 50, Profile: study.Quick, Config: study.EncodeConfig(maintable.ProfileConfig(study.Quick, true)), Data: data,
		}}, study.Quick)
		if err != nil {
			t.Fatal(err)
		}
		grouped.Kind = figures.Real
		tables := tables(grouped)
		caption := tables[0].Caption
		if printed := !strings.Contains(tables[0].Markdown(), "| / **50.0** |"); printed != compared || strings.Contains(caption, "Classification of ImageNet-1k.") != compared {
			t.Errorf("%s: the paper's number beside ours: %t\n%s", data, printed, tables[0].Markdown())
		}
	}
}

// TestAblationClaimsOnImages judges made-up numbers of photographs without labels of COCOStuff-27: recall over patches stands for mIoU, and no claim is read from a
// column in which neither line is clearly above random weights.
func TestAblationClaimsOnImages(t *testing.T) {
	for gain, blind := range map[float64]bool{20: false, 0.2: true} {
		config := maintable.ProfileConfig(study.Quick, true)
		config.Init = "start.safetensors"
		var records []study.Record
		for seed := range 3 {
			for row, value := range map[string]float64{recipe.RowRandom: 20, recipe.RowInit: 25, "2": 20 + gain, "5": 23 + gain} {
				noise := float64(seed) // The images' share, which rows of a seed have in common.
				if row == recipe.RowRandom {
					noise *= 3
				}
				records = append(records, study.Record{
					Cell: "images/line", Row: row, Column: recipe.ColumnRecall, Value: value + noise, Seed: seed, Profile: study.Quick, Config: study.EncodeConfig(config), Data: "photographs",
				})
			}
		}
		grouped, err := Study.Results(records, study.Quick)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range figures.Claims() {
			if claim.ID != "C16" {
				continue
			}
			e := grouped.Evidence(recipe.RowRandom, claim)[0]
			if len(e.Values) != 3 || e.Values[0] != 3 || len(e.Changed) > 0 || len(e.Blind) > 0 != blind || !strings.Contains(e.Note, "stands for linear_seg_mIoU") || !strings.Contains(e.Note, "start from one file") {
				t.Errorf("gain %g: %+v", gain, e)
			}
		}
		grouped.Kind = figures.Real
		results := grouped
		tables := tables(results)
		if text := tables[0].Markdown(); !strings.Contains(text, recipe.ColumnRecall) || strings.Contains(text, recipe.ColumnNearestRecall) || !strings.Contains(text, recipe.RowInit) {
			t.Errorf("table:\n%s", text)
		}
	}
}

// TestRecordsHaveWhatTheirLineRanWith: the configuration of a record is that of its line, and its cell's is found in it.
func TestRecordsHaveWhatTheirLineRanWith(t *testing.T) {
	cells, err := Study.Cells(study.Options{Profile: study.Smoke}, "synthetic")
	if err != nil {
		t.Fatal(err)
	}
	concentrations := map[string]float64{}
	for _, c := range cells {
		ran, derived := Study.Ran(c)
		if _, line := lineOf(c); line != derived || !line && ran != c.Config {
			t.Errorf("%s: a configuration of its own: %t", c.Name(), derived)
		}
		concentrations[c.Row] = ran.Second.Lambdas.PatchConcentration
		var config maintable.Config
		r := study.Record{Config: study.EncodeConfig(ran), Shared: study.EncodeConfig(c.Config)}
		if err := r.DecodeConfig(&config); err != nil || config != c.Config {
			t.Errorf("%s: the cell's configuration is lost: %v", c.Name(), err)
		}
	}
	if concentrations["2"] != 0 || concentrations["5"] != 1 {
		t.Errorf("λ of patch concentration by row: %v", concentrations)
	}
}
