package views

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// blurred blurs views [n, 3, size, size] with their Gaussian kernels and returns them with the rows first, [n, size, 3, size].
//
// The kernel is separable. Each axis is a product with one matrix per view.
func blurred(x, params *Node) *Node {
	n, size := x.Shape().Dim(0), x.Shape().Dim(2)
	matrix := blur(x, params, size)
	x = DotGeneral(x, []int{3}, []int{0}, matrix, []int{2}, []int{0})
	x = DotGeneral(matrix, []int{2}, []int{0}, x, []int{2}, []int{0})
	x.AssertDims(n, size, 3, size)
	return x
}

// blur returns the matrices that blur a line of views x of size pixels, [n, size, size].
func blur(x, params *Node, size int) *Node {
	matrix := Mul(param(params, tapsAt), InsertAxes(identity(x.Graph(), size), 0))
	for distance := 1; distance < numTaps; distance++ {
		neighbours := Const(x.Graph(), neighbours(size, distance))
		matrix = Add(matrix, Mul(param(params, tapsAt+distance), InsertAxes(neighbours, 0)))
	}
	matrix.AssertDims(x.Shape().Dim(0), size, size)
	return ConvertDType(matrix, x.DType())
}

// neighbours returns the matrix that sums the two pixels at a distance along a line of size pixels. As in torchvision, borders reflect
// without repeating the last pixel.
func neighbours(size, distance int) [][]float32 {
	matrix := make([][]float32, size)
	last := size - 1
	for i := range matrix {
		matrix[i] = make([]float32, size)
		matrix[i][abs(i-distance)]++
		matrix[i][last-abs(last-(i+distance))]++
	}
	return matrix
}

func abs(i int) int { return max(i, -i) }

// identity returns the identity matrix [size, size].
func identity(g *Graph, size int) *Node {
	matrix := make([][]float32, size)
	for i := range matrix {
		matrix[i] = make([]float32, size)
		matrix[i][i] = 1
	}
	return Const(g, matrix)
}
