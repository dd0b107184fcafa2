package ablation

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
)

// Ablation is the name of the study of what each part of the method does ("Ablation study"): seven lines, each trained from the same checkpoint
// of its seed, with parts of the method on or off.
const Ablation = "ablation"

// AblationConfig is what all lines are made from: training in two stages with everything on, or from a file of weights in the second alone, and
// how frozen features are measured.
type AblationConfig struct {
	PretrainConfig
	Linear evaluation.ClassProbe `json:"linear"` // Linear classification of [CLS] features.

	Segmentation evaluation.SegmentationProbe `json:"segmentation,omitzero"` // On patch features of images that are read.
}

// The columns of the paper's table.
const (
	lineMIoU     = "linear_seg_mIoU"
	lineAccuracy = "linear_seg_Acc"
	lineLinear   = "linear_cls_Acc@1"
	lineKNN      = "knn_Acc@1"
)

var ablationColumns = []string{lineMIoU, lineAccuracy, lineLinear, lineKNN}

// ablationConfig returns the configuration of a profile before --set, for images that are read or synthetic ones.
func ablationConfig(profile Profile, read bool) AblationConfig {
	c := AblationConfig{PretrainConfig: pretrainConfig(profile), Linear: evaluation.FastClassProbe()}
	if read {
		c.Segmentation = mainConfig(profile, true).Segmentation
	}
	switch profile { // A thousand images want to be seen more than once.
	case Quick:
		c.Linear.Epochs = 50
	case Smoke:
		c.Linear.Epochs, c.Linear.Batch = 10, 8
		if read {
			c.Segmentation.Train, c.Segmentation.Test, c.Segmentation.Epochs = 32, 32, 1
		}
	}
	return c
}

// check returns an error that names the first value out of range.
func (c AblationConfig) check(read bool) error {
	if err := c.PretrainConfig.check(); err != nil {
		return err
	}
	for _, line := range sccore.Ablations {
		if err := line.Config(c.Second).Check(); err != nil {
			return fmt.Errorf("line %d: second.%w", line.Line, err)
		}
	}
	if err := c.Linear.Check(); err != nil || !read {
		return err
	}
	return c.Segmentation.Check()
}

// beginning is the row of what all lines begin from.
func (c AblationConfig) beginning() string {
	if c.Init != "" {
		return rowInit
	}
	return rowFirst
}

// measuring is how an encoder is measured, as in the experiment main.
func (c AblationConfig) measuring() MainConfig {
	return MainConfig{Size: c.Size, KNN: c.KNN, Class: c.Linear, Patch: c.Probe, Segmentation: c.Segmentation}
}

// ablationCell is one row of one seed: a line, or what they all begin from.
type ablationCell struct {
	dataset string // "images" of those that are read, or "synthetic".
	row     string // The number of a line, or rowFirst, rowRandom or rowInit.
	seed    int
}

// ablationParts are the parts of a cell's name. Those of synthetic images have no dataset in front.
func ablationParts(read bool) []string {
	if read {
		return []string{"dataset", "row", "seed"}
	}
	return []string{"row", "seed"}
}

// ablationRead begins the names of the cells of images that are read.
const ablationRead = "images/"

// name is how --only addresses a cell: line4/seed0, stage1/seed0 or random/seed0, with images that are read images/line4/seed0; with a file of weights
// init/seed0 in place of the last two.
func (c ablationCell) name() string {
	row, named := map[string]string{rowRandom: "random", rowFirst: "stage1", rowInit: "init"}[c.row]
	if !named {
		row = "line" + c.row
	}
	name := fmt.Sprintf("%s/seed%d", row, c.seed)
	if c.dataset+"/" == ablationRead {
		name = ablationRead + name
	}
	return name
}

// line is the line of a row that is one.
func (c ablationCell) line() (line sccore.Ablation, ok bool) {
	for _, line := range sccore.Ablations {
		if strconv.Itoa(line.Line) == c.row {
			return line, true
		}
	}
	return sccore.Ablation{}, false
}

// ablationCells are all cells of a call, those that others begin from first.
func ablationCells(options Options) (config AblationConfig, cells []ablationCell, err error) {
	dataset := "synthetic"
	if options.Data != "" {
		dataset = "images"
	}
	config = ablationConfig(options.Profile, options.Data != "")
	if err := applySet(&config, options.Set...); err != nil {
		return config, nil, err
	}
	if err := config.check(options.Data != ""); err != nil {
		return config, nil, err
	}
	if options.Profile == Full && config.Init == "" {
		return config, nil, errors.New("the full profile begins from an official checkpoint: --set init=FILE")
	}
	seeds := map[Profile]int{Smoke: 1, Quick: 3, Full: 3}[options.Profile]
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	rows := []string{rowRandom, rowFirst}
	if config.Init != "" {
		rows = []string{rowInit}
	}
	for i := range sccore.Ablations {
		// The last lines take longest, and are begun first.
		rows = append(rows, strconv.Itoa(sccore.Ablations[len(sccore.Ablations)-1-i].Line))
	}
	for _, row := range rows {
		for seed := range seeds {
			cells = append(cells, ablationCell{dataset, row, seed})
		}
	}
	return config, cells, nil
}
