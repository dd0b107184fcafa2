package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// Evaluators returns the evaluators of an encoder that run during training, every [Config].EvaluateEvery steps: with labels k-NN and the linear probe, without the spread
// of patch features, and those that [Config].Evaluate names.
func Evaluators(extractor *evaluation.FeatureExtractor, data Data, c Config, seed int) (all []train.Evaluator) {
	during := func(name string, e evaluation.Evaluation, images evaluation.Data) {
		all = append(all, evaluation.During(c.EvaluateEvery, name, e, &evaluation.Encoder{FeatureExtractor: extractor, Seed: uint64(seed)}, images))
	}
	if labelled := data.Labelled(); data.Scenes[0] == nil {
		during("spread", evaluation.Spread{Images: 256, Size: c.Size}, labelled)
	} else {
		during("knn", evaluation.KNN{Classifier: c.KNN, Size: c.Size}, labelled)
		during("probe", c.Probe, labelled)
	}
	for _, o := range data.evaluations {
		during(o.name, o.evaluation, o.data)
	}
	return all
}

// opened is an evaluation that [Config].Evaluate names, with its images.
type opened struct {
	name       string // As Evaluate and the curve have it.
	named      evaluation.Named
	dataset    string // The one that Evaluate names, or empty.
	evaluation evaluation.Evaluation
	data       evaluation.Data
}

// evaluations lists what Evaluate names, without images.
func (c Config) evaluations() (all []opened, err error) {
	if c.Evaluate == "" {
		return nil, nil
	}
	taken := []string{"knn", "probe", "spread", "gauges"}
	for part := range strings.SplitSeq(c.Evaluate, ",") {
		name, dataset, _ := strings.Cut(strings.TrimSpace(part), ":")
		named, err := evaluation.ByName(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("evaluate: %w", err)
		case named.Single:
			return nil, fmt.Errorf("evaluate: %s takes images of sizes of their own, and runs after a training alone: semcon evaluate %s", name, name)
		case c.EvaluateEvery == 0:
			return nil, errors.New("evaluate: evaluate_every is 0, so nothing is evaluated during the training")
		}
		o := opened{strings.TrimSpace(part), named, dataset, named.New(), evaluation.Data{}}
		if slices.Contains(taken, o.name) {
			return nil, fmt.Errorf("evaluate: %s runs already", o.name)
		}
		taken = append(taken, o.name)
		for _, key := range named.Sizes {
			if err := settings.Apply(o.evaluation, fmt.Sprintf("%s=%d", key, c.Size)); err != nil {
				return nil, fmt.Errorf("evaluate: %s: %w", name, err)
			}
		}
		if err := settings.Check(o.evaluation); err != nil {
			return nil, fmt.Errorf("evaluate: %s: %w", name, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// openEvaluations opens the images of what Evaluate names: of the named dataset, of the first that is in the data folder, or drawn ones without a folder.
func (c Config) openEvaluations(dir string, seed int) ([]opened, error) {
	all, err := c.evaluations()
	for i := range all {
		o := &all[i]
		source, choice := evaluation.Source{Dir: dir}, o.named.Datasets
		switch {
		case dir == "":
			source, choice = evaluation.Source{Images: c.Images, Size: c.Size, Seed: seed}, []string{cmp.Or(o.dataset, evaluation.Synthetic)}
		case o.dataset != "" || len(choice) == 0:
			choice = []string{o.dataset}
		}
		for _, source.Dataset = range choice {
			if o.data, err = o.evaluation.Open(source); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("evaluate: %s: %w", o.name, err)
		}
	}
	return all, err
}
