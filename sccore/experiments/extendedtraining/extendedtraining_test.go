package extendedtraining

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/selfdistillation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
	"github.com/semcon/semcon/sccore/weights"
)

var rows = lo.Map(study.TableOf(Name, "values").Rows, func(row study.Row, _ int) string { return row.Key })

// TestArmsStartAlikeAndResume runs a baseline at smoke size, once in one call and once in three.
func TestArmsStartAlikeAndResume(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	small := []string{} // Encoders that train in a third of the time: resuming does not depend on their width.
	for _, stage := range []string{"first", "second", "start", "own"} {
		small = append(small, stage+".encoder=vit-16x2x2p8-grid6")
	}
	run := func(out string, only ...string) {
		t.Helper()
		if err := Study.Run(t.Context(), b, study.Options{Profile: study.Smoke, Out: out, Only: only, Parallel: 2, Set: small}); err != nil {
			t.Fatal(err)
		}
	}
	whole, parts := t.TempDir(), t.TempDir()
	run(whole, "mugs")
	run(parts, "mugs/own-mixture")
	run(parts, "mugs/method", "mugs/start")
	run(parts, "mugs")

	values := map[string]float64{}
	for _, r := range studytest.Records(t, whole, Name) {
		values[r.Cell+" "+r.Column] = r.Value
		steps, branch := 4.0, ", online branch"
		if r.Row == rowStart {
			steps, branch = 6, ", target branch"
		}
		if r.Details["steps"] != steps || r.Details["images"] != 8*steps || !strings.HasSuffix(r.Protocol, branch) {
			t.Errorf("record %+v", r)
		}
		if gate, gated := r.Details[study.DetailGate]; gated != (r.Row == rowMethod) || gated && !(gate > 0) {
			t.Errorf("%s: the gate is %g, recorded: %t", r.Cell, gate, gated)
		}
	}
	if len(values) != len(rows)*len(maintable.Columns) {
		t.Errorf("%d numbers", len(values))
	}
	for _, r := range studytest.Records(t, parts, Name) {
		if before, ok := values[r.Cell+" "+r.Column]; !ok || before != r.Value {
			t.Errorf("%s %s is %g in one call and %g in three", r.Cell, r.Column, before, r.Value)
		}
	}
	files := func(out string) map[string]string {
		found, err := filepath.Glob(filepath.Join(out, Name, "cells", "mugs", "*", "*", "*.safetensors"))
		if err != nil || len(found) < 12 {
			t.Fatalf("files %v, %v", found, err)
		}
		contents := map[string]string{}
		for _, path := range found {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			contents[filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path))] = string(content)
		}
		return contents
	}
	one, other := files(whole), files(parts)
	for name, content := range one {
		if other[name] != content {
			t.Errorf("%s differs between one call and three", name)
		}
	}

	all, err := Study.Load(study.Options{Out: whole, Profile: study.Smoke})
	results := all.Kinds()[0]
	if err != nil {
		t.Fatal(err)
	}
	curves, err := Curves(results, whole, selfdistillation.Mugs)
	if err != nil || len(curves) != 2 || len(curves[0].Series) != len(rows)-1 {
		t.Fatalf("curves %+v, %v", curves, err)
	}
	for _, series := range curves[0].Series {
		if !slices.Equal(series.X, []float64{0, 4}) || series.Y[0] != 0 {
			t.Errorf("curve of %s: %v, %v", series.Name, series.X, series.Y)
		}
	}
	if _, err := Curves(results, whole, selfdistillation.DINO); err == nil {
		t.Error("curves of a baseline that did not run")
	}

	// The encoder of the start is a file of weights for another run.
	start, err := filepath.Glob(filepath.Join(whole, Name, "cells", "mugs", "*", rowStart, encoderFile))
	if err != nil || len(start) != 1 {
		t.Fatalf("%v, %v", start, err)
	}
	fromFile := t.TempDir()
	options := study.Options{Profile: study.Smoke, Out: fromFile, Only: []string{"mugs/start"}, Set: append(small, "mugs.weights="+start[0])}
	if err := Study.Run(t.Context(), b, options); err != nil {
		t.Fatal(err)
	}
	for _, r := range studytest.Records(t, fromFile, Name) {
		if want := values[r.Cell+" "+r.Column]; r.Value != want || !strings.Contains(string(r.Config), "weights_sha256") || r.Details["steps"] != 0 {
			t.Errorf("from the file %s is %g, want %g: %s", r.Column, r.Value, want, r.Config)
		}
	}

	// A full checkpoint goes on with its heads and its own student, and its teacher is measured, as at the start and by its authors.
	named, _, err := safetensors.Read(filepath.Join(filepath.Dir(start[0]), recipe.FinalFile))
	if err != nil {
		t.Fatal(err)
	}
	store, rename := model.NewStore(), strings.NewReplacer("/head/mlp/", "/group_head/projector/", "/head/", "/group_head/", "/encoder/", "/backbone/", "/instance/", "/instance_head/", "/local_group/", "/local_group_head/")
	for name, value := range named {
		if below, is := strings.CutPrefix(name, "/target/"); is {
			if _, err := store.CreateVariable("/teacher"+rename.Replace("/"+below), value); err != nil {
				t.Fatal(err)
			}
		}
	}
	full, continued := filepath.Join(t.TempDir(), "full.safetensors"), t.TempDir()
	if err := weights.ExportModel(full, store, nil, nil); err != nil {
		t.Fatal(err)
	}
	options = study.Options{Profile: study.Smoke, Out: continued, Only: []string{"mugs/own-mixture"}, Set: append(small, "mugs.weights="+full)}
	if err := Study.Run(t.Context(), b, options); err != nil {
		t.Fatal(err)
	}
	for _, r := range studytest.Records(t, continued, Name) {
		if !strings.Contains(r.Protocol, "target branch, which the authors measure, heads and both branches of the file") {
			t.Errorf("%s of %s: %s", r.Column, r.Row, r.Protocol)
		}
	}
}

