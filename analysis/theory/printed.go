package theory

import "math"

// Printed is the paper's formal theorem (thm main_formal) with the corrected condition of erratum E6. Its proof has gaps (errata E13 to E15): the
// bound can be far below the true error. [Repaired] is one that holds. The range of α that the proof needs is not a condition of the statement
// (erratum E21), and not one here.
type Printed struct {
	Bound
	// C1, C2 and C3 are the constants of the margin C1 − C2√p_T − C3√q_T.
	C1, C2, C3 float64
}

// LeastClassThreshold is the smallest d_T that the printed theorem admits, (3 + 2√(13K/d + 390/n − 1)) r²/13, from the proof; the statement prints (3
// + 2√(K/d + 30/n − 1/13)) r²/√13, which no d_T ≤ r² meets (erratum E6). Above r² the theorem is inapplicable, as at d = K/2 for every n.
func (s Setting) LeastClassThreshold() float64 {
	ratio := float64(s.Classes) / float64(s.Dim)
	return (3 + 2*math.Sqrt(13*ratio+390/float64(s.Images)-1)) * s.Radius * s.Radius / 13
}

// Printed evaluates the theorem at tails. Its domain is K/2 ≤ d ≤ K and r² ≥ δ_T ≥ d_T ≥ [Setting.LeastClassThreshold].
func (s Setting) Printed(t Tails) Printed {
	r2, n := s.Radius*s.Radius, float64(s.Images)
	delta, d := t.ViewThreshold, t.ClassThreshold
	spread := s.Radius * math.Sqrt(5*(delta+r2)) // r √(5 (δ_T + r²))
	p := Printed{
		C1: (2*delta+(n-1)*(3*d-r2))/(2*n) - math.Sqrt(float64(s.Classes)*r2*r2/float64(s.Dim)-d*d+30*r2*r2/n),
		C2: spread/n + math.Sqrt(1/n)*delta,
		C3: (n-1)/n*math.Sqrt(6)*r2 + math.Sqrt((n-1)/n)*d,
	}
	p.Domain = s.Dim <= s.Classes && 2*s.Dim >= s.Classes && delta <= r2 && delta >= d && d >= s.LeastClassThreshold()
	p.Margin = p.C1 - p.C2*math.Sqrt(t.ViewTail) - p.C3*math.Sqrt(t.ClassTail)
	p.Value = math.Inf(1)
	if p.Margin > 0 {
		p.Value = 32 * r2 * (r2 - delta + spread*math.Sqrt(t.ViewTail)) / (p.Margin * p.Margin)
	}
	return p
}
