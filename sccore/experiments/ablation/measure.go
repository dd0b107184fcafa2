package ablation

import (
	"fmt"
	"path/filepath"
)

// ablationMeasure is what the lines are measured on: the labelled images of one dataset of the experiment main. Its identity is that of
// records: of what a line is trained on, and of these.
type ablationMeasure struct {
	dataset string // "imagenet", "coco" or "synthetic".
	mainData
}

// ablationMetrics are what the columns measure.
var ablationMetrics = map[string]string{
	lineMIoU: "mIoU", lineAccuracy: "pixel accuracy", lineLinear: "top-1 accuracy", lineKNN: "k-NN accuracy",
}

// columns are those that the images have labels for, in the order of the table.
func (m ablationMeasure) columns() (columns []string) {
	if m.scenes[0] != nil || m.annotated[0] != nil {
		columns = append(columns, lineMIoU, lineAccuracy)
	}
	if m.objects[0] != nil {
		columns = append(columns, lineLinear, lineKNN)
	}
	return columns
}

// protocol says how the numbers of a column come about.
func (m ablationMeasure) protocol(column string, config AblationConfig) string {
	switch {
	case column == lineLinear:
		images := "all images"
		if config.Linear.Images > 0 {
			images = fmt.Sprintf("at most %d images", config.Linear.Images)
		}
		return fmt.Sprintf("linear probe of [CLS] features, %d epochs of batches of %d of %s", config.Linear.Epochs, config.Linear.Batch, images)
	case column == lineKNN:
		return fmt.Sprintf("weighted k-NN of [CLS] features, K %d, temperature %g, cosine", config.KNN.K, config.KNN.Temperature)
	case m.dataset == "coco":
		return mainCell{dataset: m.dataset, config: config.measuring()}.protocol()
	}
	return fmt.Sprintf("linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation",
		config.Probe.Steps, config.Probe.Batch)
}

// openAblationData opens what the lines are trained on, and what they are measured on: of images that are read what has labels, and else the
// synthetic ones. Each line of missing says which columns are left out, and why; that all are is an error.
func openAblationData(dir string, config AblationConfig) (trained pretrainData, measured []ablationMeasure, missing []string, err error) {
	given := ""
	if config.Init != "" {
		digest, err := digestOf(config.Init)
		if err != nil {
			return trained, nil, nil, BadOption{fmt.Errorf("--set init=%s: %w", config.Init, err)}
		}
		given = fmt.Sprintf("; weights %s, sha256 %s", filepath.Base(config.Init), digest)
	}
	if trained, err = openPretrainData(dir, config.PretrainConfig); err != nil {
		return trained, nil, nil, err
	}
	trained.identity += given
	if dir == "" {
		d := mainData{identity: trained.identity, classes: len(trained.objects[0].Classes), scenes: trained.scenes}
		for i, objects := range trained.objects {
			d.objects[i], d.labels[i] = objects.Images, objects.Labels
		}
		return trained, []ablationMeasure{{"synthetic", d}}, nil, nil
	}
	read, missing, err := readMainData(dir)
	if err != nil {
		return trained, nil, nil, err
	}
	for _, dataset := range []string{"coco", "imagenet"} {
		if d, there := read[dataset]; there {
			d.identity = trained.identity + "; measured on " + d.identity
			measured = append(measured, ablationMeasure{dataset, d})
		}
	}
	return trained, measured, missing, nil
}
