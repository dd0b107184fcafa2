package sccore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// Diagnostics say what drives a training.
type Diagnostics struct {
	// Lengths are the Euclidean lengths of the gradients of the losses, without their λ, on the features that they share: the [CLS] and patch tokens of
	// all views of the online branch, on one part of a batch. A loss that is off has 0. So does L_proto, which moves the prototypes alone.
	Lengths losses.Lambdas
	// Precision has the percentage of patch pairs of one class among the 1, 5 and 10 % of highest S_t, leaving out pairs that nobody can judge: pairs of two
	// patches of background and, where background has a label, pairs with an unlabelled patch. Nil without labels or a loss of patches.
	Precision []float64
	// Pairs are over all these pairs, and Objects over pairs of two patches of objects.
	Pairs, Objects Pairs
}

// Pairs are pairs of patches: Scores is their S_t, and Same says which are of one class.
type Pairs struct {
	Scores []float64
	Same   []bool
}

func (p *Pairs) add(score float64, same bool) {
	p.Scores, p.Same = append(p.Scores, score), append(p.Same, same)
}

// TopShares are the shares of pairs of [Diagnostics].Precision.
var TopShares = []float64{0.01, 0.05, 0.1}

// Shares are the parts of the losses, each times its λ, in the sum of the lengths; all 0 if no loss has a gradient.
func (d Diagnostics) Shares(lambdas losses.Lambdas) (shares losses.Lambdas) {
	sum := 0.0
	for _, loss := range Losses {
		*loss.lambda(&shares) = loss.Lambda(d.Lengths) * loss.Lambda(lambdas)
		sum += loss.Lambda(shares)
	}
	for _, loss := range Losses {
		if sum > 0 {
			*loss.lambda(&shares) /= sum
		}
	}
	return shares
}

// DiagnosticsEvaluator measures diagnostics every so many steps: "gauges/length_LOSS" and "gauges/share_LOSS" of each loss that is on, and
// "gauges/precision_top1" to "gauges/precision_top10", in percent. It leaves the training as it is, and takes as long as half a step.
func (t *Trainer) DiagnosticsEvaluator(every int) train.Evaluator {
	return train.Evaluator{Name: "gauges", Every: every, Evaluate: func(ctx context.Context) (_ map[string]float64, err error) {
		defer try.Handle(&err)
		d := try.E1(t.Diagnostics(ctx))
		values, shares := map[string]float64{}, d.Shares(t.Lambdas())
		for _, loss := range Losses {
			if loss.Lambda(t.config.Lambdas) > 0 {
				values["length_"+loss.Name], values["share_"+loss.Name] = loss.Lambda(d.Lengths), loss.Lambda(shares)
			}
		}
		for i, precision := range d.Precision {
			values[fmt.Sprintf("precision_top%g", 100*TopShares[i])] = precision
		}
		return values, nil
	}}
}

// Diagnostics measures on the part of a batch that comes next, and changes nothing. The first call compiles.
func (t *Trainer) Diagnostics(ctx context.Context) (Diagnostics, error) {
	return t.diagnose(ctx, t.Done()*t.parts(), 1, true)
}

// Correspondences are [Trainer.Diagnostics] without lengths. Their pairs are of 256 images at least, or of an epoch if that has fewer, from the batches that come
// next: a single batch may have few pairs of two objects.
func (t *Trainer) Correspondences(ctx context.Context) (Diagnostics, error) {
	part, epoch := t.config.Batch/t.parts(), datasets.Count(t.data.Objects)+datasets.Count(t.data.Scenes)
	return t.diagnose(ctx, t.Done()*t.parts(), (min(256, epoch)+part-1)/part, false)
}

