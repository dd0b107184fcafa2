package encoders

import (
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
)

// COCOStuff is the dataset that Tab. main segments.
const COCOStuff = "coco"

// MainTable are the datasets of the paper's Tab. main.
var MainTable = Sources[evaluation.Data]{
	Needed: "imagenet/train and imagenet/val, or coco", None: "neither ImageNet with labels nor COCOStuff-27 is",
	Names: []string{evaluation.ImageNet, COCOStuff},
	Open: func(dir, name string) (evaluation.Data, error) {
		return evaluation.MainTable{}.Open(evaluation.Source{Dir: dir, Dataset: name})
	},
	Without: map[string]string{evaluation.ImageNet: "the columns of linear and k-NN classification", COCOStuff: "the columns of linear segmentation"},
}

// MainSegmentation is the segmentation of Tab. main in a profile.
func MainSegmentation(profile study.Profile) evaluation.SegmentationProbe {
	p := evaluation.DefaultSegmentationProbe()
	if profile != study.Full {
		p.CropSize, p.TestSize, p.Batch, p.Epochs = 96, 128, 8, 8
	}
	if profile == study.Smoke {
		p.CropSize, p.TestSize, p.Epochs = 32, 32, 1
	}
	return p
}
