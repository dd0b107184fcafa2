package theory

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestGolden compares with NumPy and scikit-learn; testdata/theory.py made the file.
func TestGolden(t *testing.T) {
	content, err := os.ReadFile("testdata/theory.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Classes, Images, Views          int
		Rows                            [][]float64
		ViewThreshold                   float64 `json:"view_threshold"`
		ClassThreshold                  float64 `json:"class_threshold"`
		ViewTail                        float64 `json:"view_tail"`
		ClassTail                       float64 `json:"class_tail"`
		EffectiveRank                   float64 `json:"effective_rank"`
		Omega, Rho, Kappa, Gamma, Error float64
		Alignment, Diversity            float64
		Same                            []float64 `json:"delta1"`
		View                            []float64 `json:"delta2"`
		Other                           []float64 `json:"deltak"`
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 3 {
		t.Fatalf("%d cases", len(cases))
	}
	for i, c := range cases {
		rows := mat.NewDense(len(c.Rows), len(c.Rows[0]), nil)
		for j, row := range c.Rows {
			rows.SetRow(j, row)
		}
		f, err := GridFeatures(rows, c.Classes, c.Images, c.Views, 1)
		if err != nil {
			t.Fatal(err)
		}
		tails, err := f.Tails(c.ViewThreshold, c.ClassThreshold)
		if err != nil {
			t.Fatal(err)
		}
		repaired := f.Setting.Repaired(tails, f.CorrelationPeak())
		for name, pair := range map[string][2]float64{
			"p_T": {tails.ViewTail, c.ViewTail}, "q_T": {tails.ClassTail, c.ClassTail}, "ω": {f.CorrelationPeak(), c.Omega},
			"ρ": {repaired.Within, c.Rho}, "κ": {repaired.Across, c.Kappa}, "Γ": {repaired.Margin, c.Gamma}, "error": {f.Error(), c.Error},
			"effective rank": {f.EffectiveRank(), c.EffectiveRank}, "L_align": {f.Alignment(), c.Alignment}, "L_div": {f.Diversity(), c.Diversity},
		} {
			close(t, fmt.Sprintf("case %d, %s", i, name), pair[0], pair[1], 1)
		}
		for j, deltas := range f.Deltas(2) {
			close(t, "Δ1", deltas.Same, c.Same[j], float64(f.Len()))
			close(t, "Δ2", deltas.View, c.View[j], float64(f.Len()))
			close(t, "ΣΔk", deltas.Other, c.Other[j], float64(f.Len()))
		}
	}
}

func ExampleFeatures_Deltas() {
	f := OrthogonalClasses(3, 2, 2, 0, 1) // With perfect alignment and isotropy the lemma holds with equality.
	d := f.Deltas(1)[0]
	fmt.Printf("Δ1 %.0f + Δ2 %.0f + ΣΔk %.0f = %.0f\n", d.Same, d.View, d.Other, f.DeltaTarget())
	// Output: Δ1 0 + Δ2 0 + ΣΔk 8 = 8
}

func ExampleFeatures_Compare() {
	a, _ := RandomLabels(4, 500, 2, 0.025, 1).Compare(200)
	fmt.Printf("printed %.0e, repaired has a margin: %t, moments %.2f, true error %.2f\n", a.Printed.Value, a.Repaired.Margin > 0, a.Moments.Value, a.Error)
	// Output: printed 2e-05, repaired has a margin: false, moments 1.00, true error 0.73
}

func ExampleFeatures_MomentBound() {
	b := OrthogonalClasses(4, 100, 4, 0.05, 1).MomentBound()
	fmt.Printf("%.3f, geometric %.3f\n", b.Value, b.Geometric)
	// Output: 0.015, geometric 0.012
}