func TestRefusesWhatItCannotDo(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pth")
	for want, options := range map[string]study.Options{
		"dino.weights=FILE":     {Profile: study.Full, Data: t.TempDir()},
		none:                    {Profile: study.Smoke, Set: []string{"ibot.weights=" + none}},
		"same number of steps":  {Profile: study.Smoke, Set: []string{"own.steps=9"}},
		"same number of images": {Profile: study.Smoke, Set: []string{"dino.first.batch=16"}},
		"own.queue":             {Profile: study.Smoke, Set: []string{"mugs.own.queue=1"}},
		"one encoder":           {Profile: study.Smoke, Set: []string{"start.encoder=vit-s8"}},
		"evaluate_every 0":      {Profile: study.Smoke, Set: []string{"evaluate_every=0"}},
		"--only 'ibot'":         {Profile: study.Smoke, Set: []string{"dino.own.method=ibot"}},
		"a file of its own":     {Profile: study.Smoke, Set: []string{"ignore=head.*", "init=a.pth"}},
	} {
		options.Out = t.TempDir()
		err := Study.Run(t.Context(), nil, options)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(study.BadOption)) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// Trainings that are compared have one momentum, which follows their steps unless it is set.
func TestMomentumFollowsTheSteps(t *testing.T) {
	set := []string{"first.steps=300", "second.steps=300", "own.steps=300", "ibot.own.momentum=0.5"}
	all, err := cells(study.Options{Profile: study.Quick, Seeds: 1, Set: set}, "synthetic")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		want := lo.Ternary(baselineOf(c) == selfdistillation.IBOT, 0.5, 0.98)
		if c.Config.First.TargetMomentum != 0.98 || c.Config.Second.TargetMomentum != 0.98 || c.Config.Own.TargetMomentum != want {
			t.Errorf("%s: momentum %g, %g and %g, want 0.98, 0.98 and %g", c.Name(), c.Config.First.TargetMomentum, c.Config.Second.TargetMomentum, c.Config.Own.TargetMomentum, want)
		}
	}
}

// TestClaim judges made-up numbers.
func TestClaim(t *testing.T) {
	var records []study.Record
	for i, baseline := range selfdistillation.Names {
		config := study.EncodeConfig(ProfileConfig(study.Quick, false, baseline))
		for seed := range 3 {
			for j, row := range rows {
				value := float64(30 + seed + j*(1+i))
				records = append(records, study.Record{
					Row: row, Column: columnOf(baseline, maintable.ColumnMIoU), Value: value, Seed: seed, Profile: study.Quick, Config: config, Data: "made up",
				})
			}
		}
	}
	c24 := studytest.Claim("C24", "")
	evidence := func(records []study.Record) study.Evidence {
		results, err := Study.Results(records, study.Quick)
		if err != nil {
			t.Fatal(err)
		}
		return results.Evidence("", c24)[0]
	}
	judge := func(records []study.Record) []float64 { return evidence(records).Values }
	// Two rows lie between: 2, 4 and 6 points for the three baselines.
	if got := judge(records); !slices.EqualFunc(got, []float64{4, 4, 4}, func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }) {
		t.Errorf("C24 is %v, want three times 4", got)
	}
	withoutMugs := slices.DeleteFunc(slices.Clone(records), func(r study.Record) bool { return strings.HasPrefix(r.Column, "Mugs") })
	if got := judge(withoutMugs); got != nil {
		t.Errorf("C24 without Mugs is %v", got)
	}
	if got := evidence(withoutMugs).Note; !strings.Contains(got, "no Mugs/linear_seg_mIoU") {
		t.Errorf("C24 without Mugs says %q", got)
	}
	weak := slices.Clone(records)
	for i := range weak {
		if weak[i].Row == rowMethod {
			weak[i].Details = map[string]float64{study.DetailGate: 1}
		}
	}
	if got := evidence(weak); got.Gated != 3 || len(got.Values) > 0 {
		t.Errorf("C24 below the gate: %+v", got)
	}
	oneSeedShort := slices.DeleteFunc(slices.Clone(records), func(r study.Record) bool {
		return r.Column == columnOf(selfdistillation.IBOT, maintable.ColumnMIoU) && r.Seed == 1 && r.Row == rowMixture
	})
	if got := judge(oneSeedShort); len(got) != 2 {
		t.Errorf("C24 without one of iBOT's seeds is %v", got)
	}
}

