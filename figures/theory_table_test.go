package figures

import (
	"math"
	"strings"
	"testing"

	"github.com/semcon/semcon/analysis/theory"
)

func TestBoundTable(t *testing.T) {
	var table BoundTable
	for _, f := range []struct {
		name     string
		features *theory.Features
	}{{"orthogonal <axes>", theory.OrthogonalClasses(4, 100, 2, 0.002, 1)}, {"random labels", theory.RandomLabels(4, 1000, 2, 0.02, 1)}} {
		a, err := f.features.Compare(100)
		if err != nil {
			t.Fatal(err)
		}
		table = append(table, BoundRow{f.name, a})
	}
	text := table.HTML()
	if strings.Count(text, "<tr>") != 3 || !strings.Contains(text, "orthogonal &lt;axes&gt;") || strings.Count(text, "#D55E00") != 1 || !strings.Contains(text, "–") {
		t.Error(text)
	}
	f := table.Curves("noise", []float64{1, 2}, 1e-6)
	picture(t, f)
	if truth := f.Series[len(f.Series)-1].Y; truth[0] != 1e-6 || math.Abs(truth[1]-0.74) > 0.05 {
		t.Errorf("true errors %v", truth)
	}
	if theorem2 := f.Series[1].Y; !math.IsNaN(theorem2[1]) {
		t.Errorf("theorem 2 %v", theorem2)
	}
}