// diagnose measures on parts of the run's batches. Lengths are of the last. Without them it computes no gradients.
func (t *Trainer) diagnose(ctx context.Context, first, parts int, lengths bool) (d Diagnostics, err error) {
	defer try.Handle(&err)
	s := t.step
	s.paired, s.lengths = s.labelled && s.hasPatchLoss(), lengths
	if !s.paired && !lengths {
		return d, nil
	}
	if t.diagnostics[lengths] == nil {
		t.diagnostics[lengths] = try.E1(train.NewProgram(t.backend, t.Store(), s.diagnostics, s.inputs()))
	}
	read := func(out []*tensors.Tensor) {
		if lengths {
			for i, length := range tensors.MustCopyFlatData[float32](out[len(out)-1]) {
				*Losses[i].lambda(&d.Lengths) = float64(length)
			}
		}
		if s.paired {
			scores := tensors.MustCopyFlatData[float32](out[0])
			for i, mark := range tensors.MustCopyFlatData[float32](out[1]) {
				same := mark == 1 || mark == 1+ofObjects
				if mark >= 0 {
					d.Pairs.add(float64(scores[i]), same)
				}
				if mark >= ofObjects {
					d.Objects.add(float64(scores[i]), same)
				}
			}
		}
	}
	for part := first; part < first+parts; part++ {
		try.E(t.look(ctx, s, part, t.diagnostics[lengths], read))
	}
	if s.paired {
		d.Precision = metrics.PrecisionAtTop(d.Pairs.Scores, d.Pairs.Same, TopShares...)
	}
	return d, nil
}

// look runs a program on one part of the run's batches, as a step takes it, and changes nothing.
func (t *Trainer) look(ctx context.Context, s step, part int, program *train.Program, read func(outputs []*tensors.Tensor)) (err error) {
	defer try.Handle(&err)
	for batch, err := range t.mixture(t.Seed()).Batches(ctx, part) {
		try.E(err)
		inputs := try.E1(t.inputs(s, batch, t.Seed(), t.scheduled(min(part/t.parts(), t.config.Steps-1))))
		defer train.Free(inputs)
		return program.Call(inputs, read)
	}
	return errors.Join(ctx.Err(), errors.New("a run without images"))
}

// diagnostics is the graph: for labelled patches S_t and whether two patches are of one class, and the lengths of the gradients in the order of [Losses].
func (s step) diagnostics(scope *model.Scope, inputs []*Node) (out []*Node) {
	in := train.ByName(s.inputs(), inputs)
	made := s.pass(scope, in)
	if s.paired {
		_, q := s.pairs(made.online[0], made.source, in, made.read.noise)
		o := overlapOf(made.online[0], made.source, []int{0}, []int{1})
		out = append(out, q, judged(o.labels(in[inLabels]), in[inPartners], s.background, s.dtype))
	}
	if !s.lengths {
		return out
	}
	var shared, lengths []*Node
	for _, group := range made.online {
		shared = append(shared, group.class, group.tokens)
	}
	for i, loss := range made.losses {
		length := ScalarZero(in[inPixels].Graph(), s.dtype)
		if loss != nil && i != prototypes {
			squares := lo.Map(Gradient(loss, shared...), func(gradient *Node, _ int) *Node { return ReduceAllSum(Square(ConvertDType(gradient, s.dtype))) })
			length = Sqrt(ReduceAllSum(Stack(squares, 0)))
		}
		lengths = append(lengths, length)
	}
	return append(out, Stack(lengths, 0))
}

// ofObjects is added to the mark of a pair of two objects.
const ofObjects = 2

// judged marks pairs of a place of an image and a place of its partner by their labels, [images, (HW)²]: 1 for the same label other than 0, 0 for others, 2
// more for two objects, whose labels are above the background's, and −1 for pairs of which nobody knows whether they correspond: two places of background, which
// have the label background, or 0 if that is 0, and pairs with a place without a label, where background has one.
func judged(labels, partners *Node, background uint8, dtype dtypes.DType) *Node {
	images, places := labels.Shape().Dim(0), labels.Shape().Dim(1)
	theirs := InsertAxes(Gather(labels, InsertAxes(partners, -1)), 1)
	ours := InsertAxes(labels, -1)
	number := func(pairs *Node) *Node { return Reshape(ConvertDType(pairs, dtype), images, places*places) }
	last := Scalar(labels.Graph(), labels.DType(), background)
	unknown := LogicalAnd(Equal(ours, last), Equal(theirs, last))
	if background > 0 {
		unknown = LogicalOr(unknown, LogicalOr(Equal(ours, ZerosLike(ours)), Equal(theirs, ZerosLike(theirs))))
	}
	objects := LogicalAnd(GreaterThan(ours, last), GreaterThan(theirs, last))
	marks := Add(sameLabel(labels, partners, dtype), MulScalar(number(objects), ofObjects))
	return Where(Reshape(unknown, images, places*places), Neg(OnesLike(marks)), marks)
}

