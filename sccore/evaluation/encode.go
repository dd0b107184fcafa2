package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// EncodeBatch is the number of images that experiments encode at once.
const EncodeBatch = 32

// Encoded are the features of a set of images.
type Encoded struct {
	Dim, Rows, Columns int
	Class, Patches     []float32 // [N, Dim] and, if asked for, [N, Rows, Columns, Dim].
}

// Encode computes the features of the first n images of a set, read by [ImagesOf].
func Encode(ctx context.Context, extractor *FeatureExtractor, source datasets.Source, size, n int, patches bool) (out Encoded, err error) {
	defer try.Handle(&err)
	out.Dim = extractor.ViT.Dim
	for all, err := range extractor.Extract(ImagesOf(source, extractor.Preprocessing, size, n, extractor.Skipped), Outputs{Patches: patches}) {
		try.E(cmp.Or(err, ctx.Err()))
		features := all[0]
		out.Rows, out.Columns = features.Rows, features.Columns
		out.Class, out.Patches = append(out.Class, features.Class...), append(out.Patches, features.Patches...)
	}
	return out, nil
}

// LabelledPictures are pictures with labels. Every picture counts in the result, so [ImagesOf] returns an error if one cannot be read.
type LabelledPictures struct{ *datasets.ImageFolder }

// ImagesOf yields the first n images of a set as an encoder takes them: crops of size pixels of pictures, made by a preprocessing that crops, whole scenes
// resized to squares of size pixels, and other images in memory at their own size. A picture of [datasets.ImageFolder] that cannot be read is black, since training skips it too; skipped is told of it unless it
// is nil.
func ImagesOf(source datasets.Source, by datasets.Preprocessing, size, n int, skipped func(datasets.Skipped)) iter.Seq2[Image, error] {
	return func(yield func(Image, error) bool) {
		for i := range min(n, source.Len()) {
			var pixels []uint8
			var err error
			read := datasets.Size{Height: size, Width: size}
			switch source := source.(type) {
			case *datasets.ImageFolder:
				if pixels, read, err = source.Preprocess(i, by, size, 1); err != nil {
					if skipped != nil {
						skipped(source.Skip(i, err))
					}
					pixels, read, err = make([]uint8, size*size*3), datasets.Size{Height: size, Width: size}, settings.Check(by)
				}
			case LabelledPictures:
				pixels, read, err = source.Preprocess(i, by, size, 1)
			case *datasets.AnnotatedScenes:
				pixels = source.Square(i, size)
			case *datasets.Images:
				pixels, read = source.At(i), datasets.Size{Height: source.Height, Width: source.Width}
			default:
				err = fmt.Errorf("cannot encode images of a %T", source)
			}
			if err != nil {
				yield(Image{}, err)
				return
			}
			im := NewImage(pixels, read, by)
			if im.Name = nameOf(source, i); !yield(im, nil) {
				return
			}
		}
	}
}

// nameOf names an image of a set in errors.
func nameOf(source datasets.Source, i int) string {
	switch source := source.(type) {
	case *datasets.ImageFolder:
		return filepath.Join(source.Name, source.File(i))
	case LabelledPictures:
		return nameOf(source.ImageFolder, i)
	case *datasets.Images:
		return fmt.Sprintf("%d of %s", i, source.Name)
	}
	return ""
}

// AnnotatedPatches are patch features of N images, computed once, and the annotation of the images' pixels.
type AnnotatedPatches struct {
	Rows, Columns, Dim int
	Patches            []float32 // [N, Rows, Columns, Dim]

	Height, Width int     // The annotation's: multiples of Rows and Columns.
	Truth         []uint8 // [N, Height, Width], classes from 0, or [datasets.Ignore].
}

// Len is the number of images.
func (a AnnotatedPatches) Len() int { return len(a.Truth) / (a.Height * a.Width) }

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
		mean, deviation = append(mean, float32(sum[d]/count)), append(deviation, float32(math.Sqrt(square[d]/count+1e-12)))
	}
	return mean, deviation
}

