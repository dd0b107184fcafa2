package sccore

import (
	"context"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/train"
)

// Gauges say what drives a training. They are measured on one part of a batch.
type Gauges struct {
	// Lengths are the Euclidean lengths of the gradients of the losses, without their λ, on the features that they share: the [CLS] and patch tokens of
	// all views of the online branch. A loss that is off has 0. So does L_proto, which moves the prototypes alone.
	Lengths losses.Lambdas
	// Precision has the percentage of patch pairs of one class among the 1, 5 and 10 % of highest S_t, leaving out pairs of two patches without a label;
	// nil without labels or a loss of patches.
	Precision []float64
	// Scores are S_t of those pairs, and Same says which are of one class.
	Scores []float64
	Same   []bool
}

// TopShares are the shares of pairs of [Gauges].Precision.
var TopShares = []float64{0.01, 0.05, 0.1}

// Shares are the parts of the losses, each times its λ, in the sum of the lengths; all 0 if no loss has a gradient.
func (g Gauges) Shares(lambdas losses.Lambdas) (shares losses.Lambdas) {
	sum := 0.0
	for i, share := range each(&shares) {
		*share = *each(&g.Lengths)[i] * *each(&lambdas)[i]
		sum += *share
	}
	if sum > 0 {
		for _, share := range each(&shares) {
			*share /= sum
		}
	}
	return shares
}

// each returns the weights in the order of losses.Lambdas, which is that of the step's inputs.
func each(l *losses.Lambdas) [5]*float64 {
	return [5]*float64{&l.PatchAlignment, &l.ImageAlignment, &l.PatchConcentration, &l.ImageConcentration, &l.Prototypes}
}

// GaugeEvaluator measures gauges every so many steps: "gauges/length_LOSS" and "gauges/share_LOSS" of each loss that is on, under the names of --set
// lambdas, and "gauges/precision_top1" to "gauges/precision_top10", in percent. It leaves the training as it is, and takes as long as half a step.
func (t *Trainer) GaugeEvaluator(every int) train.Evaluator {
	return train.Evaluator{Name: "gauges", Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		g, err := t.Gauges(ctx)
		if err != nil {
			return nil, err
		}
		values, shares := map[string]float64{}, g.Shares(t.objective.lambdas())
		for i, name := range lossNames {
			if *each(&t.objective.config.Lambdas)[i] > 0 {
				values["length_"+name], values["share_"+name] = *each(&g.Lengths)[i], *each(&shares)[i]
			}
		}
		for i, precision := range g.Precision {
			values[fmt.Sprintf("precision_top%g", 100*TopShares[i])] = precision
		}
		return values, nil
	}}
}

// lossNames are the names of the losses in settings, in the order of losses.Lambdas.
var lossNames = [5]string{"patch_alignment", "image_alignment", "patch_concentration", "image_concentration", "prototypes"}

// Gauges measures on the batch of the run's next step and changes nothing. The first call compiles.
func (t *Trainer) Gauges(ctx context.Context) (g Gauges, err error) {
	return t.gauges(ctx, t.Done()*t.objective.Parts())
}

// gauges measures on one part of the run's batches.
func (t *Trainer) gauges(ctx context.Context, part int) (g Gauges, err error) {
	o := t.objective
	s := o.step
	s.paired = s.labelled && s.hasPatchLoss()
	if t.gauge == nil {
		if t.gauge, err = model.NewExec(t.backend, t.Store(), s.gauges); err != nil {
			return g, err
		}
	}
	for batch, err := range o.mixture(t.Seed()).Batches(ctx, part) {
		if err != nil {
			return g, err
		}
		inputs, err := o.inputs(s, batch, t.Seed(), o.scheduled(part/o.Parts()))
		if err != nil {
			return g, err
		}
		defer train.Free(inputs)
		return g, train.Execute(t.gauge, inputs, func(out []*tensors.Tensor) {
			for i, length := range tensors.MustCopyFlatData[float32](out[0]) {
				*each(&g.Lengths)[i] = float64(length)
			}
			if s.paired {
				scores := tensors.MustCopyFlatData[float32](out[1])
				for i, mark := range tensors.MustCopyFlatData[float32](out[2]) {
					if mark >= 0 {
						g.Scores, g.Same = append(g.Scores, float64(scores[i])), append(g.Same, mark == 1)
					}
				}
				g.Precision = metrics.PrecisionAtTop(g.Scores, g.Same, TopShares...)
			}
		})
	}
	return g, ctx.Err()
}

// gauges is the graph: the lengths of the gradients, [5], and, for labelled patches, S_t and whether two patches are of one class.
func (s step) gauges(scope *model.Scope, inputs []*Node) []*Node {
	in := s.named(inputs)
	made := s.pass(scope, in)
	var shared []*Node
	for _, group := range made.online {
		shared = append(shared, group.class, group.tokens)
	}
	var lengths []*Node
	terms := made.terms
	for _, loss := range []*Node{terms.PatchAlignment, terms.ImageAlignment, terms.PatchConcentration, terms.ImageConcentration, terms.Prototypes} {
		length := ScalarZero(in[inPixels].Graph(), s.dtype)
		if loss != nil && loss != terms.Prototypes {
			var squares []*Node
			for _, gradient := range Gradient(loss, shared...) {
				squares = append(squares, ReduceAllSum(Square(ConvertDType(gradient, s.dtype))))
			}
			length = Sqrt(ReduceAllSum(Stack(squares, 0)))
		}
		lengths = append(lengths, length)
	}
	out := []*Node{Stack(lengths, 0)}
	if s.paired {
		_, q := s.pairs(made.online[0], made.source, in, made.read.noise)
		o := overlapOf(made.online[0], made.source, [][2]int{{0, 1}})
		out = append(out, q, judged(o.labels(in[inLabels]), in[inPartners], s.dtype))
	}
	return out
}

// judged marks pairs of a place of an image and a place of its partner by their labels: 1 for the same other than 0, 0 for others, and −1 for two places
// without a label, of which nobody knows whether they correspond. [images, (HW)²].
func judged(labels, partners *Node, dtype dtypes.DType) *Node {
	images, places := labels.Shape().Dim(0), labels.Shape().Dim(1)
	theirs := InsertAxes(Gather(labels, InsertAxes(partners, -1)), 1)
	ours := InsertAxes(labels, -1)
	neither := LogicalAnd(Equal(ours, ZerosLike(ours)), Equal(theirs, ZerosLike(theirs)))
	return Sub(sameLabel(labels, partners, dtype), Reshape(ConvertDType(neither, dtype), images, places*places))
}
