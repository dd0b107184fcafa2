package layers

import . "github.com/gomlx/gomlx/core/graph" //nolint

// bilinear computes one axis of a convolution with fewer multiplications. A tile of m neighbouring outputs of a filter g on the inputs d is
//
//	output · ( (filter·g) ⊙ (input·d) )
//
// The products ⊙ sum over channels and dominate the cost, so fewer of them is faster (Winograd, 1980; Lavin and Gray, 2016).
type bilinear struct {
	m      int
	input  [][]float64 // [products, inputs of a tile]
	filter [][]float64 // [products, filter]
	output [][]float64 // [m, products]
}

// f43 computes 4 outputs of a filter of length 3 with 6 products, 36 instead of 144 for a tile of 4×4 pixels, by Toom and Cook's algorithm: it multiplies two
// polynomials by their values at 0, 1, −1, 2, −1/2 and infinity. Small points of both signs and their reciprocals keep rounding errors small, in float32 about 2e-6
// of the outputs, ten times as large as in a direct sum.
var f43 = bilinear{
	m: 4,
	input: [][]float64{
		{1, 1.5, -2, -1.5, 1, 0},
		{0, -1, -2.5, -0.5, 1, 0},
		{0, 1, 0.5, -2.5, 1, 0},
		{0, -0.5, -1, 0.5, 1, 0},
		{0, 2, -1, -2, 1, 0},
		{0, 1, 1.5, -2, -1.5, 1},
	},
	filter: [][]float64{
		{1, 0, 0},
		{-1. / 3, -1. / 3, -1. / 3},
		{1. / 3, -1. / 3, 1. / 3},
		{1. / 15, 2. / 15, 4. / 15},
		{-16. / 15, 8. / 15, -4. / 15},
		{0, 0, 1},
	},
	output: [][]float64{
		{1, 1, 1, 1, 1, 0},
		{0, 1, -1, 2, -0.5, 0},
		{0, 1, 1, 4, 0.25, 0},
		{0, 1, -1, 8, -0.125, 1},
	},
}

// over applies the algorithm along a whole axis: products[(a,t), i] maps input i to product a of tile t, and outputs[o, (a,t)] maps the
// products to output o. Inputs beyond the image are zero and outputs beyond it are dropped, so any size works.
func (b bilinear) over(size int) (products, outputs [][]float64, tiles int) {
	n := len(b.input)
	tiles = (size + b.m - 1) / b.m
	for a := range n {
		for tile := range tiles {
			row := make([]float64, size)
			for i, c := range b.input[a] {
				if at := tile*b.m + i - 1; 0 <= at && at < size {
					row[at] = c
				}
			}
			products = append(products, row)
		}
	}
	for o := range size {
		row := make([]float64, n*tiles)
		for a, c := range b.output[o%b.m] {
			row[a*tiles+o/b.m] = c
		}
		outputs = append(outputs, row)
	}
	return products, outputs, tiles
}

// winograd convolves x, [height, width, batch, in], with weight, [3, 3, in, out], and zero padding. It and its gradient consist only of
// matrix products with long contiguous rows.
func winograd(x, weight *Node) *Node {
	g := x.Graph()
	matrix := func(rows [][]float64) *Node { return ConvertDType(Const(g, rows), x.DType()) }
	height, width, batch, in := x.Shape().Dim(0), x.Shape().Dim(1), x.Shape().Dim(2), x.Shape().Dim(3)
	out, n := weight.Shape().Dim(3), len(f43.input)
	rowProducts, rowOutputs, high := f43.over(height)
	columnProducts, columnOutputs, wide := f43.over(width)

	u := MatMul(matrix(kronecker(f43.filter, f43.filter)), Reshape(weight, 3*3, in*out))
	u = Reshape(u, n*n, in, out)

	v := MatMul(matrix(rowProducts), Reshape(x, height, width*batch*in))
	v = each(matrix(columnProducts), Reshape(v, n*high, width, batch*in))
	v = TransposeAllAxes(Reshape(v, n, high, n, wide, batch*in), 0, 2, 1, 3, 4)
	v = Reshape(v, n*n, high*wide*batch, in)

	y := DotGeneral(v, []int{2}, []int{0}, u, []int{1}, []int{0})
	y.AssertDims(n*n, high*wide*batch, out)

	y = TransposeAllAxes(Reshape(y, n, n, high, wide, batch*out), 0, 2, 1, 3, 4)
	y = each(matrix(columnOutputs), Reshape(y, n*high, n*wide, batch*out))
	y = MatMul(matrix(rowOutputs), Reshape(y, n*high, width*batch*out))
	return Reshape(y, height, width, batch, out)
}

// kronecker returns the Kronecker product, which applies a to the slower and b to the faster of two axes.
func kronecker(a, b [][]float64) [][]float64 {
	var product [][]float64
	for _, left := range a {
		for _, right := range b {
			var row []float64
			for _, l := range left {
				for _, r := range right {
					row = append(row, l*r)
				}
			}
			product = append(product, row)
		}
	}
	return product
}

// each multiplies each matrix of x, [n, k, columns], from the left by m, [rows, k].
func each(m, x *Node) *Node {
	m = BroadcastToDims(InsertAxes(m, 0), x.Shape().Dim(0), m.Shape().Dim(0), m.Shape().Dim(1))
	return DotGeneral(m, []int{2}, []int{0}, x, []int{1}, []int{0})
}
