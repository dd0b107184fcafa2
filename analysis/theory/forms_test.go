package theory

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/janpfeifer/must"
	"gonum.org/v1/gonum/mat"
)

func TestForms(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	features := mat.NewDense(200, 5, nil)
	for i := range 200 {
		for c := range 5 {
			features.Set(i, c, 3+float64(c+1)*random.NormFloat64())
		}
	}
	if must.M1(InForm(features, BackboneForm, 2)) != features {
		t.Error("the backbone's features stay as they are")
	}
	centred := must.M1(InForm(features, CentredForm, 2))
	for c := range 5 {
		if mean := mat.Sum(centred.ColView(c)); !(math.Abs(mean) <= 1e-9) {
			t.Errorf("column %d has mean %g", c, mean/200)
		}
	}
	cut := must.M1(InForm(features, PrincipalForm, 2))
	if _, dim := cut.Dims(); dim != 2 {
		t.Fatalf("%d dimensions", dim)
	}
	// The widest columns are 4 and 3: the axes keep almost all of their variance.
	kept, widest := mat.Norm(cut, 2), math.Hypot(mat.Norm(centred.ColView(4), 2), mat.Norm(centred.ColView(3), 2))
	if kept < widest || kept > 1.05*widest {
		t.Errorf("norm %g, of the two widest columns %g", kept, widest)
	}
}
