// Package finetune trains whole networks on labelled images. For semantic segmentation, a [datasets.Segmentation] goes in: [SegmentationTransform] makes a
// training crop of an image and its labels, [SegmentationTraining] makes batches of them, and [Normalize] makes a batch the input of a graph.
// [SegmentationInference] takes the logits that a network gives to crops, and the class of every pixel of an image comes out, or [metrics.Segmentation] of a set.
//
// The arithmetic is the same as in mmsegmentation 0.x and OpenCV, which the published recipes run on; testdata holds what they compute. Another task has
// files of its own, named for it, and a transform, batches and an inference like these.
package finetune

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/gotype"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// The scopes of a trainer's variables, below which names are mmsegmentation's. The last one holds sums of gradients.
const (
	backboneScope    = "backbone"
	optimizerScope   = "optimizer"
	accumulatedScope = "accumulated"
)

// Training is what every fine-tuning has.
type Training struct {
	Optimizer Optimizer
	Batch     int `range:"[1,2^12]"` // Images or crops in a step.
	// Parts is the number of equal parts that a batch is computed in, one after the other, if it does not fit in memory. Batch statistics are over a part.
	Parts int `range:"[1,2^12]"`
	Steps int `range:"[1,2^31)"`

	Mean, Std [3]float64 // Of red, green and blue in [0, 1], as the encoder expects; see [datasets.Preprocessing].
}

// Rules returns an error if a batch has no equal parts.
func (t Training) Rules() error {
	if t.Batch%t.Parts != 0 {
		return fmt.Errorf("batch %d is not a multiple of parts %d", t.Batch, t.Parts)
	}
	return nil
}

// part is the number of images in a part of a batch.
func (t Training) part() int { return t.Batch / t.Parts }

// place numbers a part of a run's batches, for what is drawn.
func (t Training) place(number int) uint64 {
	return uint64(number/t.Parts)<<16 | uint64(number%t.Parts)
}

// Batch is the input of a part of a training step. I is [SegmentationCrop] or [DetectionImage].
type Batch[I any] struct {
	Step   int           // The number of the part, counted over all steps.
	Canvas datasets.Size // Of each image.
	Images []Place
	Made   []I // One for each of Images.
}

// Place is an image by its index in its set, and the epoch that it is seen in.
type Place struct{ Image, Epoch int }

// batches yields the parts of a run's batches from one on, without end. A part depends only on the images, the transform, the size of a part, the seed and
// its number: a run resumes from the number alone. count is the number of images. The images of all parts of a step are read at once. plan returns the images
// of a part and their canvas; it is called for one part after the other. After an error it ends. The error is that of ctx or read, or says that there are no
// images or no parts.
func batches[I any](
	ctx context.Context, t Training, count, from int, plan func(number int) (datasets.Size, []Place), read func(canvas datasets.Size, at Place) (I, error),
) iter.Seq2[*Batch[I], error] {
	return func(yield func(*Batch[I], error) bool) {
		err := lo.Ternary(count < 1, errors.New("no images to train on"), settings.Between("parts", t.Parts, 1, t.Batch))
		for err == nil {
			var group []*Batch[I]
			for number := from; number == from || number%t.Parts != 0; number++ {
				canvas, images := plan(number)
				group = append(group, &Batch[I]{Step: number, Canvas: canvas, Images: images, Made: make([]I, len(images))})
			}
			err = datasets.EachImage(ctx, len(group)*t.part(), 0, func(i int) (err error) {
				batch, place := group[i/t.part()], i%t.part()
				batch.Made[place], err = read(batch.Canvas, batch.Images[place])
				return err
			})
			if err != nil {
				break
			}
			for _, batch := range group {
				if !yield(batch, nil) {
					return
				}
			}
			from += len(group)
		}
		yield(nil, err)
	}
}

// trainer trains a network on a pretrained transformer with all its weights, and predicts with the weights of now. M is what a step reports.
type trainer[M any] struct {
	*train.Trainer[M]
	// Pretrained holds the encoder's weights, at its root, that a run begins with. Nil starts from random ones.
	Pretrained *model.Store

	network network
}

