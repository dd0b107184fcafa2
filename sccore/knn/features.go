package knn

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// features are at least one row of dim finite numbers, of any norm.
type features struct {
	values []float32
	dim    int
	scales []float32 // One over the norm of each row, 10¹² if the norm is less than 10⁻¹², as losses.Unit has it.
}

// newFeatures keeps the values. The error names the first number that is NaN or infinite.
func newFeatures(values []float32, dim int) (features, error) {
	switch {
	case dim < 1 || len(values)%dim != 0:
		return features{}, fmt.Errorf("%d numbers are not rows of %d", len(values), dim)
	case len(values) == 0:
		return features{}, fmt.Errorf("no features")
	case len(values)/dim > math.MaxInt32:
		return features{}, fmt.Errorf("%d features are too many", len(values)/dim)
	}
	f := features{values: values, dim: dim, scales: make([]float32, len(values)/dim)}
	var bad atomic.Bool
	inParallel(f.len(), func(i int) {
		n := norm(values[i*dim : (i+1)*dim])
		if n-n != 0 {
			bad.Store(true)
		}
		f.scales[i] = float32(1 / max(n, 1e-12))
	})
	if bad.Load() {
		for i, x := range values {
			if x-x != 0 {
				return features{}, fmt.Errorf("image %d: feature %d is %v", i/dim, i%dim, x)
			}
		}
	}
	return f, nil
}

func (f features) len() int { return len(f.scales) }

// fill copies rows, from the first on, to [rows, dim] in length 1. If there are too few, the last ones of block keep what they had.
func (f features) fill(block []float32, first int) {
	inParallel(min(len(block)/f.dim, f.len()-first), func(i int) {
		scale, to := f.scales[first+i], block[i*f.dim:(i+1)*f.dim]
		for j, x := range f.values[(first+i)*f.dim:][:len(to)] {
			to[j] = x * scale
		}
	})
}

// norm returns the Euclidean norm. It adds in float32, and again in float64 if squares overflow or vanish: Go converts more slowly than it adds.
func norm(row []float32) float64 {
	var sums [4]float32 // Independent, so that no addition waits for the one before it.
	i := 0
	for ; i+4 <= len(row); i += 4 {
		x := row[i : i+4 : i+4]
		sums[0] += x[0] * x[0]
		sums[1] += x[1] * x[1]
		sums[2] += x[2] * x[2]
		sums[3] += x[3] * x[3]
	}
	for ; i < len(row); i++ {
		sums[0] += row[i] * row[i]
	}
	squares := float64((sums[0] + sums[1]) + (sums[2] + sums[3]))
	if !(squares > 1e-25 && squares < 1e35) {
		squares = 0
		for _, x := range row {
			squares += float64(x) * float64(x)
		}
	}
	return math.Sqrt(squares)
}

// inParallel calls work with 0 to n−1, on all cores.
func inParallel(n int, work func(i int)) {
	const chunk = 64 // Numbers that are written side by side stay on one core.
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk) {
		all.Go(func() {
			for {
				end := int(next.Add(chunk))
				if end-chunk >= n {
					return
				}
				for i := end - chunk; i < min(end, n); i++ {
					work(i)
				}
			}
		})
	}
	all.Wait()
}
