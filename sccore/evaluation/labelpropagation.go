package evaluation

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
)

// LabelPropagation propagates the mask of a video's first frame through the video, as DINO's official code does (Caron et al. 2021; appendix
// "Zero-shot Transfer Learning on Video Object Segmentation"). Each patch of a frame takes the labels of the patches most similar to it, by cosine s
// and weighted by exp(s/Temperature), among those near its place in the first frame and in the preceding frames. Nothing is trained.
type LabelPropagation struct {
	ShortSide      int     `json:"short" range:"[1,2048]"`         // The frames' shorter side in pixels, 480; the other side keeps the aspect ratio, rounded down to a multiple of 64.
	PreviousFrames int     `json:"previous" range:"[0,64]"`        // Preceding frames to look at besides the first, 7.
	K              int     `json:"k" range:"[1,256]"`              // Patches that give their labels, 5; all patches that tie with the last one are included.
	Radius         int     `json:"radius" range:"[0,2^16]"`        // Largest distance to them in rows and columns of patches, 12.
	Temperature    float64 `json:"temperature" range:"[0.02,1e6]"` // 0.1. Below 0.02, the exponential overflows.
}

// DefaultLabelPropagation has the settings of DINO's code.
func DefaultLabelPropagation() LabelPropagation {
	return LabelPropagation{ShortSide: 480, PreviousFrames: 7, K: 5, Radius: 12, Temperature: 0.1}
}

// fits returns an error if the similarities of the patches of a frame, rows × columns, and of the frames that it looks at are too many for memory.
func (p LabelPropagation) fits(rows, columns int) error {
	what := fmt.Sprintf("propagation: short %d and previous %d: similarities of %d×%d patches to those of %d frames", p.ShortSide, p.PreviousFrames, rows, columns, p.PreviousFrames+1)
	return settings.Fit(settings.MaxDeviceBytes, what, rows, columns, rows, columns, p.PreviousFrames+1, 4)
}

// size is the size that frames are resized to.
func (p LabelPropagation) size(of datasets.Size) datasets.Size {
	longer := func(long, short int) int { return p.ShortSide * long / short / 64 * 64 }
	if of.Height > of.Width {
		return datasets.Size{Height: longer(of.Height, of.Width), Width: p.ShortSide}
	}
	return datasets.Size{Height: p.ShortSide, Width: longer(of.Width, of.Height)}
}

// propagate returns the label map of a frame, [rows, columns, channels]. features are the frame's, [rows, columns, dim] of length 1; others and
// labels are the features and label maps of the frames it looks at. valid, [frames], is 1 for frames that count and 0 for others.
func (p LabelPropagation) propagate(features, valid *Node, others, labels []*Node) *Node {
	g, rows, columns, dim := features.Graph(), features.Shape().Dim(0), features.Shape().Dim(1), features.Shape().Dim(2)
	patches, channels := rows*columns, labels[0].Shape().Dim(-1)
	valid.AssertDims(len(others))

	similarity := MatMul(Reshape(features, patches, dim), Transpose(Reshape(Concatenate(others, 0), -1, dim), 0, 1))
	similarity.AssertDims(patches, len(others)*patches)
	place := func(of func(patch int) int) (of1, ofAll *Node) {
		all := make([]float32, len(others)*patches)
		for i := range all {
			all[i] = float32(of(i % patches))
		}
		return ConstTensor(g, tensors.FromFlatDataAndDimensions(all[:patches], patches, 1)),
			ConstTensor(g, tensors.FromFlatDataAndDimensions(all, 1, len(all)))
	}
	near := func(of func(patch int) int) *Node {
		here, there := place(of)
		return LessOrEqual(Abs(Sub(here, there)), Const(g, float32(p.Radius)))
	}
	candidate := LogicalAnd(near(func(patch int) int { return patch / columns }), near(func(patch int) int { return patch % columns }))
	counts := Reshape(BroadcastToDims(InsertAxes(valid, 1), len(others), patches), 1, -1)
	candidate = LogicalAnd(candidate, GreaterThan(counts, ScalarZero(g, valid.DType())))
	none := Scalar(g, similarity.DType(), math.Inf(-1))
	similarity = Where(candidate, similarity, none)

	// The K-th highest similarity, found by stepping down from one value to the next until K entries are reached, which on a CPU is faster than
	// sorting rows.
	threshold := ReduceAndKeep(similarity, ReduceMax, 1)
	for range p.K - 1 {
		reached := ReduceAndKeep(ConvertDType(GreaterOrEqual(similarity, threshold), dtypes.Float32), ReduceSum, 1)
		next := ReduceAndKeep(Where(LessThan(similarity, threshold), similarity, none), ReduceMax, 1)
		threshold = Where(GreaterOrEqual(reached, Const(g, float32(p.K))), threshold, next)
	}
	chosen := LogicalAnd(GreaterOrEqual(similarity, threshold), GreaterThan(similarity, none))
	weights := Where(chosen, Exp(DivScalar(similarity, p.Temperature)), ZerosLike(similarity))

	// The sum of the weights is an additional label that every patch has.
	all := Reshape(Concatenate(labels, 0), len(others)*patches, channels)
	sums := MatMul(weights, Concatenate([]*Node{all, OnesLike(SliceAxis(all, 1, AxisRange(0, 1)))}, 1))
	map_ := Div(SliceAxis(sums, 1, AxisRange(0, channels)), SliceAxis(sums, 1, AxisRange(channels)))
	return Reshape(map_, rows, columns, channels)
}

