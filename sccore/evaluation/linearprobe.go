package evaluation

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
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
func (h headTraining) run(b compute.Backend, store *model.Store) (err error) {
	defer try.Handle(&err)
	step := try.E1(model.NewExec(b, store, func(scope *model.Scope, inputs []*Node) *Node {
		rate := inputs[len(inputs)-1]
		loss := h.loss(scope, inputs[:len(inputs)-1])
		if variables, gradients := train.Gradients(scope.At("head"), loss, ""); h.momentum > 0 {
			optim.SGD{Momentum: h.momentum}.Update(scope.At("sgd"), variables, gradients, rate)
		} else {
			optim.DefaultAdamW().Update(scope.At("adam"), variables, gradients, rate, Const(loss.Graph(), float32(h.decay)))
		}
		return loss
	}))
	defer step.Finalize()
	for i := range h.steps {
		inputs := try.E1(h.batch(i))
		out := try.E1(step.Call(append(inputs, float32(optim.Cosine(i, h.steps, 0, h.rate, 0)))...))
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

// FastLinearProbe is the protocol of the paper's ablation: one epoch of 30,000 images. The paper gives no batch size or learning rate; as the steps are few,
// our batch is smaller and our rate is larger. On photographs and a published ViT-S, 120 steps at this rate reach about what 600 at a tenth of it do.
func FastLinearProbe() LinearProbe {
	return LinearProbe{Images: 30_000, Epochs: 1, Batch: 256, LearningRate: 1e-2, WeightDecay: 0.01}
}

// Protocol describes the classifier.
func (p LinearProbe) Protocol() string {
	return fmt.Sprintf("linear probe, AdamW, %d epochs of batches of %d, rate %g", p.Epochs, p.Batch, p.LearningRate)
}

// Rank trains the classifier on labelled features. It returns for each query, [Q, Dim], the top classes, most probable first; all classes if there are fewer. The seed draws the images and their order. The last batch of an epoch may be smaller, and counts as much
// as any other batch.
func (p LinearProbe) Rank(b compute.Backend, from knn.Labelled, queries []float32, top int, seed uint64) (ranked [][]int32, err error) {
	if err := from.Check(queries, top); err != nil {
		return nil, fmt.Errorf("linear probe: %w", err)
	}
	return p.training(from, seed).rank(b, from.Classes, top, func() ([]float32, int, error) { return queries, from.Dim, nil })
}

// rank trains a head and returns for each query, [Q, dim], its top classes, most probable first. The queries are read after the training.
func (h headTraining) rank(b compute.Backend, classes, top int, read func() (queries []float32, dim int, err error)) (ranked [][]int32, err error) {
	store := model.NewStore()
	defer store.Finalize()
	err = backend.Catch(func() (err error) {
		defer try.Handle(&err)
		try.E(h.run(b, store))
		queries, dim := try.E2(read())
		classify := try.E1(model.NewExec(b, store, func(scope *model.Scope, features *Node) *Node { return head(scope, features, classes) }))
		defer classify.Finalize()
		ranked, err = knn.RankBlocks(queries, dim, top, func(block *tensors.Tensor) (*tensors.Tensor, error) { return classify.Call1(block) })
		return err
	})
	return ranked, err
}

// classLoss is the cross-entropy of the head on features, [rows, D], with labels, [rows], and how often each row counts, [rows].
func classLoss(classes int) func(scope *model.Scope, inputs []*Node) *Node {
	return func(scope *model.Scope, inputs []*Node) *Node {
		logits, counts := head(scope, inputs[0], classes), inputs[2]
		losses := Neg(ReduceSum(Mul(OneHot(inputs[1], classes, logits.DType()), LogSoftmax(logits, -1)), -1))
		return Div(ReduceAllSum(Mul(losses, counts)), ReduceAllSum(counts))
	}
}

func (p LinearProbe) training(from knn.Labelled, seed uint64) headTraining {
	random := probeOrder(seed, "class probe")
	order, dim := random.Perm(len(from.Labels)), from.Dim
	if p.Images > 0 && p.Images < len(order) {
		order = order[:p.Images]
	}
	batch := min(p.Batch, len(order))
	steps := (len(order) + batch - 1) / batch
	features, chosen, counts := make([]float32, batch*dim), make([]int32, batch), make([]float32, batch)
	return headTraining{
		name: "linear probe", steps: p.Epochs * steps, rate: p.LearningRate, decay: p.WeightDecay, loss: classLoss(from.Classes),
		batch: func(step int) ([]any, error) {
			if step > 0 && step%steps == 0 {
				random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			part := order[step%steps*batch:]
			for at := range batch {
				counts[at] = 0
				if at < len(part) {
					counts[at], chosen[at] = 1, from.Labels[part[at]]
					copy(features[at*dim:], from.Features[part[at]*dim:(part[at]+1)*dim])
				}
			}
			return []any{tensors.FromFlatDataAndDimensions(features, batch, dim), chosen, counts}, nil
		},
	}
}

// AuthorsProbe is linear classification as DINO measures it (eval_linear.py), and iBOT and Mugs after it: the protocol of the baselines' numbers in the paper's Tab. main. A
// linear layer sees the [CLS] tokens of the last four blocks, or, of transformers wider than ViT-S, the [CLS] token of the last block and the mean of its patch tokens. SGD trains it
// on random crops of at least 8 % of an image, mirrored half of the time: each epoch encodes all images anew.
type AuthorsProbe struct {
	Epochs       int     `json:"epochs" range:"[0,2^14]"` // 0 for no such probe.
	Batch        int     `json:"batch" range:"[1,2^18]"`  // The images that are left over at the end of an epoch are left out.
	LearningRate float64 `json:"rate" range:"(0,1e4]"`    // For a batch of 256: it grows with the batch, and follows a cosine to 0.
}

// Protocol describes the classifier.
func (p AuthorsProbe) Protocol() string {
	return fmt.Sprintf("as DINO measures: linear layer on [CLS] of the last 4 blocks, or of the last and its mean patch token, random crops, SGD, %d epochs of batches of %d, rate %g per 256",
		p.Epochs, p.Batch, p.LearningRate)
}

// outputs are what the layer sees of a transformer.
func (p AuthorsProbe) outputs(v encoder.ViT) Outputs {
	return lo.Ternary(v.Dim > 384, Outputs{Patches: true}, Outputs{Blocks: lo.RangeFrom(max(1, v.Depth-3), min(4, v.Depth))})
}

// joined are the outputs of an image as one feature.
func joined(all []Features) (feature []float32) {
	for _, f := range all {
		dim, places := len(f.Class), float32(f.Rows*f.Columns)
		mean := make([]float32, min(dim, len(f.Patches)))
		for i, x := range f.Patches {
			mean[i%dim] += x / places
		}
		feature = slices.Concat(feature, f.Class, mean)
	}
	return feature
}

// order is the order of n images in an epoch.
func (p AuthorsProbe) order(seed uint64, epoch, n int) []int {
	return rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(n)
}

// leastCrop is the least area of a random crop, as a share of the image, and cropCanvas the longer side in pixels that larger images are shrunk to before.
const (
	leastCrop  = 0.08
	cropCanvas = 512
)

// crops yields random crops of the images of all epochs.
func (p AuthorsProbe) crops(ctx context.Context, e *Encoder, set datasets.Source, perEpoch, size int) iter.Seq2[Image, error] {
	return func(yield func(Image, error) bool) {
		for epoch := range p.Epochs {
			order := p.order(e.Seed, epoch, set.Len())[:perEpoch]
			for image, err := range datasets.InTurn(ctx, perEpoch, e.batch, func(i int) (Image, error) {
				return randomCrop(e, set, order[i], size, rand.New(rand.NewPCG(e.Seed, uint64(epoch)<<32|uint64(order[i]))))
			}) {
				if !yield(image, err) {
					return
				}
			}
		}
	}
}

// randomCrop reads a random crop of an image of a set. A picture of [datasets.ImageFolder] that cannot be read is black, as in [ImagesOf], which names it.
func randomCrop(e *Encoder, set datasets.Source, at, size int, rng *rand.Rand) (_ Image, err error) {
	defer try.Handle(&err)
	canvas := make([]uint8, cropCanvas*cropCanvas*3)
	read, err := set.Read(at, canvas, cropCanvas)
	if _, skipped := set.(*datasets.ImageFolder); skipped && err != nil {
		clear(canvas)
		read, err = datasets.Size{Height: cropCanvas, Width: cropCanvas}, nil
	}
	try.E(err)
	whole := &datasets.SegmentedImage{Height: read.Height, Width: read.Width}
	for row := range read.Height {
		whole.Pixels = append(whole.Pixels, canvas[3*row*cropCanvas:3*(row*cropCanvas+read.Width)]...)
	}
	pixels, _ := RandomResizedCrop{size, leastCrop}.Cut(whole, 0, rng)
	image := NewImage(pixels, datasets.Size{Height: size, Width: size}, e.Preprocessing)
	image.Name = nameOf(set, at)
	return image, nil
}

// Rank trains the layer on the first objects and returns for each of the second the top classes, most probable first. The seed draws the order of images and their crops.
func (p AuthorsProbe) Rank(ctx context.Context, e *Encoder, d Data, size, top int) (ranked [][]int32, err error) {
	n, outputs := d.Objects[0].Len(), p.outputs(e.ViT)
	batch := min(p.Batch, n)
	steps := n / batch
	next, stop := iter.Pull2(e.Extract(p.crops(ctx, e, d.Objects[0], steps*batch, size), outputs))
	defer stop()
	var order []int
	training := headTraining{
		name: "linear layer", steps: p.Epochs * steps, rate: p.LearningRate * float64(batch) / 256, momentum: 0.9, loss: classLoss(d.Classes),
		batch: func(step int) ([]any, error) {
			if step%steps == 0 {
				order = p.order(e.Seed, step/steps, n)
			}
			var features, counts []float32
			var labels []int32
			for _, i := range order[step%steps*batch:][:batch] {
				all, err, _ := next()
				if err != nil {
					return nil, err
				}
				features, counts, labels = append(features, joined(all)...), append(counts, 1), append(labels, d.Labels[0][i])
			}
			return []any{tensors.FromFlatDataAndDimensions(features, batch, len(features)/batch), labels, counts}, nil
		},
	}
	return training.rank(e.backend, d.Classes, top, func() (queries []float32, dim int, err error) {
		defer try.Handle(&err)
		tested := d.Objects[1].Len()
		for all, err := range e.Extract(ImagesOf(d.Objects[1], e.Preprocessing, size, tested, e.Skipped), outputs) {
			try.E(err)
			queries = append(queries, joined(all)...)
		}
		return queries, len(queries) / tested, nil
	})
}
