package tsne

import (
	"fmt"
	"math"
	"runtime"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

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
	conditional := make([][]float64, n)
	inParallel(n, func(i int) {
		squared := make([]float64, n)
		for j := range squared {
			for d, x := range rows[i] {
				difference := x - rows[j][d]
				squared[j] += difference * difference
			}
		}
		conditional[i] = neighbourhood(squared, i, perplexity)
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
	nearest := math.Inf(1) // Subtracted from all, so that the largest exponential is 1.
	for j, d := range squared {
		if j != i {
			nearest = min(nearest, d)
		}
	}
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
			beta = (low + high) / 2
		case math.IsInf(high, 1):
			low = beta
			beta *= 2
		default:
			low = beta
			beta = (low + high) / 2
		}
	}
	return p // More equal vectors than the perplexity: no β reaches it, and the largest is as near as can be.
}

// inParallel calls work for 0 to n−1, on all processors.
func inParallel(n int, work func(i int)) {
	var workers errgroup.Group
	count := runtime.GOMAXPROCS(0)
	for w := range count {
		workers.Go(func() error {
			for i := w; i < n; i += count {
				work(i)
			}
			return nil
		})
	}
	workers.Wait()
}
