package evaluation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// LabelPropagation propagates the mask of a video's first frame through the video, as DINO's official code does (Caron et al. 2021; appendix
// "Zero-shot Transfer Learning on Video Object Segmentation"). Each patch of a frame takes the labels of the patches most similar to it, by cosine s
// and weighted by exp(s/Temperature), among those near its place in the first frame and in the preceding frames. Nothing is trained.
type LabelPropagation struct {
	ShortSide      int     `json:"short" range:"[1,2048]"`         // The frames' shorter side in pixels, 480; the other side keeps the aspect ratio, rounded down to a multiple of 64, or of patches that 64 is not made of.
	PreviousFrames int     `json:"previous" range:"[0,64]"`        // Preceding frames to look at besides the first, 7.
	K              int     `json:"k" range:"[1,256]"`              // Patches that give their labels, 5; all patches that tie with the last one are included.
	Radius         int     `json:"radius" range:"[0,2^16]"`        // Largest distance to them in rows and columns of patches, 12.
	Temperature    float64 `json:"temperature" range:"[0.02,1e6]"` // 0.1. Below 0.0113, the exponential overflows.
}

// DefaultLabelPropagation has the settings of DINO's code.
func DefaultLabelPropagation() LabelPropagation {
	return LabelPropagation{ShortSide: 480, PreviousFrames: 7, K: 5, Radius: 12, Temperature: 0.1}
}

