package augmentation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study"
)

// ImageSize is the height and width of images in pixels, CIFAR's.
const ImageSize = 32

// The names of datasets in cells' names.
const (
	drawn    = "synthetic" // Objects, without --data.
	cifar10  = "cifar10"
	cifar100 = "cifar100"
	own      = "images" // The user's own images: class folders under train and test, or zips of class folders.
)

// datasetTitles are the names of datasets in column heads.
var datasetTitles = map[string]string{drawn: "synthetic objects", cifar10: "CIFAR-10", cifar100: "CIFAR-100", own: "images"}

// most are the most training and test images that a seed has in a profile; 0 for all. An epoch of the quick profile has as many.
var most = map[study.Profile][2]int{study.Smoke: {256, 128}, study.Quick: {10_000, 0}}

// Data holds the images that a seed trains and tests on.
type Data struct {
	Train, Test     *datasets.Images
	title, identity string
}

// Identity identifies both splits. All seeds have the same.
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

// Drawn reports whether a dataset is drawn, for each seed anew.
func Drawn(dataset string) bool { return dataset == drawn }

// DatasetNames lists the datasets that the options provide: without --data drawn objects; with it CIFAR-10, or the user's own images if there is no CIFAR-10; in
// the full profile CIFAR-10 and CIFAR-100.
func DatasetNames(o study.Options) (names, missing []string, err error) {
	switch {
	case o.Profile == study.Full && o.Data == "":
		return nil, nil, errors.New("the full profile needs --data DIR with CIFAR-10 and CIFAR-100 (\"semcon data fetch cifar10 cifar100 --data DIR\" gets them)")
	case o.Profile == study.Full:
		return []string{cifar10, cifar100}, nil, nil
	case o.Data == "":
		return []string{drawn}, nil, nil
	}
	if _, err := datasets.CIFAR10(o.Data, datasets.Test); !errors.Is(err, fs.ErrNotExist) {
		return []string{cifar10}, nil, nil
	} else if _, ok := datasets.FindClassFolders(o.Data); !ok {
		return nil, nil, fmt.Errorf("%w; there are also neither folders train and test of class folders nor train.zip and test.zip", err)
	}
	return []string{own}, nil, nil
}

// read reads a split of a dataset, or draws the split of a seed.
func read(o study.Options, dataset string, split datasets.Split, seed int) (*datasets.Images, error) {
	switch dataset {
	case cifar10:
		return datasets.CIFAR10(o.Data, split)
	case cifar100:
		return datasets.CIFAR100(o.Data, split)
	case own:
		ext, _ := datasets.FindClassFolders(o.Data)
		path := filepath.Join(o.Data, string(split)+ext)
		if ext == ".zip" {
			return datasets.ReadZip(path, ImageSize, datasets.SkipBroken)
		}
		return datasets.ReadFolder(path, ImageSize, datasets.SkipBroken)
	}
	if split == datasets.Train {
		return synthetic.Run(seed).Images(most[o.Profile][0], ImageSize, 1), nil
	}
	return synthetic.Run(seed).Images(cmp.Or(most[o.Profile][1], 2000), ImageSize, 2), nil
}

// Open reads both splits of a dataset and cuts them into shares, of which it returns the seed's, or draws the images of a seed. shares is 0 or 1 if all seeds have
// the same images, or images that are drawn.
func Open(o study.Options, dataset string, shares, seed int) (d Data, err error) {
	d.title = datasetTitles[dataset]
	if d.Train, err = read(o, dataset, datasets.Train, seed); err != nil {
		return d, err
	}
	if d.Test, err = read(o, dataset, datasets.Test, seed); err != nil {
		return d, err
	}
	if !slices.Equal(d.Train.Classes, d.Test.Classes) {
		return d, fmt.Errorf("%s: training and test images have different classes", d.Test.Name)
	}
	if shares > 1 {
		shares = min(o.SharesOf(d.Train.Name, d.Train.SmallestClass(), "images", shares), o.SharesOf(d.Test.Name, d.Test.SmallestClass(), "images", shares))
	}
	if shares > 1 { // A share's own identity would differ between seeds.
		d.identity = study.IdentityOfShares(d.Train.Identity+"; "+d.Test.Identity, shares)
		d.Train, d.Test = d.Train.Share(seed, shares), d.Test.Share(seed, shares)
	}
	train, test := cmp.Or(most[o.Profile][0], d.Train.Len()), cmp.Or(most[o.Profile][1], d.Test.Len()) // The first of each class.
	if d.identity != "" && (train < d.Train.Len() || test < d.Test.Len()) {
		d.identity += fmt.Sprintf("; the first of each class, at most %d to train and %d to test", train, test)
	}
	d.Train, d.Test = d.Train.Subset(train), d.Test.Subset(test)
	d.identity = cmp.Or(d.identity, d.Train.Identity+"; "+d.Test.Identity)
	return d, nil
}

// Datasets returns the titles of the datasets with records, the paper's first.
func Datasets(r study.Results) (titles []string) {
	for _, column := range r.Columns() { // In the alphabet capitals come first.
		dataset, _, _ := strings.Cut(column, "/")
		titles = append(titles, dataset)
	}
	return slices.Compact(titles)
}
