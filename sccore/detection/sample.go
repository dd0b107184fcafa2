package detection

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Sampler draws boxes for the losses, as mmdetection's RandomSampler: at most Positives of the positive ones, and negative ones up to Count in all.
type Sampler struct {
	Count     int // Boxes an image.
	Positives int // The most of them that are positive.
}

// Samples are the boxes that [Sampler.Sample] draws, in places of a fixed number. The positive ones come first.
type Samples struct {
	Index    *Node // Index of the box, [batch, Count], int32.
	Positive *Node // [batch, Count], bool. True only in the first Positives places.
	Valid    *Node // [batch, Count], bool. False in the places left over where an image has fewer boxes.
}

// Sample draws from the boxes that positive and negative, [batch, n], mark. The uniform numbers, [batch, n], decide: the highest are taken, and the lower index
// among equals. They come from outside, so that the same numbers give the same samples on every backend.
func (s Sampler) Sample(positive, negative, uniform *Node) Samples {
	batch, n := uniform.Shape().Dim(0), uniform.Shape().Dim(1)
	g := uniform.Graph()
	positives, isPositive := Best(uniform, positive, s.Positives)
	negatives, isNegative := Best(uniform, negative, s.Count)
	number := func(mask *Node) *Node { return ReduceAndKeep(ConvertDType(mask, dtypes.Int32), ReduceSum, 1) }
	first, second := number(isPositive), number(isNegative)

	// Place i holds positive box i, or negative box i less the number of positive ones.
	place := Iota(g, shapes.Make(dtypes.Int32, batch, s.Count), 1)
	rest := Sub(place, first)
	takesPositive := LessThan(place, first)
	from := Where(takesPositive, place, AddScalar(rest, min(n, s.Positives)))
	from = MinScalar(from, min(n, s.Positives)+min(n, s.Count)-1)
	index := take(Concatenate([]*Node{positives, negatives}, 1), from)
	index.AssertDims(batch, s.Count)
	return Samples{Index: index, Positive: takesPositive, Valid: LogicalOr(takesPositive, LessThan(rest, second))}
}
