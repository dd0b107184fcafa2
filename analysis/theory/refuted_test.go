package theory

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestSolvedOptimumRefutesThePrintedTheorem solves an instance of OP1, which the printed theorem is about: inputs in a small ball with random labels,
// so that the constraints keep all features together, and an α that the printed lemmas admit (erratum E21). All conditions hold, and the true error
// is far above the bound.
func TestSolvedOptimumRefutesThePrintedTheorem(t *testing.T) {
	const classes, images, views = 2, 40, 2
	random := rand.New(rand.NewPCG(1, 12))
	inputs := mat.NewDense(classes*images*views, 2, nil)
	for g := range classes * images {
		x, y := 0.03*random.NormFloat64(), 0.03*random.NormFloat64()
		for v := range views {
			inputs.SetRow(g*views+v, []float64{x + 1e-4*random.NormFloat64(), y + 1e-4*random.NormFloat64()})
		}
	}
	p := OP1{Inputs: inputs, Classes: classes, Images: images, Views: views, Dim: 2, Radius: 1, Alpha: 0.2, Lipschitz: 1}
	s := solve(t, p)
	account, err := s.Features.Compare(200)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("violation %.2g, active %.2g, gradient %.2g; printed %+v; repaired %s; true error %g",
		s.Violation, s.Active, s.Gradient, account.Printed, account.Repaired.Verdict(), account.Error)
	if s.Active == 0 || s.Violation > 1e-5 || s.Gradient > 0.01 {
		t.Errorf("violation %g, active %g, gradient %g", s.Violation, s.Active, s.Gradient)
	}
	if account.Printed.Verdict() != NonVacuous || account.Printed.Value > 1e-3 || account.Error < 0.3 {
		t.Errorf("printed bound %g, true error %g", account.Printed.Value, account.Error)
	}
	if account.Repaired.Verdict() != NoMargin || account.Moments.Value < account.Error {
		t.Errorf("repaired %s, moments %g, true error %g", account.Repaired.Verdict(), account.Moments.Value, account.Error)
	}
}
