package theory

import "math"

// Verdict says what a bound on the error rate is worth.
type Verdict string

// The verdicts.
const (
	// NonVacuous: the theorem's conditions hold and the bound is below 1.
	NonVacuous Verdict = "speaks"
	// Vacuous: the conditions hold and the bound is 1 or more.
	Vacuous Verdict = "vacuous"
	// NoMargin: the margin in the denominator is not positive, or positive only by rounding, so that the theorem says nothing.
	NoMargin Verdict = "no margin"
	// Inapplicable: a condition on d, δ_T or d_T does not hold.
	Inapplicable Verdict = "inapplicable"
)

// Bound is a theorem's upper bound on the error rate for one set of numbers.
type Bound struct {
	// Value is what the formula gives, at least 0, whether or not the conditions hold; +Inf without a margin.
	Value float64
	// Margin is the root of the denominator: C1 − C2√p_T − C3√q_T for the printed theorem, Γ for the repaired one. It is NaN if it contains the root
	// of a negative number.
	Margin float64
	// Domain reports whether the theorem's conditions on d, δ_T and d_T hold.
	Domain bool
}

// Verdict classifies the bound.
func (b Bound) Verdict() Verdict {
	switch {
	case !b.Domain:
		return Inapplicable
	case !(b.Margin > 0) || math.IsInf(b.Value, 1):
		return NoMargin
	case b.Value >= 1:
		return Vacuous
	}
	return NonVacuous
}

func (b Bound) better(than Bound) bool {
	if b.Domain != than.Domain {
		return b.Domain
	}
	if b.Value != than.Value {
		return b.Value < than.Value
	}
	return b.Margin > than.Margin || math.IsNaN(than.Margin) && !math.IsNaN(b.Margin)
}

// Setting is what the theorem must know about features besides their tails.
type Setting struct {
	// Classes is K, Images n, Dim d.
	Classes, Images, Dim int
	// Radius is r.
	Radius float64
}

// Setting is the setting of the features.
func (f *Features) Setting() Setting {
	return Setting{Classes: f.Classes, Images: f.Images, Dim: f.Dim, Radius: f.Radius}
}

// marginFloor is the share of r² below which a margin counts as none: rounding alone can make such a difference of similarities.
const marginFloor = 1e-12
