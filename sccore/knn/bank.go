package knn

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/losses"
)

// Bank is a set of features in which to search by cosine. It is not safe for concurrent use.
//
// A search compares in blocks: beyond the features themselves, it holds one block of queries, one of the bank and their similarities, about 50 MB
// whatever the size of the bank. The similarities are selected from on the host, because each is compared with one number there and needs no sorting.
type Bank struct {
	features []float32
	dim      int
	backend  compute.Backend
	compare  *Exec
	blocks   blocks
}

// blocks says how many queries are compared with how many features of the bank at once.
type blocks struct{ queries, features int }

// defaultBlocks keep the similarities of a block, 16 MB, close to a core's cache while a product is large enough to be fast.
var defaultBlocks = blocks{queries: 512, features: 8192}

// Nearest are the nearest features of each query, nearest first, the lower index first among equals.
type Nearest struct {
	K            int
	Indices      []int32   // [Q, K], into the bank.
	Similarities []float32 // [Q, K], cosines; that of a row of zeros is 0.
}

// NewBank returns a bank of N features, [N, dim] row by row, of any norm. It keeps the slice, which must not change, and copies none of it. Close it. The
// error is one line that says what is wrong with the features.
func NewBank(b compute.Backend, features []float32, dim int) (*Bank, error) {
	if err := checkRows(features, dim); err != nil {
		return nil, fmt.Errorf("bank: %w", err)
	}
	return newBank(b, features, dim, defaultBlocks)
}

// checkRows returns an error if features are not at least one row of dim finite numbers, or more rows than an int32 counts.
func checkRows(features []float32, dim int) error {
	switch {
	case dim < 1 || len(features)%dim != 0:
		return fmt.Errorf("%d numbers are not rows of %d", len(features), dim)
	case len(features) == 0:
		return fmt.Errorf("no features")
	case len(features)/dim > math.MaxInt32:
		return fmt.Errorf("%d features are too many", len(features)/dim)
	}
	for i, x := range features {
		if x-x != 0 {
			return fmt.Errorf("feature %d of image %d is %v", i%dim, i/dim, x)
		}
	}
	return nil
}

// newBank is NewBank of features that are known to be good.
func newBank(b compute.Backend, features []float32, dim int, size blocks) (*Bank, error) {
	compare, err := NewExec(b, similarities)
	if err != nil {
		return nil, err
	}
	size.features = min(size.features, len(features)/dim)
	return &Bank{features: features, dim: dim, backend: b, compare: compare, blocks: size}, nil
}

// similarities returns the cosines, [Q, N], of queries, [Q, D], with features, [N, D].
func similarities(queries, features *Node) *Node {
	cosines := DotGeneral(losses.Unit(queries), []int{1}, nil, losses.Unit(features), []int{1}, nil)
	cosines.AssertDims(queries.Shape().Dim(0), features.Shape().Dim(0))
	return cosines
}

// Len returns the number of features.
func (bank *Bank) Len() int { return len(bank.features) / bank.dim }

// Close frees the compiled search, not the features.
func (bank *Bank) Close() { bank.compare.Finalize() }

// Find returns the k nearest features of each query, by cosine. Queries are [Q, dim] row by row, of any norm; k is 1 to [Bank.Len]. The error is ctx's or
// one line that says what is wrong.
func (bank *Bank) Find(ctx context.Context, queries []float32, k int) (Nearest, error) {
	if err := checkRows(queries, bank.dim); err != nil {
		return Nearest{}, fmt.Errorf("queries: %w", err)
	}
	if k < 1 || k > bank.Len() {
		return Nearest{}, fmt.Errorf("k %d of %d features, want 1 to %d", k, bank.Len(), bank.Len())
	}
	rows := len(queries) / bank.dim
	found := Nearest{K: k, Indices: make([]int32, rows*k), Similarities: make([]float32, rows*k)}
	err := bank.search(ctx, queries, k, func(query int, nearest []candidate) {
		for i, c := range nearest {
			found.Indices[query*k+i], found.Similarities[query*k+i] = c.index(), c.similarity()
		}
	})
	return found, err
}

// search passes the k nearest features of each query to use, query by query in order. What it passes is overwritten afterwards.
func (bank *Bank) search(ctx context.Context, queries []float32, k int, use func(query int, nearest []candidate)) (err error) {
	caught := exceptions.TryCatch[error](func() {
		rows, count := min(bank.blocks.queries, len(queries)/bank.dim), len(queries)/bank.dim
		block, part := bank.block(rows), bank.block(bank.blocks.features)
		defer block.FinalizeAll()
		defer part.FinalizeAll()
		best := make([]selection, rows)
		for i := range best {
			best[i].k = k
		}
		for first := 0; first < count && err == nil; first += rows {
			bank.fill(block, queries, first)
			used := best[:min(rows, count-first)]
			if err = bank.compareAll(ctx, block, part, used); err != nil {
				return
			}
			for i := range used {
				use(first+i, used[i].candidates)
			}
		}
	})
	if caught != nil {
		return caught
	}
	return err
}

// compareAll selects from the whole bank for one block of queries. part is the memory of a block of the bank.
func (bank *Bank) compareAll(ctx context.Context, queries, part *tensors.Tensor, best []selection) error {
	for i := range best {
		best[i].reset()
	}
	for first := 0; first < bank.Len(); first += bank.blocks.features {
		if err := ctx.Err(); err != nil {
			return err
		}
		bank.fill(part, bank.features, first)
		cosines := bank.compare.MustCall(queries, part)[0]
		tensors.MustConstFlatData(cosines, func(flat []float32) {
			inParallel(len(best), func(i int) {
				row := flat[i*bank.blocks.features:]
				best[i].offer(row[:min(bank.blocks.features, bank.Len()-first)], first)
			})
		})
		cosines.MustFinalizeAll()
	}
	inParallel(len(best), func(i int) { best[i].shrink() })
	return nil
}

// block returns memory for rows, [rows, dim], which the engine reads in place where it can.
func (bank *Bank) block(rows int) *tensors.Tensor {
	block, err := tensors.FromShapeForBackend(bank.backend, 0, shapes.Make(dtypes.Float32, rows, bank.dim))
	if err != nil {
		panic(err)
	}
	return block
}

// fill copies rows from the first on into a block. Rows of the block after the last one keep what they had: nothing reads their similarities.
func (bank *Bank) fill(block *tensors.Tensor, rows []float32, first int) {
	tensors.MustMutableFlatData(block, func(flat []float32) { copy(flat, rows[first*bank.dim:]) })
}

// inParallel calls work with 0 to n−1, on all cores.
func inParallel(n int, work func(i int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < n; i += workers {
				work(i)
			}
		})
	}
	all.Wait()
}
