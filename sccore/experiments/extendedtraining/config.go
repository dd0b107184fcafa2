package extendedtraining

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/selfdistillation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Config is the configuration that all continuations of a baseline share: First are the method's alignment losses alone, Second is the method, and both start from
// the baseline. The rest of maintable.Config measures encoders; its Init and Ignore are not used.
type Config struct {
	maintable.Config
	Start selfdistillation.Config `json:"start"` // The baseline from scratch.
	Own   selfdistillation.Config `json:"own"`   // The baseline continued.

	Weights       string `json:"weights,omitzero"`        // A file of weights that replaces the training start, such as the baseline's official checkpoint.
	WeightsSHA256 string `json:"weights_sha256,omitzero"` // SHA-256 of the file of weights, which the program fills in.
}

// OmitPaths omits the path of the file of weights.
func (c *Config) OmitPaths() { c.Weights = "" }

// The rows: a trained baseline, and its continuations.
const (
	rowStart     = "start"
	rowObjects   = "own-objects"
	rowScenes    = "own-scenes"
	rowMixture   = "own-mixture"
	rowAlignment = "alignment"
	rowMethod    = "method"
)

// titles are the names of baselines in tables and figures.
var titles = map[string]string{selfdistillation.DINO: "DINO", selfdistillation.IBOT: "iBOT", selfdistillation.Mugs: "Mugs"}

// fromFile reports whether a profile continues from a file.
func fromFile(profile study.Profile) bool { return profile == study.Full || profile == study.Real }

// lacks reports whether a profile has no such row: real has one kind of images, so that own losses have the mixture alone.
func lacks(profile study.Profile, row string) bool {
	return profile == study.Real && (row == rowObjects || row == rowScenes)
}

// ProfileConfig returns the configuration of a baseline in a profile before --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, read bool, baseline string) Config {
	c := Config{Config: maintable.ProfileConfig(profile, read), Start: selfdistillation.Default(baseline), Own: selfdistillation.Default(baseline)}
	c = study.Configured(Name, c, string(profile), "method")
	recipe.FollowSteps(&c.Second, study.Options{Profile: profile})
	c.First = sccore.Ablations[2].Config(c.Second)
	method, own := c.Second, &c.Own
	own.Batch, own.Steps, own.WarmupSteps, own.LearningRate, own.FinalLearningRate = method.Batch, method.Steps, method.WarmupSteps, method.LearningRate, method.FinalLearningRate
	own.TargetMomentum, own.FinalTargetMomentum = method.TargetMomentum, method.FinalTargetMomentum
	if profile == study.Full {
		// The authors' schedules are at their ends, and would begin anew: rate, momentum and steps are the method's, so that continuations are alike; temperature
		// and decay are what the authors end with. A full checkpoint gives both branches and the heads; with a file of an encoder heads are new. Views are the authors', with
		// ten local crops beside the method's four.
		own.WeightDecay, own.EpochSteps = own.FinalWeightDecay, 1_281_167/method.Batch
	} else { // The baseline is as small as the method. Epochs count the synthetic images.
		own.Encoder, own.Positions, own.Views, own.ImageSize = method.Encoder, method.Positions, method.Views, method.ImageSize
		own.EpochSteps = max(1, c.Images/method.Batch)
		own.WeightDecay, own.FinalWeightDecay = method.WeightDecay, method.FinalWeightDecay
		c.Start = *own
	}
	return study.Configured(Name, c, string(profile), baseline, "baseline")
}

// check returns an error that names the first value out of range.
func (c Config) check(profile study.Profile, read bool) error {
	if err := c.Config.Check(profile, read); err != nil {
		return err
	}
	err := settings.CheckGroup("own", c.Own)
	if !fromFile(profile) {
		err = cmp.Or(settings.CheckGroup("start", c.Start), err)
	}
	switch {
	case err != nil:
		return err
	case c.Init != "" || c.Ignore != "":
		return errors.New("init: each baseline has a file of its own: --set dino.weights=FILE")
	case c.First.Steps != c.Second.Steps || c.Own.Steps != c.Second.Steps:
		return fmt.Errorf("first.steps %d, second.steps %d, own.steps %d: want the same number of steps", c.First.Steps, c.Second.Steps, c.Own.Steps)
	case c.First.Batch != c.Second.Batch || c.Own.Batch != c.Second.Batch:
		return fmt.Errorf("first.batch %d, second.batch %d, own.batch %d: want the same number of images", c.First.Batch, c.Second.Batch, c.Own.Batch)
	case c.Own.Encoder != c.Second.Encoder || c.First.Encoder != c.Second.Encoder || c.Weights == "" && c.Start.Encoder != c.Own.Encoder:
		return fmt.Errorf("start.encoder %s, own.encoder %s, first.encoder %s, second.encoder %s: want one encoder", c.Start.Encoder, c.Own.Encoder, c.First.Encoder, c.Second.Encoder)
	case c.EvaluateEvery == 0:
		return errors.New("evaluate_every 0: the curves need evaluations")
	}
	return nil
}
