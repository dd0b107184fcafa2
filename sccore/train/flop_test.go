package train_test

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// TestProductsByHand counts a product, its gradients, and a convolution.
func TestProductsByHand(t *testing.T) {
	var product, withGradients, convolution float64
	exec := MustNewExec(testbackend.Go(t), func(a, b, image, kernel *Node) []*Node {
		y := Einsum("bij,bjk->bik", a, b) // [2, 3, 5] and [2, 5, 7].
		product = train.Products(y)
		gradients := Gradient(ReduceAllSum(y), a, b)
		withGradients = train.Products(append(gradients, y)...)
		convolution = train.Products(Convolve(image, kernel).NoPadding().Done()) // [1, 8, 8, 3] and [3, 3, 3, 4], which make [1, 6, 6, 4].
		return gradients
	})
	exec.MustCall(make3(2, 3, 5), make3(2, 5, 7), [][][][]float32{make3(8, 8, 3)}, [][][][]float32{make3(3, 3, 4), make3(3, 3, 4), make3(3, 3, 4)})
	const one = 2 * 2 * 3 * 5 * 7
	if product != one || withGradients != 3*one {
		t.Errorf("%g FLOP of a product, with gradients %g, want %d and %d", product, withGradients, one, 3*one)
	}
	if want := 2 * 6 * 6 * 4 * 3 * 3 * 3.0; convolution != want {
		t.Errorf("%g FLOP of a convolution, want %g", convolution, want)
	}
}

// A new text of GoMLX's nodes must not stop a training.
func TestProductsInOtherWordsAreNotCounted(t *testing.T) {
	train.DescribeProductsOtherwise(t)
	var product, convolution float64
	MustNewExec(testbackend.Go(t), func(a, b, image, kernel *Node) *Node {
		y, z := Einsum("bij,bjk->bik", a, b), Convolve(image, kernel).NoPadding().Done()
		product, convolution = train.Products(y), train.Products(z)
		return Add(ReduceAllSum(y), ReduceAllSum(z))
	}).MustCall(make3(2, 3, 5), make3(2, 5, 7), [][][][]float32{make3(8, 8, 3)}, [][][][]float32{make3(3, 3, 4)})
	if !math.IsNaN(product) || !math.IsNaN(convolution) {
		t.Errorf("%g and %g FLOP", product, convolution)
	}
}

// make3 makes an array of zeros.
func make3(a, b, c int) [][][]float32 {
	all := make([][][]float32, a)
	for i := range all {
		for range b {
			all[i] = append(all[i], make([]float32, c))
		}
	}
	return all
}
