package theory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
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
			sum += squaredDistance(z.RawRowView(i), z.RawRowView(j))
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
	Misalignment         float64 // L_align of the scaled features.
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
	means := (&Features{scaled, f.Setting, f.Views}).ImageMeans()
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

// OP1 is the paper's problem: features of given inputs that minimise L_align + α L_div on the sphere of radius r, subject to ‖z_i − z_j‖ ≤ φ_f ‖x_i −
// x_j‖ for all i and j. Without constraints, φ_f = +Inf, it is OP0.
type OP1 struct {
	Inputs                 mat.Matrix // x_i, [N, p], class by class, image by image, view by view.
	Classes, Images, Views int        // K classes, n images of each, m views of each image; N = K·n·m.
	Dim                    int        // d.
	Radius                 float64    // r.
	Alpha, Lipschitz       float64    // α > 0 and φ_f ≥ 0.
	Starts                 int        // Random starts, of which the best solution is kept; 1 if not positive.
	Seed                   uint64     // Of the starts.
}

// Solution is a local optimum of OP1.
type Solution struct {
	Features                        *Features
	Objective, Alignment, Diversity float64 // L_align + α L_div, and the two losses without α.
	// Violation is the largest r² − φ_f²‖x_i − x_j‖²/2 − s_ij, at most about 1e-6 r². Active is the share of pairs of views with a nonzero multiplier.
	Violation, Active float64
	// Multipliers are λ_ij v_ij ≥ 0, [N, N] and symmetric. They multiply the constraints in the Lagrangian: 1/(2N²) Σ_ij λ_ij v_ij (‖z_i − z_j‖² − φ_f²‖x_i −
	// x_j‖²). If one is positive, r² − s_ij = 1/(2 v_ij), half of the value in the paper's proof (erratum E24).
	Multipliers *mat.Dense
	// Norm are the multipliers of ‖z_i‖ = r, which the paper's Lagrangian leaves out (erratum E9): ν_i with ∂Lagrangian/∂z_i = −ν_i z_i. At an
	// optimum, with c = 1/(2α), Sum − target of lemma sum_delta is ν_i r² N²/(2α) + 1/α Σ_j λ_ij v_ij (r² − s_ij). So the lemma can fail if ν_i < 0,
	// and it does fail if in addition no constraint on i is active (erratum E13).
	Norm     []float64
	Gradient float64 // The largest component of the Lagrangian's gradient along the sphere, times N²: 0 at an optimum.
}

// The schedule of the augmented Lagrangian: its weight grows tenfold while the constraints are far from met.
const (
	rounds        = 40
	stepsPerRound = 400
	violationGoal = 1e-6 // Relative to r².
)

// Solve finds a local optimum by the method of multipliers: an augmented Lagrangian, minimised by L-BFGS over directions of the z_i, from each of the
// starts. The same problem gives the same solution. The error names the number that is out of range.
func (p OP1) Solve() (_ *Solution, err error) {
	defer try.Handle(&err)
	count, _ := p.Inputs.Dims()
	switch {
	case p.Classes < 2 || p.Images < 1 || p.Views < 1 || count != p.Classes*p.Images*p.Views:
		return nil, fmt.Errorf("OP1: %d inputs do not make %d ≥ 2 classes of %d images with %d views", count, p.Classes, p.Images, p.Views)
	case p.Dim < 1 || !(p.Radius > 0):
		return nil, fmt.Errorf("OP1: dimension %d and radius %g must be positive", p.Dim, p.Radius)
	case !(p.Alpha > 0) || math.IsInf(p.Alpha, 0) || !(p.Lipschitz >= 0):
		return nil, fmt.Errorf("OP1: α = %g must be positive and φ_f = %g not negative", p.Alpha, p.Lipschitz)
	}
	floor := p.floors()
	var best *Solution
	for start := range max(p.Starts, 1) {
		solution := try.E1(p.from(rand.New(rand.NewPCG(p.Seed, uint64(start))), floor))
		if best == nil || solution.better(best, p.Radius) {
			best = solution
		}
	}
	return best, nil
}

// better prefers solutions that meet the constraints.
func (s *Solution) better(than *Solution, radius float64) bool {
	feasible := func(s *Solution) bool { return s.Violation <= 10*violationGoal*radius*radius }
	if feasible(s) != feasible(than) {
		return feasible(s)
	}
	return s.Objective < than.Objective
}

// floors are the smallest allowed similarities r² − φ_f²‖x_i − x_j‖²/2, [N, N]; −Inf on the diagonal and if φ_f is infinite.
func (p OP1) floors() *mat.Dense {
	inputs := mat.DenseCopyOf(p.Inputs)
	count, _ := inputs.Dims()
	floor := mat.NewDense(count, count, nil)
	for i := range count {
		for j := range count {
			if i == j || math.IsInf(p.Lipschitz, 1) {
				floor.Set(i, j, math.Inf(-1))
			} else {
				floor.Set(i, j, p.Radius*p.Radius-p.Lipschitz*p.Lipschitz*squaredDistance(inputs.RawRowView(i), inputs.RawRowView(j))/2)
			}
		}
	}
	return floor
}

