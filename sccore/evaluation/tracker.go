package evaluation

import (
	"context"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/safetensors"
)

// maxObjects is the number of objects that the compiled propagation can follow, the most in DAVIS-2017: an unused label costs less than another
// compilation. A video with more objects gets its own.
const maxObjects = 10

// Tracker follows objects through videos by the features of a frozen encoder. It is compiled once per frame size and holds the features of at most
// [LabelPropagation.PreviousFrames] + 2 frames.
type Tracker struct {
	settings LabelPropagation
	patch    int
	encode   *model.Exec
	follow   *Exec
}

// NewTracker returns a tracker. Its encoder, patches, maps images, [1, height, width, 3] and standardised (see [encoder.Standardize]), to features of
// patches of patch pixels a side, [1, height/patch, width/patch, dim], with the variables of the store.
func (p LabelPropagation) NewTracker(b compute.Backend, store *model.Store, patch int, patches func(scope *model.Scope, images *Node) *Node) (*Tracker, error) {
	if patch < 1 || p.ShortSide%patch != 0 || 64%patch != 0 {
		return nil, fmt.Errorf("propagation: frames of %d pixels by a multiple of 64 are not a whole number of patches of %d", p.ShortSide, patch)
	}
	t := &Tracker{settings: p, patch: patch}
	var err error
	t.encode, err = model.NewExec(b, store, func(scope *model.Scope, frame *Node) *Node {
		size := p.size(datasets.Size{Height: frame.Shape().Dim(0), Width: frame.Shape().Dim(1)})
		x := InsertAxes(DivScalar(ConvertDType(frame, dtypes.Float32), 255), 0)
		features := patches(scope, encoder.Standardize(layers.ResizeBilinear(x, size.Height, size.Width)))
		features.AssertDims(1, size.Height/patch, size.Width/patch, -1)
		dims := features.Shape().Dimensions[1:]
		return Reshape(losses.Unit(Reshape(features, -1, dims[2])), dims...)
	})
	if err != nil {
		return nil, err
	}
	t.follow, err = NewExec(b, func(in []*Node) []*Node {
		features, valid, frames := in[0], in[1], (len(in)-2)/2
		labels := p.propagate(features, valid, in[2:2+frames], in[2+frames:])
		size := datasets.Size{Height: features.Shape().Dim(0) * patch, Width: features.Shape().Dim(1) * patch}
		return []*Node{labels, masks(labels, size)}
	})
	if err != nil {
		t.encode.Finalize()
		return nil, err
	}
	return t, nil
}

// Close frees the device's memory.
func (t *Tracker) Close() {
	t.encode.Finalize()
	t.follow.Finalize()
}

// Track returns the masks of all frames of a video, [height·width] each: the first as given, the others as predicted. The error names the video, and
// the file at fault if there is one.
func (t *Tracker) Track(ctx context.Context, v datasets.Video) (masks [][]uint8, err error) {
	err = caught(func() error {
		masks, err = t.track(ctx, v)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("video %s: %w", v.Name, err)
	}
	return masks, nil
}

// trackedFrame is what is kept of a frame: its features and label map, on the device.
type trackedFrame struct{ features, labels *tensors.Tensor }

func (l trackedFrame) free() {
	l.features.MustFinalizeAll()
	l.labels.MustFinalizeAll()
}

func (t *Tracker) track(ctx context.Context, v datasets.Video) ([][]uint8, error) {
	size := t.settings.size(v.Size)
	if size.Height < t.patch || size.Width < t.patch {
		return nil, fmt.Errorf("frames of %d×%d pixels become %d×%d: too narrow", v.Width, v.Height, size.Width, size.Height)
	}
	if err := t.settings.fits(size.Height/t.patch, size.Width/t.patch); err != nil {
		return nil, err
	}
	objects, err := v.Objects()
	if err != nil {
		return nil, err
	}
	given, err := v.Mask(0)
	if err != nil {
		return nil, err
	}
	first := trackedFrame{labels: t.labelMap(given, v.Size, max(objects, maxObjects)+1)}
	if first.features, err = t.features(v, 0); err != nil {
		return nil, err
	}
	masks, previous := [][]uint8{given}, []trackedFrame{}
	defer func() {
		for _, frame := range append(previous, first) {
			frame.free()
		}
	}()
	for i := 1; i < v.Frames; i++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		now := trackedFrame{}
		if now.features, err = t.features(v, i); err != nil {
			return nil, err
		}
		var mask []uint8
		if now.labels, mask, err = t.next(now.features, first, previous); err != nil {
			now.features.MustFinalizeAll()
			return nil, err
		}
		masks = append(masks, nearest(mask, size, v.Size))
		if previous = append(previous, now); len(previous) > t.settings.PreviousFrames {
			previous[0].free()
			previous = previous[1:]
		}
	}
	return masks, nil
}