// Intermediates are what a training step computes of one image x and its partner x′, for figures of the method. Maps are row by row.
type Intermediates struct {
	// Online is view v1 of x, which the online branch sees here, Target its view v2, and Partner view v1 of x′: [ViewSize, ViewSize, 3] in [0, 1].
	Online, Target, Partner []float32
	ViewSize                int
	// OnlineTokens and TargetTokens are the patch tokens of those views of x, [Grid, Grid, Dim].
	OnlineTokens, TargetTokens []float32
	Grid, Dim                  int
	// OnlineAssignments and TargetAssignments are what each branch says of the places of the overlap of both views, [Grid, Grid, Outputs]: a softmax, and the
	// targets of Sinkhorn–Knopp. Each place sums to 1.
	OnlineAssignments, TargetAssignments []float32
	Outputs                              int
	// P and Q are the correspondences of x and x′ in both branches, [Grid², Grid²] in [0, 1].
	P, Q []float32
	From string      // Where they come from; see [Correspondences].
	ViT  encoder.ViT // Of the online branch.
	Done int         // Steps of training before this one.
	// Losses are over the whole batch, before they are weighted by Lambdas; 0 for a loss that is off.
	Losses, Lambdas losses.Lambdas
}

// Intermediates computes the next batch as both branches see it now, and changes nothing. x is the first scene, or the first image without scenes. The
// configuration needs losses of patches.
func (t *Trainer) Intermediates(ctx context.Context) (m Intermediates, err error) {
	defer try.Handle(&err)
	s := t.step
	if s.Lambdas.PatchAlignment == 0 || s.Lambdas.PatchConcentration == 0 {
		return m, errors.New("intermediates of a run without both losses of patches")
	}
	program := try.E1(train.NewProgram(t.backend, t.Store(), s.intermediates, s.inputs()))
	defer program.Finalize()
	m.ViewSize, m.Grid, m.Dim, m.Outputs = s.Views.GlobalCropSize, s.Views.GlobalCropSize/s.vit.PatchSize, s.vit.Dim, s.PatchHead.OutDim
	m.Lambdas, m.From, m.ViT, m.Done = t.Lambdas(), s.Correspondences.From, s.vit, t.Done()
	maps := []*[]float32{&m.Online, &m.Target, &m.Partner, &m.OnlineTokens, &m.TargetTokens, &m.OnlineAssignments, &m.TargetAssignments, &m.P, &m.Q}
	return m, t.look(ctx, s, t.Done()*t.parts(), program, func(out []*tensors.Tensor) {
		for i, values := range maps {
			*values = tensors.MustCopyFlatData[float32](out[i])
		}
		for i, loss := range Losses {
			*loss.lambda(&m.Losses) = float64(tensors.ToScalar[float32](out[len(maps)+i]))
		}
	})
}

// intermediates is the graph of [Intermediates]: maps in the order of its fields, and the losses.
func (s step) intermediates(scope *model.Scope, inputs []*Node) (out []*Node) {
	x := lo.Ternary(s.scenes > 0, s.objects, 0)
	in := train.ByName(s.inputs(), inputs)
	made := s.pass(scope, in)
	online, target := made.online[0], made.target[0]
	pixels := byView(s.show(SliceAxis(in[inPixels], 0, AxisRange(0, s.images())), in[inGlobals], s.Views.GlobalCropSize, s.objects).pixels, s.images())
	partner := SliceAxis(in[inPartners], 0, AxisElem(x))
	o := overlapOf(online, target, []int{0}, []int{1})
	targets := s.Sinkhorn.Targets(Reshape(o.ofTarget(ofViews(target.patches, 1)), -1, s.PatchHead.OutDim))
	logits := DivScalar(o.ofOnline(ofViews(online.patches, 0)), s.Temperature)
	p, q := s.pairs(online, made.source, in, made.read.noise)
	of := func(all *Node) *Node { return SliceAxis(all, 0, AxisElem(x)) }
	out = []*Node{
		of(ofViews(pixels, 0)), of(ofViews(pixels, 1)), Gather(ofViews(pixels, 0), InsertAxes(partner, -1)),
		of(ofViews(online.tokens, 0)), of(ofViews(target.tokens, 1)),
		of(Softmax(logits, -1)), of(Reshape(targets, logits.Shape().Dimensions...)), of(p), of(q),
	}
	for _, loss := range made.losses {
		if loss == nil {
			loss = ScalarZero(out[0].Graph(), s.dtype)
		}
		out = append(out, loss)
	}
	for i := range out {
		out[i] = ConvertDType(out[i], s.dtype)
	}
	return out
}

