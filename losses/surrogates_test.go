package losses_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/settings"
)

// rankingsOf are scores and 0-1 targets of rankings; the last has no positives.
func rankingsOf(rng *rand.Rand) (p, q matrix) {
	for range 4 {
		p, q = append(p, scoresOf(rng, 9, 0)), append(q, scoresOf(rng, 9, 2))
	}
	for i := range q {
		for j := range q[i] {
			q[i][j] = math.Round(q[i][j] * 2)
		}
		q[i][i] = 1
	}
	clear(q[3])
	return p, q
}

// overRankings is the mean of a reference over the rankings with positives.
func overRankings(reference func(p []float64, positive []bool) float64) func(p, q matrix) float64 {
	return func(p, q matrix) float64 {
		sum, count := 0.0, 0.0
		for i := range p {
			positive, some := make([]bool, len(q[i])), false
			for j := range q[i] {
				positive[j] = q[i][j] >= 0.5
				some = some || positive[j]
			}
			if some {
				sum += reference(p[i], positive)
				count++
			}
		}
		return sum / math.Max(count, 1)
	}
}

var fastAPTerm = term{
	graph:     losses.DefaultFastAP().Loss,
	reference: overRankings(fastAPReference),
	inputs:    rankingsOf,
}

// ofTopShare are a surrogate's terms whose positives are the 10 % of highest targets.
func ofTopShare(s surrogate, reference func(p []float64, positive []bool) float64) term {
	return term{
		graph: func(p, q *graph.Node) *graph.Node { return s.Loss(p, losses.TopShare(q, 0.1)) },
		reference: func(p, q matrix) float64 {
			sorted := slices.Sorted(slices.Values(slices.Concat(q...)))
			least := sorted[len(sorted)-4] // Of 36.
			marks := make(matrix, len(q))
			for i := range q {
				for _, x := range q[i] {
					marks[i] = append(marks[i], lo.Ternary(x >= least, 1., 0))
				}
			}
			return overRankings(reference)(p, marks)
		},
		inputs: func(rng *rand.Rand) (p, q matrix) {
			for range 4 {
				p, q = append(p, scoresOf(rng, 9, 0)), append(q, scoresOf(rng, 9, 0))
			}
			return p, q
		},
	}
}

// topShareTerms have no golden cases: the sources of the losses have labels.
var topShareTerms = map[string]term{
	"FastAP of the top share":   ofTopShare(losses.DefaultFastAP(), fastAPReference),
	"SmoothAP of the top share": ofTopShare(losses.SmoothAP{Threshold: 0.5, Temperature: 0.1}, smoothAPReference),
}

// TestTopShareIsBinary: losses of the top share do not change with targets that stay within their group, which they would with a threshold.
func TestTopShareIsBinary(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		mark := func(q []float64, share float64) []float64 {
			return graph.MustExecOnce(b, func(q *graph.Node) *graph.Node { return losses.TopShare(q, share) }, q).Value().([]float64)
		}
		q := []float64{0.1, 0.9, 0.3, 0.35, 0.2, 0, 0.31, 0.32, 0.25, 0.05}
		for _, c := range []struct {
			q     []float64
			share float64
			want  []float64
		}{
			{q, 0.1, []float64{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}},
			{q, 0.2, []float64{0, 1, 0, 1, 0, 0, 0, 0, 0, 0}}, // Also below 0.5.
			{q, 0.001, []float64{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}},
			{[]float64{0.9, 0.8, 0.7, 0.6}, 0.5, []float64{1, 1, 0, 0}}, // All are above 0.5.
			{[]float64{0.4, 0.4, 0.4, 0.1}, 0.25, []float64{1, 1, 1, 0}},
		} {
			if got := mark(c.q, c.share); !slices.Equal(got, c.want) {
				t.Errorf("top %g of %v: %v, want %v", c.share, c.q, got, c.want)
			}
		}
		for name, s := range map[string]surrogate{"FastAP": losses.DefaultFastAP(), "SmoothAP": losses.DefaultSmoothAP()} {
			loss := func(q []float64) float64 {
				p := []float64{0.2, 0.7, 0.9, 0.6, 0.1, 0.3, 0.8, 0.2, 0.4, 0.5}
				return graph.MustExecOnce(b, func(p, q *graph.Node) *graph.Node { return s.Loss(p, losses.TopShare(q, 0.2)) }, p, q).Value().(float64)
			}
			moved := []float64{0.34, 0.52, 0.01, 0.99, 0.33, 0.49, 0.2, 0.1, 0.3, 0.4} // The same two are highest.
			swapped := []float64{0.1, 0.3, 0.9, 0.35, 0.2, 0, 0.31, 0.32, 0.25, 0.05}
			for _, broken := range []float64{math.NaN(), -0.1, 1.1} {
				for i := range q { // Whether it would be marked or not.
					if got := loss(slices.Replace(slices.Clone(q), i, i+1, broken)); !math.IsNaN(got) {
						t.Errorf("%s: %g with the target %g at %d", name, got, broken, i)
					}
				}
			}
			if want := loss(q); loss(moved) != want || loss(swapped) == want || want == 0 {
				t.Errorf("%s: %g, with targets that keep their group %g, with others %g", name, want, loss(moved), loss(swapped))
			}
		}
	})
}

