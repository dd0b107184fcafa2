// Package tsne embeds feature vectors in the plane by exact t-SNE, for the paper's figure of patches (Fig. vis_tsne). Vectors go in
// ([Affinities]), points whose neighbours are the vectors' neighbours come out ([Options.Embed]).
//
// Another reduction to the plane gets a package of its own beside this one.
package tsne

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/samber/lo"
	"github.com/samber/lo/parallel"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Options are the settings of the descent.
type Options struct {
	Steps int    // Number of steps; the first 250 exaggerate P. Want at least 250; 1000 is usual.
	Seed  uint64 // Draws the first points.
}

// Point is the place of a vector in the plane.
type Point struct{ X, Y float64 }

// The descent is scikit-learn's: P is exaggerated during the first steps, and each coordinate has a gain of its own.
const (
	exaggeration      = 12
	exaggerated       = 250 // Steps.
	leastGain         = 0.01
	firstMomentum     = 0.5
	momentum          = 0.8
	initialDeviation  = 1e-4
	leastLearningRate = 50
)

// Embed moves one point per row of P downhill on the divergence that [Divergence] returns, and returns the points with the last divergence. Equal
// options give equal bytes, whatever the number of processors. It ends early with ctx's error.
func (o Options) Embed(ctx context.Context, p *mat.SymDense) (points []Point, divergence float64, err error) {
	if o.Steps < exaggerated {
		return nil, 0, fmt.Errorf("t-SNE: %d steps, want at least %d", o.Steps, exaggerated)
	}
	n := p.SymmetricDim()
	random := rand.New(rand.NewPCG(o.Seed, 0x75e))
	points = lo.Times(n, func(int) Point {
		return Point{initialDeviation * random.NormFloat64(), initialDeviation * random.NormFloat64()}
	})
	if err := descend(ctx, mat.DenseCopyOf(p), points, o.Steps); err != nil { // In a dense matrix rows lie in a row of memory.
		return nil, 0, err
	}
	return points, Divergence(p, points), nil
}

// descend moves the points.
func descend(ctx context.Context, p *mat.Dense, points []Point, steps int) error {
	n := len(points)
	rate := max(float64(n)/exaggeration/4, leastLearningRate)
	var velocity, gain []Point
	move := func(at, v, gain *float64, slope, momentum float64) {
		if slope**v < 0 {
			*gain += 0.2
		} else {
			*gain = max(*gain*0.8, leastGain)
		}
		*v = momentum**v - rate**gain*slope
		*at += *v
	}
	for step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if step == 0 || step == exaggerated { // Afterwards it starts anew.
			velocity, gain = make([]Point, n), slices.Repeat([]Point{{1, 1}}, n)
		}
		scale, inertia := 1.0, momentum
		if step < exaggerated {
			scale, inertia = exaggeration, firstMomentum
		}
		for i, slope := range gradient(p, scale, points) {
			move(&points[i].X, &velocity[i].X, &gain[i].X, slope.X, inertia)
			move(&points[i].Y, &velocity[i].Y, &gain[i].Y, slope.Y, inertia)
		}
	}
	return nil
}

// Divergence is the Kullback–Leibler divergence KL(P‖Q) = Σ p_ij·log(p_ij/q_ij) in nats, where q_ij is proportional to 1/(1 + ‖y_i − y_j‖²).
func Divergence(p *mat.SymDense, points []Point) float64 {
	z, cross, total := 0.0, 0.0, 0.0
	for i := range points {
		ofZ, ofCross := 0.0, 0.0
		for j := i + 1; j < len(points); j++ {
			pij, q := p.At(i, j), closeness(points[i], points[j])
			ofZ, total = ofZ+2*q, total+2*pij
			if pij > 0 {
				ofCross += 2 * pij * math.Log(pij/q)
			}
		}
		z, cross = z+ofZ, cross+ofCross
	}
	return cross + total*math.Log(z)
}

