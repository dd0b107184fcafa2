package detection

import (
	"errors"
	"fmt"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// cocoName is COCO's name on the command line.
const cocoName = "coco"

// sources are the real datasets.
var sources = encoders.Sources[Data]{
	Needed: "COCO",
	None:   "COCO is not",
	Names:  []string{cocoName},
	Row:    "ibot-s16",
	Open:   func(dir, _ string) (Data, error) { return read(dir) },
}

// Data is a dataset to train and test on.
type Data struct {
	train, test     *datasets.ObjectImages
	trained, tested *datasets.ObjectImages // The images that train and test.
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.train.Identity + "; " + d.test.Identity }

// Title is the name of the dataset.
func (d Data) Title() string { return d.train.Name }

// Skipped lists the annotations that cannot be used, each with its file and id.
func (d Data) Skipped() []string {
	lines := []string{}
	for _, images := range []*datasets.ObjectImages{d.train, d.test} {
		for _, s := range images.Truth.Skipped {
			lines = append(lines, s.File+": "+s.Reason)
		}
	}
	return lines
}

// read opens COCO below dir.
func read(dir string) (d Data, err error) {
	if d.train, err = datasets.COCOObjects(dir, datasets.Train); err != nil {
		return d, err
	}
	if d.test, err = datasets.COCOObjects(dir, datasets.Test); err != nil {
		return d, err
	}
	if !slices.Equal(d.train.Truth.Categories, d.test.Truth.Categories) {
		return d, fmt.Errorf("%s and %s have different categories", d.train.Truth.Name, d.test.Truth.Name)
	}
	return d, nil
}

// open opens a dataset for a configuration. Synthetic scenes are those of the experiments transfer and fine-tune.
func open(dir, dataset string, c Config, seed int) (d Data, err error) {
	if dataset != encoders.Synthetic {
		if d, err = read(dir); err != nil {
			return d, err
		}
	} else {
		if c.Images < 2 {
			return d, fmt.Errorf("images %d: synthetic scenes need at least 2", c.Images)
		}
		run := synthetic.Run(seed)
		d.train, d.test = run.Instances(c.Images, sceneSize, 12), run.Instances(c.Images, sceneSize, 14)
	}
	d.trained = d.train.Annotated()
	if d.trained.Len() == 0 {
		return d, errors.New(d.train.Truth.Name + ": no image has an object")
	}
	d.trained, d.tested = d.trained.Pick(datasets.Spread(d.trained.Len(), c.Images)), d.test.Pick(datasets.Spread(d.test.Len(), c.Images))
	return d, nil
}

// sceneSize is the side of synthetic scenes in pixels.
const sceneSize = 64