// TargetBranch is the frozen branch that S_t comes from: an encoder, and the projector of its patch tokens.
type TargetBranch struct {
	ViT       encoder.ViT
	PatchHead heads.Projector
	// Store has the weights of both: the encoder's in the scope TargetEncoder, and the projector's, which [TargetBranch.Project] draws if they are missing.
	Store *model.Store
}

// TargetEncoder is the scope of the encoder in the store of a [TargetBranch].
const TargetEncoder = "/" + targetScope + "/" + encoderScope

// ReadTarget reads the target branch of a training from a checkpoint. For an encoder that a training has left, such as online.safetensors, it reads the end of the training,
// final.safetensors in the same folder or in its checkpoints. The error is an [fs.ErrNotExist] if there is no such branch; the path may be empty.
func ReadTarget(path string) (b TargetBranch, err error) {
	defer try.Handle(&err)
	if slices.Contains([]string{"online.safetensors", "target.safetensors", "best.safetensors", "encoder.safetensors"}, filepath.Base(path)) {
		ended := filepath.Join(filepath.Dir(path), "final.safetensors")
		if path = ended; !isFile(ended) {
			path = filepath.Join(filepath.Dir(ended), "checkpoints", "final.safetensors")
		}
	}
	absent := fmt.Errorf("%s: no target branch: %w", path, fs.ErrNotExist)
	if !isFile(path) {
		return b, absent
	}
	config, ok := try.E2(configOf(path))
	if !ok {
		return b, absent
	}
	named, _ := try.E2(safetensors.Read(path))
	if named["/"+targetScope+"/"+patchHeadScope+"/layer1/weight"] == nil { // A run without losses of patches, or of another method.
		return b, absent
	}
	if err := settings.Check(config); err != nil {
		return b, fmt.Errorf("%s: configuration of the run: %w", path, err)
	}
	b = TargetBranch{ViT: config.ViT(), PatchHead: config.PatchHead, Store: model.NewStore()}
	b.ViT.ComputeDType = dtypes.InvalidDType
	for name, value := range named {
		if strings.HasPrefix(name, "/"+targetScope+"/") {
			if _, err := b.Store.CreateVariable(name, value); err != nil {
				b.Store.Finalize()
				return b, err
			}
		}
	}
	return b, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Project maps patch tokens, [N, ViT.Dim], to the projected features that S_t compares, [N, PatchHead.OutDim], of length 1. The seed draws the weights of a
// projector that has none, as they are when a training begins.
func (b TargetBranch) Project(engine compute.Backend, tokens []float32, seed uint64) (projected []float32, err error) {
	defer try.Handle(&err)
	rows := tensors.FromFlatDataAndDimensions(tokens, len(tokens)/b.ViT.Dim, b.ViT.Dim)
	defer rows.FinalizeAll()
	trained := b.Store.GetVariable("/"+targetScope+"/"+patchHeadScope+"/layer1/weight") != nil
	program := try.E1(train.NewProgram(engine, b.Store, func(scope *model.Scope, inputs []*Node) []*Node {
		return []*Node{b.PatchHead.Project(scope.At(targetScope).At(patchHeadScope), inputs[0])}
	}, []train.Input{{Shape: rows.Shape()}}))
	defer program.Finalize()
	if !trained { // Compiling has created the variables.
		try.E(train.Initialize(b.Store, seed))
	}
	err = program.Call([]any{rows}, func(out []*tensors.Tensor) { projected = tensors.MustCopyFlatData[float32](out[0]) })
	return projected, err
}
