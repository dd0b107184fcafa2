package transfer

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/study"
)

// splits open a split of each dataset that is read.
var splits = map[string]func(dir string, split datasets.Split) (*datasets.Segmentation, error){
	"coco": datasets.COCOStuff27, "voc2012": datasets.VOC, "ade20k": datasets.ADE20k, "cityscapes": datasets.Cityscapes,
}

// sources are the datasets that are read, in the paper's order.
var sources = encoders.Sources[Data]{
	Needed: "COCO, PASCAL VOC, ADE20k or Cityscapes (\"semcon data\" says what is there)",
	None:   "none of COCO, PASCAL VOC, ADE20k and Cityscapes is",
	Names:  []string{"coco", "voc2012", "ade20k", "cityscapes"},
	Open:   read,
}

// present lists the datasets to run on, and warns where there is nothing but random weights.
func present(o study.Options) (names, missing []string, err error) {
	names, missing, err = sources.Datasets(o)
	if err == nil && !encoders.AnyTrained(o) {
		missing = append(missing, fmt.Sprintf(
			"no encoder has learnt: \"semcon run pretrain --profile %s\" trains two, and --set weights.dino-s16=FILE names one", o.Profile))
	}
	return names, missing, err
}

// Data is a dataset to train and test heads on.
type Data struct {
	train, test              *datasets.Segmentation
	trained, heldOut, tested []int // Training images that train and that choose the rate, and test images.
}

// Identity names the images in records.
func (d Data) Identity() string { return d.train.Identity + "; " + d.test.Identity }

// Title is the name of the dataset.
func (d Data) Title() string { return d.train.Name }

// Skipped is empty: an image that cannot be read is an error.
func (d Data) Skipped() []string { return []string{} }

// read opens a dataset below dir.
func read(dir, dataset string) (d Data, err error) {
	if d.train, err = splits[dataset](dir, datasets.Train); err == nil {
		d.test, err = splits[dataset](dir, datasets.Test)
	}
	return d, err
}

// open opens a dataset for a configuration. Synthetic scenes are others than those that encoders are pretrained on.
func open(dir, dataset string, c Config) (d Data, err error) {
	if dataset != encoders.Synthetic {
		if d, err = read(dir, dataset); err != nil {
			return d, err
		}
	} else {
		if c.Images < 2 {
			return d, fmt.Errorf("images %d: at least 2 synthetic ones are wanted", c.Images)
		}
		d.train, d.test = synthetic.Segmentation(c.Images, 64, 12), synthetic.Segmentation(c.Images, 64, 14)
	}
	d.tested = datasets.Spread(d.test.Len(), c.Images)
	all := datasets.Spread(d.train.Len(), c.Images)
	every := max(2, len(all)/c.Holdout)
	for i, image := range all {
		if i%every == every-1 {
			d.heldOut = append(d.heldOut, image)
		} else {
			d.trained = append(d.trained, image)
		}
	}
	if len(d.heldOut) == 0 { // Of a single image.
		d.heldOut = d.trained
	}
	return d, nil
}
