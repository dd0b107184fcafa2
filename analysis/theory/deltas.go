package theory

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Deltas are the terms of lemma sum_delta for one view i.
type Deltas struct {
	// Same is Δ1 = Σ_{j ∈ T1(i)} (r⁴ − s_ij²), over other images of the same class.
	Same float64
	// View is Δ2 = Σ_{j ∈ T2(i)} ((r² − c)² − (s_ij − c)²), over views of the same image, including i.
	View float64
	// Other is Σ_{k ≠ y(i)} Δ(i,k), with Δ(i,k) = Σ_{j ∈ D(k)} (r⁴ − s_ij²), over the other classes.
	Other float64
	// Isotropy is N (z_iᵀ C z_i − r⁴/d) and Alignment is 2c Σ_{j ∈ T2(i)} (r² − s_ij): what the identity of erratum E13 subtracts.
	Isotropy, Alignment float64
}

// Sum is the left-hand side of lemma sum_delta.
func (d Deltas) Sum() float64 { return d.Same + d.View + d.Other }

// Deltas computes the terms of lemma sum_delta for every view. c is the lemma's 1/(4α), positive (see [Features.Lemmas] for the two readings of α).
//
// For every set of features, optimal or not, Sum = (1 − 1/d) N r⁴ − Isotropy − Alignment, see [Features.DeltaTarget] and erratum E13. The lemma as
// printed says Sum ≥ (1 − 1/d) N r⁴.
func (f *Features) Deltas(c float64) []Deltas {
	r2 := f.Radius * f.Radius
	size := float64(f.Images * f.Views)
	correlation := f.Correlation()
	byClass := f.classCorrelations()
	var all mat.Dense
	all.Mul(f.Z, correlation)
	deltas := make([]Deltas, f.Len())
	for k := range f.Classes {
		var product mat.Dense
		product.Mul(f.class(k), byClass[k])
		for v := range f.Images * f.Views {
			i := k*f.Images*f.Views + v
			z := f.row(i)
			everywhere := float64(f.Len()) * dot(all.RawRowView(i), z) // Σ_j s_ij²
			inClass := size * dot(product.RawRowView(v), z)
			inImage := 0.0
			d := &deltas[i]
			for j := i - i%f.Views; j < i-i%f.Views+f.Views; j++ {
				s := r2
				if j != i { // Rounding would make s_ii differ from r².
					s = dot(z, f.row(j))
				}
				inImage += s * s
				d.View += (r2-c)*(r2-c) - (s-c)*(s-c)
				d.Alignment += 2 * c * (r2 - s)
			}
			d.Same = (size-float64(f.Views))*r2*r2 - (inClass - inImage)
			d.Other = (float64(f.Len())-size)*r2*r2 - (everywhere - inClass)
			d.Isotropy = everywhere - float64(f.Len())*r2*r2/float64(f.Dim)
		}
	}
	return deltas
}

// MeanDeltas is the mean of [Features.Deltas] over views, each term as a share of N r⁴.
func (f *Features) MeanDeltas(c float64) (mean Deltas) {
	share := 1 / (float64(f.Len()) * float64(f.Len()) * math.Pow(f.Radius, 4))
	for _, d := range f.Deltas(c) {
		mean.Same += d.Same * share
		mean.View += d.View * share
		mean.Other += d.Other * share
		mean.Isotropy += d.Isotropy * share
		mean.Alignment += d.Alignment * share
	}
	return mean
}

// DeltaTarget is (1 − 1/d) N r⁴, the right-hand side of lemma sum_delta.
func (f *Features) DeltaTarget() float64 {
	return (1 - 1/float64(f.Dim)) * float64(f.Len()) * math.Pow(f.Radius, 4)
}
