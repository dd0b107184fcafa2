package evaluation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
)

// head maps features, [rows, dim], to logits, [rows, classes]. It starts at 0.
func head(scope *model.Scope, features *Node, classes int) *Node {
	scope = scope.At("head").WithInitializer(Zeros)
	weight := scope.VariableWithShape("weight", shapes.Make(features.DType(), features.Shape().Dim(1), classes))
	bias := scope.VariableWithShape("bias", shapes.Make(features.DType(), classes))
	return Add(MatMul(features, weight.NodeValue(features)), InsertAxes(bias.NodeValue(features), 0))
}

// headTraining trains a [head] with AdamW, or with SGD if it has momentum, at a learning rate that follows a cosine to 0.
type headTraining struct {
	name        string // Of the probe, in errors.
	steps       int
	rate, decay float64
	momentum    float64
	loss        func(scope *model.Scope, inputs []*Node) *Node
	batch       func(step int) ([]any, error) // The inputs of the loss.
}

// run trains the head in a store.
func (h headTraining) run(b compute.Backend, store *model.Store) error {
	step, err := model.NewExec(b, store, func(scope *model.Scope, inputs []*Node) *Node {
		rate := inputs[len(inputs)-1]
		loss := h.loss(scope, inputs[:len(inputs)-1])
		var variables []*model.Variable
		var values []*Node
		for variable := range scope.At("head").IterVariables() {
			variables, values = append(variables, variable), append(values, variable.NodeValue(loss.Graph()))
		}
		if gradients := Gradient(loss, values...); h.momentum > 0 {
			optim.SGD{Momentum: h.momentum}.Update(scope.At("sgd"), variables, gradients, rate)
		} else {
			optim.DefaultAdamW().Update(scope.At("adam"), variables, gradients, rate, Const(loss.Graph(), float32(h.decay)))
		}
		return loss
	})
	if err != nil {
		return err
	}
	defer step.Finalize()
	for i := range h.steps {
		inputs, err := h.batch(i)
		if err != nil {
			return err
		}
		out, err := step.Call(append(inputs, float32(optim.Cosine(i, h.steps, 0, h.rate, 0)))...)
		if err != nil {
			return err
		}
		loss := float64(tensors.ToScalar[float32](out[0]))
		out[0].FinalizeAll()
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Errorf("%s: the loss is %v at step %d", h.name, loss, i)
		}
	}
	return nil
}

// probeOrder draws the batches of a probe, "class probe" or "patch probe".
func probeOrder(seed uint64, probe string) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[16:], probe)
	return rand.New(rand.NewChaCha8(key))
}

// LinearProbe is a linear classifier on frozen [CLS] features, trained by cross-entropy with AdamW ("Main Results on ImageNet & COCO", "Optimization strategy"). The paper
// leaves the rest open: here the learning rate follows a cosine to 0, and the weights, but not the biases, decay with PyTorch's default.
type LinearProbe struct {
	Images       int     `json:"images" range:"[0,2^31)"` // Training images, drawn by the seed; all if 0 or if there are fewer.
	Epochs       int     `json:"epochs" range:"[1,2^14]"`
	Batch        int     `json:"batch" range:"[1,2^18]"`
	LearningRate float64 `json:"rate" range:"(0,1e4]"`
	WeightDecay  float64 `json:"decay" range:"[0,1e4]"`
}

// DefaultLinearProbe is the paper's linear probe on ImageNet-1k.
func DefaultLinearProbe() LinearProbe {
	return LinearProbe{Epochs: 100, Batch: 4096, LearningRate: 1e-5, WeightDecay: 0.01}
}

// FastLinearProbe is the protocol of the paper's ablation: one epoch of 30,000 images. The paper gives no batch size or learning rate; ours are
// smaller and larger, as few steps need.
func FastLinearProbe() LinearProbe {
	return LinearProbe{Images: 30_000, Epochs: 1, Batch: 256, LearningRate: 1e-3, WeightDecay: 0.01}
}

// Protocol describes the classifier.
func (p LinearProbe) Protocol() string {
	return fmt.Sprintf("linear probe, AdamW, %d epochs of batches of %d, rate %g", p.Epochs, p.Batch, p.LearningRate)
}

// Rank trains the classifier on bank, [N, D], with labels in [0, classes). It returns for each query, [Q, D], the top classes, most probable first;
// all classes if there are fewer. The seed draws the images and their order. The last batch of an epoch may be smaller; the mean of its losses counts as much
// as that of any other batch.
func (p LinearProbe) Rank(
	b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int, seed uint64,
) (ranked [][]int32, err error) {
	if err := knn.CheckLabelled("linear probe", bank, labels, classes, queries, top); err != nil {
		return nil, err
	}
	store := model.NewStore()
	defer store.Finalize()
	err = caught(func() error {
		if err := p.training(bank, labels, classes, seed).run(b, store); err != nil {
			return err
		}
		ranked, err = rankedBy(b, store, classes, queries, top)
		return err
	})
	return ranked, err
}

