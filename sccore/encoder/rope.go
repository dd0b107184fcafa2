package encoder

import (
	"math"

	"github.com/gomlx/compute/dtypes/bfloat16"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
)

// RoPE are rotary position embeddings (Su et al., 2021) in two dimensions, as DINOv3 has them. The queries and keys of patch tokens are rotated,
// and those of [CLS] and registers are not. Coordinates are those of the patches' centres, with each axis of the image from −1 to 1. The first
// half of a head holds the first coordinates of the rotated pairs, the second half the second ones.
//
// In training DINOv3 also shifts and scales the coordinates at random. That is not done here.
type RoPE struct {
	// Base is the ratio of the longest period to the shortest, but for one step of the progression; 100 in DINOv3, 0 for no RoPE.
	Base float64
	// BF16 rounds the periods to bfloat16, as in DINOv3's official files.
	BF16 bool
}

// Periods returns the periods of a head's rotations, Base^(4i/head) for i from 0 to head/4.
func (r RoPE) Periods(head int) []float32 {
	periods := make([]float32, head/4)
	for i := range periods {
		periods[i] = float32(math.Pow(r.Base, 4*float64(i)/float64(head)))
		if r.BF16 {
			periods[i] = bfloat16.FromFloat32(periods[i]).Float32()
		}
	}
	return periods
}

// rotation returns a function that rotates queries or keys, [batch, prefix + rows·columns, NumHeads, head], by the positions of their patches, or
// nil without RoPE.
func (v ViT) rotation(p parameters, rows, columns int) func(x *Node) *Node {
	if v.RoPE.Base == 0 {
		return nil
	}
	head, tokens := v.Dim/v.NumHeads, v.prefix()+rows*columns
	periods := v.RoPE.Periods(head)
	cosines, sines := make([]float32, tokens*head), make([]float32, tokens*head)
	for i := range v.prefix() * head {
		cosines[i] = 1
	}
	for row := range rows {
		for column := range columns {
			at := (v.prefix() + row*columns + column) * head
			for axis, coordinate := range []float64{(2*float64(row)+1)/float64(rows) - 1, (2*float64(column)+1)/float64(columns) - 1} {
				for i, period := range periods {
					sine, cosine := math.Sincos(2 * math.Pi * coordinate / float64(period))
					for half := range 2 {
						place := at + half*head/2 + axis*len(periods) + i
						cosines[place], sines[place] = float32(cosine), float32(sine)
					}
				}
			}
		}
	}
	table := func(values []float32) *Node {
		return ConvertDType(ConstTensor(p.g, tensors.FromFlatDataAndDimensions(values, 1, tokens, 1, head)), p.exact())
	}
	cosine, sine := table(cosines), table(sines)
	return func(x *Node) *Node {
		x = ConvertDType(x, p.exact())
		turned := Concatenate([]*Node{Neg(SliceAxis(x, 3, AxisRange(head/2))), SliceAxis(x, 3, AxisRange(0, head/2))}, 3)
		return ConvertDType(Add(Mul(x, cosine), Mul(turned, sine)), p.compute)
	}
}
