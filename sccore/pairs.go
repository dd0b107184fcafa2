package sccore

import (
	"context"
	"errors"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/train"
)

// Pairs are the pairs of patches of some training batches, over which L_sc is computed.
type Pairs struct {
	Online, Target []float64 // S_o and S_t, in [0, 1].
	Same           []bool    // Whether the centres of both patches have the same label other than 0.
}

// Pairs returns the pairs of the next batches, as both branches see them now, and changes nothing. It tells how good a teacher the target branch is,
// before or without L_sc. Correspondences come from the features that from names, [FromHead] or [FromBackbone]; with [FromLabels] the target's are
// the labels with the configuration's noise. The data need labels.
func (t *Trainer) Pairs(ctx context.Context, from string, batches int) (pairs Pairs, err error) {
	objective := t.objective
	switch {
	case from != FromHead && from != FromBackbone && from != FromLabels:
		return Pairs{}, fmt.Errorf("pairs of patches from %q: want %s, %s or %s", from, FromHead, FromBackbone, FromLabels)
	case !objective.config.hasPatchLoss():
		return Pairs{}, errors.New("pairs of patches of a run without a loss of patches")
	case objective.data.Labels == nil:
		return Pairs{}, errors.New("pairs of patches of images without labels")
	}
	s := objective.step
	s.Lambdas, s.Correspondences.From = losses.Lambdas{PatchConcentration: 1}, FromLabels // So that the step takes partners and labels.
	exec, err := model.NewExec(t.backend, t.Store(), func(scope *model.Scope, inputs []*Node) []*Node {
		in := s.named(inputs)
		globals := s.show(in[inPixels], in[inGlobals], s.Views.GlobalCropSize, s.objects)
		online, target := s.branch(scope.At(onlineScope), globals)[0], s.branch(scope.At(targetScope), globals)[0]
		o, read := overlapOf(online, target, [][2]int{{0, 1}}), s
		read.Correspondences.From = from
		p, q := read.correspondences(o, online, target, in[inPartners])
		same := sameLabel(o.labels(in[inLabels]), in[inPartners], s.dtype)
		if from == FromLabels {
			q = noisy(same, readScheduled(in[inScheduled]).noise, in[inNoiseKey])
		}
		return []*Node{p, q, same}
	})
	if err != nil {
		return Pairs{}, err
	}
	defer exec.Finalize()
	scheduled := make([]float32, 9)
	scheduled[8] = float32(objective.config.Correspondences.Noise) // The other entries are not used here.
	for batch, err := range objective.mixture(t.Seed()).Batches(ctx, t.Done()*objective.Parts()) {
		if err != nil {
			return Pairs{}, err
		}
		if batches--; batches < 0 {
			break
		}
		inputs, err := objective.inputs(s, batch, t.Seed(), scheduled)
		if err != nil {
			return Pairs{}, err
		}
		err = train.Execute(exec, inputs, func(out []*tensors.Tensor) {
			online, target := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
			for i, same := range tensors.MustCopyFlatData[float32](out[2]) {
				pairs.Online, pairs.Target = append(pairs.Online, float64(online[i])), append(pairs.Target, float64(target[i]))
				pairs.Same = append(pairs.Same, same == 1)
			}
		})
		if err != nil {
			return Pairs{}, err
		}
	}
	return pairs, nil
}
