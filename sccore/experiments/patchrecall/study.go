package patchrecall

import (
	"cmp"
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "patch-recall"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "Do the features of single patches tell their class, every class counting the same?",
		Reproduces: "no table of the paper: a measure on which a short training on photographs gains more points than on mIoU",
		Data:       "PASCAL VOC, CamVid, COCOStuff-27, ADE20k and Cityscapes, whichever --data has; without it synthetic scenes; encoders from pretrain's runs, or --set weights.dino-s16=FILE",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds",
			study.Quick: "half a minute per encoder, dataset and seed on 2 cores",
			study.Full:  "not measured: all images of a dataset at 448 pixels per encoder, a share per seed",
		},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		c, seed := cells[0].Config, cells[0].Seed
		if dataset == encoders.Synthetic { // The sets differ from those of the experiment pretrain.
			run := synthetic.Run(seed)
			return identified(run.Segmentation(c.Images, c.Size, 12), run.Segmentation(c.Images, c.Size, 14), "images drawn for the seed"), nil
		}
		d, err := sources.Open(o.Data, dataset)
		if err != nil {
			return d, err
		}
		shares := o.SharesOf(d.Title(), d.test.Len(), "images", c.Shares)
		if shares > 1 {
			d.identity += fmt.Sprintf("; of the test images %d shares, one for a seed", shares)
			d.how = fmt.Sprintf("share %d of %d of the test images", seed+1, shares)
		}
		d.test = d.test.Share(seed, shares)
		return d, nil
	},
	BySeed:        study.EachSeed,
	Numbers:       numbers,
	Steps:         func(Data, study.Cell[Config]) int { return 1 },
	NewWorker:     study.Independent(run),
	Serial:        true,
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
}

// Config is the configuration of a cell.
type Config struct {
	Encoder encoders.Encoder `json:"encoder"`

	Size     int     `json:"size"`      // Side in pixels that images are resized to.
	Images   int     `json:"images"`    // Images per split and seed: drawn, or taken evenly spread from a real dataset, of which a seed tests on its share; 0 means all.
	Shares   int     `json:"shares"`    // Shares that the test images of a real dataset are cut into. Seed 0 has the first, and so on.
	Purity   float64 `json:"purity"`    // The least share of a patch's pixels that its class covers.
	PerClass int     `json:"per_class"` // The most patches of a class, in training and in testing. In training each class gives as many as the rarest.
	Least    int     `json:"least"`     // Classes with fewer patches, in training or in testing, are left out.
}

// Hashed omits the path of the encoder's file.
func (c Config) Hashed() any {
	c.Encoder = c.Encoder.Portable()
	return c
}

// recall is the evaluation that the configuration asks for.
func (c Config) recall() evaluation.PatchRecall {
	r := evaluation.DefaultPatchRecall()
	r.Purity, r.PerClass, r.Least = c.Purity, c.PerClass, c.Least
	return r
}

// check returns an error that names the first value out of range.
func (c Config) check(dataset string) error {
	if err := cmp.Or(settings.Between("images", c.Images, 0, 1<<30), settings.Between("shares", c.Shares, 1, 1<<20), settings.Between("least", c.Least, 1, 1<<20), settings.Between("size", c.Size, 1, settings.MaxImageSize), c.recall().Check()); err != nil {
		return err
	}
	if dataset == encoders.Synthetic {
		return cmp.Or(settings.Between("images", c.Images, 2, 1<<30), synthetic.Check("images", c.Images, "size", c.Size))
	}
	return nil
}

// profileConfig returns the configuration of a profile before --set.
func profileConfig(profile study.Profile, dataset string) Config {
	c := Config{Size: 448, Shares: 5, Purity: 0.6, PerClass: 4000, Least: 50}
	switch {
	case profile == study.Smoke:
		c.Size, c.Images, c.Shares, c.Least = 32, 24, 3, 1
	case profile == study.Quick && dataset == encoders.Synthetic:
		c.Size, c.Images = 64, 400
	case profile == study.Quick: // Photographs need more pixels than synthetic scenes.
		c.Size, c.Images = 96, 2000
	}
	return c
}

var grid = encoders.Grid[Config]{
	Table:   "semantic_seg",
	Encoder: func(c *Config) *encoders.Encoder { return &c.Encoder },
	Shares:  func(c Config) int { return c.Shares },
	Config: func(profile study.Profile, dataset, _ string, set []string) (Config, error) {
		c := profileConfig(profile, dataset)
		if err := settings.Apply(&c, set...); err != nil {
			return c, err
		}
		return c, c.check(dataset)
	},
}

var sources = encoders.Sources[Data]{
	Needed: "PASCAL VOC, CamVid, COCO, ADE20k or Cityscapes (\"semcon data\" lists what there is)",
	None:   "none of PASCAL VOC, CamVid, COCO, ADE20k and Cityscapes is",
	Names:  []string{"voc2012", "camvid", "coco", "ade20k", "cityscapes"},
	Open: func(dir, dataset string) (Data, error) {
		train, err := datasets.OpenSegmentation(dataset, dir, datasets.Train)
		if err != nil {
			return Data{}, err
		}
		test, err := datasets.OpenSegmentation(dataset, dir, datasets.Test)
		if err != nil {
			return Data{}, err
		}
		return identified(train, test, "all test images"), nil
	},
}

// Data is a dataset: patches of its training images train, those of its test images are classified.
type Data struct {
	train, test   *datasets.Segmentation
	identity, how string // how says which images test.
}

func identified(train, test *datasets.Segmentation, how string) Data {
	return Data{train, test, train.Identity + "; " + test.Identity, how}
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.identity }

// Title is the name of the dataset.
func (d Data) Title() string { return d.train.Name }

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }
