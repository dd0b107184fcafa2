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

// toomCook returns the algorithm that needs m+r−1 products for m outputs of a filter of length r. It multiplies two polynomials by
// evaluating them at m+r−2 points and at infinity. Small points of both signs and their reciprocals keep rounding errors small.
func toomCook(m, r int, points ...float64) bilinear {
	n := len(points)
	if n != m+r-2 {
		panic("toomCook needs m+r-2 points")
	}
	algorithm := bilinear{m: m, output: make([][]float64, m)}
	for j, p := range points {
		others := append(append([]float64{}, points[:j]...), points[j+1:]...)
		scale := 1.0
		for _, q := range others {
			scale *= p - q
		}
		filter := make([]float64, r)
		for k, power := 0, 1.0; k < max(m, r); k, power = k+1, power*p {
			if k < r {
				filter[k] = power / scale
			}
			if k < m {
				algorithm.output[k] = append(algorithm.output[k], power)
			}
		}
		algorithm.filter = append(algorithm.filter, filter)
		algorithm.input = append(algorithm.input, append(polynomial(others), 0))
	}
	atInfinity := make([]float64, r)
	atInfinity[r-1] = 1
	algorithm.filter = append(algorithm.filter, atInfinity)
	algorithm.input = append(algorithm.input, polynomial(points))
	for k := range m {
		last := 0.0
		if k == m-1 {
			last = 1
		}
		algorithm.output[k] = append(algorithm.output[k], last)
	}
	return algorithm
}

// polynomial returns the coefficients of the monic polynomial with these roots, constant first.
func polynomial(roots []float64) []float64 {
	coefficients := []float64{1}
	for _, root := range roots {
		next := make([]float64, len(coefficients)+1)
		for i, c := range coefficients {
			next[i] -= root * c
			next[i+1] += c
		}
		coefficients = next
	}
	return coefficients
}

// f43 computes 4 outputs of a filter of length 3 with 6 products: 36 instead of 144 for a tile of 4×4 pixels. Its rounding errors in float32 are about 2e-6 of
// the outputs, ten times as large as in a direct sum.
var f43 = toomCook(4, 3, 0, 1, -1, 2, -0.5)

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
