package theory

import (
	"fmt"
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

// LemmaCheck is the result of testing one of the paper's lemmas on features.
type LemmaCheck struct {
	// Name is the lemma's LaTeX label and, if it has several readings, the reading.
	Name string
	// Cases counts the instances of the lemma: views, images, or pairs of an image and a class. For a lemma with a premise, only those that meet it
	// count.
	Cases int
	// Fails counts the cases in which the conclusion is false by more than rounding.
	Fails int
	// Slack is the minimum over the cases of right-hand side minus left-hand side, in the units of the inequality: negative if the lemma fails, and
	// +Inf without cases. For the classification lemmas it is the minimum of ‖z − μ_k‖² − ‖z − μ_y‖².
	Slack float64
}

// String is a line of a list.
func (c LemmaCheck) String() string {
	return fmt.Sprintf("%-34s fails in %5d of %5d cases, least slack %.3g", c.Name, c.Fails, c.Cases, c.Slack)
}

// take counts a case with this slack, given the scale of rounding errors.
func (c *LemmaCheck) take(slack, scale float64) {
	c.Cases++
	c.Slack = min(c.Slack, slack)
	if slack < -1e-9*scale {
		c.Fails++
	}
}

// Lemmas tests each lemma of the section and its appendix on these features, at tails, with α as in OP1. A lemma that the paper states for optima of
// OP1 is tested here on any features; pass [Solution.Features] for optima.
//
//   - condition_cls_correct: as printed, and with the condition of erratum E15.
//   - sum_delta: for each view, under both readings of its constant (erratum E9): 1/(4α) with OP1's α, as printed, and 1/(2α), which the
//     proof's 1/(4α) becomes with the α/2 that OP1 has before its norm.
//   - var_bnd: the variance of similarities within a class, from the lemma's first part with p = q_T (erratum E11).
//   - bounds_of_expt (a), (b) and (c), the last with both sides divided by √|D(k)|.
func (f *Features) Lemmas(t Tails, alpha float64) []LemmaCheck {
	checks := f.classificationLemmas()
	for _, reading := range []struct {
		name string
		c    float64
	}{{"sum_delta, 1/(4α)", 1 / (4 * alpha)}, {"sum_delta, 1/(2α)", 1 / (2 * alpha)}} {
		check := LemmaCheck{Name: reading.name, Slack: math.Inf(1)}
		for _, deltas := range f.Deltas(reading.c) {
			check.take(deltas.Sum()-f.DeltaTarget(), f.DeltaTarget())
		}
		checks = append(checks, check)
	}
	return append(checks, f.expectationLemmas(t)...)
}

// classificationLemmas test lemma condition_cls_correct: which views meet its condition for all other classes, and which of these are nearest to
// another mean.
func (f *Features) classificationLemmas() []LemmaCheck {
	printed := LemmaCheck{Name: "condition_cls_correct, printed", Slack: math.Inf(1)}
	repaired := LemmaCheck{Name: "condition_cls_correct, E15", Slack: math.Inf(1)}
	r, r2 := f.Radius, f.Radius*f.Radius
	means, images := f.ClassMeans(), f.ImageMeans()
	for i := range f.Len() {
		y, z, image := f.ClassOf(i), f.row(i), images.RawRowView(i/f.Views)
		classMean := means.RawRowView(y)
		away := 0.0
		for c := range z {
			away = math.Hypot(away, z[c]-image[c])
		}
		meetsPrinted, meetsRepaired, ahead := true, true, math.Inf(1)
		for k := range f.Classes {
			if k == y {
				continue
			}
			other := means.RawRowView(k)
			margin, gap := dot(image, classMean)-dot(image, other), dot(classMean, classMean)-dot(other, other)
			meetsPrinted = meetsPrinted && margin >= 4*r*away
			meetsRepaired = meetsRepaired && margin >= 2*r*away+gap/2
			ahead = min(ahead, 2*(dot(z, classMean)-dot(z, other))-gap)
		}
		if meetsPrinted {
			printed.take(ahead, r2)
		}
		if meetsRepaired {
			repaired.take(ahead, r2)
		}
	}
	return []LemmaCheck{printed, repaired}
}

// expectationLemmas test var_bnd and bounds_of_expt for each image.
func (f *Features) expectationLemmas(t Tails) []LemmaCheck {
	variance := LemmaCheck{Name: "var_bnd", Slack: math.Inf(1)}
	a := LemmaCheck{Name: "bounds_of_expt (a)", Slack: math.Inf(1)}
	b := LemmaCheck{Name: "bounds_of_expt (b)", Slack: math.Inf(1)}
	c := LemmaCheck{Name: "bounds_of_expt (c)", Slack: math.Inf(1)}
	r2, n, m := f.Radius*f.Radius, float64(f.Images), float64(f.Views)
	d, q, delta, p := t.ClassThreshold, t.ClassTail, t.ViewThreshold, t.ViewTail
	images := f.ImageMeans()
	var products mat.Dense
	products.Mul(images, f.ClassMeans().T())
	moments := f.classMoments()
	across := math.Sqrt(float64(f.Classes)*r2*r2/float64(f.Dim)+30*r2*r2/n-d*d) + math.Sqrt((n-1)/n*q)*d + math.Sqrt(p/n)*delta
	for g := range f.Groups() {
		y, mean := g/f.Images, images.RawRowView(g)
		views := dot(mean, mean) // E over T2 × T2.
		b.take(views-(delta-math.Sqrt(5*p*(r2+delta)*r2)), r2)
		for k := range f.Classes {
			if k != y && !math.IsNaN(across) {
				c.take(across-products.At(g, k), r2)
			}
		}
		if f.Images == 1 {
			continue
		}
		viewSquares := 0.0
		for i := g * f.Views; i < (g+1)*f.Views; i++ {
			for j := g * f.Views; j < (g+1)*f.Views; j++ {
				s := dot(f.row(i), f.row(j))
				viewSquares += s * s / (m * m)
			}
		}
		class := (n*products.At(g, y) - views) / (n - 1) // E over T2 × T1, of s and of s².
		squares := (n*moments[g] - viewSquares) / (n - 1)
		variance.take((r2-d)*(r2-d)/4+q*(r2+d)*(r2+d)/4+4*q*r2*r2-(squares-class*class), r2*r2)
		if d >= r2/3 {
			a.take(class-(3*d/2-(0.5+math.Sqrt(6*q))*r2), r2)
		}
	}
	return []LemmaCheck{variance, a, b, c}
}
