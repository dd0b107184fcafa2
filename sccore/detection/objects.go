package detection

import (
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
)

// Objects are the annotated objects of a batch of images, padded to one number.
type Objects struct {
	Boxes  *Node // [batch, objects, 4], x1, y1, x2, y2 in pixels of the canvas. Its values do not matter for padding, but must be finite.
	Labels *Node // [batch, objects], int32, 0 to Classes − 1, and -1 for padding.

	// Masks, [batch, objects, height, width], are 1 inside and 0 outside of each object. Any dtype.
	Masks *Node
	// Frames, [batch, objects, 4], are the regions of the canvas that the masks cover. The whole canvas at full resolution is exact; crops of fixed size
	// around each object, with a border of zeros, take less memory.
	Frames *Node
}

// present marks the objects that are no padding, [batch, objects].
func (o Objects) present() *Node {
	return GreaterOrEqual(o.Labels, ScalarZero(o.Labels.Graph(), o.Labels.DType()))
}

// UniformNumbers returns the number of uniform random numbers an image that [Config.Losses] takes for patch features of rows × columns and the given number of
// objects.
func (c Config) UniformNumbers(rows, columns, objects int) int {
	half := func(n int) int { return (n + 1) / 2 }
	levels := [][2]int{{4 * rows, 4 * columns}, {2 * rows, 2 * columns}, {rows, columns}, {rows / 2, columns / 2}, {half(rows / 2), half(columns / 2)}}
	anchors, proposals := 0, 0
	for _, level := range levels {
		n := level[0] * level[1] * len(anchorRatios)
		anchors, proposals = anchors+n, proposals+min(n, c.TrainProposals)
	}
	return anchors + min(proposals, c.TrainProposals) + objects + (len(stages)-1)*(c.BoxSamples+objects)
}

// Uniform draws uniform numbers in [0, 1), [batch, count], float32, from a seed and the number of a step.
func Uniform(seed, step uint64, batch, count int) *tensors.Tensor {
	rng := rand.New(rand.NewPCG(seed, step))
	values := make([]float32, batch*count)
	for i := range values {
		values[i] = rng.Float32()
	}
	return tensors.FromFlatDataAndDimensions(values, batch, count)
}

// exact returns the dtype of boxes and losses for features of a dtype: at least float32.
func exact(dtype dtypes.DType) dtypes.DType {
	if dtype == dtypes.Float64 {
		return dtype
	}
	return dtypes.Float32
}
