package evaluation_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
)

// smallViT is a transformer whose weights are sines, in its own store under "/online".
func smallViT(t *testing.T) (encoder.ViT, *model.Store) {
	t.Helper()
	v := encoder.ViT{Name: "small", PatchSize: 4, Dim: 8, Depth: 2, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions}
	store := model.NewStore()
	for k, w := range v.Weights() {
		values := make([]float32, w.Size())
		for i := range values {
			values[i] = 0.3 * float32(math.Sin(12.9898*float64(i)+78.233*float64(k)))
		}
		if _, err := store.CreateVariable("/online/"+w.Path, tensors.FromFlatDataAndDimensions(values, w.Shape...)); err != nil {
			t.Fatal(err)
		}
	}
	return v, store
}

func newImage(pixels []uint8, height, width int) evaluation.Image {
	return evaluation.NewImage(pixels, datasets.Size{Height: height, Width: width}, datasets.DefaultPreprocessing())
}

func stream(images []evaluation.Image) iter.Seq2[evaluation.Image, error] {
	return func(yield func(evaluation.Image, error) bool) {
		for _, im := range images {
			if !yield(im, nil) {
				return
			}
		}
	}
}

func TestFeaturesDoNotDependOnTheBatch(t *testing.T) {
	var images []evaluation.Image
	for i, size := range []int{16, 16, 16, 24, 16} { // Full and partial batches, and another size in between.
		scene := synthetic.Objects(i+1, size, 1)
		images = append(images, newImage(scene.At(i), size, size))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		v, store := smallViT(t)
		frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/online", 2)
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		at := 0
		for all, err := range frozen.Extract(stream(images), evaluation.Outputs{Patches: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got := all[0]
			im := images[at]
			input := tensors.FromFlatDataAndDimensions(im.Pixels, 1, im.Height, im.Width, 3)
			want, err := model.MustNewExec(b, store, func(scope *model.Scope, x *graph.Node) []*graph.Node {
				tokens := v.Tokens(scope.In("online"), x)
				return []*graph.Node{tokens.Class, tokens.Patches}
			}).Call(input)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rows != im.Height/4 || got.Columns != im.Width/4 {
				t.Errorf("image %d: %d×%d patches", at, got.Rows, got.Columns)
			}
			near(t, got.Class, tensors.MustCopyFlatData[float32](want[0]))
			near(t, got.Patches, tensors.MustCopyFlatData[float32](want[1]))
			at++
		}
		if at != len(images) {
			t.Errorf("features of %d images of %d", at, len(images))
		}
		for got, err := range frozen.Extract(stream(images), evaluation.Outputs{}) {
			if err != nil || got[0].Patches != nil || len(got[0].Class) != v.Dim {
				t.Errorf("%d features, patches %v, %v", len(got[0].Class), got[0].Patches != nil, err)
			}
			break // The loop may end early.
		}
	})
}

func near(t *testing.T, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i]-want[i])) <= 1e-5) {
			t.Fatalf("value %d is %g, want %g", i, got[i], want[i])
		}
	}
}

func TestNewImageNormalisesAsTorchvision(t *testing.T) {
	im := newImage([]uint8{0, 128, 255}, 1, 1)
	near(t, im.Pixels, []float32{-2.117904, 0.20518199, 2.6399999})
	near(t, im.RGB(datasets.DefaultPreprocessing()), []float32{0, 128.0 / 255, 1})
}