// from solves the problem from one random start.
func (p OP1) from(random *rand.Rand, floor *mat.Dense) (*Solution, error) {
	count, _ := floor.Dims()
	y := lo.Times(count*p.Dim, func(int) float64 { return random.NormFloat64() })
	a := &augmented{problem: p, floor: floor, weight: 1, shift: mat.NewDense(count, count, nil),
		z: mat.NewDense(count, p.Dim, nil), gradient: mat.NewDense(count, p.Dim, nil), similarity: mat.NewDense(count, count, nil),
		pull: mat.NewDense(count, count, nil), grad: make([]float64, count*p.Dim)}
	previous := math.Inf(1)
	for range rounds {
		a.point = nil // The multipliers have changed.
		result, err := optimize.Minimize(optimize.Problem{
			Func: a.value,
			Grad: func(grad, y []float64) { a.value(y); copy(grad, a.grad) },
		}, y, &optimize.Settings{
			GradientThreshold: 1e-10, MajorIterations: stepsPerRound, Converger: optimize.NeverTerminate{},
		}, &optimize.LBFGS{Store: 12})
		if result == nil {
			return nil, fmt.Errorf("OP1: %w", err)
		}
		y = result.X // A line search that cannot improve the last digit ends with an error; the point is good.
		a.evaluate(y)
		violation := a.multiply()
		if violation <= violationGoal*p.Radius*p.Radius && result.Status == optimize.GradientThreshold {
			break
		}
		if violation > 0.25*previous && violation > violationGoal*p.Radius*p.Radius && a.weight < 1e6 {
			a.weight *= 10
			a.shift.Scale(0.1, a.shift)
		}
		previous = violation
	}
	return a.solution()
}

// augmented is the augmented Lagrangian, L_SSL + weight/(2N²) Σ_ij (max(0, floor − s + shift)² − shift²), where weight·shift are the multipliers.
type augmented struct {
	problem OP1
	floor   *mat.Dense
	weight  float64
	shift   *mat.Dense

	// At the last point evaluated: z and s, the gradient in z before projection, the coefficients that draw i to j, and then the values at the point.
	z, similarity, gradient, pull *mat.Dense
	point, grad                   []float64
	last                          float64
}

// value is the value at directions y, [N·d]; it also computes the gradient, which L-BFGS asks for next.
func (a *augmented) value(y []float64) float64 {
	if !slices.Equal(y, a.point) {
		a.last, a.point = a.evaluate(y), append(a.point[:0], y...)
	}
	return a.last
}

func (a *augmented) evaluate(y []float64) float64 {
	p := a.problem
	count, _ := a.z.Dims()
	n, r2 := float64(count), p.Radius*p.Radius
	lengths := make([]float64, count)
	for i := range count {
		direction := y[i*p.Dim : (i+1)*p.Dim]
		lengths[i] = math.Sqrt(dot(direction, direction))
		for c, x := range direction {
			a.z.Set(i, c, p.Radius*x/lengths[i])
		}
	}
	var c mat.SymDense
	c.SymOuterK(1/n, a.z.T())
	for i := range p.Dim {
		c.SetSym(i, i, c.At(i, i)-r2/float64(p.Dim))
	}
	norm := mat.Norm(&c, 2)
	value := p.Alpha / 2 * norm * norm
	a.gradient.Mul(a.z, &c)
	a.gradient.Scale(2*p.Alpha/n, a.gradient)

	a.similarity.Mul(a.z, a.z.T())
	for i := range count {
		s, floor, shift, to := a.similarity.RawRowView(i), a.floor.RawRowView(i), a.shift.RawRowView(i), a.pull.RawRowView(i)
		clear(to)
		for j := range count {
			if i/p.Views == j/p.Views {
				value += (r2 - s[j]) / (n * n)
				to[j] = 2 / (n * n)
			}
			value -= a.weight / (2 * n * n) * shift[j] * shift[j]
			if lack := floor[j] - s[j] + shift[j]; lack > 0 {
				value += a.weight / (2 * n * n) * lack * lack
				to[j] += 2 * a.weight / (n * n) * lack
			}
		}
	}
	var drawn mat.Dense
	drawn.Mul(a.pull, a.z)
	a.gradient.Sub(a.gradient, &drawn)
	for i := range count { // Along the sphere, and by the length of y.
		g, z := a.gradient.RawRowView(i), a.z.RawRowView(i)
		radial := dot(g, z) / r2
		for c := range g {
			a.grad[i*p.Dim+c] = (g[c] - radial*z[c]) * p.Radius / lengths[i]
		}
	}
	return value
}

// multiply updates the multipliers after a minimisation and returns the largest violation.
func (a *augmented) multiply() float64 {
	count, _ := a.z.Dims()
	worst := 0.0
	for i := range count {
		for j := range count {
			lack := a.floor.At(i, j) - a.similarity.At(i, j)
			worst = max(worst, lack)
			a.shift.Set(i, j, max(0, a.shift.At(i, j)+lack))
		}
	}
	return worst
}

// solution is the solution at the last point evaluated, whose pulls hold the multipliers.
func (a *augmented) solution() (_ *Solution, err error) {
	defer try.Handle(&err)
	p := a.problem
	f := try.E1(GridFeatures(a.z, p.Classes, p.Images, p.Views, p.Radius))
	count, n, active := f.Len(), float64(f.Len()), 0
	s := &Solution{
		Features: f, Alignment: f.Alignment(), Diversity: f.Diversity(), Multipliers: mat.NewDense(count, count, nil), Norm: make([]float64, count),
	}
	s.Objective = s.Alignment + p.Alpha*s.Diversity
	s.Multipliers.Scale(a.weight, a.shift)
	for i := range count {
		z, gradient := a.z.RawRowView(i), a.gradient.RawRowView(i)
		radial := dot(gradient, z) / (p.Radius * p.Radius)
		s.Norm[i] = -radial
		for j := range count {
			s.Violation = max(s.Violation, a.floor.At(i, j)-a.similarity.At(i, j))
			s.Norm[i] -= a.pull.At(i, j)
			if s.Multipliers.At(i, j) > 0 {
				active++
			}
		}
		for k := range gradient {
			s.Gradient = max(s.Gradient, n*n*math.Abs(gradient[k]-radial*z[k]))
		}
	}
	s.Active = float64(active) / (n * (n - 1))
	return s, nil
}
