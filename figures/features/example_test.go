package features_test

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
)

// A frozen encoder's patches become a figure of dots, coloured by class.
func ExamplePatchEmbedding() {
	b, err := backend.Open()
	if err != nil {
		panic(err)
	}
	vit, store, err := evaluation.RandomViT("vit-tiny", 0)
	if err != nil {
		panic(err)
	}
	frozen, err := evaluation.NewFeatureExtractor(b, vit, store, "/", 8)
	if err != nil {
		panic(err)
	}
	embedding := features.PatchEmbedding{Sample: evaluation.PatchSample{Images: 20, PerImage: 10, Size: 32}, Perplexity: 30}
	dots, _, err := embedding.Draw(context.Background(), frozen, synthetic.Scenes(20, 32, 1).Segmentation())
	if err != nil {
		panic(err)
	}
	fmt.Println(figures.SaveAs("patches.svg", dots))
}
