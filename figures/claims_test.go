package figures

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/semcon/semcon/analysis/stats"
)

func TestClaimsAreComplete(t *testing.T) {
	next := 1
	for _, claim := range Claims() {
		switch claim.ID {
		case fmt.Sprintf("C%d", next-1): // a further part
		case fmt.Sprintf("C%d", next):
			next++
		default:
			t.Fatalf("%s is out of order", claim.ID)
		}
		if claim.Text == "" || claim.Measure == "" || claim.Experiment == "" {
			t.Errorf("%s lacks a field: %+v", claim.ID, claim)
		}
		if claim.Paper*float64(claim.Sign) < 0 {
			t.Errorf("%s: the paper's own number %v is on the wrong side", claim.ID, claim.Paper)
		}
	}
	equal(t, next, 27)
}

// TestClaimsAgreeWithTables computes the paper's numbers in claims.csv from its tables.
func TestClaimsAgreeWithTables(t *testing.T) {
	study := paper(t, "effect_aug_full")
	ablation := paper(t, "ablation")
	line := func(n int, column string) float64 {
		return ablation.Value(column, ablation.Rows[n-1].Heads...)
	}
	knn := func(n int) float64 { return line(n, "knn_Acc@1") }
	miou := func(n int) float64 { return line(n, "linear_seg_mIoU") }
	segmentation, video, objects := paper(t, "semantic_seg"), paper(t, "video_seg"), paper(t, "obj_det")
	all := []string{"1", "1", "1", "1", "1"}
	for i, claim := range Claims() {
		want := math.NaN()
		switch {
		case i < 12:
			column := "CIFAR-10/" + claim.Part
			switch i / 4 {
			case 0:
				want = study.Value(column, all...) - study.Value(column, "", "1", "1", "1", "1")
			case 1:
				want = study.Value(column, all...) - study.Value(column, "same", "1", "1", "1", "1")
			case 2:
				var accuracy, richness []float64
				for n := 1; n <= 5; n++ {
					heads := append(append([]string{}, all[:n]...), make([]string, 5-n)...)
					accuracy, richness = append(accuracy, study.Value(column, heads...)), append(richness, float64(n))
				}
				var err error
				if want, err = stats.Spearman(accuracy, richness); err != nil {
					t.Fatal(err)
				}
			}
		case claim.ID == "C13" && claim.Part == "k-NN":
			want = knn(1) - knn(2)
		case claim.ID == "C13":
			want = miou(2) - miou(1)
		case claim.ID == "C14" && claim.Part == "k-NN":
			want = knn(3) - max(knn(1), knn(2))
		case claim.ID == "C14":
			want = miou(3) - max(miou(1), miou(2))
		case claim.ID == "C15":
			want = knn(4) - knn(1)
		case claim.ID == "C16":
			want = miou(5) - miou(2)
		case claim.ID == "C17":
			want = miou(6) - miou(3)
		case claim.ID == "C18" && claim.Part == "k-NN":
			want = knn(7) - knn(6)
		case claim.ID == "C18":
			want = miou(7) - miou(6)
		case claim.ID == "C22":
			method, set, _ := strings.Cut(claim.Part, " on ")
			want = segmentation.Value(set+"/Linear", method+" + Ours", "IN-1k + CC") - segmentation.Value(set+"/Linear", method, "IN-1k")
		case claim.ID == "C23":
			want = video.Value("J&F_mean", claim.Part+" + Ours", "ViT-S/16") - video.Value("J&F_mean", claim.Part, "ViT-S/16")
		case claim.ID == "C26" && !math.IsNaN(claim.Paper):
			method, kind, _ := strings.Cut(claim.Part, ", ")
			column := map[string]string{"boxes": "AP_b", "masks": "AP_m"}[kind]
			want = objects.Value(column, method+" + Ours", "ViT-S/16") - objects.Value(column, method, "ViT-S/16")
		}
		if math.IsNaN(want) != math.IsNaN(claim.Paper) || math.Abs(want-claim.Paper) > 0.0051 {
			t.Errorf("%s %s: %v in claims.csv, %v from the tables", claim.ID, claim.Part, claim.Paper, want)
		}
	}
}

