package teacher

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/evaluation"
)

// TeacherQuality is the name of the study of what patch concentration gains, against how good its teacher's correspondences are.
//
// The paper has a teacher of one quality, a transformer that was trained on ImageNet before. One trained here in a minute is worse, and whether
// L_sc then helps is a question of how much worse. So from one checkpoint a seed, trained by alignment alone, training goes on in several ways:
// with patch alignment alone, and with CoTAP or binary cross-entropy beside it, with the real teacher's q, or with q from labels of which a
// share is replaced by noise, so that it tells pairs of one class from others as well as is wanted: AUC is the area under its ROC curve.
const TeacherQuality = "teacher-quality"

// TeacherQualityConfig is what one run of the study is made from.
type TeacherQualityConfig struct {
	Loss    string  `json:"loss"`    // "start", no training beyond the first stage; "alignment"; "cotap" or "bce" beside it.
	Lambda  float64 `json:"lambda"`  // λ2 of the latter two.
	Teacher string  `json:"teacher"` // Their q: "head", the target branch's as in the paper, or "labels".
	AUC     float64 `json:"auc"`     // Of labels: from 0.5, chance, to 1, the labels themselves.

	First  sccore.Config         `json:"first"`  // The stage of both alignments, which makes the checkpoint.
	Second sccore.Config         `json:"second"` // The stage that is studied; L_sc as above.
	Images int                   `json:"images"` // Synthetic scenes and objects to train on, each, and half as many scenes for testing.
	Probe  evaluation.PatchProbe `json:"probe"`
	Pairs  int                   `json:"pairs"` // Batches whose pairs of patches the real teacher's AUC is of.
}

// What a cell trains with.
const (
	lossStart     = "start"
	lossAlignment = "alignment"
)

// teacherQualityConfig returns the configuration of a profile before what a cell sets, and --set.
func teacherQualityConfig(profile Profile) TeacherQualityConfig {
	toy := Quick // Training on labels is not the paper's: the full profile has more runs, and not larger ones.
	if profile == Smoke {
		toy = Smoke
	}
	trained := pretrainConfig(toy)
	c := TeacherQualityConfig{First: trained.First, Second: trained.Second, Images: 512, Probe: trained.Probe, Pairs: 4}
	for _, s := range []*sccore.Config{&c.First, &c.Second} {
		s.Prototypes, s.Lambdas = 0, losses.Lambdas{PatchAlignment: 1}
		s.Momentum = 0.95 // The target branch follows faster: a better teacher after 500 steps.
		s.GaugeEvery = 1000
	}
	c.First.Lambdas.ImageAlignment = 1
	if profile == Smoke {
		c.First.Steps, c.Second.Steps, c.Images, c.Pairs = 4, 4, 24, 1
	} else {
		c.Second.Steps, c.Second.Warmup = 200, 20
		c.Probe.Steps = 500
	}
	return c
}

// second is the configuration of the cell's training.
func (c TeacherQualityConfig) second() sccore.Config {
	s := c.Second
	if c.Loss == lossStart || c.Loss == lossAlignment {
		return s
	}
	s.PatchConcentration, s.Lambdas.PatchConcentration = c.Loss, c.Lambda
	s.Correspondences.From = c.Teacher
	if c.Teacher == sccore.FromLabels {
		// A pair's order with another is lost where either is replaced: 1 − AUC = noise²/2.
		s.Correspondences.Noise = math.Sqrt(2 * (1 - c.AUC))
	}
	return s
}

// steps are those of the cell's own training.
func (c TeacherQualityConfig) steps() int {
	if c.Loss == lossStart {
		return 0
	}
	return c.Second.Steps
}

// check returns an error that names the first value out of range.
func (c TeacherQualityConfig) check() error {
	if err := c.First.Check(); err != nil {
		return fmt.Errorf("first.%w", err)
	}
	if err := c.second().Check(); err != nil {
		return fmt.Errorf("second.%w", err)
	}
	switch {
	case c.First.Encoder != c.Second.Encoder || c.First.PatchHead != c.Second.PatchHead || c.First.Canvas != c.Second.Canvas:
		return errors.New("encoder, patch_head and canvas of the first and the second stage differ")
	case c.First.Lambdas.PatchAlignment == 0 || c.Second.Lambdas.PatchAlignment == 0:
		return errors.New("lambdas.patch_alignment 0: both stages align patches")
	case c.First.Lambdas.PatchConcentration+c.First.Lambdas.ImageConcentration+c.Second.Lambdas.PatchConcentration+c.Second.Lambdas.ImageConcentration > 0 &&
		(c.Loss == lossStart || c.Loss == lossAlignment):
		return errors.New("lambdas: the study itself says where there is concentration")
	case c.Images < c.First.Batch || c.Images < c.Second.Batch:
		return fmt.Errorf("images %d are fewer than a batch", c.Images)
	case c.Pairs < 1:
		return fmt.Errorf("pairs %d is not positive", c.Pairs)
	}
	return c.Probe.Check()
}

