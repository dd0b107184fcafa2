package views

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// narrowView makes views in half precision, as cropped, coloured and blurred do: [batch*views, size, 3, size]. In this layout products need no
// transpositions on a GPU. Colours are computed in float32. The operations on each colour are their own, so that they move least memory, and between them
// pixels are bytes, as in PIL and torchvision: a compiler would keep them in float32.
func narrowView(images, params *Node, views, size int, full float64) *Node {
	batch, width, n := images.Shape().Dim(0), images.Shape().Dim(2), params.Shape().Dim(0)
	rows, cols := resizing(images, params, views, size)
	x := DotGeneral(rows, []int{2}, []int{0}, TransposeAllAxes(images, 0, 1, 3, 2), []int{1}, []int{0})
	x.AssertDims(batch, views*size, 3, width)
	x = DotGeneral(Reshape(x, n, size, 3, width), []int{3}, []int{0}, cols, []int{2}, []int{0})
	x.AssertDims(n, size, 3, size)

	var rgb planes
	for i := range rgb {
		plane := DivScalar(ConvertDType(SliceAxis(x, 2, AxisElem(i)), dtypes.Float32), full)
		rgb[i] = Reshape(plane, n, 1, size*size)
	}
	for slot := range numBlends {
		if slot == blendsBeforeHue {
			rgb = rgb.rounded().hueShifted(param(params, hueAt))
		}
		if slot > 0 {
			rgb = rgb.rounded()
		}
		rgb = rgb.blended(param(params, blendAt+3*slot), param(params, blendAt+3*slot+1), param(params, blendAt+3*slot+2))
	}
	for i := range rgb {
		rgb[i] = Reshape(ConvertDType(rgb[i], x.DType()), n, size, 1, size)
	}
	x = Concatenate(rgb[:], 2)

	matrix := blur(x, params, size)
	x = DotGeneral(x, []int{3}, []int{0}, matrix, []int{2}, []int{0})
	x = DotGeneral(matrix, []int{2}, []int{0}, x, []int{1}, []int{0})
	x.AssertDims(n, size, 3, size)
	return x
}

// rounded rounds colours in [0, 1] to bytes.
func (rgb planes) rounded() planes {
	for i, x := range rgb {
		x = ConvertDType(Floor(AddScalar(MulScalar(x, 255), 0.5)), dtypes.Uint8)
		rgb[i] = DivScalar(ConvertDType(x, dtypes.Float32), 255)
	}
	return rgb
}

// blended is the function blended of planes.
func (rgb planes) blended(pixel, meanGray, gray *Node) planes {
	var own *Node
	for i, weight := range luma {
		if plane := MulScalar(rgb[i], float64(weight)); own == nil {
			own = plane
		} else {
			own = Add(own, plane)
		}
	}
	added := Add(Mul(gray, own), Mul(meanGray, ReduceAndKeep(own, ReduceMean, 2)))
	for i, x := range rgb {
		rgb[i] = ClipScalar(Add(Mul(pixel, x), added), 0, 1)
	}
	return rgb
}
