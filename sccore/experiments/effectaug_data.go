package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// imageSize is the study's image height and width in pixels, CIFAR's.
const imageSize = 32

// effectAugSource is a dataset that the study can run on.
type effectAugSource struct {
	name  string // In cell names.
	title string // In the table's column heads.
	read  func(split datasets.Split) (*datasets.Images, error)
}

// effectAugData is a source's images.
type effectAugData struct {
	effectAugSource
	train, test *datasets.Images
}

func (d effectAugData) identity() string { return d.train.Identity + "; " + d.test.Identity }

func (d effectAugData) skipped() []string {
	lines := []string{}
	for _, skipped := range slices.Concat(d.train.Skipped, d.test.Skipped) {
		lines = append(lines, skipped.File+": "+skipped.Reason)
	}
	return lines
}

func (s effectAugSource) load() (effectAugData, error) {
	train, err := s.read(datasets.Train)
	if err != nil {
		return effectAugData{}, err
	}
	test, err := s.read(datasets.Test)
	if err != nil {
		return effectAugData{}, err
	}
	if !slices.Equal(train.Classes, test.Classes) {
		return effectAugData{}, fmt.Errorf("%s: the test images have other classes than the training images", test.Name)
	}
	return effectAugData{s, train, test}, nil
}

// syntheticSource draws objects; sizes are those of the real sample that the quick profile was set up on.
func syntheticSource(train, test int) effectAugSource {
	return effectAugSource{name: "synthetic", title: "synthetic objects", read: func(split datasets.Split) (*datasets.Images, error) {
		if split == datasets.Train {
			return synthetic.Images(train, imageSize, 1), nil
		}
		return synthetic.Images(test, imageSize, 2), nil
	}}
}

// effectAugSources says what a profile runs on, given the folder of the datasets: the synthetic set without one; the paper's two datasets in
// full; CIFAR-10 in quick.
func effectAugSources(profile Profile, dir string) ([]effectAugSource, error) {
	if profile == Smoke {
		return []effectAugSource{syntheticSource(256, 128)}, nil
	}
	if dir == "" {
		if profile == Full {
			return nil, fmt.Errorf("the full profile needs --data DIR with CIFAR-10 and CIFAR-100 (\"semcon data fetch cifar10\" gets one)")
		}
		return []effectAugSource{syntheticSource(4096, 1024)}, nil
	}
	ten := effectAugSource{name: "cifar10", title: "CIFAR-10", read: func(split datasets.Split) (*datasets.Images, error) { return datasets.CIFAR10(dir, split) }}
	hundred := effectAugSource{name: "cifar100", title: "CIFAR-100", read: func(split datasets.Split) (*datasets.Images, error) { return datasets.CIFAR100(dir, split) }}
	if profile == Full {
		return []effectAugSource{ten, hundred}, nil
	}
	if _, err := ten.read(datasets.Test); errors.Is(err, fs.ErrNotExist) {
		if own := imagesSource(dir); own != nil {
			return []effectAugSource{*own}, nil
		}
		return nil, fmt.Errorf("%w; nor are there folders train and test of class folders, or train.zip and test.zip", err)
	}
	return []effectAugSource{ten}, nil
}

// imagesSource is the user's own images, if dir has them: class folders under train and test, or zips of class folders.
func imagesSource(dir string) *effectAugSource {
	ext, ok := datasets.OwnImages(dir)
	if !ok {
		return nil
	}
	return &effectAugSource{name: "images", title: "images", read: func(split datasets.Split) (*datasets.Images, error) {
		path := filepath.Join(dir, string(split)+ext)
		if ext == ".zip" {
			return datasets.Zip(path, imageSize, datasets.SkipBroken)
		}
		return datasets.Folder(path, imageSize, datasets.SkipBroken)
	}}
}