func TestClaimEvaluate(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values      []float64
		above, for0 Verdict // if the claim is > 0, and if it is < 0
	}{
		{nil, NoRuns, NoRuns},
		{[]float64{5, 5.1}, Open, Open}, // too few seeds
		{[]float64{5, 5.1, 5.2}, HoldsAlone, FailsAlone},
		{[]float64{-5, -5.1, -5.2}, FailsAlone, HoldsAlone},
		{[]float64{-1, 2, 5}, Open, Open},
		{[]float64{1, 1, 1}, HoldsAlone, FailsAlone}, // no spread
		{[]float64{0, 0, 0}, Open, Open},
		{[]float64{5, 5.1, nan}, Open, Open},
	} {
		if _, got := (Claim{Sign: 1}).Evaluate(c.values); got != c.above {
			t.Errorf("%v > 0: got %s, want %s", c.values, got, c.above)
		}
		if _, got := (Claim{Sign: -1}).Evaluate(c.values); got != c.for0 {
			t.Errorf("%v < 0: got %s, want %s", c.values, got, c.for0)
		}
	}
}

// board has a claim that holds, one that fails, open ones, and no runs for the rest.
func board() Scoreboard {
	values := map[string][]float64{
		"C1 SimCLR": {12, 13.5, 11}, "C2 Barlow Twins": {-3, -3.5, -2.8}, "C3 MoCo": {1, -1, 2}, "C4 SimSiam": {4}, "C10 Barlow Twins": {0.9, 1, 1},
		"C13 k-NN": {4, 5, 6}, "C18 k-NN": {4, 5, 6}, "C18 mIoU": {1, 1.5, 1.25}, "C14 k-NN": {-2, -2.5, -2.25},
	}
	board := NewScoreboard("quick", func(c Claim, kind DataKind) ([]float64, []string) {
		of, data := values, []string{"CIFAR-10 (4068 + 1017)"}
		if kind == Synthetic {
			of, data = map[string][]float64{"C15 ": {2, 3, 4}, "C16 ": {2, 3, 4}, "C22 own on synthetic scenes": {2, 2.1, 2.2}}, []string{"synthetic scenes (seed 1)"}
		}
		if found, ok := of[c.ID+" "+c.Part]; ok {
			return found, data
		}
		return nil, nil
	})
	for i := range board.Rows {
		if row := &board.Rows[i]; row.Claim.ID == "C18" && row.Part && len(row.Values) > 0 {
			row.Images = stats.Interval{Mean: row.Interval.Mean, Low: row.Interval.Mean - 2, High: row.Interval.Mean + 1.5, N: 1449}
		}
	}
	return board
}

func TestScoreboardGolden(t *testing.T) {
	board := board()
	for format, file := range map[string]string{"text": "scoreboard.txt", "md": "scoreboard.md", "html": "scoreboard.html", "csv": "scoreboard.csv"} {
		text, err := board.Format(format)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, text)
	}
	if _, err := board.Format("latex"); err == nil || err.Error() != `unknown format "latex"; there are csv, html, md, text` {
		t.Error(err)
	}
}

func TestVerdictsOfClaimsInParts(t *testing.T) {
	verdicts := board().Verdicts(Real)
	for id, want := range map[string]Verdict{
		"C1": HoldsCorrected, "C2": FailsCorrected, "C3": Open, "C4": Open, "C5": NoRuns, "C10": HoldsCorrected, "C13": Open, "C14": Open, "C16": NoRuns, "C18": HoldsAlone, "C22": NoRuns,
	} {
		if verdicts[id] != want {
			t.Errorf("%s: got %s, want %s", id, verdicts[id], want)
		}
	}
	equal(t, len(verdicts), 25) // C25 is about synthetic data.
	verdicts = board().Verdicts(Synthetic)
	for id, want := range map[string]Verdict{"C1": NoRuns, "C16": HoldsAlone, "C22": HoldsCorrected} {
		if verdicts[id] != want {
			t.Errorf("%s on synthetic data: got %s, want %s", id, verdicts[id], want)
		}
	}
}

