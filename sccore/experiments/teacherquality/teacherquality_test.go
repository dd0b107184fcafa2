package teacherquality

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// small are encoders that train in a third of the time. What resumes, and what is recorded, does not depend on their width.
var small = []string{"first.encoder=vit-16x2x2p8-grid6", "second.encoder=vit-16x2x2p8-grid6", "third.encoder=vit-16x2x2p8-grid6"}

// runQuality runs the study and returns its values by cell.
func runQuality(t *testing.T, b compute.Backend, options study.Options) map[string]float64 {
	t.Helper()
	if err := Study.Run(t.Context(), b, options); err != nil {
		t.Fatal(err)
	}
	return studytest.ValuesByCell(t, options.Out, Name)
}

func TestTeacherQualityGoesOnAndIsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Go(t)
	out := t.TempDir()
	alone := runQuality(t, b, study.Options{Profile: study.Smoke, Out: t.TempDir(), Parallel: 1, Set: small})
	part := runQuality(t, b, study.Options{Profile: study.Smoke, Out: out, Only: []string{"cotap/*/labels"}, Set: small})
	if len(part) != 1 || len(alone) != len(conditions(study.Smoke, false)) {
		t.Fatalf("%d runs of a part, %d of all", len(part), len(alone))
	}
	together := runQuality(t, b, study.Options{Profile: study.Smoke, Out: out, Parallel: 3, Set: small})
	if fmt.Sprint(together) != fmt.Sprint(alone) {
		t.Errorf("with one worker %v, with three %v", alone, together)
	}
	precision := map[string]float64{}
	for _, r := range studytest.Records(t, out, Name) {
		precision[r.Row] = r.Details["precision_top1"]
		if concentrated := strings.Contains(r.Row, "cotap") || strings.Contains(r.Row, "paka"); concentrated != (r.Details["lambda"] > 0) {
			t.Errorf("%s: λ2 %g", r.Row, r.Details["lambda"])
		}
	}
	if precision["cotap/share1/labels"] != 100 || !(precision["cotap/share1/objects0.5"] < 100) || !(precision["cotap/share1/pairs0.5"] > 50) {
		t.Errorf("precision %v", precision)
	}
}

// TestConditionsOfRivals: losses that compare features learn from the run's own branches, others from a third encoder, of whose scores a tenth are positives if
// the loss is of binary labels. CoTAP has each source, so that each loss has a run to compare with.
func TestConditionsOfRivals(t *testing.T) {
	for _, photographs := range []bool{false, true} {
		all := conditions(study.Quick, photographs)
		for _, loss := range []string{sccore.WithGram, sccore.WithPaKA, sccore.WithNeCo, sccore.WithFastAP, sccore.WithSmoothAP} {
			var found []Condition
			for _, c := range all {
				if c.Loss == loss {
					found = append(found, c)
				}
			}
			if len(found) != 1 {
				t.Fatalf("%s: %v", loss, found)
			}
			c := found[0]
			binary := loss == sccore.WithFastAP || loss == sccore.WithSmoothAP
			if (c.Teacher == own) == binary || (c.Positives == 0.1) != binary || c.Share != 1 {
				t.Errorf("%+v", c)
			}
			config := profileConfig(study.Quick, photographs)
			config.Condition = c
			if s := config.second(); s.PatchConcentration != loss || (s.Correspondences.From == sccore.FromTeacher) != binary {
				t.Errorf("%+v runs with %+v", c, s.Correspondences)
			} else if s.LambdaBy != sccore.ByGradient || s.Lambdas.PatchConcentration != c.Share {
				t.Errorf("%+v runs with λ %g by %q", c, s.Lambdas.PatchConcentration, s.LambdaBy)
			}
			same := Condition{Loss: sccore.WithCoTAP, Share: 1, Teacher: c.Teacher}
			if !slices.Contains(all, same) || strings.TrimPrefix(same.row(), "cotap") != strings.TrimPrefix(c.row(), loss) {
				t.Errorf("%s has no CoTAP of its source", c.row())
			}
		}
	}
}