// compile fills in what tasks have in common and compiles the step. images are the shapes of the task's inputs that have a row for each image; the factors of
// stochastic depth follow. flops counts one image, forward. rate is where a step reports the learning rate. predict is a graph of a [network].
func (t *trainer[M]) compile(
	b compute.Backend, c Training, vit encoder.ViT, images []shapes.Shape, flops float64, rate func(m *M) *float64, task train.Task[M], predict graph,
) (err error) {
	defer try.Handle(&err)
	task.Inputs = lo.Map(images, func(shape shapes.Shape, _ int) train.Input { return train.Input{Shape: shape, Divided: true} })
	task.Inputs = append(task.Inputs, train.Input{Shape: shapes.Make(dtypes.Float32, vit.Depth, 2, c.part())})
	task.Steps, task.Parts, task.Ahead = func() int { return c.Steps }, c.Parts, true
	task.Schedule = func(step int) []float32 { return []float32{float32(c.Optimizer.Rate(step, c.Steps))} }
	task.Describe = func(m *M, step int) { *rate(m) = c.Optimizer.Rate(step, c.Steps) }
	task.Update = func(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []train.Report[M] {
		c.Optimizer.Update(scope.At(optimizerScope), scope.At(backboneScope).Scope(), vit.Depth, variables, gradients, Reshape(schedule))
		return nil
	}
	task.Initialize = func(store *model.Store, seed uint64) error {
		if err := train.Initialize(store, seed); err != nil || t.Pretrained == nil {
			return err
		}
		return takeWeights(store, vit, t.Pretrained)
	}
	task.Workload = train.Workload{FLOPs: 3 * float64(c.Batch) * flops, Images: c.Batch, BFloat16: vit.ComputeDType.IsHalfPrecision()}
	t.Trainer = try.E1(train.New(b, task))
	t.network = try.E1(newNetwork(b, t.Store(), predict))
	return nil
}

// stack is a tensor of what each image of a batch has, one after the other.
func stack[I any, T gotype.Supported](shape shapes.Shape, made []I, of func(I) []T) *tensors.Tensor {
	all := make([]T, 0, shape.Size())
	for _, image := range made {
		all = append(all, of(image)...)
	}
	return tensors.FromFlatDataAndDimensions(all, shape.Dimensions...)
}

// Close frees the device's memory and stops the loader.
func (t *trainer[M]) Close() {
	t.network.exec.Finalize()
	t.Trainer.Close()
}

// keep draws the factors of stochastic depth of a part.
func (t Training) keep(seed uint64, number, depth int) *tensors.Tensor {
	factors := encoder.DropPaths(rand.New(rand.NewPCG(seed, t.place(number))), t.Optimizer.DropPath, depth, t.part())
	return tensors.FromFlatDataAndDimensions(factors, depth, 2, t.part())
}

// kept is the input that keep draws, or nil without stochastic depth.
func (t Training) kept(keep *Node) *Node {
	return lo.Ternary(t.Optimizer.DropPath > 0, keep, nil)
}

// graph builds predictions of pixels, [n, height, width, 3] of bytes, and the sizes that images fill of them, [n, 2].
type graph func(scope *model.Scope, pixels, sizes *Node) []*Node

// network predicts. It is compiled for each size and number of images.
type network struct {
	store *model.Store
	exec  *model.Exec
}

func newNetwork(b compute.Backend, store *model.Store, predict graph) (network, error) {
	exec, err := model.NewExec(b, store, (func(scope *model.Scope, pixels, sizes *Node) []*Node)(predict))
	if err == nil {
		exec.SetMaxCache(-1) // Images have any number of sizes.
	}
	return network{store, exec}, err
}

// call passes what the network predicts of canvases to read.
func (n network) call(ctx context.Context, in Canvases, read func(outputs []*tensors.Tensor)) (err error) {
	defer try.Handle(&err)
	try.E(ctx.Err())
	return train.Execute(n.exec, []any{
		tensors.FromFlatDataAndDimensions(in.Pixels, in.Count, in.Size.Height, in.Size.Width, 3), tensors.FromFlatDataAndDimensions(in.Fill, in.Count, 2),
	}, read)
}

// takeWeights sets the encoder of a store from the one at the root of another, whose position embeddings may be of another grid.
func takeWeights(store *model.Store, vit encoder.ViT, pretrained *model.Store) (err error) {
	defer try.Handle(&err)
	for _, w := range vit.Weights() {
		from, to := pretrained.GetVariable(model.ScopeSeparator+w.Path), store.GetVariable(model.JoinPath(model.ScopeSeparator, backboneScope, w.Path))
		if from == nil {
			return fmt.Errorf("fine-tuning: the pretrained weights have no %s", w.Path)
		}
		value := try.E1(from.Value())
		value = try.E1(value.LocalClone())
		if w.Path == "pos_embed" && vit.GridSize > 0 && value.Shape().Rank() == 3 && !value.Shape().Equal(to.Shape()) {
			value = resized(value, vit)
		}
		if !value.Shape().Equal(to.Shape()) {
			return fmt.Errorf("fine-tuning: %s is %s in the pretrained weights, and %s in the encoder", w.Path, value.Shape(), to.Shape())
		}
		try.E(to.SetValue(value))
	}
	return nil
}

// resized is a table of position embeddings, [1, special + size², dim], for the transformer's grid, as iBOT and mmsegmentation resize it when they load it: bicubically.
func resized(table *tensors.Tensor, vit encoder.ViT) *tensors.Tensor {
	special := lo.Ternary(vit.Registers > 0, 0, 1) // With registers [CLS] has no position.
	size := int(math.Sqrt(float64(table.Shape().Dim(1) - special)))
	vit.Positions = encoder.TransformersPositions
	values := weights.ResizePositions(tensors.MustCopyFlatData[float32](table), vit, special, size)
	return tensors.FromFlatDataAndDimensions(values, 1, len(values)/vit.Dim, vit.Dim)
}

// Optimizer says how a pretrained transformer and the new layers on top of it are trained together: by AdamW, whose rate falls from the new layers
// towards the image, block by block.
type Optimizer struct {
	LearningRate float64 `json:"rate" range:"(0,1e3]"`         // The peak rate of the new layers.
	LayerDecay   float64 `json:"layer_decay" range:"(0,1]"`    // The rate of a block over the rate of the block above it; 1 trains all alike.
	WeightDecay  float64 `json:"weight_decay" range:"[0,1e3]"` // Weight decay; it acts neither on biases and norms nor on [CLS], registers and position embeddings.

	WarmUp      int     `json:"warmup" range:"[0,2^31)"`    // Steps of linear warm-up.
	WarmUpRatio float64 `json:"warmup_ratio" range:"(0,1]"` // The share of the rate at step 0.

	// Power is the exponent of the polynomial schedule; 0 for the schedule of Milestones.
	Power      float64    `json:"power" range:"[0,100]"`
	Milestones [2]float64 `json:"milestones" range:"(0,1]"` // Without Power, shares of the steps after which the rate falls to a tenth.

	DropPath float64 `json:"drop_path" range:"[0,0.99]"` // The probability that the last block drops a branch for an image; it falls linearly to 0 at the first block.
}

// Rate is the learning rate of the new layers at a step of a run, counted from 0.
func (o Optimizer) Rate(step, steps int) float64 {
	rate := 0.0
	if o.Power > 0 {
		rate = optim.Poly(step, steps, o.LearningRate, o.Power)
	} else {
		at := func(share float64) int { return int(math.Round(share * float64(steps))) }
		rate = optim.Milestones(step, o.LearningRate, 0.1, at(o.Milestones[0]), at(o.Milestones[1]))
	}
	return optim.WarmUp(step, o.WarmUp, o.WarmUpRatio, rate)
}

// Protocol says how the optimizer trains, for records.
func (o Optimizer) Protocol() string {
	schedule := lo.Ternary(o.Power > 0, fmt.Sprintf("falling to 0 as a polynomial of degree %g", o.Power),
		fmt.Sprintf("divided by 10 after %.3g and %.3g of the steps", o.Milestones[0], o.Milestones[1]))
	return fmt.Sprintf("AdamW at rate %g %s, warm-up %d steps, layer decay %g, weight decay %g, drop-path %g",
		o.LearningRate, schedule, o.WarmUp, o.LayerDecay, o.WeightDecay, o.DropPath)
}

// layer is the number of a variable's layer in a transformer of the given depth: 0 for what makes tokens of the image, 1 for the first block, and depth
// + 1 for the final normalisation and everything outside the encoder, as in the fine-tuning of BEiT, MAE and iBOT.
func layer(path, encoderScope string, depth int) int {
	name, ok := strings.CutPrefix(path, encoderScope+model.ScopeSeparator)
	first, rest, _ := strings.Cut(name, model.ScopeSeparator)
	number, _, _ := strings.Cut(rest, model.ScopeSeparator)
	block, err := strconv.Atoi(number)
	switch {
	case ok && first == "blocks" && err == nil:
		return block + 1
	case ok && (first == "patch_embed" || isToken(name)):
		return 0
	}
	return depth + 1
}

// isToken reports whether a variable of the encoder is a token or a table of position embeddings. They do not decay.
func isToken(path string) bool {
	name := path[strings.LastIndex(path, model.ScopeSeparator)+1:]
	return strings.HasSuffix(name, "_token") || name == "pos_embed"
}

// Update sets the next value of each variable from its gradient. encoderScope is the scope of the transformer of the given depth. rate, a float32 scalar, comes
// from [Optimizer.Rate]. The optimizer's state lives under scope.
func (o Optimizer) Update(scope *model.Scope, encoderScope string, depth int, variables []*model.Variable, gradients []*Node, rate *Node) {
	type group struct {
		layer   int
		isToken bool
	}
	groups := lo.Map(variables, func(v *model.Variable, _ int) group {
		return group{layer(v.Path(), encoderScope, depth), isToken(v.Path())}
	})
	for _, g := range lo.Uniq(groups) {
		name, weightDecay := fmt.Sprintf("layer%d", g.layer), o.WeightDecay
		if g.isToken {
			name, weightDecay = name+"_tokens", 0
		}
		scale := math.Pow(o.LayerDecay, float64(depth+1-g.layer))
		optim.DefaultAdamW().Update(scope.At("%s", name),
			lo.Filter(variables, func(_ *model.Variable, i int) bool { return groups[i] == g }), lo.Filter(gradients, func(_ *Node, i int) bool { return groups[i] == g }),
			MulScalar(rate, scale), Scalar(rate.Graph(), rate.DType(), weightDecay))
	}
}
