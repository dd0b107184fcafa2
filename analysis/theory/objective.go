package theory

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Alignment is L_align of OP0, 1/(2N²) Σ_ij ŵ_ij ‖z_i − z_j‖², over pairs of views of one image.
func (f *Features) Alignment() float64 { return alignment(f.Z, f.Views) }

// Diversity is L_div of OP0, ½ ‖C_f − r²/d·I‖²_F: half the isotropy defect, as tr C_f = r².
func (f *Features) Diversity() float64 { return f.IsotropyDefect() / 2 }

// alignment is L_align of rows of any length, grouped by views consecutive rows.
func alignment(z *mat.Dense, views int) float64 {
	count, _ := z.Dims()
	sum := 0.0
	for i := range count {
		for j := i - i%views; j < i; j++ {
			for c, x := range z.RawRowView(i) {
				gap := x - z.At(j, c)
				sum += gap * gap
			}
		}
	}
	return sum / float64(count*count) // Each pair occurs twice in the double sum.
}

// InfoNCE are the paper's InfoNCE sums with one negative (section "Problem Formulation", indices as in erratum E17): alignment −(N − m) Σ_ij ŵ_ij
// s_ij and diversity Σ_ijk ŵ_ij (1 − ŵ_ik) log(exp s_ij + exp s_ik). Their sum is the loss. It holds that N² L_align = alignment/(N − m) + N m r²
// (erratum E16; printed with N² r²).
//
// It takes O(N² m) time.
func (f *Features) InfoNCE() (alignment, diversity float64) {
	n := f.Len()
	for i := range n {
		first := i - i%f.Views
		for j := first; j < first+f.Views; j++ {
			positive := dot(f.row(i), f.row(j))
			alignment -= float64(n-f.Views) * positive
			for k := range n {
				if k < first || k >= first+f.Views {
					other := dot(f.row(i), f.row(k))
					top := max(positive, other)
					diversity += top + math.Log(math.Exp(positive-top)+math.Exp(other-top))
				}
			}
		}
	}
	return alignment, diversity
}

// BarlowTwins is the paper's form of that loss, on features whose dimensions are scaled to 1/N Σ_k f_i(x_k)² = 1.
type BarlowTwins struct {
	// Alignment is Σ_i (1 − C_ii)² and Diversity Σ_i Σ_{j≠i} C_ij², with C_ij = 1/(N̄ m²) Σ_kl ŵ_kl f_i(x_k) f_j(x_l) (erratum E18).
	Alignment, Diversity float64
	// Misalignment is L_align of the scaled features.
	Misalignment float64
	// Low and High bound Alignment if no dimension is 0 everywhere: (N L_align/m)²/d and N L_align/m. They follow from Σ_i (1 − C_ii) = N L_align/m
	// and 0 ≤ 1 − C_ii ≤ 1. Each dead dimension adds 1 to Alignment and nothing to High.
	Low, High float64
	// PrintedLow and PrintedHigh are the paper's, N L_align/d + 1 − r²/d and N L_align + d − r², where r² = d is the mean squared length. The lower
	// one is false for small misalignment (erratum E19); the upper one is true without dead dimensions, and m times High.
	PrintedLow, PrintedHigh float64
}

// BarlowTwins computes the terms of the loss. A dead dimension, 0 everywhere, stays 0 and counts as misaligned, C_ii = 0.
func (f *Features) BarlowTwins() BarlowTwins {
	n, d := float64(f.Len()), float64(f.Dim)
	scaled := mat.DenseCopyOf(f.Z)
	for c := range f.Dim {
		column := mat.Col(nil, c, scaled)
		if rms := math.Sqrt(dot(column, column) / n); rms > 0 {
			for i, x := range column {
				scaled.Set(i, c, x/rms)
			}
		}
	}
	means := (&Features{Z: scaled, Classes: f.Classes, Images: f.Images, Views: f.Views, Dim: f.Dim}).ImageMeans()
	var correlation mat.SymDense
	correlation.SymOuterK(1/float64(f.Groups()), means.T())
	b := BarlowTwins{Misalignment: alignment(scaled, f.Views)}
	for i := range f.Dim {
		for j := range f.Dim {
			if c := correlation.At(i, j); i == j {
				b.Alignment += (1 - c) * (1 - c)
			} else {
				b.Diversity += c * c
			}
		}
	}
	misaligned := n * b.Misalignment / float64(f.Views)
	b.Low, b.High = misaligned*misaligned/d, misaligned
	b.PrintedLow, b.PrintedHigh = n*b.Misalignment/d, n*b.Misalignment
	return b
}
