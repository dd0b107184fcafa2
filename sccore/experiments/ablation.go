package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
)

// Ablation is the name of the study of what each part of the method does ("Ablation study"): seven lines, each trained from the same checkpoint
// of its seed, with parts of the method on or off.
const Ablation = "ablation"

// AblationConfig is what all lines are made from: training in two stages with everything on, and how frozen features are measured.
type AblationConfig struct {
	PretrainConfig
	Linear evaluation.ClassProbe `json:"linear"` // Linear classification of [CLS] features.
}

// The columns of the paper's table.
const (
	lineMIoU     = "linear_seg_mIoU"
	lineAccuracy = "linear_seg_Acc"
	lineLinear   = "linear_cls_Acc@1"
	lineKNN      = "knn_Acc@1"
)

var ablationColumns = []string{lineMIoU, lineAccuracy, lineLinear, lineKNN}

// ablationConfig returns the configuration of a profile before --set.
func ablationConfig(profile Profile) AblationConfig {
	c := AblationConfig{pretrainConfig(profile), evaluation.FastClassProbe()}
	switch profile { // A thousand images want to be seen more than once.
	case Quick:
		c.Linear.Epochs = 50
	case Smoke:
		c.Linear.Epochs, c.Linear.Batch = 10, 8
	}
	return c
}

// check returns an error that names the first value out of range.
func (c AblationConfig) check() error {
	if err := c.PretrainConfig.check(); err != nil {
		return err
	}
	for _, line := range sccore.Ablations {
		if err := line.Config(c.Second).Check(); err != nil {
			return fmt.Errorf("line %d: second.%w", line.Line, err)
		}
	}
	if c.Init != "" {
		return errors.New("init: all lines begin from the first stage of their seed")
	}
	return c.Linear.Check()
}

// encode returns the configuration as it stands in records.
func (c AblationConfig) encode() json.RawMessage {
	encoded, err := json.Marshal(c)
	if err != nil {
		panic(err) // Numbers and text.
	}
	return encoded
}

// ablationCell is one row of one seed: a line, or what they all begin from.
type ablationCell struct {
	row  string // The number of a line, or rowFirst, or rowRandom.
	seed int
}

// ablationParts are the parts of a cell's name.
var ablationParts = []string{"row", "seed"}

// name is how --only addresses a cell: lineN/seedN, or stage1/seedN.
func (c ablationCell) name() string {
	switch c.row {
	case rowRandom:
		return fmt.Sprintf("random/seed%d", c.seed)
	case rowFirst:
		return fmt.Sprintf("stage1/seed%d", c.seed)
	}
	return fmt.Sprintf("line%s/seed%d", c.row, c.seed)
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
	config = ablationConfig(options.Profile)
	for _, assignment := range options.Set {
		if err := applySet(&config, assignment); err != nil {
			return config, nil, err
		}
	}
	if err := config.check(); err != nil {
		return config, nil, err
	}
	seeds := map[Profile]int{Smoke: 1, Quick: 3, Full: 3}[options.Profile]
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	rows := []string{rowRandom, rowFirst}
	for i := range sccore.Ablations {
		// The last lines take longest, and are begun first.
		rows = append(rows, strconv.Itoa(sccore.Ablations[len(sccore.Ablations)-1-i].Line))
	}
	for _, row := range rows {
		for seed := range seeds {
			cells = append(cells, ablationCell{row, seed})
		}
	}
	return config, cells, nil
}