// RandomViT draws the weights of a transformer that encoder.ViTByName knows, at the root of a store: the same on every backend.
func RandomViT(name string, seed int) (v encoder.ViT, store *model.Store, err error) {
	defer try.Handle(&err)
	v = try.E1(encoder.ViTByName(name))
	host := try.E1(backend.OpenConfig(backend.Go))
	defer host.Finalize()
	store = model.NewStore()
	try.E(backend.Catch(func() (err error) {
		defer try.Handle(&err)
		tokens := try.E1(model.NewExec(host, store, func(scope *model.Scope, images *Node) *Node { return v.Tokens(scope, images).Class }))
		defer tokens.Finalize()
		_, err = tokens.Compile(shapes.Make(dtypes.Float32, 1, v.PatchSize, v.PatchSize, 3)) // Compiling creates the variables.
		return err
	}))
	return v, store, train.Initialize(store, uint64(seed))
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
func (p PatchProbe) Evaluate(b compute.Backend, train, test AnnotatedPatches, classes int, seed uint64) (_ metrics.Segmentation, err error) {
	defer try.Handle(&err)
	confusion := metrics.NewConfusion(classes)
	try.E(confusion.Add(test.Truth, try.E1(p.predict(b, train, test, classes, seed))))
	return confusion.Segmentation(), nil
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
	err = backend.Catch(func() (err error) {
		defer try.Handle(&err)
		mean, deviation := train.standardization()
		for name, values := range map[string][]float32{"mean": mean, "deviation": deviation} {
			variable := try.E1(store.CreateVariable("/"+name, tensors.FromValue(values)))
			variable.SetTrainable(false)
		}
		try.E(p.training(train, classes, seed).run(b, store))
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
	defer try.Handle(&err)
	predict := try.E1(model.NewExec(b, store, func(scope *model.Scope, patches *Node) *Node {
		logits := head(scope, standardised(scope, Reshape(patches, -1, set.Dim)), classes)
		logits = Reshape(logits, patchProbeBlock, set.Rows, set.Columns, classes)
		return ArgMax(layers.ResizeBilinear(logits, set.Height, set.Width), -1, dtypes.Uint8)
	}))
	defer predict.Finalize()
	one, pixels := set.Rows*set.Columns*set.Dim, set.Height*set.Width
	for first := 0; first < set.Len(); first += patchProbeBlock {
		count := min(patchProbeBlock, set.Len()-first)
		block := make([]float32, patchProbeBlock*one) // The last block is padded with zeros.
		copy(block, set.Patches[first*one:(first+count)*one])
		out := try.E1(predict.Call1(tensors.FromFlatDataAndDimensions(block, patchProbeBlock, set.Rows, set.Columns, set.Dim)))
		all = append(all, tensors.MustCopyFlatData[uint8](out)[:count*pixels]...)
		out.FinalizeAll()
	}
	return all, nil
}

// Protocol describes the evaluation, for records.
func (p PatchProbe) Protocol() string {
	return fmt.Sprintf("linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation", p.Steps, p.Batch)
}

// Open is an error: the probe segments scenes that the training has drawn.
func (PatchProbe) Open(Source) (Data, error) {
	return Data{}, errors.New("a patch probe has no images of its own")
}

// Measure measures the mIoU on test scenes. The seed draws the patches of the probe's steps, the same ones at each evaluation.
func (p PatchProbe) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	segmentation, err := p.segment(ctx, e, d)
	r.Numbers = []Number{{Name: "miou", Metric: "mIoU", Unit: "%", Value: segmentation.MIoU}}
	return r, err
}

// segment segments scenes, of which background is a class.
func (p PatchProbe) segment(ctx context.Context, e *Encoder, d Data) (_ metrics.Segmentation, err error) {
	defer try.Handle(&err)
	var sets [2]AnnotatedPatches
	for i, s := range d.Scenes {
		f := try.E1(Encode(ctx, e.FeatureExtractor, s.Images, s.Height, s.Len(), true))
		sets[i] = AnnotatedPatches{Rows: f.Rows, Columns: f.Columns, Dim: f.Dim, Patches: f.Patches, Height: s.Height, Width: s.Width, Truth: s.ClassMask}
	}
	return p.Evaluate(e.backend, sets[0], sets[1], 1+len(d.Scenes[0].Classes), e.Seed)
}
