package theory

import "math"

// The δ_T and d_T at which p and q are named, ascending.
const classThreshold, viewThreshold = 0.5, 0.9

// Quantities computes the theorem's quantities of an encoder's features by name, and the tail curves. Those that have no finite value are left out.
func (f *Features) Quantities(thresholds int) (map[string]float64, TailCurves, error) {
	account, err := f.Compare(thresholds)
	if err != nil {
		return nil, TailCurves{}, err
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
func said(b Bound) float64 {
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
