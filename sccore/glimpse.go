package sccore

import (
	"context"
	"errors"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/train"
)

// Glimpse is what a training step computes of one image x and its partner x′, for figures of the method. Maps are row by row.
type Glimpse struct {
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
	// Losses are those of the whole batch, before they are weighted by Lambdas, in the order of [losses.Lambdas]; 0 for one that is off.
	Losses  [5]float64
	Lambdas losses.Lambdas
}

// Glimpse computes the next batch as both branches see it now, and changes nothing. x is the first scene, or the first image without scenes. The
// configuration needs losses of patches.
func (t *Trainer) Glimpse(ctx context.Context) (g Glimpse, err error) {
	s, objective := t.objective.step, t.objective
	if s.Lambdas.PatchAlignment == 0 || s.Lambdas.PatchConcentration == 0 {
		return g, errors.New("a glimpse of a run without both losses of patches")
	}
	x := 0
	if s.scenes > 0 {
		x = s.objects
	}
	exec, err := model.NewExec(t.backend, t.Store(), func(scope *model.Scope, inputs []*Node) []*Node {
		in := s.named(inputs)
		made := s.pass(scope, in)
		online, target := made.online[0], made.target[0]
		pixels := byView(s.show(SliceAxis(in[inPixels], 0, AxisRange(0, s.images())), in[inGlobals], s.Views.GlobalCropSize, s.objects).pixels, s.images())
		partner := SliceAxis(in[inPartners], 0, AxisElem(x))
		o := overlapOf(online, target, [][2]int{{0, 1}})
		rows := func(x *Node) *Node { return Reshape(x, -1, s.PatchHead.OutDim) }
		targets := s.Sinkhorn.Targets(rows(o.ofTarget(ofViews(target.patches, 1))))
		logits := DivScalar(o.ofOnline(ofViews(online.patches, 0)), s.Temperature)
		p, q := s.pairs(online, made.source, in, made.read.noise)
		of := func(all *Node) *Node { return SliceAxis(all, 0, AxisElem(x)) }
		out := []*Node{
			of(ofViews(pixels, 0)), of(ofViews(pixels, 1)), Gather(ofViews(pixels, 0), InsertAxes(partner, -1)),
			of(ofViews(online.tokens, 0)), of(ofViews(target.tokens, 1)),
			of(Softmax(logits, -1)), of(Reshape(targets, logits.Shape().Dimensions...)), of(p), of(q),
		}
		terms := made.terms
		for _, term := range []*Node{terms.PatchAlignment, terms.ImageAlignment, terms.PatchConcentration, terms.ImageConcentration, terms.Prototypes} {
			if term == nil {
				term = ScalarZero(out[0].Graph(), s.dtype)
			}
			out = append(out, term)
		}
		for i := range out {
			out[i] = ConvertDType(out[i], s.dtype)
		}
		return out
	})
	if err != nil {
		return g, err
	}
	defer exec.Finalize()
	for batch, err := range objective.mixture(t.Seed()).Batches(ctx, t.Done()*objective.parts()) {
		if err != nil {
			return g, err
		}
		inputs, err := objective.inputs(s, batch, t.Seed(), objective.scheduled(min(t.Done(), objective.config.Steps-1)))
		if err != nil {
			return g, err
		}
		return g, train.Execute(exec, inputs, func(out []*tensors.Tensor) {
			for i, values := range []*[]float32{
				&g.Online, &g.Target, &g.Partner, &g.OnlineTokens, &g.TargetTokens, &g.OnlineAssignments, &g.TargetAssignments, &g.P, &g.Q,
			} {
				*values = tensors.MustCopyFlatData[float32](out[i])
			}
			for i := range g.Losses {
				g.Losses[i] = float64(tensors.ToScalar[float32](out[9+i]))
			}
			g.ViewSize, g.Grid, g.Dim, g.Outputs = s.Views.GlobalCropSize, s.Views.GlobalCropSize/s.vit.PatchSize, s.vit.Dim, s.PatchHead.OutDim
			g.Lambdas = objective.lambdas()
		})
	}
	return g, errors.New("a glimpse of a run without images")
}