// masks decides the label of each pixel of a frame. The label map, [rows, columns, channels], is resized to the frame, each channel is scaled to [0,
// 1] unless it is 0 everywhere, and the highest channel wins. It returns [height, width] of uint8.
func masks(labels *Node, size datasets.Size) *Node {
	labels = Squeeze(layers.ResizeBilinear(InsertAxes(labels, 0), size.Height, size.Width), 0)
	zero, one := ScalarZero(labels.Graph(), labels.DType()), ScalarOne(labels.Graph(), labels.DType())
	low, high := ReduceAndKeep(labels, ReduceMin, 0, 1), ReduceAndKeep(labels, ReduceMax, 0, 1)
	span := Sub(high, low)
	stretched := Div(Sub(labels, low), Where(GreaterThan(span, zero), span, one))
	// A constant channel cannot be scaled: it wins everywhere or nowhere.
	flat := LogicalAnd(Equal(span, zero), GreaterThan(high, zero))
	return ArgMax(Add(stretched, ConvertDType(flat, labels.DType())), -1, dtypes.Uint8)
}

// measureVideo compares predicted masks, [Frames][Height·Width], with the true masks of a video. It returns one J&F per object.
func measureVideo(v datasets.Video, predicted [][]uint8) (measured []metrics.JF, err error) {
	objects, err := v.Objects()
	truth := make([][]uint8, v.Frames)
	for i := 0; i < v.Frames && err == nil; i++ {
		truth[i], err = v.Mask(i)
	}
	if err == nil {
		measured, err = metrics.EvaluateJF(truth, predicted, v.Height, v.Width, objects)
	}
	if err != nil {
		return nil, fmt.Errorf("video %s: %w", v.Name, err)
	}
	return measured, nil
}

// TrackAll tracks the objects of each video with the patch features of an encoder. It calls handle with the predicted masks of each video,
// [Frames][Height·Width].
func (p LabelPropagation) TrackAll(ctx context.Context, e *Encoder, videos []datasets.Video, handle func(v datasets.Video, masks [][]uint8) error) error {
	tracker, err := p.NewTracker(e.backend, e.store, e.ViT.PatchSize, func(scope *model.Scope, images *Node) *Node {
		return e.ViT.Tokens(scope.Store().Scope(e.scope), images).Patches
	})
	if err != nil {
		return err
	}
	defer tracker.Close()
	for _, v := range videos {
		masks, err := tracker.Track(ctx, v)
		if err == nil {
			err = handle(v, masks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Protocol describes the evaluation in one line.
func (p LabelPropagation) Protocol() string {
	return fmt.Sprintf("label propagation of DINO: first and %d previous frames, shorter side %d, top %d within %d patches, temperature %g; "+
		"J and F at the annotation's size, mean over objects, first and last frame left out, void is background",
		p.PreviousFrames, p.ShortSide, p.K, p.Radius, p.Temperature)
}

// Open opens the test videos of DAVIS, or draws videos.
func (LabelPropagation) Open(s Source) (d Data, err error) {
	if s.Dataset == Synthetic {
		set := synthetic.Run(s.Seed).Videos(s.Images, s.Frames, s.Size, 1)
		return Data{Name: set.Name, ID: set.Identity, Videos: set.All}, nil
	}
	set, err := datasets.DAVIS(s.Dir, datasets.Test)
	if err != nil {
		return d, err
	}
	d.Name, d.ID = set.Name, set.Identity
	for _, place := range datasets.Spread(len(set.All), s.Images) {
		d.Videos = append(d.Videos, set.All[place])
	}
	return d, nil
}

// Measure tracks the objects of all videos and measures J&F.
func (p LabelPropagation) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	began, frames, done := time.Now(), 0, 0
	var objects []metrics.JF
	err = p.TrackAll(ctx, e, d.Videos, func(v datasets.Video, masks [][]uint8) error {
		measured, err := measureVideo(v, masks)
		objects, frames, done = append(objects, measured...), frames+v.Frames, done+1
		e.progress(done, len(d.Videos), "videos", "%s: J&F %.1f %%", v.Name, 100*metrics.MeanJF(measured).Mean())
		return err
	})
	if err != nil {
		return r, err
	}
	mean := metrics.MeanJF(objects)
	details := map[string]float64{"objects": float64(len(objects)), "frames/s": float64(frames) / time.Since(began).Seconds()}
	for name, m := range map[string]metrics.JFMeasure{"J": mean.J, "F": mean.F} {
		details[name+"_mean"], details[name+"_recall"], details[name+"_decay"] = 100*m.Mean, 100*m.Recall, 100*m.Decay
	}
	r.Numbers = []Number{{Name: "jf", Metric: "J&F", Unit: "%", Value: 100 * mean.Mean(), Details: details}}
	return r, nil
}
