package detection

import (
	"fmt"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/detection"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "detection"

// Study is the experiment.
var Study = study.Spec[Config, Data]{
	Info: study.Info{
		Name:       Name,
		Title:      "How well do encoders find objects that are trained together with Cascade Mask R-CNN?",
		Reproduces: "Tab. obj_det, Tab. obj_det_full; claim C26",
		Labels:     []string{"obj_det", "obj_det_full"},
		Data:       "COCO if --data has it, without it synthetic scenes; encoders from pretrain's runs, or --set weights.ibot-s16=FILE",
		Cost: map[study.Profile]string{
			study.Smoke: "two minutes on 2 cores, mostly compiling",
			study.Quick: "40 minutes on 2 cores",
			study.Full:  "per encoder, 12 epochs of COCO in images of 800×1333: six hours on a GPU with 140 GB",
		},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	BySeed:   encoders.Drawn,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Data, error) {
		return open(o.Data, dataset, cells[0].Config, cells[0].Seed)
	},
	Numbers: func(data Data, c study.Cell[Config]) []study.Number {
		return []study.Number{
			{Row: c.Config.Encoder.Row, Column: column(data.Title(), boxes)}, {Row: c.Config.Encoder.Row, Column: column(data.Title(), masks)},
		}
	},
	Steps:     func(_ Data, c study.Cell[Config]) int { return c.Config.Steps },
	NewWorker: func(r *run) (study.Worker[Config, Data], error) { return &worker{backend: r.Backend()}, nil },
	Folder: func(data Data, c study.Cell[Config]) string {
		hash := study.Hash([]byte(c.Name() + " " + c.Hash() + " " + data.Identity()))
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
	},
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
	Figures:       drawn,
	Random:        encoders.Random,
}

// The kinds of detections, which end the names of the records' columns.
const (
	boxes = "boxes"
	masks = "masks"
)

// column is the records' column for a dataset and a kind.
func column(dataset, kind string) string { return dataset + "/" + kind }

// Config is the configuration of a cell. Images are tested at the largest scale of the augmentation.
type Config struct {
	encoders.Config

	Detector detection.Config `json:"detector"`  // Its classes are 0: the dataset decides.
	Objects  int              `json:"objects"`   // Places for the objects of a training image.
	MaskSize int              `json:"mask_size"` // Height and width of the masks of objects in pixels.

	BF16 bool `json:"bf16,omitempty"` // Compute the encoder in bfloat16, with float32 weights.

	Optimizer finetune.Optimizer `json:"optimizer"`
	Batch     int                `json:"batch"`
	Parts     int                `json:"parts"` // Parts that a batch is computed in, one after the other.
	Steps     int                `json:"steps"`

	Augmentation finetune.DetectionTransform `json:"augmentation"`

	Images int `json:"images"` // Images per split: drawn, or taken evenly spread from a real dataset, where 0 means all.
}

var grid = encoders.Grid[Config]{
	Table:  "obj_det",
	Seeds:  map[study.Profile]int{study.Smoke: 1, study.Full: 1},
	Config: config,
}

// profileConfig returns the configuration of a profile before --set. The full profile is the recipe of Mugs and iBOT for a ViT-S/16, 12 epochs of 117,266
// images; the paper follows iBOT's protocol and gives no settings.
func profileConfig(profile study.Profile, dataset string) Config {
	c := Config{
		Detector: detection.Recipe(0), Objects: 100, MaskSize: 112, Batch: 32, Parts: 8, Steps: 12 * 117_266 / 32, Augmentation: finetune.DefaultDetectionTransform(),
		Optimizer: finetune.Optimizer{
			LearningRate: 2e-4, LayerDecay: 0.8, WeightDecay: 0.05, WarmUp: 500, WarmUpRatio: 1e-3, Milestones: [2]float64{8.0 / 12, 11.0 / 12}, DropPath: 0.1,
		},
	}
	if profile == study.Full {
		return c
	}
	c.Detector = detection.Config{
		Channels: 32, Convolutions: 1, Hidden: 128, AnchorSamples: 64, TrainProposals: 128, TestProposals: 64, BoxSamples: 64, Candidates: 128, Detections: 20,
	}
	c.Objects, c.MaskSize, c.Batch, c.Parts, c.Steps, c.Images = 3, 56, 8, 1, 400, 200
	c.Augmentation = finetune.DetectionTransform{MinShort: 48, MaxShort: 64, Step: 4, Long: 64, CropShort: [3]int{48, 56, 64}, MinCrop: 40, MaxCrop: 64}
	c.Optimizer.LearningRate, c.Optimizer.LayerDecay, c.Optimizer.WarmUp = 1e-3, 0.9, 40
	if dataset != encoders.Synthetic { // Photographs show more objects, and need more pixels.
		c.Objects, c.Detector.Detections = 40, 40
		c.Augmentation = finetune.DetectionTransform{MinShort: 96, MaxShort: 128, Step: 8, Long: 192, CropShort: [3]int{80, 100, 120}, MinCrop: 64, MaxCrop: 120}
	}
	if profile == study.Smoke {
		c.Detector = detection.Config{
			Channels: 8, Hidden: 16, AnchorSamples: 16, TrainProposals: 16, TestProposals: 16, BoxSamples: 16, Candidates: 32, Detections: 10,
		}
		c.MaskSize, c.Batch, c.Steps, c.Images, c.Optimizer.WarmUp = 16, 2, 4, 8, 1
		c.Augmentation = finetune.DetectionTransform{MinShort: 24, MaxShort: 32, Step: 4, Long: 48, CropShort: [3]int{32, 40, 48}, MinCrop: 20, MaxCrop: 32}
		if dataset == encoders.Synthetic {
			c.Augmentation.Long = 32
		}
	}
	return c
}

// config applies --set.
func config(profile study.Profile, dataset, _ string, set []string) (Config, error) {
	c := profileConfig(profile, dataset)
	for _, assignment := range set {
		if err := settings.Apply(&c, assignment); err != nil {
			return c, err
		}
	}
	return c, c.check()
}

// check returns an error that names the first value out of range.
func (c Config) check() error {
	if c.Images < 0 || c.Images > 1<<20 {
		return fmt.Errorf("images %d is not between 0 and %d", c.Images, 1<<20)
	}
	if c.Detector.Classes != 0 {
		return fmt.Errorf("detector.classes %d: the dataset decides on its classes", c.Detector.Classes)
	}
	if err := c.Augmentation.Check(); err != nil {
		return fmt.Errorf("augmentation.%w", err)
	}
	// The cell's encoder is not open yet. This one has the patches of the smallest.
	any := encoder.ViT{PatchSize: 8, Dim: 4, Depth: 1, NumHeads: 1, GridSize: 1, Positions: encoder.DINOPositions}
	return c.training(any, 2).Check()
}

// training is the configuration of the training for an encoder and a number of classes.
func (c Config) training(vit encoder.ViT, classes int) finetune.DetectionTraining {
	colours, config := datasets.DefaultPreprocessing(), c.Detector
	config.Classes = classes
	if c.BF16 {
		vit.ComputeDType = dtypes.BFloat16
	}
	return finetune.DetectionTraining{
		Detector: finetune.Detector{ViT: vit, Config: config}, Transform: c.Augmentation, Objects: c.Objects, MaskSize: c.MaskSize,
		Training: finetune.Training{Optimizer: c.Optimizer, Batch: c.Batch, Parts: c.Parts, Steps: c.Steps, Mean: colours.Mean, Std: colours.Std},
	}
}

// Training is the configuration of the full profile's training on COCO for an encoder.
func Training(vit encoder.ViT) finetune.DetectionTraining {
	return profileConfig(study.Full, "coco").training(vit, 80)
}

// testScale is what test images are resized to.
func (c Config) testScale() finetune.Scale {
	return finetune.Scale{Long: c.Augmentation.Long, Short: c.Augmentation.MaxShort}
}
