package encoder

import (
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
)

// Positions names the way in which position embeddings are resized for images of another size than they were trained for. Both ways
// are bicubic and in use; as they place the samples differently, features of one checkpoint differ by up to 2 between them.
type Positions string

const (
	// DINOPositions is the way of the official code of DINO, iBOT, Mugs and Leopart: the cubic of a = −0.75, sampled as if the new grid
	// had 0.1 rows and columns more than it has.
	DINOPositions Positions = "dino"
	// TimmPositions is timm's way: the cubic of a = −0.5, widened where the grid shrinks.
	TimmPositions Positions = "timm"
)

// Check returns an error that lists the ways there are unless p is one of them.
func (p Positions) Check() error {
	if p != DINOPositions && p != TimmPositions {
		return fmt.Errorf("positions %q: there are %s and %s", p, DINOPositions, TimmPositions)
	}
	return nil
}

// Matrix returns the [to][from] weights that resize one axis of a grid. A grid whose two sizes both stay is not resized at all.
func (p Positions) Matrix(from, to int) [][]float64 {
	matrix := make([][]float64, to)
	for i := range matrix {
		matrix[i] = make([]float64, from)
		if p == TimmPositions {
			widenedRow(matrix[i], float64(from)/float64(to), i)
		} else {
			sampledRow(matrix[i], float64(from)/(float64(to)+0.1), i)
		}
	}
	return matrix
}

// sampledRow is torch.nn.functional.interpolate: the four samples about the point, those beyond the border being the border's.
func sampledRow(row []float64, step float64, i int) {
	at := step*(float64(i)+0.5) - 0.5
	first := int(math.Floor(at))
	for k := first - 1; k <= first+2; k++ {
		row[min(max(k, 0), len(row)-1)] += cubic(at-float64(k), -0.75)
	}
}

// widenedRow is the same with antialias=True: the kernel covers the samples that one new sample stands for, and those beyond the
// border are left out.
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

// resizePositions maps a grid of embeddings, [side, side, dim], to [rows, columns, dim], as products with constant matrices: the
// gradient is right on every backend.
func resizePositions(grid *Node, way Positions, rows, columns int) *Node {
	side := grid.Shape().Dim(0)
	grid.AssertDims(side, side, -1)
	if rows == side && columns == side {
		return grid
	}
	matrix := func(to int) *Node {
		values := make([]float64, 0, to*side)
		for _, row := range way.Matrix(side, to) {
			values = append(values, row...)
		}
		return ConvertDType(ConstTensor(grid.Graph(), tensors.FromFlatDataAndDimensions(values, to, side)), grid.DType())
	}
	grid = Einsum("or,rcd->ocd", matrix(rows), grid)
	grid = Einsum("oc,rcd->rod", matrix(columns), grid)
	grid.AssertDims(rows, columns, -1)
	return grid
}