// TestFeaturesOfManySizes has more sizes of images than an executor of GoMLX compiles unless it is told to.
func TestFeaturesOfManySizes(t *testing.T) {
	v, store := smallViT(t)
	frozen, err := evaluation.NewFeatureExtractor(testbackend.Go(t), v, store, "/online", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	var images []evaluation.Image
	for i := range graph.DefaultExecMaxCacheSize + 1 {
		images = append(images, newImage(make([]uint8, 4*(i+1)*4*3), 4*(i+1), 4))
	}
	seen := 0
	for all, err := range frozen.Extract(stream(images), evaluation.Outputs{Patches: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; all[0].Rows != seen || all[0].Columns != 1 {
			t.Fatalf("image %d has %d×%d patches", seen, all[0].Rows, all[0].Columns)
		}
	}
	if seen != len(images) {
		t.Errorf("features of %d of %d images", seen, len(images))
	}
}

func TestFeatureExtractorRefuses(t *testing.T) {
	v, store := smallViT(t)
	b := testbackend.Fastest(t)
	for _, test := range []struct {
		v     encoder.ViT
		scope string
		batch int
		part  string
	}{
		{v, "/target", 2, "no weight /target/cls_token"},
		{v, "/online", 0, "batch of 0"},
		{encoder.ViT{}, "/online", 2, "patch_size 0"},
		{encoder.ViT{Name: "wide", PatchSize: 4, Dim: 12, Depth: 2, NumHeads: 2, GridSize: 4, Positions: encoder.DINOPositions}, "/online", 2, "cls_token"},
	} {
		if _, err := evaluation.NewFeatureExtractor(b, test.v, store, test.scope, test.batch); err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%v does not contain %q", err, test.part)
		}
	}
	frozen, err := evaluation.NewFeatureExtractor(b, v, store, "/online", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	good := newImage(make([]uint8, 16*16*3), 16, 16)
	broken := errors.New("broken.png: not an image")
	for _, test := range []struct {
		name string
		last evaluation.Image
		err  error
		part string
	}{
		{"size", newImage(make([]uint8, 16*18*3), 16, 18), nil, "16×18"},
		{"values", evaluation.Image{Height: 16, Width: 16, Pixels: make([]float32, 5)}, nil, "5 values"},
		{"source", evaluation.Image{}, broken, "broken.png"},
	} {
		images := func(yield func(evaluation.Image, error) bool) {
			_ = yield(good, nil) && yield(test.last, test.err) && yield(good, nil)
		}
		var results []error
		for _, err := range frozen.Extract(images, evaluation.Outputs{Patches: true}) {
			results = append(results, err)
		}
		if len(results) != 2 || results[0] != nil || results[1] == nil || !strings.Contains(results[1].Error(), test.part) {
			t.Errorf("%s: %v", test.name, results)
		}
	}
}

// TestFeatureExtractorUsesCurrentWeights: the extractor uses the store's weights at the time it runs, so that one serves every step of a training.
func TestFeatureExtractorUsesCurrentWeights(t *testing.T) {
	v, store := smallViT(t)
	frozen, err := evaluation.NewFeatureExtractor(testbackend.Fastest(t), v, store, "/online", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	images := []evaluation.Image{newImage(synthetic.Objects(1, 16, 1).At(0), 16, 16)}
	class := func() []float32 {
		for features, err := range frozen.Extract(stream(images), evaluation.Outputs{}) {
			if err != nil {
				t.Fatal(err)
			}
			return features[0].Class
		}
		return nil
	}
	before := class()
	if err := store.GetVariable("/online/norm/bias").SetValue(tensors.FromValue([]float32{1, 1, 1, 1, 1, 1, 1, 1})); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(before, class()) {
		t.Error("features did not change with the weights")
	}
}

// The features of a transformer without training; package weights reads a trained one from a file.
func ExampleFeatureExtractor() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	vit, store, err := evaluation.RandomViT("vit-tiny", 0)
	if err != nil {
		panic(err)
	}
	extractor, err := evaluation.NewFeatureExtractor(b, vit, store, "/", 8)
	if err != nil {
		panic(err)
	}
	defer extractor.Close()
	images := synthetic.Objects(2, 48, 1)
	for features, err := range extractor.Extract(evaluation.ImagesOf(images.Images, extractor.Preprocessing, 48, images.Len(), nil), evaluation.Outputs{Patches: true}) {
		if err != nil {
			panic(err)
		}
		f := features[0] // Of the last block.
		fmt.Println(len(f.Class), f.Rows, f.Columns, len(f.Patches))
	}
	// Output:
	// 64 6 6 2304
	// 64 6 6 2304
}
