// Package augmentation is the training of the augmentation study (Tab. effect_aug and effect_aug_full): one of four image-level methods, on small images, with the
// transformations of a row of the table. The experiment effect-aug trains encoders so, and theory measures them.
package augmentation

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// Study is the experiment whose records are of these trainings.
const Study = "effect-aug"

// WeightsFile is the trained encoder and its heads, in the folder of a run.
const WeightsFile = "weights.safetensors"

// Config is the configuration of a training.
type Config struct {
	methods.Config
	Recipe views.Recipe   `json:"recipe"`
	KNN    knn.Classifier `json:"knn"`
	// EvaluateEvery is the number of epochs between evaluations; the end of training is always evaluated.
	EvaluateEvery int `json:"evaluate_every" range:"[1,2^24]"`
	// EpochImages is the number of images of an epoch: a smaller training set is repeated to as many, so that short trainings on fewer images have as many steps.
	EpochImages int `json:"epoch_images,omitzero" range:"[0,2^24]"`
	// Shares is the number of shares that the training and the test images of a real dataset are cut into. Seed 0 has the first, and so on, so that intervals over
	// seeds have the images' share in them. 0 and 1 give all to every seed.
	Shares int `json:"shares,omitzero" range:"[0,2^20]"`
	// Validation is the share of each class of the training images that is held out. Above 0, accuracy is measured on these images, and
	// training and neighbours use the others. Settings are chosen so, without the test images. The same images of a share are held out in every run.
	Validation float64 `json:"validation,omitempty" range:"[0,0.5]"`
}

// Row is a row of Tab. effect_aug_full: its transformations with a + between them. A row without "crop" shows whole images; "same" stands for one crop shared by
// both views.
type Row string

// The rows with all transformations.
const (
	AllCrops = Row("crop+blur+gray+jitter+flip")
	NoCrop   = Row("blur+gray+jitter+flip")
	SameCrop = Row("same+blur+gray+jitter+flip")
)

// Rows are the 13 rows in the order of the paper's table: five sets of transformations with independent crops, four without crops, and the same four with one crop
// for both views.
var Rows = []Row{
	AllCrops, "crop+blur+gray+jitter", "crop+blur+gray", "crop+blur", "crop",
	NoCrop, "blur+gray+jitter", "blur+gray", "blur",
	SameCrop, "same+blur+gray+jitter", "same+blur+gray", "same+blur",
}

// Has reports whether the row has a transformation: crop, same, blur, gray, jitter or flip.
func (r Row) Has(transformation string) bool {
	return slices.Contains(strings.Split(string(r), "+"), transformation)
}

// Recipe returns a recipe with the row's transformations switched on, and all strengths unchanged.
func (r Row) Recipe(strengths views.Recipe) views.Recipe {
	strengths.Crop = views.NoCrop
	switch {
	case r.Has("crop"):
		strengths.Crop = views.IndependentCrop
	case r.Has("same"):
		strengths.Crop = views.SameCrop
	}
	strengths.Blur, strengths.Grayscale, strengths.Jitter, strengths.Flip = r.Has("blur"), r.Has("gray"), r.Has("jitter"), r.Has("flip")
	return strengths
}

// Transformations is the number of transformations that are on.
func (r Row) Transformations() int { return strings.Count(string(r), "+") + 1 }

// Heads are the row's entries in the switch columns of figures.Paper("effect_aug_full").
func (r Row) Heads() []string {
	heads := lo.Map([]string{"crop", "blur", "gray", "jitter", "flip"}, func(t string, _ int) string { return lo.Ternary(r.Has(t), "1", "") })
	if r.Has("same") {
		heads[0] = "same"
	}
	return heads
}

// titles are the names of the methods in the paper's table.
var titles = map[string]string{methods.SimCLR: "SimCLR", methods.BarlowTwins: "Barlow Twins", methods.MoCo: "MoCo", methods.SimSiam: "SimSiam"}

// Title is the name of a method in the paper's table.
func Title(method string) string { return titles[method] }

// Column is the column of a method on a dataset, by the dataset's title.
func Column(dataset, method string) string { return dataset + "/" + titles[method] }

