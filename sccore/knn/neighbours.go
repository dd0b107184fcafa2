package knn

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/weights"
)

// Neighbours are the k nearest images of each image of a training set, its candidate positives in "Explicit semantic concentration for image-level
// SSL". They are computed once, before training, and stored.
type Neighbours struct {
	K       int     // Neighbours per image; 20 by default, since the paper leaves k open.
	Indices []int32 // [N, K], nearest first, the lower index first among equals. No image is its own neighbour.
	Source  string  // The images, and the checkpoint whose features were compared.
}

// DefaultK is the default number of neighbours from which positives are drawn.
const DefaultK = 20

// Find compares the [CLS] features of N images, [N, dim] row by row, by cosine. k is below N. The same features give the same bytes on the same
// backend.
//
// All pairs are compared in blocks: a device holds one block of queries, one of candidates and their similarities, about 200 MB whatever N is. The
// host holds the features and the result, 2.0 GB and 0.1 GB for ImageNet's 1.28 million images and ViT-S. Time is O(N²): 1.6·10¹² pairs there, hours
// on a few cores; BenchmarkFind reports pairs per second.
//
// Find reports to bar how many images are done. The error is ctx's or one line that says what is wrong with the features.
func Find(ctx context.Context, b compute.Backend, features []float32, dim, k int, bar progress.Bar) (*Neighbours, error) {
	return blocks{queries: 1024, candidates: 16384, group: 64}.find(ctx, b, features, dim, k, bar)
}

// blocks says how many queries are compared with how many candidates at once. group is at least 2 and divides candidates.
type blocks struct{ queries, candidates, group int }

func (s blocks) find(ctx context.Context, b compute.Backend, features []float32, dim, k int, bar progress.Bar) (neighbours *Neighbours, err error) {
	if dim < 1 || len(features)%dim != 0 {
		return nil, fmt.Errorf("neighbours: %d numbers are not rows of %d", len(features), dim)
	}
	n := len(features) / dim
	if k < 1 || k >= n {
		return nil, fmt.Errorf("neighbours: k %d of %d images, want 1 to %d", k, n, n-1)
	}
	if n > math.MaxInt32-s.candidates {
		return nil, fmt.Errorf("neighbours: %d images are too many", n)
	}
	for i, v := range features {
		if v != v || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("neighbours: feature %d of image %d is %v", i%dim, i/dim, v)
		}
	}
	s.queries = min(s.queries, n)
	s.candidates = min(s.candidates, (n+s.group-1)/s.group*s.group)
	caught := exceptions.TryCatch[error](func() { neighbours, err = s.search(ctx, b, features, dim, k, bar) })
	if caught != nil {
		return nil, caught
	}
	return neighbours, err
}

func (s blocks) search(ctx context.Context, b compute.Backend, features []float32, dim, k int, bar progress.Bar) (*Neighbours, error) {
	n := len(features) / dim
	// block uploads rows starting at from, padded with zeros after the last row.
	block := func(from, rows int) *tensors.Tensor {
		flat := make([]float32, rows*dim)
		copy(flat, features[from*dim:min(from+rows, n)*dim])
		return tensors.FromFlatDataAndDimensions(flat, rows, dim)
	}
	merge := MustNewExec(b, func(best, queries, candidates, firstQuery, firstCandidate *Node) *Node {
		return s.merge(best, queries, candidates, firstQuery, firstCandidate, n)
	})
	defer merge.Finalize()
	nothing := make([]int64, s.queries*k)
	for i := range nothing {
		nothing[i] = math.MaxInt64
	}
	out := &Neighbours{K: k, Indices: make([]int32, 0, n*k)}
	for query := 0; query < n; query += s.queries {
		best := tensors.FromFlatDataAndDimensions(nothing, s.queries, k)
		queries := block(query, s.queries)
		for candidate := 0; candidate < n; candidate += s.candidates {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			candidates := block(candidate, s.candidates)
			next := merge.MustCall(best, queries, candidates, int32(query), int32(candidate))[0]
			best.MustFinalizeAll()
			candidates.MustFinalizeAll()
			best = next
		}
		for _, packed := range tensors.MustCopyFlatData[int64](best)[:min(s.queries, n-query)*k] {
			out.Indices = append(out.Indices, int32(packed&math.MaxUint32))
		}
		best.MustFinalizeAll()
		queries.MustFinalizeAll()
		bar.Set(min(query+s.queries, n), "")
	}
	return out, nil
}

