package views

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
)

// narrowColoured is [coloured] in half precision, of views [n, 3, pixels]. It computes in float32. A GPU moves least memory for planes of colour, each
// with its own operations. Between these pixels are bytes, as in PIL and torchvision: a compiler would keep them in float32.
func narrowColoured(x, params *Node) *Node {
	rgb := planesOf(ConvertDType(x, dtypes.Float32))
	for slot := range numBlends {
		if slot == blendsBeforeHue {
			rgb = rgb.rounded().hueShifted(param(params, hueAt))
		}
		if slot > 0 {
			rgb = rgb.rounded()
		}
		rgb = rgb.blended(param(params, blendAt+3*slot), param(params, blendAt+3*slot+1), param(params, blendAt+3*slot+2))
	}
	return ConvertDType(rgb.join(), x.DType())
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
