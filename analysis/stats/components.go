package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// PrincipalComponents are the coordinates of rows, [n][dim], along the k directions of largest variance, [n][k], largest first. The sign of a
// direction makes its largest entry positive. It is an error if there are fewer than two rows, if lengths differ, if k is outside [1, dim], or if a
// number is not finite.
func PrincipalComponents(rows [][]float64, k int) ([][]float64, error) {
	if len(rows) < 2 || k < 1 || k > len(rows[0]) {
		return nil, fmt.Errorf("%d principal components of %d rows", k, len(rows))
	}
	dim := len(rows[0])
	centred := mat.NewDense(len(rows), dim, nil)
	mean := make([]float64, dim)
	for i, row := range rows {
		if len(row) != dim {
			return nil, fmt.Errorf("principal components: row %d has %d numbers, the first has %d", i, len(row), dim)
		}
		for j, x := range row {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return nil, fmt.Errorf("principal components: row %d has %v", i, x)
			}
			mean[j] += x / float64(len(rows))
		}
	}
	for i, row := range rows {
		for j, x := range row {
			centred.Set(i, j, x-mean[j])
		}
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(len(rows)), centred.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(&covariance, true) {
		return nil, errors.New("principal components: the covariance has no eigenvectors")
	}
	var vectors, coordinates mat.Dense
	eigen.VectorsTo(&vectors) // By ascending eigenvalue.
	directions := mat.NewDense(dim, k, nil)
	for c := range k {
		direction := mat.Col(nil, dim-1-c, &vectors)
		if slices.Max(direction) < -slices.Min(direction) {
			for j := range direction {
				direction[j] = -direction[j]
			}
		}
		directions.SetCol(c, direction)
	}
	coordinates.Mul(centred, directions)
	out := make([][]float64, len(rows))
	for i := range out {
		out[i] = mat.Row(nil, i, &coordinates)
	}
	return out, nil
}
