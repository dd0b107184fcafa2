package experiments

import (
	"errors"
	"fmt"
	"math"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
)

// Pretrain is the name of the experiment that trains with the paper's method ("Training pipeline"): alignment first, then everything.
const Pretrain = "pretrain"

// PretrainConfig is what one run of the experiment is made from.
type PretrainConfig struct {
	// Init is a file of weights to begin with, an official checkpoint or an earlier run's: it takes the place of the first stage.
	Init   string        `json:"init"`
	First  sccore.Config `json:"first"`  // The stage of alignment.
	Second sccore.Config `json:"second"` // The stage of semantic concentration.

	Images int                   `json:"images"` // Synthetic images of each kind, scenes and objects, for training and again for testing.
	Size   int                   `json:"size"`   // Height and width in pixels of images that are evaluated, and compared for neighbours.
	Probe  evaluation.PatchProbe `json:"probe"`
	KNN    knn.Classifier        `json:"knn"`
}

// The experiment's rows and columns.
const (
	rowRandom = "random init"
	rowInit   = "initialisation"
	rowFirst  = "alignment"
	rowSecond = "full method"

	columnMIoU = "linear mIoU"
	columnKNN  = "object k-NN"
	columnRank = "effective rank" // Of patch features: for images without labels.
)

// pretrainConfig returns the configuration of a profile before --set.
func pretrainConfig(profile Profile) PretrainConfig {
	c := PretrainConfig{
		Second: sccore.Default(), Images: 1024, Size: 224,
		Probe: evaluation.DefaultPatchProbe(), KNN: knn.Classifier{K: 20, Temperature: 0.07},
	}
	if profile != Full {
		s := &c.Second
		s.Encoder, s.Prototypes = "vit-tiny", 16
		s.ImageHead, s.PatchHead = heads.Projector{Hidden: 256, Out: 64}, heads.Projector{Hidden: 256, Out: 64}
		s.Views.GlobalSize, s.Views.Locals, s.Canvas, c.Size = 48, 0, 64, 64
		s.Batch, s.Steps, s.Warmup, s.Neighbours, s.GaugeEvery = 32, 300, 30, 10, 20
		// The parts of synthetic objects have hues a twelfth of a turn apart: the paper's jitter would make them all alike.
		s.Views.Global.JitterStrength, s.Views.Global.Grayscale = 0.15, false
		s.Views.Local.JitterStrength, s.Views.Local.Grayscale = 0.15, false
		s.Rate, s.FinalRate, s.Decay, s.FinalDecay, s.Momentum = 1e-3, 1e-5, 0.04, 0.1, 0.99
	}
	if profile == Smoke {
		s := &c.Second
		s.Prototypes, s.Views.GlobalSize, s.Canvas, c.Size = 4, 24, 32, 32
		s.ImageHead, s.PatchHead = heads.Projector{Hidden: 16, Out: 8}, heads.Projector{Hidden: 16, Out: 8}
		s.Batch, s.Steps, s.Warmup, s.Neighbours, s.GaugeEvery = 8, 8, 1, 2, 2
		c.Images, c.Probe.Steps, c.Probe.Batch, c.KNN.K = 24, 20, 64, 5
	}
	c.First = sccore.Ablations[2].Config(c.Second)
	if profile != Full {
		c.First.Rate = 3e-3
	}
	if profile == Quick {
		c.First.Steps, c.First.Warmup = 500, 50
	}
	return c
}

// check returns an error that names the first value out of range.
func (c PretrainConfig) check() error {
	for _, stage := range []struct {
		name   string
		config sccore.Config
	}{{"first", c.First}, {"second", c.Second}} {
		if err := stage.config.Check(); err != nil {
			return fmt.Errorf("%s.%w", stage.name, err)
		}
		if stage.config.Correspondences.From == sccore.FromLabels {
			return fmt.Errorf("%s.correspondences.from: this experiment trains without labels", stage.name)
		}
	}
	switch {
	case c.First.Encoder != c.Second.Encoder:
		return fmt.Errorf("first.encoder %s is not second.encoder %s", c.First.Encoder, c.Second.Encoder)
	case c.First.Lambdas.ImageConcentration > 0:
		return errors.New("first.lambdas.image_concentration: neighbours are found with the first stage's features")
	case c.Images < c.First.Batch || c.Images < c.Second.Batch || c.Images <= c.Second.Neighbours:
		return fmt.Errorf("images %d are fewer than a batch or than neighbours", c.Images)
	case c.Size < 8 || c.Size%8 != 0:
		return fmt.Errorf("size %d is not a multiple of 8 pixels", c.Size)
	}
	if err := c.Probe.Check(); err != nil {
		return err
	}
	return c.KNN.Check()
}

