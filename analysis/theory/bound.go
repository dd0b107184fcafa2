package theory

import "math"

// Verdict says what a bound on the error rate is worth.
type Verdict string

// The verdicts.
const (
	// Speaks: the theorem's conditions are met and it says that the error is below 1.
	Speaks Verdict = "speaks"
	// Vacuous: the conditions are met and the bound is 1 or more.
	Vacuous Verdict = "vacuous"
	// NoMargin: the margin in the denominator is not positive, or no more than rounding, so that the theorem says nothing.
	NoMargin Verdict = "no margin"
	// Inapplicable: a condition on d, δ_T or d_T is not met.
	Inapplicable Verdict = "inapplicable"
)

// Bound is a theorem's upper bound on the error rate for one set of numbers.
type Bound struct {
	// Value is what the formula gives, at least 0, whether or not the conditions hold; +Inf where there is no margin.
	Value float64
	// Margin is the denominator's root: C1 − C2√p_T − C3√q_T of the printed theorem, Γ of the repaired one. NaN where a root in it has no value.
	Margin float64
	// Domain tells whether the theorem's conditions on d, δ_T and d_T are met.
	Domain bool
}

// Verdict sums the bound up.
func (b Bound) Verdict() Verdict {
	switch {
	case !b.Domain:
		return Inapplicable
	case !(b.Margin > 0) || math.IsInf(b.Value, 1):
		return NoMargin
	case b.Value >= 1:
		return Vacuous
	}
	return Speaks
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

// Setting is what the theorem has to know of features beside their tails.
type Setting struct {
	// Classes is K, Images n, Dim d.
	Classes, Images, Dim int
	// Radius is r.
	Radius float64
}

// Setting is the features' own.
func (f *Features) Setting() Setting {
	return Setting{Classes: f.Classes, Images: f.Images, Dim: f.Dim, Radius: f.Radius}
}

// marginFloor is the part of r² below which a margin counts as none: a difference of similarities that rounding alone can make.
const marginFloor = 1e-12
