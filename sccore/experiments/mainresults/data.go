package mainresults

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Data holds the labelled images of one dataset: the first of each pair for training, the second for testing.
type Data struct {
	Name string // "imagenet", "coco" or "synthetic".
	ID   string // Identifies the images in records.

	// Objects to classify; nil if there are none.
	Objects [2]datasets.Source
	Labels  [2][]int32
	Classes int

	// Images to segment: at most one of the two is set.
	Scenes    [2]*synthetic.Set
	Annotated [2]*datasets.Segmentation
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.ID }

// Title is the name of the dataset to readers.
func (d Data) Title() string {
	if d.Name == imageNet && d.Classes != imageNetClasses {
		return fmt.Sprintf("imagenet/ (%d classes)", d.Classes)
	}
	return titles[d.Name]
}

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }

// Sources are the real datasets.
var Sources = encoders.Sources[Data]{
	Needed: "imagenet/train and imagenet/val, or coco", None: "neither ImageNet with labels nor COCOStuff-27 is",
	Names:   []string{imageNet, cocoStuff},
	Open:    open,
	Without: map[string]string{imageNet: "the columns of linear and k-NN classification", cocoStuff: "the columns of linear segmentation"},
}

// open opens one of the datasets below dir: the class folders imagenet/train and imagenet/val, or COCOStuff-27.
func open(dir, name string) (Data, error) {
	d := Data{Name: name}
	var identities [2]string
	var classes [2][]string
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		var err error
		if name == cocoStuff {
			if d.Annotated[i], err = datasets.COCOStuff27(dir, split); err != nil {
				return d, err
			}
			identities[i] = d.Annotated[i].Identity
			continue
		}
		pictures, err := datasets.ImageNet(dir, split)
		if err != nil {
			return d, err
		}
		if d.Labels[i], classes[i], err = pictures.Labels(); err != nil {
			return d, err
		}
		d.Objects[i], identities[i] = evaluation.LabelledPictures{ImageFolder: pictures}, pictures.Identity
	}
	d.ID, d.Classes = identities[0]+"; "+identities[1], len(classes[0])
	if name == imageNet && d.Classes != imageNetClasses {
		d.ID += fmt.Sprintf("; %d classes%s", d.Classes, otherClasses)
	}
	if !slices.Equal(classes[0], classes[1]) {
		return d, fmt.Errorf("%s: train and val have different classes", filepath.Join(dir, "imagenet"))
	}
	return d, nil
}

// The number of classes of ImageNet-1k, and what the identity of class folders with another number ends in.
const (
	imageNetClasses = 1000
	otherClasses    = " in imagenet/, where ImageNet-1k has 1000"
)

// OtherClasses reports whether the images that an identity in records names lie in imagenet/ without being ImageNet-1k, because they have another number of
// classes. The paper's numbers do not compare with theirs.
func OtherClasses(identity string) bool { return strings.Contains(identity, otherClasses) }

// Sample returns at most the given number of images per split, evenly spread; all if most is 0. The classes stay.
func (d Data) Sample(most int) Data {
	if most == 0 {
		return d
	}
	return d.at(func(n int) []int { return datasets.Spread(n, most) }, fmt.Sprintf("at most %d per split, spread evenly, of (%s)", most, d.ID))
}

// Share returns a seed's share of the images of each split, which no other seed has; all if shares is 1, or of a split that is too small. The classes stay. The
// identity is that of all seeds.
func (d Data) Share(o study.Options, seed, shares int) Data {
	cut := 1
	own := d.at(func(n int) []int {
		of := o.SharesOf(d.Title(), n, "images", shares)
		cut = max(cut, of)
		return datasets.Share(n, seed, of)
	}, "")
	own.ID = study.IdentityOfShares(d.ID, cut)
	return own
}

// at returns the images at some places of each split.
func (d Data) at(places func(n int) []int, identity string) Data {
	for i := range 2 {
		if d.Annotated[i] != nil {
			d.Annotated[i] = d.Annotated[i].Pick(places(d.Annotated[i].Len()))
		}
		if objects, ok := d.Objects[i].(evaluation.LabelledPictures); ok {
			some := places(objects.Len())
			var labels []int32
			for _, place := range some {
				labels = append(labels, d.Labels[i][place])
			}
			objects.ImageFolder = objects.Pick(some)
			d.Objects[i], d.Labels[i] = objects, labels
		}
	}
	d.ID = identity
	return d
}

// draw draws the synthetic objects and scenes of a seed. Their sets differ from those of the experiment pretrain.
func draw(c Config, seed int) Data {
	d, run := Data{Name: encoders.Synthetic}, synthetic.Run(seed)
	for i := range 2 {
		objects := run.Objects(c.Images, c.Size, 11+2*i)
		d.Objects[i], d.Labels[i], d.Classes = objects.Images, objects.Labels, len(objects.Classes)
		d.Scenes[i] = run.Scenes(c.Images, c.Size, 12+2*i)
		if i > 0 {
			d.ID += "; "
		}
		d.ID += objects.Identity + "; " + d.Scenes[i].Identity
	}
	return d
}