// ProfileConfig returns the configuration of a method in a profile, before the row and --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, method string, read bool) Config {
	return study.Configured(Study, Config{Recipe: views.Default()}, string(profile), method, study.Kind(read))
}

// Base returns the configuration with all transformations, as before a row switches them. It is what records share that are compared.
func (c Config) Base() Config {
	c.Recipe = AllCrops.Recipe(c.Recipe)
	return c
}

// Defaults is the profile's configuration of the run behind a record. The row says which transformations are on.
func Defaults(r study.Record, config Config) Config {
	c := ProfileConfig(r.Profile, config.Method, !strings.HasPrefix(r.Cell, drawn+"/"))
	row := config.Recipe
	c.Recipe.Crop, c.Recipe.Blur, c.Recipe.Grayscale, c.Recipe.Jitter, c.Recipe.Flip = row.Crop, row.Blur, row.Grayscale, row.Jitter, row.Flip
	return c
}

// Load reads the records of the trainings of the options' folder and profile.
func Load(o study.Options) (study.Results, error) {
	return study.Spec[Config, Data]{
		Name: Study, ProfileConfig: Defaults, Common: func(config, _ Config) Config { return config.Base() },
	}.Load(study.Options{Out: o.Out, Profile: o.Profile})
}

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
var most = map[study.Profile][2]int{study.Smoke: {128, 64}, study.Quick: {10_000, 0}}

// Data holds the images that a seed trains and tests on.
type Data struct {
	study.Described // All seeds have the same.
	Train, Test     *datasets.Images
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
		return datasets.ReadFolder(filepath.Join(o.Data, string(split)+ext), ImageSize)
	}
	if split == datasets.Train {
		return synthetic.Run(seed).Images(most[o.Profile][0], ImageSize, 1), nil
	}
	return synthetic.Run(seed).Images(cmp.Or(most[o.Profile][1], 2000), ImageSize, 2), nil
}

// Open reads both splits of a dataset and cuts them into shares, of which it returns the seed's, or draws the images of a seed. shares is 0 or 1 if all seeds have
// the same images, or images that are drawn.
func Open(o study.Options, dataset string, shares, seed int) (d Data, err error) {
	defer try.Handle(&err)
	d.Name = datasetTitles[dataset]
	d.Train = try.E1(read(o, dataset, datasets.Train, seed))
	d.Test = try.E1(read(o, dataset, datasets.Test, seed))
	if !slices.Equal(d.Train.Classes, d.Test.Classes) {
		return d, fmt.Errorf("%s: training and test images have different classes", d.Test.Name)
	}
	if shares > 1 {
		shares = min(o.SharesOf(d.Train.Name, d.Train.SmallestClass(), "images", shares), o.SharesOf(d.Test.Name, d.Test.SmallestClass(), "images", shares))
	}
	if shares > 1 { // A share's own identity would differ between seeds.
		d.ID = study.IdentityOfShares(d.Train.Identity+"; "+d.Test.Identity, shares)
		d.Train, d.Test = d.Train.Share(seed, shares), d.Test.Share(seed, shares)
	}
	train, test := cmp.Or(most[o.Profile][0], d.Train.Len()), cmp.Or(most[o.Profile][1], d.Test.Len()) // The first of each class.
	if d.ID != "" && (train < d.Train.Len() || test < d.Test.Len()) {
		d.ID += fmt.Sprintf("; the first of each class, at most %d to train and %d to test", train, test)
	}
	d.Train, d.Test = d.Train.Subset(train), d.Test.Subset(test)
	d.ID = cmp.Or(d.ID, d.Train.Identity+"; "+d.Test.Identity)
	d.Unread = lo.Map(slices.Concat(d.Train.Skipped, d.Test.Skipped), func(s datasets.Skipped, _ int) string { return s.File + ": " + s.Reason })
	return d, nil
}

// Datasets returns the titles of the datasets with records, the paper's first.
func Datasets(r study.Results) []string {
	return lo.Uniq(lo.Map(r.Columns(), func(column string, _ int) string { return strings.Split(column, "/")[0] })) // In the alphabet capitals come first.
}