func fastAPReference(p []float64, positive []bool) float64 {
	const bins = 10
	ap, positives, above, positivesAbove := 0.0, 0.0, 0.0, 0.0
	for bin := range bins + 1 {
		inBin := 0.0
		for i := range p {
			distance := 4 - 4*p[i] // Squared, between unit features.
			pulse := math.Max(0, 1-math.Abs(distance-4*float64(bin)/bins)/(4./bins))
			above += pulse
			if positive[i] {
				inBin += pulse
			}
		}
		positives += inBin
		positivesAbove += inBin
		if above > 0 {
			ap += inBin * positivesAbove / above
		}
	}
	return 1 - ap/positives
}

// A wider sigmoid than the default's, for the sake of finite differences.
var smoothAPTerm = term{
	graph:     losses.SmoothAP{Threshold: 0.5, Temperature: 0.1}.Loss,
	reference: overRankings(smoothAPReference),
	inputs:    rankingsOf,
}

func smoothAPReference(p []float64, positive []bool) float64 {
	ap, positives := 0.0, 0.0
	for i := range p {
		if !positive[i] {
			continue
		}
		rank, ofPositives := 1.0, 1.0
		for j := range p {
			if j == i {
				continue
			}
			above := 1 / (1 + math.Exp(-2*(p[j]-p[i])/0.1))
			rank += above
			if positive[j] {
				ofPositives += above
			}
		}
		ap += ofPositives / rank
		positives++
	}
	return 1 - ap/positives
}

type surrogate interface {
	Loss(p, q *graph.Node) *graph.Node
}

// TestSurrogatesTendToAP: with fine bins or steep sigmoids, the surrogates are the average precision.
func TestSurrogatesTendToAP(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 51))
			var p []float64
			for _, score := range rng.Perm(64)[:20] { // Distinct, at the centres of bins.
				p = append(p, float64(score)/64)
			}
			q := scoresOf(rng, 20, 0)
			q[0] = 1
			want, err := losses.AP(p, q, 0.6)
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]surrogate{
				"FastAP":   losses.FastAP{Threshold: 0.6, Bins: 64},
				"SmoothAP": losses.SmoothAP{Threshold: 0.6, Temperature: 1e-4},
			} {
				if got := graph.MustExecOnce(b, s.Loss, p, q).Value().(float64); !(math.Abs(got-want) <= 1e-12) {
					t.Errorf("seed %d, %s: %.14g, AP loss %.14g", seed, name, got, want)
				}
			}
		}
	})
}

