package theory

import "math"

// Repaired is the theorem that replaces the printed one (erratum E14, proved in docs/theory.md, theorem 2). It holds for every set of features: it
// assumes no optimality, no α, no Lipschitz constant and no condition on d.
type Repaired struct {
	Bound
	// Within is ρ, a lower bound on the mean similarity of an image to its class.
	Within float64
	// Across is κ, an upper bound on the root mean square similarity of an image to another class.
	Across float64
	// First is 8 r² (r² − δ_T + p_T (r² + δ_T)) / Γ², the bound as erratum E14 first states it. Value has 2 (r² + κ) for its 8 r², at most half of
	// it, because the spread of an image's views enters by its variance and two class means are at most √(2 (r² + κ)) apart. +Inf if the margin is
	// not positive.
	First float64
}

// Repaired evaluates the theorem at tails, for features whose [Features.CorrelationPeak] is omega. With ρ and κ as above the margin is Γ = (3ρ −
// r²)/2 − κ. Its domain is 0 ≤ δ_T, d_T ≤ r² and κ² ≥ 0. No features have numbers that make κ² negative, since concentrated classes cannot fill more
// than K dimensions evenly.
func (s Setting) Repaired(t Tails, omega float64) Repaired {
	r2, n := s.Radius*s.Radius, float64(s.Images)
	delta, p, d, q := t.ViewThreshold, t.ViewTail, t.ClassThreshold, t.ClassTail
	square := float64(s.Classes)*omega - (n-1)/n*(1-q)*d*d - (1-p)*delta*delta/n // κ²
	b := Repaired{
		Within: ((1-p)*delta - p*r2 + (n-1)*((1-q)*d-q*r2)) / n,
		Across: math.Sqrt(max(0, square)), // Rounding may make it −1e-17.
		First:  math.Inf(1),
	}
	b.Domain = delta >= 0 && delta <= r2 && d >= 0 && d <= r2 && square >= -marginFloor*r2*r2*float64(s.Classes)
	b.Margin = (3*b.Within-r2)/2 - b.Across
	b.Value = math.Inf(1)
	if b.Margin > marginFloor*r2 {
		spread := (r2 - delta + p*(r2+delta)) / (b.Margin * b.Margin)
		b.Value, b.First = 2*(r2+b.Across)*spread, 8*r2*spread
	}
	return b
}
