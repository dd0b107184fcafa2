package finetune_test

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/finetune"
)

// A run of many steps ranges over the batches; one that resumes begins at its step.
func ExampleSegmentationTraining_Batches() {
	training := finetune.SegmentationTraining{
		Training:  finetune.Training{Batch: 4, Parts: 1},
		Transform: finetune.SegmentationTransform{Scale: finetune.Scale{Long: 192, Short: 48}, MinRatio: 0.5, MaxRatio: 2, CropSize: 32, CatMaxRatio: 0.75, PhotometricDistortion: true},
	}
	for batch, err := range training.Batches(context.Background(), synthetic.Scenes(10, 48, 1).Segmentation(), 1, 2) {
		if err != nil {
			panic(err)
		}
		fmt.Println("step", batch.Step, "has", len(batch.Images), "crops,", len(batch.Made[0].Pixels), "bytes each")
		if batch.Step == 3 {
			break
		}
	}
	// Output:
	// step 2 has 4 crops, 3072 bytes each
	// step 3 has 4 crops, 3072 bytes each
}

// The network here says the same class everywhere. A real one normalizes the crops and computes logits on a device.
func ExampleSegmentationInference_Evaluate() {
	test := synthetic.Scenes(3, 48, 2).Segmentation()
	network := func(_ context.Context, crops finetune.Canvases) (finetune.Logits, error) {
		values := make([]float32, crops.Count*len(test.Classes))
		return finetune.Logits{Rows: 1, Columns: 1, Classes: len(test.Classes), Values: values}, nil
	}
	inference := finetune.SegmentationInference{Scale: finetune.Scale{Long: 192, Short: 48}, Mode: finetune.Slide, CropSize: 32, Stride: 21}
	result, err := inference.Evaluate(context.Background(), test, network)
	if err != nil {
		panic(err)
	}
	fmt.Println("always", test.Classes[0], "is right for more than a tenth of the pixels:", result.Accuracy > 10)
	// Output: always background is right for more than a tenth of the pixels: true
}
