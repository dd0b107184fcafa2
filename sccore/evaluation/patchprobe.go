package evaluation

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// AnnotatedPatches are patch features of N images, computed once, and the annotation of the images' pixels.
type AnnotatedPatches struct {
	Rows, Columns, Dim int
	Patches            []float32 // [N, Rows, Columns, Dim]

	Height, Width int     // The annotation's: multiples of Rows and Columns.
	Truth         []uint8 // [N, Height, Width], classes from 0, or [datasets.Ignore].
}

// Len is the number of images.
func (a AnnotatedPatches) Len() int { return len(a.Truth) / (a.Height * a.Width) }

// Check returns an error that says which sizes do not match or which class is out of range, or that no pixel is annotated.
func (a AnnotatedPatches) Check(classes int) error {
	if classes < 1 || classes > int(datasets.Ignore) {
		return fmt.Errorf("annotated patches: %d classes, want 1 to %d", classes, datasets.Ignore)
	}
	if a.Rows < 1 || a.Columns < 1 || a.Dim < 1 || a.Height < a.Rows || a.Width < a.Columns || a.Height%a.Rows != 0 || a.Width%a.Columns != 0 {
		return fmt.Errorf("annotated patches: %d×%d patches of %d features do not fit an annotation of %d×%d", a.Rows, a.Columns, a.Dim, a.Height, a.Width)
	}
	n := a.Len()
	if n < 1 || len(a.Truth) != n*a.Height*a.Width || len(a.Patches) != n*a.Rows*a.Columns*a.Dim {
		return fmt.Errorf("annotated patches: %d features and %d pixels do not make images of %d×%d patches of %d features and %d×%d pixels",
			len(a.Patches), len(a.Truth), a.Rows, a.Columns, a.Dim, a.Height, a.Width)
	}
	image := a.Rows * a.Columns * a.Dim
	for i := range n {
		if err := safetensors.CheckFinite(a.Patches[i*image : (i+1)*image]); err != nil {
			return fmt.Errorf("annotated patches: features of image %d are not finite: %w", i, err)
		}
	}
	counted := 0
	for i, class := range a.Truth {
		if class == datasets.Ignore {
			continue
		}
		if counted++; int(class) >= classes {
			return fmt.Errorf("annotated patches: pixel %d has class %d, want 0 to %d", i, class, classes-1)
		}
	}
	if counted == 0 {
		return errNotAnnotated
	}
	return nil
}

// shares counts the classes in each patch, as shares of the patch's pixels: [N·Rows·Columns, classes]. Ignored pixels have no class.
func (a AnnotatedPatches) shares(classes int) []float32 {
	high, wide := a.Height/a.Rows, a.Width/a.Columns
	out := make([]float32, a.Len()*a.Rows*a.Columns*classes)
	for i, class := range a.Truth {
		if class == datasets.Ignore {
			continue
		}
		column, row, image := i%a.Width/wide, i/a.Width%a.Height/high, i/(a.Width*a.Height)
		out[((image*a.Rows+row)*a.Columns+column)*classes+int(class)] += 1 / float32(high*wide)
	}
	return out
}