// rankedBy returns for each query, [Q, D], the top classes of the head in a store, most probable first.
func rankedBy(b compute.Backend, store *model.Store, classes int, queries *tensors.Tensor, top int) ([][]int32, error) {
	classify, err := model.NewExec(b, store, func(scope *model.Scope, features *Node) *Node { return head(scope, features, classes) })
	if err != nil {
		return nil, err
	}
	defer classify.Finalize()
	return knn.RankBlocks(queries, top, func(block *tensors.Tensor) (*tensors.Tensor, error) { return classify.Call1(block) })
}

// classLoss is the cross-entropy of the head on features, [rows, D], with labels, [rows], and how often each row counts, [rows].
func classLoss(classes int) func(scope *model.Scope, inputs []*Node) *Node {
	return func(scope *model.Scope, inputs []*Node) *Node {
		logits, counts := head(scope, inputs[0], classes), inputs[2]
		losses := Neg(ReduceSum(Mul(OneHot(inputs[1], classes, logits.DType()), LogSoftmax(logits, -1)), -1))
		return Div(ReduceAllSum(Mul(losses, counts)), ReduceAllSum(counts))
	}
}

func (p LinearProbe) training(bank *tensors.Tensor, labels []int32, classes int, seed uint64) headTraining {
	random := probeOrder(seed, "class probe")
	order, dim := random.Perm(len(labels)), bank.Shape().Dimensions[1]
	if p.Images > 0 && p.Images < len(order) {
		order = order[:p.Images]
	}
	rows := tensors.MustCopyFlatData[float32](bank)
	batch := min(p.Batch, len(order))
	steps := (len(order) + batch - 1) / batch
	features, chosen, counts := make([]float32, batch*dim), make([]int32, batch), make([]float32, batch)
	return headTraining{
		name: "linear probe", steps: p.Epochs * steps, rate: p.LearningRate, decay: p.WeightDecay, loss: classLoss(classes),
		batch: func(step int) ([]any, error) {
			if step > 0 && step%steps == 0 {
				random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			part := order[step%steps*batch:]
			for at := range batch {
				counts[at] = 0
				if at < len(part) {
					counts[at], chosen[at] = 1, labels[part[at]]
					copy(features[at*dim:], rows[part[at]*dim:(part[at]+1)*dim])
				}
			}
			return []any{tensors.FromFlatDataAndDimensions(features, batch, dim), chosen, counts}, nil
		},
	}
}

// PatchProbe is a linear 1×1 head on frozen patch features, trained by cross-entropy with Adam and a cosine learning rate that ends at 0. It measures
// which classes the features separate. Each feature is standardised to mean 0 and variance 1 over the training set. The head remains linear, and
// features of small spread train as well as any.
type PatchProbe struct {
	Steps        int     `json:"steps" range:"[1,2^24]"`
	Batch        int     `json:"batch" range:"[1,2^18]"` // Patches per step.
	LearningRate float64 `json:"rate" range:"(0,1e4]"`   // At the first step.
}

// DefaultPatchProbe returns a probe that converges on a thousand small images in about a second.
func DefaultPatchProbe() PatchProbe { return PatchProbe{Steps: 1000, Batch: 512, LearningRate: 0.01} }

// patchProbeBlock is the number of images predicted at once.
const patchProbeBlock = 16

// Evaluate trains the head on one set and returns how well it segments the other. The seed draws the patches of each step; the head starts at 0.
//
// In training, the target of a patch is the distribution of classes over its pixels, which gives the cross-entropy of all pixels under their patch's
// prediction; ignored pixels do not count. In testing, logits are resized bilinearly to the annotation's size (align_corners=false), and every pixel
// counts. Features stay on the host except for the current batch.
func (p PatchProbe) Evaluate(b compute.Backend, train, test AnnotatedPatches, classes int, seed uint64) (metrics.Segmentation, error) {
	predicted, err := p.predict(b, train, test, classes, seed)
	if err != nil {
		return metrics.Segmentation{}, err
	}
	confusion := metrics.NewConfusion(classes)
	err = confusion.Add(test.Truth, predicted)
	return confusion.Segmentation(), err
}

// predict trains the probe and returns the class of every pixel of the test set.
func (p PatchProbe) predict(b compute.Backend, train, test AnnotatedPatches, classes int, seed uint64) (predicted []uint8, err error) {
	for i, set := range []AnnotatedPatches{train, test} {
		if !slices.ContainsFunc(set.Truth, func(class uint8) bool { return class != datasets.Ignore }) {
			return nil, fmt.Errorf("%s set: %w", []string{"training", "test"}[i], errNotAnnotated)
		}
	}
	store := model.NewStore()
	defer store.Finalize()
	err = caught(func() error {
		mean, deviation := train.standardization()
		for name, values := range map[string][]float32{"mean": mean, "deviation": deviation} {
			variable, err := store.CreateVariable("/"+name, tensors.FromValue(values))
			if err != nil {
				return err
			}
			variable.SetTrainable(false)
		}
		if err := p.training(train, classes, seed).run(b, store); err != nil {
			return err
		}
		predicted, err = p.test(b, store, test, classes)
		return err
	})
	return predicted, err
}

// standardised shifts and scales patches, [rows, dim], by the training set's mean and standard deviation.
func standardised(scope *model.Scope, patches *Node) *Node {
	constant := func(name string) *Node {
		return InsertAxes(scope.Store().GetVariable("/"+name).NodeValue(patches), 0)
	}
	return Div(Sub(patches, constant("mean")), constant("deviation"))
}

func (p PatchProbe) training(set AnnotatedPatches, classes int, seed uint64) headTraining {
	random, targets, count := probeOrder(seed, "patch probe"), set.shares(classes), len(set.Patches)/set.Dim
	patches, shares := make([]float32, p.Batch*set.Dim), make([]float32, p.Batch*classes)
	return headTraining{
		name: "patch probe", steps: p.Steps, rate: p.LearningRate,
		loss: func(scope *model.Scope, inputs []*Node) *Node {
			logits, shares := head(scope, standardised(scope, inputs[0]), classes), inputs[1]
			total := MaxScalar(ReduceAllSum(shares), 1e-6) // A batch may hold only ignored pixels.
			return Div(Neg(ReduceAllSum(Mul(shares, LogSoftmax(logits, -1)))), total)
		},
		batch: func(int) ([]any, error) {
			for at := range p.Batch {
				patch := random.IntN(count)
				copy(patches[at*set.Dim:], set.Patches[patch*set.Dim:(patch+1)*set.Dim])
				copy(shares[at*classes:], targets[patch*classes:(patch+1)*classes])
			}
			return []any{tensors.FromFlatDataAndDimensions(patches, p.Batch, set.Dim), tensors.FromFlatDataAndDimensions(shares, p.Batch, classes)}, nil
		},
	}
}

// test predicts every pixel of the set.
func (p PatchProbe) test(b compute.Backend, store *model.Store, set AnnotatedPatches, classes int) (all []uint8, err error) {
	predict, err := model.NewExec(b, store, func(scope *model.Scope, patches *Node) *Node {
		logits := head(scope, standardised(scope, Reshape(patches, -1, set.Dim)), classes)
		logits = Reshape(logits, patchProbeBlock, set.Rows, set.Columns, classes)
		return ArgMax(layers.ResizeBilinear(logits, set.Height, set.Width), -1, dtypes.Uint8)
	})
	if err != nil {
		return nil, err
	}
	defer predict.Finalize()
	one, pixels := set.Rows*set.Columns*set.Dim, set.Height*set.Width
	for first := 0; first < set.Len(); first += patchProbeBlock {
		count := min(patchProbeBlock, set.Len()-first)
		block := make([]float32, patchProbeBlock*one) // The last block is padded with zeros.
		copy(block, set.Patches[first*one:(first+count)*one])
		out, err := predict.Call1(tensors.FromFlatDataAndDimensions(block, patchProbeBlock, set.Rows, set.Columns, set.Dim))
		if err != nil {
			return nil, err
		}
		all = append(all, tensors.MustCopyFlatData[uint8](out)[:count*pixels]...)
		out.FinalizeAll()
	}
	return all, nil
}

// Protocol describes the evaluation, for records.
func (p PatchProbe) Protocol() string {
	return fmt.Sprintf("linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation", p.Steps, p.Batch)
}

// Open opens drawn scenes.
func (PatchProbe) Open(s Source) (d Data, err error) {
	if s.Dataset != Synthetic {
		return d, fmt.Errorf("a patch probe segments drawn scenes, not %s", s.Dataset)
	}
	for i := range d.Scenes {
		d.Scenes[i] = synthetic.Run(s.Seed).Scenes(s.Images, s.Size, 12+2*i)
	}
	d.Name, d.ID = "synthetic scenes", d.Scenes[0].Identity+"; "+d.Scenes[1].Identity
	return d, nil
}

// Measure measures the mIoU on test scenes. The seed draws the patches of the probe's steps, the same ones at each evaluation.
func (p PatchProbe) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	segmentation, err := p.segment(ctx, e, d)
	r.Numbers = []Number{{Name: "miou", Metric: "mIoU", Unit: "%", Value: segmentation.MIoU}}
	return r, err
}

// segment segments scenes, of which background is a class.
func (p PatchProbe) segment(ctx context.Context, e *Encoder, d Data) (metrics.Segmentation, error) {
	scenes, err := EncodeScenes(ctx, e.FeatureExtractor, d.Scenes, d.Scenes[0].Height)
	if err != nil {
		return metrics.Segmentation{}, err
	}
	return p.Evaluate(e.backend, scenes[0], scenes[1], 1+len(d.Scenes[0].Classes), e.Seed)
}