// shared is what all runs have in common that are compared with each other.
func (c TeacherQualityConfig) shared() TeacherQualityConfig {
	c.Loss, c.Lambda, c.Teacher, c.AUC = "", 0, "", 0
	return c
}

// teacher is the part of a cell's name that says how good its q is.
func (c TeacherQualityConfig) teacher() string {
	switch {
	case c.Loss == lossStart || c.Loss == lossAlignment:
		return "none"
	case c.Teacher == sccore.FromLabels:
		return fmt.Sprintf("auc%g", c.AUC)
	}
	return "real"
}

// row names the cell's condition in records.
func (c TeacherQualityConfig) row() string {
	return fmt.Sprintf("%s/lambda%g/%s", c.Loss, c.Lambda, c.teacher())
}

// qualityCell is one run of the study.
type qualityCell struct {
	seed   int
	config TeacherQualityConfig
}

// qualityParts are the parts of a cell's name.
var qualityParts = []string{"loss", "lambda", "teacher", "seed"}

// name is how --only addresses a cell, e.g. cotap/lambda10/auc0.85/seed1.
func (c qualityCell) name() string { return fmt.Sprintf("%s/seed%d", c.config.row(), c.seed) }

// key identifies what a record measures.
func (c qualityCell) key() string { return c.name() + " " + hashOf(configJSON(c.config)) }

// qualityLosses are the losses of patch concentration that are compared, qualityLambdas their weights: the weaker ones in quick for CoTAP alone.
var (
	qualityLosses  = []string{sccore.WithCoTAP, sccore.WithBCE}
	qualityLambdas = map[Profile]map[string][]float64{
		Smoke: {sccore.WithCoTAP: {10}, sccore.WithBCE: {10}},
		Quick: {sccore.WithCoTAP: {1, 10}, sccore.WithBCE: {10}},
		Full:  {sccore.WithCoTAP: {1, 3, 10}, sccore.WithBCE: {1, 3, 10}},
	}
	qualityAUCs = map[Profile][]float64{Smoke: {1}, Quick: {1, 0.85, 0.7}, Full: {1, 0.9, 0.8, 0.7, 0.6}}
)

// qualityRows lists the conditions of a profile: start and alignment, then those of each loss and λ2 from the best teacher down to the real
// one.
func qualityRows(profile Profile) (rows []TeacherQualityConfig) {
	rows = append(rows, TeacherQualityConfig{Loss: lossStart}, TeacherQualityConfig{Loss: lossAlignment})
	for _, loss := range qualityLosses {
		for _, lambda := range qualityLambdas[profile][loss] {
			for _, auc := range qualityAUCs[profile] {
				rows = append(rows, TeacherQualityConfig{Loss: loss, Lambda: lambda, Teacher: sccore.FromLabels, AUC: auc})
			}
			rows = append(rows, TeacherQualityConfig{Loss: loss, Lambda: lambda, Teacher: sccore.FromHead})
		}
	}
	return rows
}

// qualityCells lists the runs of a profile, all of one seed before the next.
func qualityCells(options Options) ([]qualityCell, error) {
	base := teacherQualityConfig(options.Profile)
	if err := applySet(&base, options.Set...); err != nil {
		return nil, err
	}
	if base != base.shared() {
		return nil, errors.New("--set loss, lambda, teacher or auc: choose runs with --only 'cotap/lambda10/auc1'")
	}
	seeds := map[Profile]int{Smoke: 1, Quick: 3, Full: 10}[options.Profile]
	if options.Seeds > 0 {
		seeds = options.Seeds
	}
	var cells []qualityCell
	for seed := range seeds {
		for _, row := range qualityRows(options.Profile) {
			config := base
			config.Loss, config.Lambda, config.Teacher, config.AUC = row.Loss, row.Lambda, row.Teacher, row.AUC
			if err := config.check(); err != nil {
				return nil, err
			}
			cells = append(cells, qualityCell{seed, config})
		}
	}
	return cells, nil
}

// compiledFor names the cells that share a compiled step: those of one loss and one kind of q, with any λ2, AUC and seed.
func (c qualityCell) compiledFor() string {
	if slices.Contains(qualityLosses, c.config.Loss) {
		return c.config.Loss + " " + c.config.Teacher
	}
	return lossAlignment
}