// TestFullMeasuresTheFigures: the full profile has the figures' measures at the sizes of transfer learning, and its tables have their columns where there are records.
func TestFullMeasuresTheFigures(t *testing.T) {
	c := ProfileConfig(study.Full, true, selfdistillation.DINO)
	if c.Linear.Epochs != 100 || c.Dense.FCN.Steps != 6250 || c.Dense.FCN.CropSize != 336 || c.Dense.Linear.Steps != 1560 || c.Dense.Video.ShortSide != 480 {
		t.Errorf("%+v, %+v", c.Linear, c.Dense)
	}
	if d := ProfileConfig(study.Quick, true, selfdistillation.DINO).Dense; d != (maintable.Dense{}) {
		t.Errorf("quick has %+v", d)
	}
	if err := c.check(study.Full, true); err != nil {
		t.Error(err)
	}
	var records []study.Record
	for _, row := range rows {
		for _, kind := range []string{maintable.ColumnMIoU, "Cityscapes FCN", "ADE20k linear"} {
			records = append(records, study.Record{
				Row: row, Column: columnOf("dino", kind), Value: 1, Profile: study.Full, Kind: "real", Config: study.EncodeConfig(c), Data: "made up", Protocol: "x, online branch, " + newHeads,
			})
		}
	}
	tables, err := Study.Experiment().Tables(records, study.Full)
	if err != nil || len(tables) != 3 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for i, want := range [][]string{{"DINO/Cityscapes FCN"}, {"DINO/Cityscapes FCN", "DINO/ADE20k linear"}} {
		for _, column := range want {
			if !slices.Contains(tables[i].Columns, column) || !strings.Contains(tables[i].Caption, "DINO is of an encoder") {
				t.Errorf("table %d has %v: %s", i, tables[i].Columns, tables[i].Caption)
			}
		}
	}
}

// TestBaselinesShareAStepOfOneConfiguration: the method after different baselines is one compiled step, unless --set changes it after one of them.
func TestBaselinesShareAStepOfOneConfiguration(t *testing.T) {
	shares := func(set ...string) map[string]string {
		all, err := Study.Cells(study.Options{Profile: study.Quick, Seeds: 1, Set: set}, "")
		if err != nil {
			t.Fatal(err)
		}
		return lo.SliceToMap(all, func(c study.Cell[Config]) (string, string) { return baselineOf(c) + "/" + c.Row, Study.Shares(c) })
	}
	if s := shares(); s["dino/method"] != s["mugs/method"] || s["dino/method"] == s["dino/alignment"] || s["dino/own-mixture"] == s["mugs/own-mixture"] {
		t.Errorf("%v", s)
	}
	if s := shares("mugs.second.rate=1e-2"); s["dino/method"] == s["mugs/method"] || s["dino/method"] != s["ibot/method"] {
		t.Errorf("with another rate after Mugs: %v", s)
	}
}

// TestRealHasRecall: the profile real has no segmentation, and captions do not speak of it.
func TestRealHasRecall(t *testing.T) {
	c := ProfileConfig(study.Real, true, selfdistillation.DINO)
	tables, err := Study.Experiment().Tables([]study.Record{{
		Row: rowStart, Column: columnOf("dino", recipe.ColumnRecall), Value: 1, Profile: study.Real, Kind: "real", Config: study.EncodeConfig(c), Data: "made up",
	}}, study.Real)
	if err != nil || len(tables) != 3 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables[:2] {
		if strings.Contains(table.Caption, "segmentation") || !strings.Contains(table.Caption, "ecall over patches of PASCAL VOC") {
			t.Errorf("%s: %s", table.Title, table.Caption)
		}
	}
}

// TestAStartAloneHasNoFigure: records of the initial model, before any continuation, are no reason to complain about a figure.
func TestAStartAloneHasNoFigure(t *testing.T) {
	c := ProfileConfig(study.Quick, true, selfdistillation.DINO)
	for row, complains := range map[string]bool{rowStart: false, rowMethod: true} { // A method without its curve is worth a word.
		_, err := Study.Experiment().Figures([]study.Record{{
			Row: row, Column: columnOf("dino", maintable.ColumnMIoU), Value: 1, Profile: study.Quick, Kind: "real", Config: study.EncodeConfig(c), Data: "made up",
		}}, study.Quick, study.FigureSources{Out: t.TempDir()})
		if complains != (err != nil) {
			t.Errorf("%s: %v", row, err)
		}
	}
}
