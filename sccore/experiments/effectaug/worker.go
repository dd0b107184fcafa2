package effectaug

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Files in a cell's folder.
const (
	curveFile   = "curve.jsonl"
	WeightsFile = "weights.safetensors" // The trained encoder and its heads.
)

// run is a running cell.
type run = study.Run[Config, Data]

// worker trains the cells of one method with one compiled step.
type worker struct{ trainer *methods.Trainer }

func newWorker(r *run) (study.Worker[Config, Data], error) {
	d, err := r.Data.heldOut(r.Cell.Config.Validation)
	if err != nil {
		return nil, err
	}
	trainer, err := methods.NewTrainer(r.Backend(), d.Train.Repeat(r.Cell.Config.EpochImages), r.Cell.Config.Config)
	return worker{trainer}, err
}

// Close frees the device's memory.
func (w worker) Close() { w.trainer.Close() }

// runState is the state of a run that its checkpoints hold beside the trainer's.
type runState struct {
	Points  []study.Point `json:"points"`
	Seconds float64       `json:"seconds"`
	Backend string        `json:"backend"` // The backend of the last step.
}

// Run trains and evaluates a cell, and saves its weights.
func (w worker) Run(r *run) error {
	t, c := w.trainer, r.Cell.Config
	d, err := r.Data.heldOut(c.Validation)
	if err != nil {
		return err
	}
	if err := t.SetImages(d.Train.Repeat(c.EpochImages)); err != nil {
		return err
	}
	if r.Cell.Path[2] == RowUntrained {
		return w.untrained(r, d)
	}
	var h runState
	begun, before := time.Now(), 0.0
	if err := t.Begin(methods.Run{Recipe: c.Recipe, Seed: uint64(r.Cell.Seed)}); err != nil {
		return err
	}
	loop := train.Loop[float64]{
		Trainer: t,
		Note:    &h,
		Resumed: func(int) {
			before = h.Seconds
			if h.Backend != backend.Name() {
				r.Warnf("%s resumes on %s after %s: its results will equal those of neither backend alone", r.Cell.Name(), backend.Name(), h.Backend)
			}
		},
		Evaluators: []train.Evaluator{w.knn(r, d)},
	}
	loop.After = func(loss float64, evaluated map[string]float64) error {
		h.Seconds, h.Backend = before+time.Since(begun).Seconds(), backend.Name()
		note := fmt.Sprintf("loss %.3f", loss)
		if t.Done()%t.StepsPerEpoch() == 0 {
			p := study.Point{Step: t.Done(), Epoch: float64(t.Done() / t.StepsPerEpoch()), Loss: t.EpochLoss(), LearningRate: t.LearningRate(t.Done() - 1)}
			if evaluated != nil {
				p.Evaluated, p.KNN, p.FeatureStd, p.EffectiveRank = true, evaluated["knn/accuracy"], evaluated["knn/feature_std"], evaluated["knn/effective_rank"]
				note += fmt.Sprintf("  k-NN %.1f %%", p.KNN)
			}
			h.Points = append(h.Points, p)
			if err := study.WriteCurve(filepath.Join(r.Dir, curveFile), h.Points); err != nil {
				return err
			}
			if watch := r.Options().Watch; watch != nil {
				watch(r.Cell.Name(), slices.Clone(h.Points))
			}
		}
		r.Step("%s", note)
		return nil
	}
	if err := study.Train(r, &loop); err != nil {
		return err
	}
	return w.finish(r, h, loop)
}

// knn evaluates frozen features: k-NN accuracy on the test images, or on those held out, and the standard deviation and effective rank of training features.
func (w worker) knn(r *run, d Data) train.Evaluator {
	c := r.Cell.Config
	return train.Evaluator{Name: "knn", Every: c.EvaluateEvery * w.trainer.StepsPerEpoch(), Evaluate: func(context.Context) (map[string]float64, error) {
		bank, err := w.trainer.Features(d.Train)
		if err != nil {
			return nil, err
		}
		defer bank.FinalizeAll()
		queries, err := w.trainer.Features(d.Test)
		if err != nil {
			return nil, err
		}
		defer queries.FinalizeAll()
		predictions, err := c.KNN.Predict(r.Backend(), bank, d.Train.Labels, len(d.Train.Classes), queries)
		if err != nil {
			return nil, err
		}
		spread, err := metrics.MeasureSpread(bank)
		return map[string]float64{
			"accuracy": metrics.Accuracy(predictions, d.Test.Labels), "feature_std": spread.Std, "effective_rank": spread.Rank,
		}, err
	}}
}

// untrained evaluates and records the initial weights of a seed.
func (w worker) untrained(r *run, d Data) error {
	if err := w.trainer.Begin(methods.Run{Recipe: r.Cell.Config.Recipe, Seed: uint64(r.Cell.Seed)}); err != nil {
		return err
	}
	evaluated, err := w.knn(r, d).Evaluate(r.Context)
	if err != nil {
		return err
	}
	n := number(r, evaluated["accuracy"])
	n.Details = map[string]float64{"feature_std": evaluated["feature_std"], "effective_rank": evaluated["effective_rank"]}
	return r.Record(n)
}

// number is the number of a cell, without its details.
func number(r *run, accuracy float64) study.Number {
	c := r.Cell.Config.KNN
	protocol := fmt.Sprintf("weighted k-NN, K %d, temperature %g, cosine, backbone features of un-augmented images, training images as neighbours", c.K, c.Temperature)
	if share := r.Cell.Config.Validation; share > 0 {
		protocol += fmt.Sprintf(", on held-out training images: %g of each class", share)
	}
	return study.Number{
		Row: r.Cell.Path[2], Column: column(r.Data, r.Cell), Metric: "k-NN accuracy", Unit: "%", Value: accuracy, Protocol: protocol,
	}
}

// finish saves the weights, records the result and removes the checkpoints. In this order, a run that is killed in between repeats only the rest.
func (w worker) finish(r *run, h runState, loop train.Loop[float64]) error {
	c := r.Cell.Config
	metadata := map[string]string{"run": r.Cell.Name(), "config": string(study.EncodeConfig(c))}
	if err := w.trainer.SaveOnline(filepath.Join(r.Dir, WeightsFile), metadata); err != nil {
		return err
	}
	curve, err := r.Path(curveFile)
	if err != nil {
		return err
	}
	last := h.Points[len(h.Points)-1]
	n := number(r, last.KNN)
	n.Curve, n.Seconds = curve, h.Seconds
	n.Details = map[string]float64{
		"loss": last.Loss, "feature_std": last.FeatureStd, "effective_rank": last.EffectiveRank,
		"images_per_second": float64(w.trainer.Steps()*c.Batch) / h.Seconds,
	}
	if err := r.Record(n); err != nil {
		return err
	}
	return loop.Clean()
}
