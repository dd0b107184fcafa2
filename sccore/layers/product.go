package layers

import (
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// Product is GoMLX's MatMul of matrices, except that the gradient of a product in half precision is one too. GoMLX names float32 as the dtype in which
// terms of such products are added, and then computes the gradient in it, at twice to four times the time and memory on a GPU. Devices add in float32
// anyway.
func Product(x, y *Node) *Node { return product(x, y).Product() }

// Contract is GoMLX's Einsum with the gradient of [Product], for equations whose every letter is in two of the three terms.
func Contract(equation string, x, y *Node) *Node {
	terms, out, _ := strings.Cut(equation, "->")
	left, right, _ := strings.Cut(terms, ",")
	var batch string
	var leftSum, leftBatch, rightSum, rightBatch []int
	for i, letter := range left {
		at := strings.IndexRune(right, letter)
		switch {
		case at < 0:
		case strings.ContainsRune(out, letter):
			batch, leftBatch, rightBatch = batch+string(letter), append(leftBatch, i), append(rightBatch, at)
		default:
			leftSum, rightSum = append(leftSum, i), append(rightSum, at)
		}
	}
	alone := func(term, other string) string {
		return strings.Map(func(letter rune) rune {
			if strings.ContainsRune(other, letter) {
				return -1
			}
			return letter
		}, term)
	}
	z, order := product(x, y).General(leftSum, leftBatch, rightSum, rightBatch), batch+alone(left, right)+alone(right, left)
	if order == out {
		return z
	}
	var axes []int
	for _, letter := range out {
		axes = append(axes, strings.IndexRune(order, letter))
	}
	return TransposeAllAxes(z, axes...)
}

func product(x, y *Node) *DotBuilder { return Dot(x, y).WithAccumulatorDType(dtypes.InvalidDType) }

// AddBias adds bias, [out], to each row of x, [rows, out]. The bias may have another dtype than x; its gradient is summed in its own.
func AddBias(x, bias *Node) *Node {
	bias = InsertAxes(bias, 0)
	if bias.DType() != x.DType() {
		bias = ConvertDType(BroadcastToDims(bias, x.Shape().Dimensions...), x.DType())
	}
	return Add(x, bias)
}