// features are the features of a frame.
func (t *Tracker) features(v datasets.Video, i int) (*tensors.Tensor, error) {
	pixels, err := v.Frame(i)
	if err != nil {
		return nil, err
	}
	out, err := t.encode.Call(tensors.FromFlatDataAndDimensions(pixels, v.Height, v.Width, 3))
	if err != nil {
		return nil, err
	}
	if err := safetensors.CheckFinite(tensors.MustCopyFlatData[float32](out[0])); err != nil {
		out[0].MustFinalizeAll()
		return nil, fmt.Errorf("frame %d: its features are not finite: %w", i, err)
	}
	return out[0], nil
}

// labelMap is a mask at the resolution of patches, one channel per label.
func (t *Tracker) labelMap(mask []uint8, of datasets.Size, channels int) *tensors.Tensor {
	size := t.settings.size(of)
	grid := datasets.Size{Height: size.Height / t.patch, Width: size.Width / t.patch}
	labels := make([]float32, grid.Height*grid.Width*channels)
	for p, label := range nearest(mask, of, grid) {
		labels[p*channels+int(label)] = 1
	}
	return tensors.FromFlatDataAndDimensions(labels, grid.Height, grid.Width, channels)
}

// next predicts the label map and the mask of a frame. Near the beginning of a video, where there are too few previous frames, the first frame takes
// their places without counting there, so that one compilation serves all frames.
func (t *Tracker) next(features *tensors.Tensor, first trackedFrame, previous []trackedFrame) (labels *tensors.Tensor, mask []uint8, err error) {
	places := t.settings.PreviousFrames + 1
	inputs := make([]any, 2+2*places)
	valid := make([]float32, places)
	for i := range places {
		frame := first
		if i > 0 && i <= len(previous) {
			frame = previous[i-1]
		}
		if i <= len(previous) {
			valid[i] = 1
		}
		inputs[2+i], inputs[2+places+i] = frame.features, frame.labels
	}
	inputs[0], inputs[1] = features, valid
	out, err := t.follow.Call(inputs...)
	if err != nil {
		return nil, nil, err
	}
	mask = tensors.MustCopyFlatData[uint8](out[1])
	out[1].MustFinalizeAll()
	return out[0], mask, nil
}

// nearest resizes a mask by nearest neighbour: each new pixel takes the old pixel that contains its centre.
func nearest(mask []uint8, from, to datasets.Size) []uint8 {
	rows, columns := middles(from.Height, to.Height), middles(from.Width, to.Width)
	out := make([]uint8, 0, to.Height*to.Width)
	for _, row := range rows {
		for _, column := range columns {
			out = append(out, mask[row*from.Width+column])
		}
	}
	return out
}

// middles are the old pixels that contain the centres of the new ones. A centre between two pixels goes to the one that Pillow takes, which adds up
// steps, rounding errors included.
func middles(from, to int) []int {
	step := float64(from) / float64(to)
	out, at := make([]int, to), step/2
	for i := range out {
		out[i] = min(int(at), from-1)
		at += step
	}
	return out
}
