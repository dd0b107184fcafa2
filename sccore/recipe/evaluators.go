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
func Evaluators(b compute.Backend, extractor *evaluation.FeatureExtractor, data Data, c Config, seed int) []train.Evaluator {
	if data.Scenes[0] == nil {
		return []train.Evaluator{evaluation.SpreadEvaluator(c.EvaluateEvery, extractor, data.Train.Scenes, c.Size, 256)}
	}
	objects := [2]*datasets.Images{data.Objects[0].Images, data.Objects[1].Images}
	return []train.Evaluator{
		evaluation.KNNEvaluator(c.EvaluateEvery, b, extractor, c.KNN, objects, c.Size),
		evaluation.PatchProbeEvaluator(c.EvaluateEvery, b, extractor, c.Probe, data.Scenes, c.Size, uint64(seed)),
	}
}