func TestSurrogateHandCases(t *testing.T) {
	nan := math.NaN()
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, s := range map[string]surrogate{"FastAP": losses.DefaultFastAP(), "SmoothAP": losses.DefaultSmoothAP()} {
			exec := graph.MustNewExec(b, func(p, q *graph.Node) []*graph.Node {
				loss := s.Loss(p, q)
				return append([]*graph.Node{loss}, graph.Gradient(loss, p)...)
			})
			for _, c := range []struct {
				p, q []float64
				want float64
			}{
				{[]float64{1, 0.9, 0.2, 0}, []float64{1, 0.5, 0.4, 0}, 0},       // Both positives outrank both negatives.
				{[]float64{0.3, 0.9, 0.2, 0}, []float64{1, 1, 1, 1}, 0},         // There is no negative.
				{[]float64{0.3, 0.9, 0.2, 0}, []float64{0, 0, 0.4, 0}, 0},       // There is no positive.
				{[]float64{0, 1, 1, 1}, []float64{1, 0, 0, 0}, 0.75},            // The positive is last.
				{[]float64{1, nan, 1, 1}, []float64{1, 0, 0, 0}, nan},           // A score is no number.
				{[]float64{1, 1, 1, 1.1}, []float64{1, 0, 0, 0}, nan},           // A score is out of range.
				{[]float64{1, 1, 1, 1}, []float64{1, 0, nan, 0}, nan},           // A target is no number.
				{[]float64{0.25, 0.25, 0.25, 0.25}, []float64{1, 0, 0, 0}, -1},  // All tie; see below.
				{[]float64{0.25, 0.25, 0.25, 0.25}, []float64{0, 0, 0, 0.1}, 0}, // All tie, and there is no positive.
			} {
				if c.want == -1 {
					// FastAP counts all that tie in its bins as ranked above, SmoothAP half of the others.
					c.want = map[string]float64{"FastAP": 0.75, "SmoothAP": 1 - 1/2.5}[name]
				}
				out := exec.MustCall(c.p, c.q)
				if got := out[0].Value().(float64); !(math.Abs(got-c.want) < 1e-7) && !(math.IsNaN(got) && math.IsNaN(c.want)) {
					t.Errorf("%s of %v, %v: %v, want %v", name, c.p, c.q, got, c.want)
				}
				for _, slope := range out[1].Value().([]float64) {
					if math.IsInf(slope, 0) || math.IsNaN(slope) && !math.IsNaN(c.want) {
						t.Errorf("%s of %v, %v: gradient %v", name, c.p, c.q, out[1])
					}
				}
			}
			exec.Finalize()
		}
	})
}

// TestSurrogateProperties: the losses are in [0, 1], do not depend on the order of pairs or rankings, and a step against the gradient lowers them.
func TestSurrogateProperties(t *testing.T) {
	b := testbackend.Go(t)
	for name, s := range map[string]surrogate{"FastAP": losses.DefaultFastAP(), "SmoothAP": losses.DefaultSmoothAP()} {
		exec := graph.MustNewExec(b, func(p, q *graph.Node) []*graph.Node {
			loss := s.Loss(p, q)
			return append([]*graph.Node{loss}, graph.Gradient(loss, p)...)
		})
		defer exec.Finalize()
		value := func(p, q matrix) (float64, [][]float64) {
			out := exec.MustCall([][]float64(p), [][]float64(q))
			return out[0].Value().(float64), out[1].Value().([][]float64)
		}
		for seed := range uint64(5) {
			p, q := rankingsOf(rand.New(rand.NewPCG(seed, 52)))
			want, gradient := value(p, q)
			if !(want > 0 && want < 1) {
				t.Errorf("%s, seed %d: %g", name, seed, want)
			}
			reversed := func(m matrix) (out matrix) {
				for i := range m {
					row := m[len(m)-1-i]
					out = append(out, append(append([]float64{}, row[3:]...), row[:3]...))
				}
				return out
			}
			if got, _ := value(reversed(p), reversed(q)); !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("%s, seed %d: %g, reordered %g", name, seed, want, got)
			}
			square, step := 0.0, make(matrix, len(p))
			for i := range p {
				step[i] = append([]float64{}, p[i]...)
				for j := range p[i] {
					step[i][j] -= 1e-6 * gradient[i][j]
					square += gradient[i][j] * gradient[i][j]
				}
			}
			if got, _ := value(step, q); !(got < want) || square == 0 {
				t.Errorf("%s, seed %d: %.12g, after a step against the gradient %.12g", name, seed, want, got)
			}
		}
	}
}

func TestSurrogateSettings(t *testing.T) {
	for want, c := range map[string]any{
		"":                                 losses.DefaultFastAP(),
		"bins 0 is not between 1 and 1000": losses.FastAP{Threshold: 0.5},
		"threshold 0 is not above 0 and at most 1":      losses.FastAP{Bins: 10},
		"threshold NaN is not above 0 and at most 1":    losses.SmoothAP{Threshold: math.NaN(), Temperature: 1},
		"temperature 0 is not between 0.0001 and 10000": losses.SmoothAP{Threshold: 1},
	} {
		got := ""
		if err := settings.Check(c); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := settings.Check(losses.DefaultSmoothAP()); err != nil {
		t.Error(err)
	}
}