// standardization is the mean and standard deviation of each feature over the set, [Dim] each.
func (a AnnotatedPatches) standardization() (mean, deviation []float32) {
	count := float64(len(a.Patches) / a.Dim)
	sum, square := make([]float64, a.Dim), make([]float64, a.Dim)
	for i, x := range a.Patches {
		sum[i%a.Dim] += float64(x)
	}
	for i, x := range a.Patches {
		centred := float64(x) - sum[i%a.Dim]/count
		square[i%a.Dim] += centred * centred
	}
	for d := range a.Dim {
		mean = append(mean, float32(sum[d]/count))
		deviation = append(deviation, float32(math.Sqrt(square[d]/count+1e-12)))
	}
	return mean, deviation
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

// Evaluate trains the head on one set and returns how well it segments the other, see [PatchProbe.Confusion].
func (p PatchProbe) Evaluate(b compute.Backend, train, test AnnotatedPatches, classes int, seed uint64) (metrics.Segmentation, error) {
	confusion, err := p.Confusion(b, train, test, classes, seed)
	if err != nil {
		return metrics.Segmentation{}, err
	}
	return confusion.Segmentation(), nil
}

// Confusion trains the head on one set and counts what it predicts on the other. The seed draws the patches of each step; the head starts at 0.
//
// In training, the target of a patch is the distribution of classes over its pixels, which gives the cross-entropy of all pixels under their patch's
// prediction; ignored pixels do not count. In testing, logits are resized bilinearly to the annotation's size (align_corners=false), and every pixel
// counts. Features stay on the host except for the current batch.
func (p PatchProbe) Confusion(b compute.Backend, train, test AnnotatedPatches, classes int, seed uint64) (confusion *metrics.Confusion, err error) {
	if err := p.check(train, test, classes); err != nil {
		return nil, err
	}
	caught := exceptions.TryCatch[error](func() {
		store := model.NewStore()
		defer store.Finalize()
		mean, deviation := train.standardization()
		for name, values := range map[string][]float32{"mean": mean, "deviation": deviation} {
			var variable *model.Variable
			if variable, err = store.CreateVariable("/"+name, tensors.FromValue(values)); err != nil {
				return
			}
			variable.SetTrainable(false)
		}
		if err = p.train(b, store, train, classes, seed); err == nil {
			confusion, err = p.test(b, store, test, classes)
		}
	})
	if caught != nil {
		err = caught
	}
	return confusion, err
}

func (p PatchProbe) check(train, test AnnotatedPatches, classes int) error {
	if err := settings.Check(p); err != nil {
		return fmt.Errorf("patch probe: %w", err)
	}
	if err := train.Check(classes); err != nil {
		return fmt.Errorf("training set: %w", err)
	}
	if err := test.Check(classes); err != nil {
		return fmt.Errorf("test set: %w", err)
	}
	if train.Dim != test.Dim {
		return fmt.Errorf("patch probe: %d features in training, %d in testing", train.Dim, test.Dim)
	}
	return nil
}

// standardised shifts and scales patches, [rows, dim], by the training set's mean and standard deviation.
func standardised(scope *model.Scope, patches *Node) *Node {
	constant := func(name string) *Node {
		return InsertAxes(scope.Store().GetVariable("/"+name).NodeValue(patches), 0)
	}
	return Div(Sub(patches, constant("mean")), constant("deviation"))
}

// head maps features, [rows, dim], to logits, [rows, classes].
func head(scope *model.Scope, features *Node, classes int) *Node {
	scope = scope.At("head").WithInitializer(Zeros)
	weight := scope.VariableWithShape("weight", shapes.Make(features.DType(), features.Shape().Dim(1), classes))
	bias := scope.VariableWithShape("bias", shapes.Make(features.DType(), classes))
	return Add(MatMul(features, weight.NodeValue(features)), InsertAxes(bias.NodeValue(features), 0))
}

// train runs all steps.
func (p PatchProbe) train(b compute.Backend, store *model.Store, set AnnotatedPatches, classes int, seed uint64) error {
	step, err := model.NewExec(b, store, func(scope *model.Scope, inputs []*Node) *Node {
		patches, shares, rate := inputs[0], inputs[1], inputs[2]
		g := patches.Graph()
		total := MaxScalar(ReduceAllSum(shares), 1e-6) // A batch may hold only ignored pixels.
		loss := Div(Neg(ReduceAllSum(Mul(shares, LogSoftmax(head(scope, standardised(scope, patches), classes), -1)))), total)
		var variables []*model.Variable
		var values []*Node
		for variable := range scope.At("head").IterVariables() {
			variables, values = append(variables, variable), append(values, variable.NodeValue(g))
		}
		optim.DefaultAdamW().Update(scope.At("adam"), variables, Gradient(loss, values...), rate, ScalarZero(g, dtypes.Float32))
		return loss
	})
	if err != nil {
		return err
	}
	defer step.Finalize()
	random := patchProbeOrder(seed)
	targets := set.shares(classes)
	patches, shares := make([]float32, p.Batch*set.Dim), make([]float32, p.Batch*classes)
	count := len(set.Patches) / set.Dim
	for i := range p.Steps {
		for at := range p.Batch {
			patch := random.IntN(count)
			copy(patches[at*set.Dim:], set.Patches[patch*set.Dim:(patch+1)*set.Dim])
			copy(shares[at*classes:], targets[patch*classes:(patch+1)*classes])
		}
		out, err := step.Call(
			tensors.FromFlatDataAndDimensions(patches, p.Batch, set.Dim), tensors.FromFlatDataAndDimensions(shares, p.Batch, classes),
			float32(optim.Cosine(i, p.Steps, 0, p.LearningRate, 0)))
		if err != nil {
			return err
		}
		out[0].FinalizeAll()
	}
	return nil
}

// test predicts every pixel of the set.
func (p PatchProbe) test(b compute.Backend, store *model.Store, set AnnotatedPatches, classes int) (*metrics.Confusion, error) {
	predict, err := model.NewExec(b, store, func(scope *model.Scope, patches *Node) *Node {
		logits := head(scope, standardised(scope, Reshape(patches, -1, set.Dim)), classes)
		logits = Reshape(logits, patchProbeBlock, set.Rows, set.Columns, classes)
		return ArgMax(layers.ResizeBilinear(logits, set.Height, set.Width), -1, dtypes.Uint8)
	})
	if err != nil {
		return nil, err
	}
	defer predict.Finalize()
	confusion := metrics.NewConfusion(classes)
	one, pixels := set.Rows*set.Columns*set.Dim, set.Height*set.Width
	for first := 0; first < set.Len(); first += patchProbeBlock {
		count := min(patchProbeBlock, set.Len()-first)
		block := make([]float32, patchProbeBlock*one) // The last block is padded with zeros.
		copy(block, set.Patches[first*one:(first+count)*one])
		out, err := predict.Call(tensors.FromFlatDataAndDimensions(block, patchProbeBlock, set.Rows, set.Columns, set.Dim))
		if err != nil {
			return nil, err
		}
		predicted := tensors.MustCopyFlatData[uint8](out[0])
		out[0].FinalizeAll()
		if err := confusion.Add(set.Truth[first*pixels:(first+count)*pixels], predicted[:count*pixels]); err != nil {
			return nil, err
		}
	}
	return confusion, nil
}

// patchProbeOrder draws the patches of each step.
func patchProbeOrder(seed uint64) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[16:], "patch probe")
	return rand.New(rand.NewChaCha8(key))
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
	scenes, err := encodeScenes(ctx, e.FeatureExtractor, d.Scenes, d.Scenes[0].Height)
	if err != nil {
		return metrics.Segmentation{}, err
	}
	return p.Evaluate(e.backend, scenes[0], scenes[1], 1+len(d.Scenes[0].Classes), e.Seed)
}
