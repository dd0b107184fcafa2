package theory

import "math"

// The values of d_T and δ_T at which q and p are reported, ascending.
const classThreshold, viewThreshold = 0.5, 0.9

// Quantities computes the theorem's quantities of an encoder's features by name, and the tail curves. Quantities without a finite value are omitted.
func (f *Features) Quantities(thresholds int) (map[string]float64, TailCurves, error) {
	comparison, err := f.Compare(thresholds)
	if err != nil {
		return nil, TailCurves{}, err
	}
	curves, moments, printed, repaired, repairedAt := comparison.Curves, comparison.Moments, comparison.Printed, comparison.Repaired, comparison.RepairedAt
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
		"error": comparison.Error, "geometric": moments.Geometric, "moments": moments.Value,
		"repaired": capped(repaired.Bound), "repaired_margin": repaired.Margin,
		"printed": capped(printed.Bound), "printed_margin": printed.Margin, "printed_domain": indicator(printed.Domain),
		"p_best": repairedAt.ViewTail, "q_best": repairedAt.ClassTail, "delta_best": repairedAt.ViewThreshold, "d_best": repairedAt.ClassThreshold,
		"p": tails.View[1], "q": tails.Class[0], "p_mean": tails.MeanView[1], "q_mean": tails.MeanClass[0],
		"view_similarity": 1 - moments.Spread, "class_similarity": (n*moments.Within - (1 - moments.Spread)) / (n - 1),
		"across": moments.Across, "inside": moments.Inside, "margined": moments.Margined,
		"omega": comparison.Omega, "effective_rank": rank, "isotropy_defect": f.IsotropyDefect(),
		"sum_delta": sum, "sum_delta_fails": fails, "delta_same": same / float64(f.Len()), "delta_other": other / float64(f.Len()),
	}
	for name, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			delete(values, name)
		}
	}
	return values, curves, nil
}

// capped caps a bound at 1, the trivial bound of an error rate, which also counts if the conditions of its theorem do not hold.
func capped(b Bound) float64 {
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
