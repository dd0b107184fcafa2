package train

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// GoMLX says the axes of a product only in the text of its node.
var (
	contracted    = regexp.MustCompile(`lhsContractingAxes=\[([0-9 ]*)\]`)
	outputChannel = regexp.MustCompile(`OutputChannels:\d+ .*OutputChannels:(\d+)`) // The kernel's, then the output's.
)

// Products counts the floating-point operations of matrix products, convolutions and fused attention that nodes depend on, two for a multiplication and an
// addition. Bodies of loops are left out. It is NaN if GoMLX describes a product in other words than those known here.
func Products(roots ...*Node) (flop float64) {
	seen := map[*Node]bool{}
	for len(roots) > 0 {
		node := roots[len(roots)-1]
		if roots = roots[:len(roots)-1]; !seen[node] {
			seen[node] = true
			flop += productOf(node)
			roots = append(roots, node.Inputs()...)
		}
	}
	return flop
}

// productOf is the FLOP of a node, 0 if it is no product.
func productOf(node *Node) float64 {
	switch node.Type() {
	case NodeTypeDotGeneral:
		flop := 2 * float64(node.Shape().Size())
		found := contracted.FindStringSubmatch(node.String())
		if found == nil {
			return math.NaN()
		}
		for _, axis := range strings.Fields(found[1]) {
			at, _ := strconv.Atoi(axis) // The pattern takes digits alone.
			flop *= float64(node.Inputs()[0].Shape().Dim(at))
		}
		return flop
	case NodeTypeConvGeneral:
		found := outputChannel.FindStringSubmatch(node.String())
		if found == nil {
			return math.NaN()
		}
		channels, _ := strconv.Atoi(found[1])
		return 2 * float64(node.Shape().Size()) * float64(node.Inputs()[1].Shape().Size()) / float64(node.Shape().Dim(channels))
	case NodeTypeFusedScaledDotProductAttention, NodeTypeFusedScaledDotProductAttentionVJP: // Of queries [n, tokens, heads, size] with as many keys.
		products := 2.0
		if node.Type() == NodeTypeFusedScaledDotProductAttentionVJP { // The scores again, and the gradients of both products' factors.
			products = 5
		}
		queries := node.Inputs()[0].Shape()
		return products * 2 * float64(queries.Size()) * float64(queries.Dim(1))
	}
	return 0
}
