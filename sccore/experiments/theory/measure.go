package theory

import (
	"math"

	"github.com/semcon/semcon/analysis/theory"

	"gonum.org/v1/gonum/mat"
)

// The forms in which an encoder's features are handed to the theorem, which is about any map to a sphere.
const (
	// formBackbone: as they are, scaled to length 1. Behind a ReLU all similarities are then positive.
	formBackbone = "backbone"
	// formCentred: their mean over all views taken off before they are scaled.
	formCentred = "centred"
	// formPrincipal: centred, and cut to their K first principal axes: the printed theorem asks for K/2 ≤ d ≤ K.
	formPrincipal = "principal"
)

var theoryForms = []string{formBackbone, formCentred, formPrincipal}

// formed brings features, [N, D], into a form with at most the given number of dimensions.
func formed(features *mat.Dense, form string, dimensions int) *mat.Dense {
	if form == formBackbone {
		return features
	}
	count, dim := features.Dims()
	centred := mat.DenseCopyOf(features)
	for c := range dim {
		mean := mat.Sum(features.ColView(c)) / float64(count)
		for i := range count {
			centred.Set(i, c, features.At(i, c)-mean)
		}
	}
	if form == formCentred || dim <= dimensions {
		return centred
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(count), centred.T())
	var eigen mat.EigenSym
	eigen.Factorize(&covariance, true)
	var axes mat.Dense
	eigen.VectorsTo(&axes) // Of ascending eigenvalues.
	var cut mat.Dense
	cut.Mul(centred, axes.Slice(0, dim, dim-dimensions, dim))
	return &cut
}

// The δ_T and d_T at which a record keeps p and q, ascending.
const classThreshold, viewThreshold = 0.5, 0.9

// measureTheory computes what a record keeps of one form of an encoder's features, by name, and the tail curves. What has no finite value is
// left out.
func measureTheory(f *theory.Features, thresholds int) (map[string]float64, theory.TailCurves, error) {
	account, err := f.Compare(thresholds)
	if err != nil {
		return nil, theory.TailCurves{}, err
	}
	curves, moments, printed, repaired, repairedAt := account.Curves, account.Moments, account.Printed, account.Repaired, account.RepairedAt
	rank, err := f.EffectiveRank()
	if err != nil {
		return nil, curves, err
	}
	tails, err := f.TailCurves([]float64{classThreshold, viewThreshold})
	if err != nil {
		return nil, curves, err
	}

	// Lemma sum_delta at α = 1/(4r²), the largest that the appendix admits, in the reading that fits OP1 (c = 1/(2α)).
	fails, sum, target := 0.0, 0.0, f.DeltaTarget()
	deltas := f.Deltas(2)
	same, other := 0.0, 0.0
	for _, d := range deltas {
		sum += d.Sum() / target / float64(len(deltas))
		if d.Sum() < target*(1-1e-9) {
			fails += 1 / float64(len(deltas))
		}
		same += d.Same / float64(len(deltas))
		other += d.Other / float64(len(deltas))
	}
	// E over T2 × T2 is 1 − V; that over a class is n parts of which one is the image's own.
	n := float64(f.Images)
	values := map[string]float64{
		"error": account.Error, "geometric": moments.Geometric, "moments": moments.Value,
		"repaired": said(repaired.Bound), "repaired_margin": repaired.Margin,
		"printed": said(printed.Bound), "printed_margin": printed.Margin, "printed_domain": indicator(printed.Domain),
		"p_best": repairedAt.ViewTail, "q_best": repairedAt.ClassTail, "delta_best": repairedAt.ViewThreshold, "d_best": repairedAt.ClassThreshold,
		"p": tails.View[1], "q": tails.Class[0], "p_mean": tails.MeanView[1], "q_mean": tails.MeanClass[0],
		"view_similarity": 1 - moments.Spread, "class_similarity": (n*moments.Within - (1 - moments.Spread)) / (n - 1),
		"across": moments.Across, "inside": moments.Inside, "margined": moments.Margined,
		"omega": account.Omega, "effective_rank": rank, "isotropy_defect": f.IsotropyDefect(),
		"sum_delta": sum, "sum_delta_fails": fails, "delta_same": same / float64(f.Len()), "delta_other": other / float64(f.Len()),
	}
	for name, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			delete(values, name)
		}
	}
	return values, curves, nil
}

// said is what a bound says of the error rate: 1, which every error rate obeys, where it says nothing or its theorem's conditions are not met.
func said(b theory.Bound) float64 {
	if !b.Domain {
		return 1
	}
	return min(1, b.Value)
}

func indicator(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
