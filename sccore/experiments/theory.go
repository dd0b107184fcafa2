package experiments

import (
	"fmt"

	"github.com/semcon/semcon/figures"
)

// Theory is the name of the experiment that holds the paper's theorem against trained encoders: those that the augmentation study left.
const Theory = "theory"

var theory = Experiment{
	Name:       Theory,
	Title:      "Does the bound on the error say anything about trained encoders, and do they concentrate as the theory has it?",
	Reproduces: "section \"Implicit Semantic Concentration\", which has no numbers: its quantities on the encoders of " + EffectAug,
	Data:       "the trained encoders under out/" + EffectAug + " and the data that they were trained on",
	Cost: map[Profile]string{
		Smoke: "seconds, after " + EffectAug,
		Quick: "about 2 minutes on 2 cores, after " + EffectAug,
		Full:  "not measured",
	},
	Run: runTheory,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		results, err := newTheoryResults(records, profile)
		if err != nil {
			return nil, err
		}
		return results.tables(), nil
	},
}

// TheoryConfig is what the theorem's quantities are measured with.
type TheoryConfig struct {
	// Images is n, the number of training images of each class, fewer where a class has fewer; Views is m, the number of views of each.
	Images int `json:"images"`
	Views  int `json:"views"`
	// Thresholds is how finely δ_T and d_T are searched, see theory.Features.Thresholds.
	Thresholds int `json:"thresholds"`
	// Trained is the hash of the configuration that the encoder was trained with.
	Trained string `json:"trained"`
}

// theoryConfig is a profile's configuration with --set applied.
func theoryConfig(profile Profile, set []string) (TheoryConfig, error) {
	config := TheoryConfig{Images: 100, Views: 4, Thresholds: 200}
	switch profile {
	case Smoke:
		config = TheoryConfig{Images: 8, Views: 2, Thresholds: 50}
	case Full:
		config.Images = 500
	}
	if err := applySet(&config, set...); err != nil {
		return config, err
	}
	if config.Images < 2 || config.Views < 1 || config.Thresholds < 2 {
		return config, fmt.Errorf("--set images %d, views %d, thresholds %d: want 2, 1 and 2 at least", config.Images, config.Views, config.Thresholds)
	}
	return config, nil
}
