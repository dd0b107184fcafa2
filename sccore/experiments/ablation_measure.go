package experiments

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/evaluation"
)

// measureAblation measures an encoder in the columns of the ablation's table.
func measureAblation(b compute.Backend, frozen *evaluation.Frozen, data pretrainData, config AblationConfig, seed int) ([]pretrainNumber, error) {
	annotated, class, err := labelledFeatures(frozen, data, config.Size)
	if err != nil {
		return nil, err
	}
	objects := data.objects
	classes := len(objects[0].Classes)
	segmentation, err := config.Probe.Measure(b, annotated[0], annotated[1], 1+classes, uint64(seed))
	if err != nil {
		return nil, err
	}
	ranked, err := config.Linear.Rank(b, class[0], objects[0].Labels, classes, class[1], 1, uint64(seed))
	if err != nil {
		return nil, err
	}
	linear := make([]int32, len(ranked))
	for i, classes := range ranked {
		linear[i] = classes[0]
	}
	predictions, err := config.KNN.Predict(b, class[0], objects[0].Labels, classes, class[1])
	if err != nil {
		return nil, err
	}
	probe := fmt.Sprintf("linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation", config.Probe.Steps, config.Probe.Batch)
	return []pretrainNumber{
		{lineMIoU, "mIoU", "%", probe, segmentation.MIoU},
		{lineAccuracy, "pixel accuracy", "%", probe, segmentation.Accuracy},
		{lineLinear, "top-1 accuracy", "%", fmt.Sprintf("linear probe of [CLS] features, %d epochs of batches of %d", config.Linear.Epochs, config.Linear.Batch),
			evaluation.Accuracy(linear, objects[1].Labels)},
		{lineKNN, "k-NN accuracy", "%", fmt.Sprintf("weighted k-NN of [CLS] features, K %d, temperature %g, cosine", config.KNN.K, config.KNN.Temperature),
			evaluation.Accuracy(predictions, objects[1].Labels)},
	}, nil
}