func TestTeacherQualityOptions(t *testing.T) {
	for _, c := range []struct{ set, only, want string }{
		{set: "speed=1", want: `"speed"`},
		{set: "condition.share=2", want: "--only"},
		{set: "images=3", want: "images 3"},
		{set: "first.rate=-1", want: "first.rate -1"},
		{set: "third.encoder=vit-32x1x2p12-grid2", want: "patches are of 12 pixels"},
		{set: "second.batch=1", want: "second.batch 1"},
		{set: "second.patch_head.out=16", want: "patch_head"},
		{set: "first.lambdas.patch_alignment=0", want: "patch_alignment 0"},
		{set: "second.lambdas.patch_concentration=1", want: "concentration"},
		{set: "probe.steps=0", want: "steps 0"},
		{only: "cotap/share1/auc1", want: `no source "auc1"`},
	} {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir()}
		if c.set != "" {
			options.Set = []string{c.set}
		}
		if c.only != "" {
			options.Only = []string{c.only}
		}
		err := Study.Run(t.Context(), nil, options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}

// TestMistakenObjects reads labels of three classes, 0 for no object, and takes class 1 for background at the end.
func TestMistakenObjects(t *testing.T) {
	truth := func(_ int32, canvas []uint8, _ int) error {
		for i := range canvas {
			canvas[i] = uint8(i % 4)
		}
		return nil
	}
	wrong, read := 0, 0
	for image := range int32(200) {
		for share, most := range map[float64]int{0: 0, 0.5: 3, 1: 3} {
			labels := make([]uint8, 16)
			if err := mistaken(truth, 1, 3, share, 7)(image, labels, 4); err != nil {
				t.Fatal(err)
			}
			mistakes := 0
			for class := 1; class <= 3; class++ {
				for i := class; i < 16; i += 4 {
					if labels[i] != labels[class] || labels[i] < 1 || labels[i] > 3 {
						t.Fatalf("image %d: labels %v", image, labels)
					}
				}
				if labels[class] != uint8(class) {
					mistakes++
				}
			}
			if mistakes > most || share == 1 && mistakes != 3 || labels[0] != 0 || labels[4] != 0 {
				t.Errorf("image %d, share %g: labels %v", image, share, labels)
			}
			if share == 0.5 {
				wrong, read = wrong+mistakes, read+3
			}
			again := make([]uint8, 16)
			if err := mistaken(truth, 1, 3, share, 7)(image, again, 4); err != nil || !slices.Equal(again, labels) {
				t.Errorf("labels %v, then %v, %v", labels, again, err)
			}
		}
	}
	if got := float64(wrong) / float64(read); !(math.Abs(got-0.5) <= 0.06) {
		t.Errorf("%.2f of the classes are mistaken, want half", got)
	}
	labels := make([]uint8, 4)
	if err := mistaken(truth, 2, 3, 1, 7)(0, labels, 2); err != nil || !slices.Equal(labels, []uint8{0, 1, 3, 2}) {
		t.Errorf("labels %v with background, %v", labels, err)
	}
}

// TestTeacherQualityResults: made-up records in which CoTAP gains a tenth of the precision and binary cross-entropy nothing; one seed of it is missing.
func TestTeacherQualityResults(t *testing.T) {
	all, err := cells(study.Options{Profile: study.Quick}, "")
	if err != nil {
		t.Fatal(err)
	}
	var records []study.Record
	for i, c := range all {
		condition, value := c.Config.Condition, 30+float64(c.Seed)
		precision := float64(50 + 10*(i%5))
		switch {
		case condition.Loss == sccore.WithCoTAP:
			value += precision / 10
		case condition.Loss == sccore.WithBCE && c.Seed == 1:
			continue
		}
		details := map[string]float64{"precision_top1": precision, "precision_top5": precision, "precision_top10": precision, "auc": 0.9 - precision/1000, "lambda": 12.5, "share_at_end": 1.25}
		records = append(records, study.Record{Profile: study.Quick, Row: condition.row(), Column: recipe.ColumnMIoU, Seed: c.Seed, Value: value,
			Config: study.EncodeConfig(c.Config), Data: "synthetic scenes", Details: details})
	}
	results, err := Study.Results(records, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	if got := kindOf(results, false).gain(Condition{Loss: sccore.WithBCE, Share: 1}); fmt.Sprint(got) != "[0 0 0 0]" {
		t.Errorf("gains %v", got)
	}
	tables := tables(results)
	text := tables[0].Markdown()
	for _, want := range []string{"| + CoTAP | 1 → 1.2 | labels |", "| 12.5 |", "| + NeCo | 1 → 1.2 | the run's own branches | – | – | 12.5 |", "| + Gram anchoring | 1 → 1.2 | the run's own branches | – | – |", "| + Smooth-AP | 1 → 1.2 | third encoder, 1000 steps |",
		"| patch alignment |", "| untrained |", "objects mistaken"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for i, want := range map[int]float64{len(tables[1].Rows) - 2: 1, len(tables[1].Rows) - 1: -1} {
		for _, correlation := range tables[1].Rows[i].Cells[0].Ours {
			if !(math.Abs(correlation-want) <= 1e-9) {
				t.Errorf("%s: %g, want %g", tables[1].Rows[i].Heads[0], correlation, want)
			}
		}
	}
	if row := tables[1].Rows[0]; len(row.Cells[0].Ours) != 4 || !(row.Cells[0].Ours[0] > 5) || row.Heads[2] == "" {
		t.Errorf("CoTAP and binary cross-entropy: %+v", row)
	}
	if row := tables[1].Rows[1]; len(row.Cells[0].Ours) != 5 || !strings.Contains(row.Heads[0], "Gram anchoring") {
		t.Errorf("CoTAP and Gram anchoring: %+v", row)
	}
	figure := Gains(results, false)
	if _, _, err := figures.Render(figure); err != nil || len(figure.Series) != 2*4 || len(figure.Series[0].X)+len(figure.Series[1].X) != 6 {
		t.Errorf("%d series, %v", len(figure.Series), err)
	}
	empty, err := Study.Results(nil, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	if tables := Study.Tables(empty); !strings.Contains(tables[0].Markdown(), "No runs.") {
		t.Errorf("without records: %v", err)
	}
	if _, _, err := figures.Render(Gains(empty, false)); err != nil {
		t.Errorf("without records: %v", err)
	}
}
