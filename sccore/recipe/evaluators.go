package recipe

import (
	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/train"
)

// Evaluators returns the evaluators that run during a stage's training: its diagnostics, every [Config].GradientsEvery steps, and those of [Evaluators].
func (t *Trainer) Evaluators(data Data, c Config, seed int) []train.Evaluator {
	return append([]train.Evaluator{t.DiagnosticsEvaluator(c.GradientsEvery)}, Evaluators(t.backend, t.Frozen, data, c, seed)...)
}

// Evaluators returns the evaluators of an encoder that run during training, every [Config].EvaluateEvery steps.
func Evaluators(_ compute.Backend, extractor *evaluation.FeatureExtractor, data Data, c Config, seed int) []train.Evaluator {
	e := &evaluation.Encoder{FeatureExtractor: extractor, Seed: uint64(seed)}
	if data.Scenes[0] == nil {
		images := evaluation.Data{Objects: [2]datasets.Source{data.Train.Scenes}}
		return []train.Evaluator{evaluation.During(c.EvaluateEvery, "spread", evaluation.Spread{Images: 256, Size: c.Size}, e, images)}
	}
	d := evaluation.Data{Scenes: data.Scenes, Classes: len(data.Objects[0].Classes)}
	for i, objects := range data.Objects {
		d.Objects[i], d.Labels[i] = objects.Images, objects.Labels
	}
	return []train.Evaluator{
		evaluation.During(c.EvaluateEvery, "knn", evaluation.KNN{Classifier: c.KNN, Size: c.Size}, e, d),
		evaluation.During(c.EvaluateEvery, "probe", c.Probe, e, d),
	}
}
