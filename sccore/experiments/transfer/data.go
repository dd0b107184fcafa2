package transfer

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// sources are the real datasets: the paper's in its order, and CamVid, which is small.
var sources = encoders.Sources[Data]{
	Needed: "COCO, PASCAL VOC, ADE20k, Cityscapes or CamVid (\"semcon data\" lists what there is)",
	None:   "none of COCO, PASCAL VOC, ADE20k, Cityscapes and CamVid is",
	Names:  []string{"coco", "voc2012", "ade20k", "cityscapes", "camvid"},
	Row:    "dino-s16",
	Open:   read,
}

// Data is a dataset to train and test heads on.
type Data struct {
	train, test              *datasets.Segmentation
	identity                 string
	trained, heldOut, tested []int // Indices of the images that train, choose the learning rate and test.
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.identity }

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

// openShare opens the seed's share of a real dataset, with the classes that count. Its identity is that of all seeds.
func openShare(o study.Options, dataset string, c Config, seed int) (d Data, err error) {
	if d, err = read(o.Data, dataset); err != nil {
		return d, err
	}
	for _, set := range []**datasets.Segmentation{&d.train, &d.test} {
		if c.Classes != "" {
			if *set, err = (*set).Only(strings.Split(c.Classes, ",")...); err != nil {
				return d, study.BadOption{Err: fmt.Errorf("--set classes=%s: %w", c.Classes, err)}
			}
		}
	}
	d.identity = d.train.Identity + "; " + d.test.Identity
	cut := 1
	for _, set := range []**datasets.Segmentation{&d.train, &d.test} {
		shares := o.SharesOf((*set).Name, (*set).Len(), "images", c.Shares)
		*set, cut = (*set).Share(seed, shares), max(cut, shares)
	}
	d.identity = study.IdentityOfShares(d.identity, cut)
	return d, nil
}

// drawnSize is the height and width of synthetic scenes in pixels.
const drawnSize = 64

// open opens a dataset for a configuration. Synthetic scenes are those of a seed, of other sets than those that encoders are pretrained on.
func open(o study.Options, dataset string, c Config, seed int) (d Data, err error) {
	if dataset == encoders.Synthetic {
		run := synthetic.Run(seed)
		d.train, d.test = run.Segmentation(c.Images, drawnSize, 12), run.Segmentation(c.Images, drawnSize, 14)
		d.identity = d.train.Identity + "; " + d.test.Identity
	} else if d, err = openShare(o, dataset, c, seed); err != nil {
		return d, err
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
	if len(d.heldOut) == 0 { // There is a single image.
		d.heldOut = d.trained
	}
	return d, nil
}
