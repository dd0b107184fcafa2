package knn

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/backend"
	"golang.org/x/sync/errgroup"
)

// Bank is a set of features in which to search by cosine. It is not safe for concurrent use.
//
// A search compares in blocks: beyond the features themselves and their norms, it holds one block of queries, one of the bank and their similarities, 15
// MB at 384 dimensions whatever the size of the bank, and 24 bytes for each neighbour of a block of queries. The engine multiplies; the rest is done on
// the host, where a similarity that is not among the nearest costs one comparison.
type Bank struct {
	features features
	backend  compute.Backend
	multiply *Exec
	blocks   blocks
}

// blocks says how many queries are compared with how many features of the bank at once.
type blocks struct{ queries, features int }

// defaultBlocks are large enough for a fast product and small enough for a processor's cache.
var defaultBlocks = blocks{queries: 512, features: 4096}

// Nearest are the nearest features of each query, nearest first, the lower index first among equals.
type Nearest struct {
	K            int
	Indices      []int32   // [Q, K], into the bank.
	Similarities []float32 // [Q, K], cosines; 0 for a row of zeros.
}

// NewBank returns a bank of N features, [N, dim] row by row, of any norm. It keeps the slice, which must not change, and copies none of it. Close it. The
// error is one line that says what is wrong with the features.
func NewBank(b compute.Backend, values []float32, dim int) (*Bank, error) {
	f, err := newFeatures(values, dim)
	if err != nil {
		return nil, fmt.Errorf("bank: %w", err)
	}
	multiply, err := NewExec(b, func(queries, bank *Node) *Node { return DotGeneral(queries, []int{1}, nil, bank, []int{1}, nil) })
	return &Bank{features: f, backend: b, multiply: multiply, blocks: defaultBlocks}, err
}

// Len returns the number of features.
func (bank *Bank) Len() int { return bank.features.len() }

// Close frees the compiled search, not the features.
func (bank *Bank) Close() { bank.multiply.Finalize() }

// Find returns the k nearest features of each query, by cosine. Queries are [Q, dim] row by row, of any norm; k is 1 to [Bank.Len]. The error is ctx's or
// one line that says what is wrong.
func (bank *Bank) Find(ctx context.Context, queries []float32, k int) (Nearest, error) {
	found := Nearest{K: k}
	err := bank.search(ctx, queries, k, func(_ int, nearest []candidate) {
		for _, c := range nearest {
			found.Indices, found.Similarities = append(found.Indices, c.index), append(found.Similarities, c.similarity)
		}
	})
	return found, err
}

// search passes the k nearest features of each query to use, query by query in order. What it passes is overwritten afterwards.
func (bank *Bank) search(ctx context.Context, queries []float32, k int, use func(query int, nearest []candidate)) (err error) {
	if k < 1 || k > bank.Len() {
		return fmt.Errorf("bank: k %d of %d features, want 1 to %d", k, bank.Len(), bank.Len())
	}
	asked, err := newFeatures(queries, bank.features.dim)
	if err != nil {
		return fmt.Errorf("queries: %w", err)
	}
	rows, columns := min(bank.blocks.queries, asked.len()), min(bank.blocks.features, bank.Len())
	return backend.Catch(func() (err error) {
		block, part := bank.block(rows), bank.block(columns)
		defer block.FinalizeAll()
		defer part.FinalizeAll()
		best := make([]selection, rows)
		for first := 0; first < asked.len(); first += rows {
			tensors.MustMutableFlatData(block, func(flat []float32) { asked.fill(flat, first) })
			best = best[:min(rows, asked.len()-first)]
			for i := range best {
				best[i] = selection{k, best[i].candidates[:0], float32(math.Inf(-1))} // In the same memory.
			}
			for begin := 0; begin < bank.Len(); begin += columns {
				if err = ctx.Err(); err != nil {
					return err
				}
				tensors.MustMutableFlatData(part, func(flat []float32) { bank.features.fill(flat, begin) })
				cosines := bank.multiply.MustCall(block, part)[0]
				tensors.MustConstFlatData(cosines, func(flat []float32) {
					inParallel(len(best), func(i int) { best[i].offer(flat[i*columns:][:min(columns, bank.Len()-begin)], begin) })
				})
				cosines.MustFinalizeAll()
			}
			inParallel(len(best), func(i int) { best[i].sort() })
			for i := range best {
				use(first+i, best[i].candidates)
			}
		}
		return nil
	})
}

// block returns memory for rows, [rows, dim], which the engine reads in place where it can.
func (bank *Bank) block(rows int) *tensors.Tensor {
	block, err := tensors.FromShapeForBackend(bank.backend, 0, shapes.Make(dtypes.Float32, rows, bank.features.dim))
	if err != nil {
		panic(err)
	}
	return block
}

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
	for i, x := range values {
		if x-x != 0 {
			return features{}, fmt.Errorf("feature vector %d: value %d is %v", i/dim, i%dim, x)
		}
	}
	f := features{values: values, dim: dim, scales: make([]float32, len(values)/dim)}
	inParallel(f.len(), func(i int) {
		squares := 0.0
		for _, x := range values[i*dim : (i+1)*dim] {
			squares += float64(x) * float64(x)
		}
		f.scales[i] = float32(1 / max(math.Sqrt(squares), 1e-12))
	})
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

// inParallel calls work with 0 to n−1, on all cores.
func inParallel(n int, work func(i int)) {
	const chunk = 64 // Numbers that are written side by side stay on one core.
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for first := 0; first < n; first += chunk {
		all.Go(func() error {
			for i := first; i < min(first+chunk, n); i++ {
				work(i)
			}
			return nil
		})
	}
	_ = all.Wait() // No work fails.
}

// candidate is a feature of the bank and its similarity to the query.
type candidate struct {
	similarity float32
	index      int32
}

// selection holds the k nearest of the candidates that it was offered, once they are sorted, and before up to twice as many others.
type selection struct {
	k          int
	candidates []candidate
	threshold  float32 // The similarity of the farthest of the k nearest of those before, or −∞ while there are fewer.
}

// offer takes the similarities of features with consecutive indices, higher than all before.
func (s *selection) offer(similarities []float32, first int) {
	threshold := s.threshold
	for i, similarity := range similarities {
		if similarity > threshold { // An equal one is farther, because its index is higher.
			if s.candidates = append(s.candidates, candidate{similarity, int32(first + i)}); len(s.candidates) == 3*s.k {
				s.sort()
				threshold = s.candidates[s.k-1].similarity
			}
		}
	}
	s.threshold = threshold
}

// sort orders the candidates, nearest first and the lower index of equals first, and drops all but k.
func (s *selection) sort() {
	slices.SortFunc(s.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.index, b.index))
	})
	s.candidates = s.candidates[:min(s.k, len(s.candidates))]
}
