package heads

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// The kinds of segmentation heads.
const (
	Linear = "linear" // One 1×1 convolution.
	FCN    = "fcn"    // Three blocks that each double the resolution.
)

// Segmentation maps patch features to classes (paper, appendix "Transfer Learning on Semantic Segmentation", "Network architecture").
// [Linear] is a 1×1 convolution. [FCN] has three blocks of two 1×1 convolutions, a 3×3 convolution and a bilinear upsampling by 2, with ReLU
// after each convolution, and ends with a 1×1 convolution to the classes. The paper gives neither the number of channels nor the layers after
// the blocks.
type Segmentation struct {
	Kind    string
	Classes int
	Width   int // Channels in the blocks of the FCN. The linear head ignores it.
}

// Upsampling is the factor from the resolution of patches to that of the training loss. It is the FCN's own factor and serves both heads.
const Upsampling = 8

// Check returns an error that names the first invalid setting.
func (h Segmentation) Check() error {
	switch {
	case h.Kind != Linear && h.Kind != FCN:
		return fmt.Errorf("segmentation head %q is neither %s nor %s", h.Kind, Linear, FCN)
	case h.Classes < 2 || h.Classes > 255:
		return fmt.Errorf("segmentation head of %d classes, want 2 to 255", h.Classes)
	case h.Kind == FCN && h.Width < 1:
		return fmt.Errorf("FCN of width %d, want at least 1", h.Width)
	}
	return nil
}

// Logits maps features, [batch, rows, columns, features], to [s·rows, s·columns, batch, Classes], where s is 1 for the linear head and 8 for
// the FCN. Variables live under scope and have the dtype of the features. Logits panics if [Segmentation.Check] returns an error.
func (h Segmentation) Logits(scope *model.Scope, features *Node) *Node {
	if err := h.Check(); err != nil {
		panic(err)
	}
	features.AssertRank(4)
	x := TransposeAllAxes(features, 1, 2, 0, 3)
	if h.Kind == Linear {
		return h.classes(scope, x)
	}
	return h.classes(scope.At("classes"), h.blocks(scope, x))
}

// Loss is the mean cross-entropy between the logits, resized bilinearly to 8 times the resolution of the patches, and integer labels,
// [8·rows, 8·columns, batch]. Pixels whose label is not a class, such as [datasets.Ignore], do not count. If no pixel counts, the loss is 0.
func (h Segmentation) Loss(logits, labels *Node) *Node {
	if h.Kind == Linear {
		logits = resized(logits, Upsampling)
	}
	rows, columns, batch := logits.Shape().Dim(0), logits.Shape().Dim(1), logits.Shape().Dim(2)
	labels.AssertDims(rows, columns, batch)
	sum, count := crossEntropy(logits, labels)
	return Div(sum, MaxScalar(count, 1))
}