// merge returns the k best of best, [Q, k], and of candidates, [C, D], compared with queries, [Q, D]. firstQuery and firstCandidate are the indices
// of their first rows; the set has n images.
//
// A candidate is one int64 that is smaller the nearer the candidate is: the high bits are the similarity as an integer of inverse order, the low bits
// the index, which breaks ties. Sorting C of them per query would take far longer than computing them. So only the k groups of candidates with the
// smallest minima are sorted: the k smallest candidates are among them.
func (s blocks) merge(best, queries, candidates, firstQuery, firstCandidate *Node, n int) *Node {
	g, rows, columns, k := best.Graph(), queries.Shape().Dim(0), candidates.Shape().Dim(0), best.Shape().Dim(1)
	similarity := DotGeneral(losses.Unit(queries), []int{1}, nil, losses.Unit(candidates), []int{1}, nil)
	similarity.AssertDims(rows, columns)
	zero := ScalarZero(g, dtypes.Float32)
	bits := Bitcast(Where(Equal(similarity, zero), zero, similarity), dtypes.Int32) // −0 counts as 0.
	bits = Where(LessThan(bits, ScalarZero(g, dtypes.Int32)), BitwiseXor(bits, Scalar(g, dtypes.Int32, math.MaxInt32)), bits)
	far := ConvertDType(BitwiseNot(bits), dtypes.Int64)

	index := Add(firstCandidate, Iota(g, shapes.Make(dtypes.Int32, 1, columns), 1))
	query := Add(firstQuery, Iota(g, shapes.Make(dtypes.Int32, rows, 1), 0))
	packed := Add(MulScalar(far, int64(1)<<32), ConvertDType(index, dtypes.Int64))
	excluded := LogicalOr(Equal(index, query), GreaterOrEqual(index, Scalar(g, dtypes.Int32, n)))
	// A Const, because a Scalar goes through float64, which cannot hold this number.
	packed = Where(excluded, Const(g, int64(math.MaxInt64)), packed)

	groups := columns / s.group
	packed = Reshape(packed, rows*groups, s.group)
	minima := Reshape(ReduceMin(packed, 1), rows, groups)
	chosen := min(k, groups)
	// Groups with nothing but excluded candidates are equal and come last, so ties go to the right groups.
	nearest := firstColumns(Sort(minima, 1, true), chosen)
	threshold := Slice(nearest, AxisRange(), AxisElem(chosen-1))
	within := LessOrEqual(minima, threshold)
	number := Where(within, Iota(g, shapes.Make(dtypes.Int32, rows, groups), 1), Scalar(g, dtypes.Int32, math.MaxInt32))
	number = firstColumns(Sort(number, 1, true), chosen)
	number = Add(number, MulScalar(Iota(g, shapes.Make(dtypes.Int32, rows, 1), 0), groups))
	contenders := Reshape(Gather(packed, Reshape(number, rows*chosen, 1)), rows, chosen*s.group)
	best = firstColumns(Sort(Concatenate([]*Node{best, contenders}, 1), 1, true), k)
	best.AssertDims(rows, k)
	return best
}

func firstColumns(x *Node, columns int) *Node { return Slice(x, AxisRange(), AxisRange(0, columns)) }

// Positive returns a function that draws one of an image's neighbours uniformly at a step, the paper's x'. The draw depends on the seed, the step and
// the image alone.
func (n *Neighbours) Positive(seed uint64) func(step int, image int32) int32 {
	return func(step int, image int32) int32 {
		random := rand.New(rand.NewPCG(seed, uint64(step)<<32|uint64(uint32(image))))
		return n.Indices[int(image)*n.K+random.IntN(n.K)]
	}
}

// Write stores the neighbours in a .safetensors file, atomically.
func (n *Neighbours) Write(path string) error {
	indices := tensors.FromFlatDataAndDimensions(n.Indices, len(n.Indices)/n.K, n.K)
	return weights.WriteSafetensors(path, map[string]*tensors.Tensor{"neighbours": indices}, map[string]string{"source": n.Source})
}

// Read reads what [Neighbours.Write] stored for this number of images, from this source. The error is one line that names the file.
func Read(path string, images int, source string) (*Neighbours, error) {
	named, metadata, err := weights.ReadSafetensors(path)
	if err != nil {
		return nil, err
	}
	indices := named["neighbours"]
	switch {
	case indices == nil || indices.DType() != dtypes.Int32 || indices.Rank() != 2 || indices.Shape().Dim(1) < 1:
		return nil, fmt.Errorf("%s: no neighbours in the file", path)
	case metadata["source"] != source:
		return nil, fmt.Errorf("%s: neighbours are of %q, not of %q", path, metadata["source"], source)
	case indices.Shape().Dim(0) != images:
		return nil, fmt.Errorf("%s: neighbours of %d images, want %d", path, indices.Shape().Dim(0), images)
	}
	n := &Neighbours{K: indices.Shape().Dim(1), Indices: tensors.MustCopyFlatData[int32](indices), Source: source}
	for i, index := range n.Indices {
		if index < 0 || int(index) >= images || int(index) == i/n.K {
			return nil, fmt.Errorf("%s: image %d has neighbour %d of %d images", path, i/n.K, index, images)
		}
	}
	return n, nil
}