// pretrainCell is one run: both stages with one seed.
type pretrainCell struct {
	dataset string // "synthetic" or "images"
	seed    int
	config  PretrainConfig
}

// pretrainParts are the parts of a cell's name.
var pretrainParts = []string{"dataset", "seed"}

// name is how --only addresses a cell: dataset/seedN.
func (c pretrainCell) name() string { return fmt.Sprintf("%s/seed%d", c.dataset, c.seed) }

// rows are what the cell measures, in the order in which it comes to them.
func (c pretrainCell) rows() []string {
	if c.config.Init != "" {
		return []string{rowInit, rowSecond}
	}
	return []string{rowRandom, rowFirst, rowSecond}
}

// steps are those of the cell's stages.
func (c pretrainCell) steps() int {
	if c.config.Init != "" {
		return c.config.Second.Steps
	}
	return c.config.First.Steps + c.config.Second.Steps
}

func pretrainCells(options Options, dataset string) ([]pretrainCell, error) {
	config := pretrainConfig(options.Profile)
	if err := applySet(&config, options.Set...); err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	if options.Profile == Full && config.Init == "" {
		return nil, errors.New("the full profile begins from an official checkpoint: --set init=FILE")
	}
	seeds := map[Profile]int{Smoke: 1, Quick: 3, Full: 1}[options.Profile]
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	var cells []pretrainCell
	for seed := range seeds {
		cells = append(cells, pretrainCell{dataset, seed, config})
	}
	return cells, nil
}

var pretrain = Experiment{
	Name:       Pretrain,
	Title:      "Does training with the paper's method make features, from scratch in two stages or from a checkpoint?",
	Reproduces: "\"Training pipeline\"; the encoders that other experiments evaluate",
	Data:       "synthetic scenes and objects; with --data images of ImageNet (imagenet/) and COCO (coco/)",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "about ten minutes on 2 cores",
		Full:  "ViT-S/16, 100k steps of 256 images: 1.2e18 FLOP, hours on a GPU",
	},
	Run: runPretrain,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		results, err := newPretrainResults(records, profile)
		if err != nil {
			return nil, err
		}
		return []figures.Table{results.table()}, nil
	},
}

// PretrainResults are the records of the experiment in one profile.
type PretrainResults struct {
	profile Profile
	recordGroups
}

// LoadPretrain reads the experiment's records under the folder out.
func LoadPretrain(out string, profile Profile) (PretrainResults, error) {
	records, err := Records(folderOf(out, Pretrain))
	if err != nil {
		return PretrainResults{}, err
	}
	return newPretrainResults(records, profile)
}

func newPretrainResults(records []Record, profile Profile) (PretrainResults, error) {
	groups, err := groupRecords(records, profile, func(r Record) (settings, error) {
		var config PretrainConfig
		if err := r.configuration(&config); err != nil {
			return settings{}, err
		}
		changed, err := changedKeys("", pretrainConfig(profile), config)
		return settings{config, r.Data, changed}, err
	})
	return PretrainResults{profile, groups}, err
}

// Values are the numbers of a row and a column by ascending seed, in the column's unit.
func (r PretrainResults) Values(row, column string) []float64 {
	var values []float64
	for _, record := range r.runs[[2]string{row, column}] {
		values = append(values, record.Value)
	}
	return values
}

func (r PretrainResults) table() figures.Table {
	t := figures.Table{
		Title:    "Training in two stages",
		Caption:  "A linear probe of frozen patch features and k-NN on [CLS] features, in %, of the online branch; without labels the effective rank of patch features. The paper has no such table.",
		Profile:  string(r.profile),
		RowHeads: []figures.RowHead{{Name: "encoder"}},
	}
	seen := map[string]bool{}
	for _, column := range []string{columnMIoU, columnKNN, columnRank} {
		for _, row := range []string{rowRandom, rowInit, rowFirst, rowSecond} {
			for _, record := range r.runs[[2]string{row, column}] {
				if !seen[column] {
					t.Columns, seen[column] = append(t.Columns, column), true
				}
				if !seen[record.Data] {
					t.Data, seen[record.Data] = append(t.Data, record.Data), true
				}
			}
		}
	}
	for _, name := range []string{rowRandom, rowInit, rowFirst, rowSecond} {
		row := figures.Row{Heads: []string{name}}
		measured := false
		for _, column := range t.Columns {
			values := r.Values(name, column)
			measured = measured || len(values) > 0
			row.Cells = append(row.Cells, figures.Cell{Paper: math.NaN(), Ours: values})
		}
		if measured {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}
