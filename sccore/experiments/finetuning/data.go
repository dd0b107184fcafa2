package finetuning

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// sources are the real datasets: the paper's in its order, and two more.
var sources = encoders.Sources[Data]{
	Needed: "ADE20k, Cityscapes, COCO, PASCAL VOC or CamVid (\"semcon data\" lists what there is)",
	None:   "none of ADE20k, Cityscapes, COCO, PASCAL VOC and CamVid is",
	Names:  []string{"ade20k", "cityscapes", "coco", "voc2012", "camvid"},
	Row:    "dino-s16",
	Open:   read,
}

// Data is a dataset to train and test on.
type Data struct {
	train, test     *datasets.Segmentation
	trained, tested *datasets.Segmentation // The images that train and test.
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.train.Identity + "; " + d.test.Identity }

// Title is the name of the dataset.
func (d Data) Title() string { return d.train.Name }

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }

// read opens a dataset below dir.
func read(dir, dataset string) (d Data, err error) {
	if d.train, err = datasets.OpenSegmentation(dataset, dir, datasets.Train); err == nil {
		d.test, err = datasets.OpenSegmentation(dataset, dir, datasets.Test)
	}
	return d, err
}

// open opens a dataset for a configuration. Synthetic scenes are those of the experiment transfer, whose frozen heads can be compared.
func open(dir, dataset string, c Config, seed int) (d Data, err error) {
	if dataset != encoders.Synthetic {
		if d, err = read(dir, dataset); err != nil {
			return d, err
		}
	} else {
		if c.Images < 2 {
			return d, fmt.Errorf("images %d: synthetic scenes need at least 2", c.Images)
		}
		run := synthetic.Run(seed)
		d.train, d.test = run.Segmentation(c.Images, 64, 12), run.Segmentation(c.Images, 64, 14)
	}
	d.trained, d.tested = d.train.Pick(datasets.Spread(d.train.Len(), c.Images)), d.test.Pick(datasets.Spread(d.test.Len(), c.Images))
	return d, nil
}
