package encoder

import "cmp"

// FLOPs counts the floating-point operations of the matrix products of a forward pass of one image of so many patches. A product and its sum count as two.
// With the backward pass there are about three times as many.
func (v ViT) FLOPs(patches int) float64 {
	n, dim := float64(patches), float64(v.Dim)
	tokens := n + 1 + float64(v.Registers)
	mlp := 2 * float64(cmp.Or(v.MLPWidth, 4*v.Dim)) * dim
	if v.SwiGLU {
		mlp *= 1.5
	}
	products := n*3*float64(v.PatchSize*v.PatchSize)*dim + float64(v.Depth)*(tokens*(4*dim*dim+mlp)+2*tokens*tokens*dim)
	if v.Prototypes > 0 { // Queries, scores and values of the filter, and the layer after it. The prototypes' own projections are the same for all images.
		const places = prototypeSize * prototypeSize
		products += n * (dim*dim + float64(v.Prototypes)*dim*(places+1) + 2*dim*dim)
	}
	return 2 * products
}
