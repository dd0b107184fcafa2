package transfer

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// transferSources open a split of each dataset, the paper's four in its order.
var transferSources = map[string]func(dir string, split datasets.Split) (*datasets.Segmented, error){
	"coco": datasets.COCOStuff27, "voc2012": datasets.VOC, "ade20k": datasets.ADE20k, "cityscapes": datasets.Cityscapes,
}

var transferDatasets = []string{"coco", "voc2012", "ade20k", "cityscapes", "synthetic"}

// presentDatasets are the datasets to run on: those in a data folder, or synthetic scenes without one. missing says what is not there.
func presentDatasets(profile Profile, dir string) (present, missing []string, err error) {
	if dir == "" || profile == Smoke {
		if profile == Full {
			return nil, nil, errors.New("the full profile needs --data DIR with COCO, PASCAL VOC, ADE20k or Cityscapes (\"semcon data\" says what is there)")
		}
		return []string{"synthetic"}, nil, nil
	}
	for _, name := range transferDatasets {
		open, ok := transferSources[name]
		if !ok {
			continue
		}
		for _, split := range []datasets.Split{datasets.Train, datasets.Test} {
			if _, err = open(dir, split); err != nil {
				break
			}
		}
		switch {
		case err == nil:
			present = append(present, name)
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, err.Error())
		default:
			return nil, nil, err
		}
	}
	if len(present) == 0 {
		return nil, nil, fmt.Errorf("none of COCO, PASCAL VOC, ADE20k and Cityscapes is in %s (\"semcon data\" says what is wanted)", dir)
	}
	return present, missing, nil
}

// transferData is a dataset to train and test heads on.
type transferData struct {
	train, test         *datasets.Segmented
	trained, held, seen []int // Training images that train and that choose the rate, and test images.
}

func (d transferData) identity() string { return d.train.Identity + "; " + d.test.Identity }

// openTransferData opens a dataset for a configuration. Synthetic scenes are others than those that encoders are pretrained on.
func openTransferData(dir, dataset string, c TransferConfig) (d transferData, err error) {
	if open, ok := transferSources[dataset]; ok {
		if d.train, err = open(dir, datasets.Train); err != nil {
			return d, err
		}
		if d.test, err = open(dir, datasets.Test); err != nil {
			return d, err
		}
	} else {
		if c.Images < 2 {
			return d, fmt.Errorf("images %d: at least 2 synthetic ones are wanted", c.Images)
		}
		d.train, d.test = synthetic.Segmented(c.Images, 64, 12), synthetic.Segmented(c.Images, 64, 14)
	}
	d.seen = spread(d.test.Len(), c.Images)
	all := spread(d.train.Len(), c.Images)
	every := max(2, len(all)/c.Holdout)
	for i, image := range all {
		if i%every == every-1 {
			d.held = append(d.held, image)
		} else {
			d.trained = append(d.trained, image)
		}
	}
	if len(d.held) == 0 { // Of a single image.
		d.held = d.trained
	}
	return d, nil
}

// spread are most of n places, evenly spread; all if most is 0 or there are fewer.
func spread(n, most int) (places []int) {
	if most == 0 || most > n {
		most = n
	}
	for i := range most {
		places = append(places, i*n/most)
	}
	return places
}