// size is the size that frames are resized to, for patches of patch pixels a side.
func (p LabelPropagation) size(of datasets.Size, patch int) datasets.Size {
	multiple := lo.Ternary(64%patch == 0, 64, patch)
	longer := func(long, short int) int { return p.ShortSide * long / short / multiple * multiple }
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
	near := func(of func(patch int) int) *Node {
		all := lo.Times(len(others)*patches, func(i int) float32 { return float32(of(i % patches)) })
		return LessOrEqual(Abs(Sub(InsertAxes(Const(g, all[:patches]), 1), InsertAxes(Const(g, all), 0))), Const(g, float32(p.Radius)))
	}
	candidate := LogicalAnd(near(func(patch int) int { return patch / columns }), near(func(patch int) int { return patch % columns }))
	counts := Reshape(BroadcastToDims(InsertAxes(valid, 1), len(others), patches), 1, -1)
	candidate = LogicalAnd(candidate, GreaterThan(counts, ScalarZero(g, valid.DType())))
	none := Scalar(g, similarity.DType(), math.Inf(-1))
	similarity = Where(candidate, similarity, none)

	// The K-th highest similarity, found by stepping down from one value to the next until K entries are reached, which on a CPU is faster than sorting rows.
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

// TrackAll tracks the objects of each video with the patch features of an encoder. It calls handle with the predicted masks of each video,
// [Frames][Height·Width].
func (p LabelPropagation) TrackAll(ctx context.Context, e *Encoder, videos []datasets.Video, handle func(v datasets.Video, masks [][]uint8) error) (err error) {
	defer try.Handle(&err)
	tracker := try.E1(p.NewTracker(e.backend, e.store, e.ViT.PatchSize, func(scope *model.Scope, images *Node) *Node {
		images = encoder.StandardizeBy(images, e.Preprocessing.Mean, e.Preprocessing.Std)
		return e.ViT.Tokens(scope.Store().Scope(e.scope), images).Patches
	}))
	defer tracker.Close()
	for _, v := range videos {
		try.E(handle(v, try.E1(tracker.Track(ctx, v))))
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
	defer try.Handle(&err)
	if s.Dataset == Synthetic {
		set := synthetic.Run(s.Seed).Videos(s.Images, s.Frames, s.Size, 1)
		return Data{Name: set.Name, ID: set.Identity, Videos: set.All}, nil
	}
	set := try.E1(datasets.DAVIS(s.Dir, datasets.Test))
	d = Data{Name: set.Name, ID: set.Identity, Videos: spread(set.All, s.Images)}
	if len(d.Videos) < len(set.All) {
		d.ID = fmt.Sprintf("%d spread evenly of (%s)", len(d.Videos), set.Identity)
	}
	return d, nil
}

// Measure tracks the objects of all videos and measures J&F.
func (p LabelPropagation) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	began, frames, done := time.Now(), 0, 0
	var objects []metrics.JF
	try.E(p.TrackAll(ctx, e, d.Videos, func(v datasets.Video, masks [][]uint8) (err error) {
		defer try.HandleF(&err, func() { err = fmt.Errorf("video %s: %w", v.Name, err) })
		count, truth := try.E1(v.Objects()), lo.Times(v.Frames, func(i int) []uint8 { return try.E1(v.Mask(i)) })
		measured := try.E1(metrics.EvaluateJF(truth, masks, v.Height, v.Width, count))
		objects, frames, done = append(objects, measured...), frames+v.Frames, done+1
		e.progress(done, len(d.Videos), "videos", "%s: J&F %.1f %%", v.Name, 100*metrics.MeanJF(measured).Mean())
		return nil
	}))
	mean := metrics.MeanJF(objects)
	details := map[string]float64{"objects": float64(len(objects)), "frames/s": float64(frames) / time.Since(began).Seconds()}
	for name, m := range map[string]metrics.JFMeasure{"J": mean.J, "F": mean.F} {
		details[name+"_mean"], details[name+"_recall"], details[name+"_decay"] = 100*m.Mean, 100*m.Recall, 100*m.Decay
	}
	r.Numbers = []Number{{Name: "jf", Metric: "J&F", Unit: "%", Value: 100 * mean.Mean(), Details: details}}
	return r, nil
}

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

// NewTracker returns a tracker. Its encoder, patches, maps images, [1, height, width, 3] in [0, 1], to features of patches
// of patch pixels per side, [1, height/patch, width/patch, dim], with the variables of the store.
func (p LabelPropagation) NewTracker(b compute.Backend, store *model.Store, patch int, patches func(scope *model.Scope, images *Node) *Node) (_ *Tracker, err error) {
	defer try.Handle(&err)
	if patch < 1 || p.ShortSide%patch != 0 {
		return nil, fmt.Errorf("short %d is not a whole number of patches of %d", p.ShortSide, patch)
	}
	t := &Tracker{settings: p, patch: patch}
	t.encode = try.E1(model.NewExec(b, store, func(scope *model.Scope, frame *Node) *Node {
		size := p.size(datasets.Size{Height: frame.Shape().Dim(0), Width: frame.Shape().Dim(1)}, patch)
		x := InsertAxes(DivScalar(ConvertDType(frame, dtypes.Float32), 255), 0)
		features := patches(scope, layers.ResizeBilinear(x, size.Height, size.Width))
		features.AssertDims(1, size.Height/patch, size.Width/patch, -1)
		dims := features.Shape().Dimensions[1:]
		return Reshape(losses.Unit(Reshape(features, -1, dims[2])), dims...)
	})).SetMaxCache(-1) // Frames have any number of sizes.
	t.follow = try.E1(NewExec(b, func(in []*Node) []*Node {
		features, valid, frames := in[0], in[1], (len(in)-2)/2
		labels := p.propagate(features, valid, in[2:2+frames], in[2+frames:])
		size := datasets.Size{Height: features.Shape().Dim(0) * patch, Width: features.Shape().Dim(1) * patch}
		return []*Node{labels, masks(labels, size)}
	})).SetMaxCache(-1)
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
	if err = backend.Catch(func() error { masks, err = t.track(ctx, v); return err }); err != nil {
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

func (t *Tracker) track(ctx context.Context, v datasets.Video) (_ [][]uint8, err error) {
	defer try.Handle(&err)
	size := t.settings.size(v.Size, t.patch)
	if size.Height < t.patch || size.Width < t.patch {
		return nil, fmt.Errorf("frames of %d×%d pixels become %d×%d: too narrow", v.Width, v.Height, size.Width, size.Height)
	}
	p, rows, columns := t.settings, size.Height/t.patch, size.Width/t.patch
	what := fmt.Sprintf("propagation: short %d and previous %d: similarities of %d×%d patches to those of %d frames", p.ShortSide, p.PreviousFrames, rows, columns, p.PreviousFrames+1)
	try.E(settings.Fit(settings.MaxDeviceBytes, what, rows, columns, rows, columns, p.PreviousFrames+1, 4))
	objects := try.E1(v.Objects())
	given := try.E1(v.Mask(0))
	masks, frames := [][]uint8{given}, []trackedFrame{{try.E1(t.features(v, 0)), t.labelMap(given, v.Size, max(objects, maxObjects)+1)}}
	defer func() {
		for _, frame := range frames {
			frame.free()
		}
	}()
	for i := 1; i < v.Frames; i++ {
		try.E(ctx.Err())
		now, mask := try.E2(t.next(try.E1(t.features(v, i)), frames))
		masks = append(masks, nearest(mask, size, v.Size))
		if frames = append(frames, now); len(frames) > 1+t.settings.PreviousFrames {
			frames[1].free()
			frames = slices.Delete(frames, 1, 2)
		}
	}
	return masks, nil
}

// features are the features of a frame.
func (t *Tracker) features(v datasets.Video, i int) (_ *tensors.Tensor, err error) {
	defer try.Handle(&err)
	pixels := try.E1(v.Frame(i))
	out := try.E1(t.encode.Call(tensors.FromFlatDataAndDimensions(pixels, v.Height, v.Width, 3)))
	if err := safetensors.CheckFinite(tensors.MustCopyFlatData[float32](out[0])); err != nil {
		out[0].MustFinalizeAll()
		return nil, fmt.Errorf("frame %d: its features are not finite: %w", i, err)
	}
	return out[0], nil
}

// labelMap is a mask at the resolution of patches, one channel per label.
func (t *Tracker) labelMap(mask []uint8, of datasets.Size, channels int) *tensors.Tensor {
	size := t.settings.size(of, t.patch)
	grid := datasets.Size{Height: size.Height / t.patch, Width: size.Width / t.patch}
	labels := make([]float32, grid.Height*grid.Width*channels)
	for p, label := range nearest(mask, of, grid) {
		labels[p*channels+int(label)] = 1
	}
	return tensors.FromFlatDataAndDimensions(labels, grid.Height, grid.Width, channels)
}

// next predicts the label map and the mask of a frame from the first frame and the previous ones. Near the beginning of a video, where there are too few of these,
// the first frame takes their places without counting there, so that one compilation serves all frames.
func (t *Tracker) next(features *tensors.Tensor, frames []trackedFrame) (now trackedFrame, mask []uint8, err error) {
	places := t.settings.PreviousFrames + 1
	inputs, valid := make([]any, 2+2*places), make([]float32, places)
	for i := range places {
		frame := frames[0]
		if i < len(frames) {
			frame, valid[i] = frames[i], 1
		}
		inputs[2+i], inputs[2+places+i] = frame.features, frame.labels
	}
	inputs[0], inputs[1] = features, valid
	out, err := t.follow.Call(inputs...)
	if err != nil {
		features.MustFinalizeAll()
		return now, nil, err
	}
	defer out[1].MustFinalizeAll()
	return trackedFrame{features, out[0]}, tensors.MustCopyFlatData[uint8](out[1]), nil
}

// nearest resizes a mask by nearest neighbour: each new pixel takes the old pixel that contains its centre.
func nearest(mask []uint8, from, to datasets.Size) []uint8 {
	return lo.CrossJoinBy2(middles(from.Height, to.Height), middles(from.Width, to.Width), func(row, column int) uint8 {
		return mask[row*from.Width+column]
	})
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
