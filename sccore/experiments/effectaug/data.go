package effectaug

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study"
)

// ImageSize is the study's image height and width in pixels, CIFAR's.
const ImageSize = 32

// smokeTrain and smokeTest are the numbers of images in the smoke profile.
const smokeTrain, smokeTest = 256, 128

// quickTrain is the most training images that a seed of the quick profile has, and the number of images of its epochs.
const quickTrain = 10_000

// syntheticName is the name of the source of drawn images.
const syntheticName = "synthetic"

// source is a dataset that the study can run on.
type source struct {
	name  string // The name in cell names.
	title string // The name in the table's column heads.
	read  func(split datasets.Split) (*datasets.Images, error)
}

// Data holds the images of a source that a seed trains and tests on.
type Data struct {
	source
	Train, Test *datasets.Images
	identity    string
}

// Identity identifies both splits. It is that of all seeds.
func (d Data) Identity() string { return d.identity }

// Title is the name of the data in tables.
func (d Data) Title() string { return d.title }

// Skipped lists the files that could not be read.
func (d Data) Skipped() []string {
	lines := []string{}
	for _, skipped := range slices.Concat(d.Train.Skipped, d.Test.Skipped) {
		lines = append(lines, skipped.File+": "+skipped.Reason)
	}
	return lines
}

// datasetNames lists the datasets that the options provide.
func datasetNames(o study.Options) (names, missing []string, err error) {
	all, err := sources(o.Profile, o.Data, 0)
	for _, s := range all {
		names = append(names, s.name)
	}
	return names, missing, err
}

// Open reads both splits of a dataset and cuts them into shares, of which it returns the seed's, or draws the images of a seed. shares is 0 or 1 if all seeds have
// the same images, or images that are drawn.
func Open(o study.Options, dataset string, shares, seed int) (Data, error) {
	all, err := sources(o.Profile, o.Data, synthetic.Run(seed))
	if err != nil {
		return Data{}, err
	}
	d, err := all[slices.IndexFunc(all, func(s source) bool { return s.name == dataset })].load()
	if err != nil {
		return Data{}, err
	}
	if shares > 1 {
		shares = min(o.SharesOf(d.Train.Name, d.Train.SmallestClass(), "images", shares), o.SharesOf(d.Test.Name, d.Test.SmallestClass(), "images", shares))
	}
	if shares > 1 { // A share's own identity would differ between seeds.
		d.identity = study.IdentityOfShares(d.Train.Identity+"; "+d.Test.Identity, shares)
		d.Train, d.Test = d.Train.Share(seed, shares), d.Test.Share(seed, shares)
	}
	switch o.Profile {
	case study.Smoke:
		d = d.subset(smokeTrain, smokeTest)
	case study.Quick:
		d = d.subset(quickTrain, d.Test.Len())
	}
	if d.identity == "" {
		d.identity = d.Train.Identity + "; " + d.Test.Identity
	}
	return d, nil
}

// subset takes at most so many images of each split, the first of each class.
func (d Data) subset(train, test int) Data {
	if d.identity != "" && (train < d.Train.Len() || test < d.Test.Len()) {
		d.identity += fmt.Sprintf("; the first of each class, at most %d to train and %d to test", train, test)
	}
	d.Train, d.Test = d.Train.Subset(train), d.Test.Subset(test)
	return d
}

func (s source) load() (Data, error) {
	train, err := s.read(datasets.Train)
	if err != nil {
		return Data{}, err
	}
	test, err := s.read(datasets.Test)
	if err != nil {
		return Data{}, err
	}
	if !slices.Equal(train.Classes, test.Classes) {
		return Data{}, fmt.Errorf("%s: training and test images have different classes", test.Name)
	}
	return Data{source: s, Train: train, Test: test}, nil
}

// heldOut puts a share of the training images in place of the test images; training and neighbours do without them. Share 0 changes nothing.
func (d Data) heldOut(share float64) (Data, error) {
	if share > 0 {
		all := d.Train
		if d.Train, d.Test = all.HoldOut(share); d.Test.Len() == 0 {
			return d, fmt.Errorf("validation %g holds out none of the %d training images of %s", share, all.Len(), all.Name)
		}
	}
	return d, nil
}

// syntheticSource draws the objects of a run.
func syntheticSource(run synthetic.Run, train, test int) source {
	return source{name: syntheticName, title: "synthetic objects", read: func(split datasets.Split) (*datasets.Images, error) {
		if split == datasets.Train {
			return run.Images(train, ImageSize, 1), nil
		}
		return run.Images(test, ImageSize, 2), nil
	}}
}

// sources returns the datasets of a profile: without --data synthetic objects; with it CIFAR-10, or the user's own images if there is no CIFAR-10; in the
// full profile CIFAR-10 and CIFAR-100.
func sources(profile study.Profile, dir string, run synthetic.Run) ([]source, error) {
	if dir == "" {
		if profile == study.Smoke {
			return []source{syntheticSource(run, smokeTrain, smokeTest)}, nil
		}
		if profile == study.Full {
			return nil, fmt.Errorf("the full profile needs --data DIR with CIFAR-10 and CIFAR-100 (\"semcon data fetch cifar10 cifar100 --data DIR\" gets them)")
		}
		return []source{syntheticSource(run, quickTrain, 2000)}, nil
	}
	ten := source{name: "cifar10", title: "CIFAR-10", read: func(split datasets.Split) (*datasets.Images, error) { return datasets.CIFAR10(dir, split) }}
	hundred := source{name: "cifar100", title: "CIFAR-100", read: func(split datasets.Split) (*datasets.Images, error) { return datasets.CIFAR100(dir, split) }}
	if profile == study.Full {
		return []source{ten, hundred}, nil
	}
	if _, err := ten.read(datasets.Test); errors.Is(err, fs.ErrNotExist) {
		if s := imagesSource(dir); s != nil {
			return []source{*s}, nil
		}
		return nil, fmt.Errorf("%w; there are also neither folders train and test of class folders nor train.zip and test.zip", err)
	}
	return []source{ten}, nil
}

// imagesSource returns the user's own images if dir has them: class folders under train and test, or zips of class folders.
func imagesSource(dir string) *source {
	ext, ok := datasets.FindClassFolders(dir)
	if !ok {
		return nil
	}
	return &source{name: "images", title: "images", read: func(split datasets.Split) (*datasets.Images, error) {
		path := filepath.Join(dir, string(split)+ext)
		if ext == ".zip" {
			return datasets.ReadZip(path, ImageSize, datasets.SkipBroken)
		}
		return datasets.ReadFolder(path, ImageSize, datasets.SkipBroken)
	}}
}