// TestScoreboardCorrectsForTheClaimsOfAnExperiment judges one p-value alone and among others: the correction is over all that the experiment's claims measure on a
// kind of data, whatever else has run.
func TestScoreboardCorrectsForTheClaimsOfAnExperiment(t *testing.T) {
	weak := []float64{1, 2, 3} // p is .074, so that it is open; shifted by 1 it is .034.
	judge := func(others int) Scoreboard {
		left := others
		return NewScoreboard("", func(c Claim, kind DataKind) ([]float64, []string) {
			switch {
			case kind == Synthetic && (c.ID == "C16" || c.ID == "C24"):
				return []float64{weak[0] + 1, weak[1] + 1, weak[2] + 1}, []string{"scenes"}
			case kind == Real && left > 0:
				left--
				return weak, []string{"photographs"}
			}
			return nil, nil
		})
	}
	for _, others := range []int{0, 5} {
		for _, row := range judge(others).of(Synthetic) {
			switch row.Claim.ID {
			case "C16":
				if row.Verdict != HoldsAlone || row.Family != 9 || !(math.Abs(row.Corrected-9*row.P) <= 1e-12) {
					t.Errorf("C16 is one of 9: %s, p %g, corrected %g of %d", row.Verdict, row.P, row.Corrected, row.Family)
				}
			case "C24":
				if row.Verdict != HoldsCorrected || row.Family != 1 || row.P != row.Corrected {
					t.Errorf("C24 is alone: %s, p %g, corrected %g of %d", row.Verdict, row.P, row.Corrected, row.Family)
				}
			}
		}
	}
	rows := judge(3).of(Real)
	for i, row := range rows[:3] {
		if row.Verdict != Open || row.Family != 12 || !(math.Abs(row.Corrected-min(1, 12*row.P)) <= 1e-12) {
			t.Errorf("row %d: %s, p %g, corrected %g of %d", i, row.Verdict, row.P, row.Corrected, row.Family)
		}
	}
	if empty := judge(0).of(Real); len(empty) > 0 {
		t.Errorf("%d rows of real data without runs", len(empty))
	}
	none := NewScoreboard("", func(Claim, DataKind) ([]float64, []string) { return nil, nil })
	equal(t, len(none.of(Synthetic)), 0)
	if len(none.of(Real)) < 40 {
		t.Errorf("%d rows without runs", len(none.of(Real)))
	}
}

// TestClaimsInPartsStandAboveTheirParts: the row of the whole claim has the verdict on all parts and no numbers of its own.
func TestClaimsInPartsStandAboveTheirParts(t *testing.T) {
	board := board()
	for i, row := range board.Rows {
		if row.Parts == 0 {
			continue
		}
		var parts []Verdict
		for _, part := range board.Rows[i+1 : i+1+row.Parts] {
			if !part.Part || part.Claim.ID != row.Claim.ID || part.Kind != row.Kind {
				t.Errorf("%s stands below %s", part.Claim.ID, row.Claim.ID)
			}
			parts = append(parts, part.Verdict)
		}
		if row.Part || len(row.Values) > 0 || row.Claim.Part != "" || row.Verdict != together(parts) {
			t.Errorf("%+v of %v", row, parts)
		}
	}
	for _, c := range []struct {
		parts []Verdict
		want  Verdict
	}{
		{[]Verdict{HoldsCorrected, HoldsCorrected}, HoldsCorrected}, {[]Verdict{HoldsCorrected, HoldsAlone}, HoldsAlone}, {[]Verdict{HoldsCorrected, Open}, Open},
		{[]Verdict{HoldsCorrected, NoRuns}, Open}, {[]Verdict{NoRuns, NoRuns}, NoRuns}, {[]Verdict{HoldsCorrected, FailsAlone}, FailsAlone},
		{[]Verdict{FailsAlone, FailsCorrected, Open}, FailsCorrected}, {[]Verdict{NoRuns, FailsAlone}, FailsAlone},
	} {
		equal(t, together(c.parts), c.want)
	}
}

func TestParseClaimsRefuses(t *testing.T) {
	const header = "id,part,claim,measure,sign,paper,unit,experiment,data,control,column,row,minus_row,minus_column,detail\n"
	for text, want := range map[string]string{
		"a,b\n":                                "unexpected header a,b",
		header + "C1,,x,y,0,,,z,,,,,,,\n":      `line 2: sign "0" is neither + nor -`,
		header + "C1,,x,y,+,?,,z,,,,,,,\n":     `line 2: "?" is not a number`,
		header + "C1,,x,y,+,,,z,mixed,,,,,,\n": `line 2: data "mixed" are neither synthetic nor real`,
		header + "C1,,x,y,+,1,,z,\n":           "record on line 2: wrong number of fields",
	} {
		if _, err := parseClaims(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
