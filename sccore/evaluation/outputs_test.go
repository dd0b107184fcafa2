package evaluation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/layers"
)

// The features after a block are its tokens with the final normalisation, whatever blocks stand beside it, and the last block's are the encoder's.
func TestFeaturesOfBlocks(t *testing.T) {
	image := newImage(synthetic.Objects(1, 16, 1).At(0), 8, 32)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		v, store := smallViT(t)
		frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/online", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		features := func(o evaluation.Outputs) []evaluation.Features {
			t.Helper()
			for all, err := range frozen.Extract(stream([]evaluation.Image{image}), o) {
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			return nil
		}
		last, both := features(evaluation.Outputs{Patches: true})[0], features(evaluation.Outputs{Patches: true, Blocks: []int{2, 1}})
		if len(both) != 2 {
			t.Fatalf("features of %d blocks", len(both))
		}
		near(t, both[0].Class, last.Class)
		near(t, both[0].Patches, last.Patches)
		if class := features(evaluation.Outputs{Blocks: []int{1}}); class[0].Patches != nil || !slices.Equal(class[0].Class, both[1].Class) {
			t.Errorf("block 1 alone: %v, want %v", class[0].Class, both[1].Class)
		}
		want := model.MustNewExec(b, store, func(scope *model.Scope, x *graph.Node) []*graph.Node {
			tokens := v.Tokens(scope.In("online"), x)
			first := tokens.Blocks[0]
			centred := graph.Sub(first, graph.ReduceAndKeep(first, graph.ReduceMean, -1))
			first = graph.Div(centred, graph.Sqrt(graph.AddScalar(graph.ReduceAndKeep(graph.Square(centred), graph.ReduceMean, -1), 1e-6)))
			value := func(name string) *graph.Node {
				return graph.Reshape(store.GetVariable("/online/norm/"+name).NodeValue(x), 1, 1, v.Dim)
			}
			first = graph.Add(graph.Mul(first, value("weight")), value("bias"))
			maps := graph.Reshape(graph.SliceAxis(first, 1, graph.AxisRange(1)), 1, 2, 8, v.Dim)
			return []*graph.Node{graph.SliceAxis(first, 1, graph.AxisElem(0)), maps, layers.ResizeBilinear(maps, 5, 20)}
		}).MustCall(tensors.FromFlatDataAndDimensions(image.Pixels, 1, 8, 32, 3))
		near(t, both[1].Class, tensors.MustCopyFlatData[float32](want[0]))
		near(t, both[1].Patches, tensors.MustCopyFlatData[float32](want[1]))
		resized := features(evaluation.Outputs{Patches: true, Blocks: []int{1}, Resolution: 5})[0]
		if resized.Rows != 5 || resized.Columns != 20 {
			t.Errorf("maps of %d×%d", resized.Rows, resized.Columns)
		}
		near(t, resized.Patches, tensors.MustCopyFlatData[float32](want[2]))
	})
}

// The filter belongs to its block: features of the blocks before do not need it, and features of this and later blocks have it. [CLS] sees it from the next
// block on.
func TestFeaturesOfBlocksBeforeTheFilter(t *testing.T) {
	v, _ := smallViT(t)
	v.Depth = 3
	store := model.NewStore() // With a filter in every block, so that all encoders share it.
	for v.Prototypes, v.BlocksAfterFilter = 3, 0; v.BlocksAfterFilter < v.Depth; v.BlocksAfterFilter++ {
		for k, w := range v.Weights() {
			if store.GetVariable("/online/"+w.Path) != nil {
				continue
			}
			values := make([]float32, w.Size())
			for i := range values {
				values[i] = float32((i*7+k)%11-5) / 20
			}
			if _, err := store.CreateVariable("/online/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	image := newImage(synthetic.Objects(1, 16, 1).At(0), 16, 16)
	features := func(v encoder.ViT, blocks ...int) []evaluation.Features {
		t.Helper()
		frozen, err := evaluation.NewFeatureExtractor(testbackend.Go(t), v, store, "/online", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		for all, err := range frozen.Extract(stream([]evaluation.Image{image}), evaluation.Outputs{Patches: true, Blocks: blocks}) {
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		return nil
	}
	v.Prototypes = 0
	unfiltered := features(v, 1, 2, 3)
	v.Prototypes = 3
	for after := range v.Depth {
		v.BlocksAfterFilter = after
		for i, filtered := range features(v, 1, 2, 3) {
			block, filters := i+1, v.Depth-after // filters is the block with the filter.
			if same := slices.Equal(filtered.Patches, unfiltered[i].Patches); same != (block < filters) {
				t.Errorf("filter in block %d: patches after block %d are those without a filter: %t", filters, block, same)
			}
			if same := slices.Equal(filtered.Class, unfiltered[i].Class); same != (block <= filters) {
				t.Errorf("filter in block %d: [CLS] after block %d is that without a filter: %t", filters, block, same)
			}
			if block < filters {
				continue
			}
			short := v
			short.Depth, short.BlocksAfterFilter = block, block-filters
			want := features(short)[0]
			near(t, filtered.Class, want.Class)
			near(t, filtered.Patches, want.Patches)
		}
	}
}

func TestOutputsRefuse(t *testing.T) {
	v, _ := smallViT(t)
	for want, o := range map[string]evaluation.Outputs{
		"small has no block 3, only 1 to 2": {Blocks: []int{1, 3}}, "no block 0": {Blocks: []int{0}}, "resolution -1": {Resolution: -1},
	} {
		if err := o.Check(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
