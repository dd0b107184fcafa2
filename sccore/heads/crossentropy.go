package heads

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/sccore/layers"
)

// CrossEntropy is the loss of the heads that are fine-tuned with their encoder, [UPerNet], [Auxiliary] and [SemanticFPN]. It resizes logits, [rows,
// columns, batch, classes], bilinearly (align_corners=False) to integer labels, [height, width, batch], and returns the sum of the cross-entropies of
// the pixels divided by the number of all pixels. Pixels whose label is not a class, such as [datasets.Ignore], add 0 to the sum and count in the
// number. So does mmsegmentation with its default avg_non_ignore=False, and so did all of its versions before 0.23. [Segmentation.Loss] and
// torch.nn.CrossEntropyLoss divide by the number of pixels with a class instead.
//
// Dividing by a constant makes the loss of a batch the mean of the losses of its parts, so it does not depend on the number of devices.
func CrossEntropy(logits, labels *Node) *Node {
	labels.AssertDims(-1, -1, logits.Shape().Dim(2))
	sum, _ := crossEntropy(resizedTo(logits, labels.Shape().Dim(0), labels.Shape().Dim(1), layers.ResizeBilinear), labels)
	return DivScalar(sum, float64(labels.Shape().Size()))
}

// crossEntropy returns the sum of the cross-entropies between logits, [rows, columns, batch, classes], and labels, [rows, columns, batch], and the
// number of pixels with a class, which count.
func crossEntropy(logits, labels *Node) (sum, count *Node) {
	classes := Iota(logits.Graph(), shapes.Make(dtypes.Int32, 1, 1, 1, logits.Shape().Dim(3)), 3)
	chosen := ConvertDType(Equal(InsertAxes(ConvertDType(labels, dtypes.Int32), -1), classes), logits.DType())
	return Neg(ReduceAllSum(Mul(LogSoftmax(logits), chosen))), ReduceAllSum(chosen)
}