// gradient is the gradient of [Divergence] with respect to the points, with a scale on P: 4·Σ_j (scale·p_ij − q_ij)·(y_i − y_j)/(1 + ‖y_i − y_j‖²). Each point
// sums over all others by itself, so that sums do not depend on the number of processors.
func gradient(p *mat.Dense, scale float64, points []Point) []Point {
	type forces struct {
		attraction, repulsion Point
		closeness             float64
	}
	all := parallel.Map(points, func(at Point, i int) forces {
		var a, r Point
		row, sum := p.RawRowView(i), 0.0
		for j, other := range points {
			if j == i {
				continue
			}
			q := closeness(at, other)
			sum += q
			pq, qq := row[j]*q, q*q
			dx, dy := at.X-other.X, at.Y-other.Y
			a.X, a.Y = a.X+pq*dx, a.Y+pq*dy
			r.X, r.Y = r.X+qq*dx, r.Y+qq*dy
		}
		return forces{a, r, sum}
	})
	z := lo.SumBy(all, func(f forces) float64 { return f.closeness })
	return lo.Map(all, func(f forces, _ int) Point {
		return Point{4 * (scale*f.attraction.X - f.repulsion.X/z), 4 * (scale*f.attraction.Y - f.repulsion.Y/z)}
	})
}

// closeness is a Student t kernel with one degree of freedom.
func closeness(a, b Point) float64 {
	dx, dy := a.X-b.X, a.Y-b.Y
	return 1 / (1 + dx*dx + dy*dy)
}

// MaxPoints is the largest number of vectors: the affinities of so many fill half a gigabyte.
const MaxPoints = 8192

// Affinities returns the joint probabilities P of t-SNE, [N, N], which sum to 1: p_ij = (p_j|i + p_i|j)/2N, where p_j|i is proportional to
// exp(−β_i·‖x_i − x_j‖²) and β_i makes the perplexity exp(entropy of p_·|i) the one given.
//
// It is an error if there are fewer than 4 or more than [MaxPoints] vectors, if one is not finite, or if perplexity is not between 1 and a third of
// N − 1. Source: L. van der Maaten and G. Hinton, Visualizing Data using t-SNE, 2008.
func Affinities(features mat.Matrix, perplexity float64) (*mat.SymDense, error) {
	n, dim := features.Dims()
	switch {
	case n < 4 || n > MaxPoints:
		return nil, fmt.Errorf("t-SNE: %d vectors, want 4 to %d", n, MaxPoints)
	case !(perplexity >= 1) || perplexity > float64(n-1)/3:
		return nil, fmt.Errorf("t-SNE: perplexity %g of %d vectors, want 1 to %.4g", perplexity, n, float64(n-1)/3)
	}
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = mat.Row(nil, i, features)
		for d, x := range rows[i] {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("t-SNE: vector %d is not finite: %g in place %d of %d", i, x, d, dim)
			}
		}
	}
	conditional := parallel.Map(rows, func(row []float64, i int) []float64 {
		squared := make([]float64, n)
		for j := range squared {
			for d, x := range row {
				difference := x - rows[j][d]
				squared[j] += difference * difference
			}
		}
		return neighbourhood(squared, i, perplexity)
	})
	p := mat.NewSymDense(n, nil)
	for i := range n {
		for j := range i {
			p.SetSym(i, j, (conditional[i][j]+conditional[j][i])/float64(2*n))
		}
	}
	return p, nil
}

// neighbourhood returns p_·|i by bisection of β_i.
func neighbourhood(squared []float64, i int, perplexity float64) []float64 {
	nearest := lo.Min(lo.WithoutNth(squared, i)) // Subtracted from all, so that the largest exponential is 1.
	p := make([]float64, len(squared))
	target, beta, low, high := math.Log(perplexity), 1.0, 0.0, math.Inf(1)
	for range 200 {
		sum, weighted := 0.0, 0.0
		for j, d := range squared {
			if j == i {
				continue
			}
			p[j] = math.Exp(-beta * (d - nearest))
			sum += p[j]
			weighted += p[j] * (d - nearest)
		}
		floats.Scale(1/sum, p)
		entropy := math.Log(sum) + beta*weighted/sum
		switch {
		case math.Abs(entropy-target) < 1e-12:
			return p
		case entropy < target:
			high = beta
		default:
			low = beta
		}
		if beta *= 2; !math.IsInf(high, 1) {
			beta = (low + high) / 2
		}
	}
	return p // More equal vectors than the perplexity: no β reaches it, and the largest is as near as can be.
}
