package knn

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
)

// Bank is a set of features in which to search by cosine. It is not safe for concurrent use.
//
// A search compares in blocks: beyond the features themselves and their norms, it holds one block of queries, one of the bank and their similarities, 15
// MB at 384 dimensions whatever the size of the bank, and 8 bytes for each neighbour of a block of queries. The engine multiplies; the rest is done on
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
	Similarities []float32 // [Q, K], cosines; that of a row of zeros is 0.
}

// NewBank returns a bank of N features, [N, dim] row by row, of any norm. It keeps the slice, which must not change, and copies none of it. Close it. The
// error is one line that says what is wrong with the features.
func NewBank(b compute.Backend, values []float32, dim int) (*Bank, error) {
	return newBank(b, values, dim, defaultBlocks)
}

func newBank(b compute.Backend, values []float32, dim int, size blocks) (*Bank, error) {
	f, err := newFeatures(values, dim)
	if err != nil {
		return nil, fmt.Errorf("bank: %w", err)
	}
	multiply, err := NewExec(b, func(queries, bank *Node) *Node {
		cosines := DotGeneral(queries, []int{1}, nil, bank, []int{1}, nil)
		cosines.AssertDims(queries.Shape().Dim(0), bank.Shape().Dim(0))
		return cosines
	})
	if err != nil {
		return nil, err
	}
	size.features = min(size.features, f.len())
	return &Bank{features: f, backend: b, multiply: multiply, blocks: size}, nil
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
			found.Indices, found.Similarities = append(found.Indices, c.index()), append(found.Similarities, c.similarity())
		}
	})
	if err != nil {
		return Nearest{}, err
	}
	return found, nil
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
	caught := exceptions.TryCatch[error](func() {
		rows := min(bank.blocks.queries, asked.len())
		block, part := bank.block(rows), bank.block(bank.blocks.features)
		defer block.FinalizeAll()
		defer part.FinalizeAll()
		best := make([]selection, rows)
		for first := 0; first < asked.len(); first += rows {
			tensors.MustMutableFlatData(block, func(flat []float32) { asked.fill(flat, first) })
			best = best[:min(rows, asked.len()-first)]
			for i := range best {
				best[i].reset(k)
			}
			if err = bank.compare(ctx, block, part, best); err != nil {
				return
			}
			for i := range best {
				use(first+i, best[i].candidates)
			}
		}
	})
	if caught != nil {
		return caught
	}
	return err
}

// compare selects from the whole bank for one block of queries. part is the memory of a block of the bank.
func (bank *Bank) compare(ctx context.Context, queries, part *tensors.Tensor, best []selection) error {
	for first := 0; first < bank.Len(); first += bank.blocks.features {
		if err := ctx.Err(); err != nil {
			return err
		}
		tensors.MustMutableFlatData(part, func(flat []float32) { bank.features.fill(flat, first) })
		cosines := bank.multiply.MustCall(queries, part)[0]
		tensors.MustConstFlatData(cosines, func(flat []float32) {
			count := min(bank.blocks.features, bank.Len()-first)
			inParallel(len(best), func(i int) { best[i].offer(flat[i*bank.blocks.features:][:count], first) })
		})
		cosines.MustFinalizeAll()
	}
	inParallel(len(best), func(i int) { best[i].sort() })
	return nil
}

// block returns memory for rows, [rows, dim], which the engine reads in place where it can.
func (bank *Bank) block(rows int) *tensors.Tensor {
	block, err := tensors.FromShapeForBackend(bank.backend, 0, shapes.Make(dtypes.Float32, rows, bank.features.dim))
	if err != nil {
		panic(err)
	}
	return block
}
