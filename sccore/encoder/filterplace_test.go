package encoder_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// TestClassSeesTheFilterOfAnEarlierBlock: with the filter in the last block [CLS] is that without a filter and has no gradient to the prototypes. With the
// filter in the block before it has both.
func TestClassSeesTheFilterOfAnEarlierBlock(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for after := range smallest.Depth {
			v := smallest
			v.BlocksAfterFilter = after
			unfiltered := v
			unfiltered.Prototypes = 0
			store := seeded(t, 5)
			filter := fmt.Sprintf("/blocks/%d/filter/prototypes", v.Depth-1-after)
			exec := model.MustNewExec(b, store, func(scope *model.Scope, images *Node) []*Node {
				tokens := v.Tokens(scope, images)
				tokens.Class.AssertDims(2, v.Dim)
				tokens.Patches.AssertDims(2, 3, 2, v.Dim)
				tokens.FilterAttention.AssertDims(2, v.NumHeads, 3, 2, v.Prototypes)
				toward := ReduceAllSum(Mul(tokens.Class, Sin(IotaFull(images.Graph(), tokens.Class.Shape()))))
				return []*Node{tokens.Class, unfiltered.Tokens(scope, images).Class, Gradient(toward, store.GetVariable(filter).NodeValue(images))[0]}
			})
			out := exec.MustCall(normal(2, 6, 4, 3))
			exec.Finalize()
			if same := far(flat64(out[0]), flat64(out[1])) < 1e-6; same != (after == 0) {
				t.Errorf("%d blocks after the filter: [CLS] is that without a filter: %t", after, same)
			}
			if none := largest(flat64(out[2])) == 0; none != (after == 0) {
				t.Errorf("%d blocks after the filter: [CLS] has no gradient to the prototypes: %t", after, none)
			}
			var built, listed []string
			for variable := range store.IterVariables() {
				if variable.Trainable {
					built = append(built, variable.Path())
				}
			}
			for _, w := range v.Weights() {
				listed = append(listed, "/"+w.Path)
			}
			if slices.Sort(built); !slices.Equal(built, slices.Sorted(slices.Values(listed))) || !slices.Contains(listed, filter) {
				t.Errorf("%d blocks after the filter: variables %q, listed %q", after, built, listed)
			}
		}
	})
}
