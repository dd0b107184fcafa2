package views

import (
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// blurred blurs views [n, 3, size, size] with their Gaussian kernels, along both axes; borders reflect, as in torchvision.
func blurred(x, params *Node) *Node {
	var taps [numTaps]*Node
	for i := range taps {
		taps[i] = InsertAxes(param(params, tapsAt+i), -1)
	}
	return blurredAlong(blurredAlong(x, 2, taps), 3, taps)
}

func blurredAlong(x *Node, axis int, taps [numTaps]*Node) *Node {
	size := x.Shape().Dim(axis)
	const reach = numTaps - 1
	var lines []*Node
	for d := reach; d > 0; d-- {
		lines = append(lines, SliceAxis(x, axis, AxisElem(d)))
	}
	lines = append(lines, x)
	for d := 1; d <= reach; d++ {
		lines = append(lines, SliceAxis(x, axis, AxisElem(size-1-d)))
	}
	reflected := Concatenate(lines, axis)
	at := func(d int) *Node { return SliceAxis(reflected, axis, AxisRange(reach+d, reach+d+size)) }

	sum := Mul(taps[0], x)
	for d := 1; d <= reach; d++ {
		sum = Add(sum, Mul(taps[d], Add(at(-d), at(d))))
	}
	return sum
}
