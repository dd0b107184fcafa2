package encoder

import (
	"fmt"
	"math"
	"slices"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
)

// Positions names a method of resizing position embeddings for images of another size. All are bicubic and in common use. They place samples
// differently, so features of the same checkpoint differ by up to 2 between them.
type Positions string

const (
	// DINOPositions is the method of the official code of DINO, iBOT, Mugs, Leopart and of DINOv2 without registers: the cubic kernel with
	// a = −0.75, sampled as if the new grid had 0.1 more rows and columns than it has.
	DINOPositions Positions = "dino"
	// TimmPositions is the method of timm and of DINOv2 with registers, official and in transformers: the cubic kernel with a = −0.5,
	// antialiased when the grid shrinks.
	TimmPositions Positions = "timm"
	// TransformersPositions is the method of MAE, and of transformers for ViT and for DINOv2 without registers: the cubic kernel with a = −0.75.
	TransformersPositions Positions = "transformers"
)

// Check returns an error that lists the known methods unless p is one of them.
func (p Positions) Check() error {
	if p != DINOPositions && p != TimmPositions && p != TransformersPositions {
		return fmt.Errorf("positions %q: want %s, %s or %s", p, DINOPositions, TimmPositions, TransformersPositions)
	}
	return nil
}

// Matrix returns the [to][from] weights that resize one axis of a grid. A grid that keeps both sizes is not resized at all.
func (p Positions) Matrix(from, to int) [][]float64 {
	matrix := make([][]float64, to)
	for i := range matrix {
		matrix[i] = make([]float64, from)
		switch p {
		case TimmPositions:
			widenedRow(matrix[i], float64(from)/float64(to), i)
		case TransformersPositions:
			sampledRow(matrix[i], float64(from)/float64(to), i)
		default:
			sampledRow(matrix[i], float64(from)/(float64(to)+0.1), i)
		}
	}
	return matrix
}

// sampledRow is torch.nn.functional.interpolate: the four samples around the point. Samples beyond the border take the border's value.
func sampledRow(row []float64, step float64, i int) {
	at := step*(float64(i)+0.5) - 0.5
	first := int(math.Floor(at))
	for k := first - 1; k <= first+2; k++ {
		row[min(max(k, 0), len(row)-1)] += cubic(at-float64(k), -0.75)
	}
}

// widenedRow is the same with antialias=True: when shrinking, the kernel widens to the step between samples. Samples beyond the border are
// left out.
func widenedRow(row []float64, step float64, i int) {
	width := max(step, 1)
	centre := step * (float64(i) + 0.5)
	sum := 0.0
	for k := range row {
		if distance := (float64(k) + 0.5 - centre) / width; math.Abs(distance) < 2 {
			row[k] = cubic(distance, -0.5)
			sum += row[k]
		}
	}
	for k := range row {
		row[k] /= sum
	}
}

// cubic is Keys' convolution kernel (1981) with parameter a.
func cubic(x, a float64) float64 {
	x = math.Abs(x)
	switch {
	case x < 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}

// resizePositions maps a grid of embeddings, [size, size, dim], to [rows, columns, dim] by products with constant matrices, whose gradient is
// correct on every backend.
func resizePositions(grid *Node, method Positions, rows, columns int) *Node {
	size := grid.Shape().Dim(0)
	grid.AssertDims(size, size, -1)
	if rows == size && columns == size {
		return grid
	}
	matrix := func(to int) *Node {
		values := slices.Concat(method.Matrix(size, to)...)
		return ConvertDType(ConstTensor(grid.Graph(), tensors.FromFlatDataAndDimensions(values, to, size)), grid.DType())
	}
	grid = Einsum("or,rcd->ocd", matrix(rows), grid)
	grid = Einsum("oc,rcd->rod", matrix(columns), grid)
	grid.AssertDims(rows, columns, -1)
	return grid
}
