package encoders

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Tuning is an experiment that trains a network on each encoder, together with it or on its features, tests the whole, and leaves it in the cell's folder. C is the
// configuration of a cell, which embeds [Config]; D its images; T the configuration of a trainer R, whose steps report M.
type Tuning[C comparable, D study.Data, T any, R Tuner[M], M any] struct {
	Grid[C]
	Sources[D]
	Parts []string // As in a [study.Spec].

	// Images opens the images of a seed.
	Images func(o study.Options, dataset string, config C, seed int) (D, error)
	// Columns are those of the numbers of a cell.
	Columns func(d D, config C) []string
	Unit    string                            // What a batch has: "image" or "crop".
	Amount  func(config C) (steps, batch int) // How long a training is.

	// Training is the trainer's configuration. If it has a method FLOPs() float64, for one unit forward, records say how much was computed, and with how much memory.
	Training func(config C, vit encoder.ViT, d D) (T, error)
	New      func(b compute.Backend, config T) (R, error)
	KeepAll  bool // Trainers are small, so that all of them stay compiled, not the last alone.
	// Take gives a trainer the cell's images and the encoder with its weights, and returns what ends their use.
	Take  func(trainer R, r *study.Run[C, D], vit encoder.ViT, pretrained *model.Store) (done func(), err error)
	Loss  func(step M) float64
	Final string // The file of the end of a training; by default final.safetensors.
	// Test measures what has been trained, and writes it to the file [Model] of the cell's folder unless Final is all. It returns numbers in the order of Columns, with
	// their own details. last is what the last step has reported.
	Test func(trainer R, r *study.Run[C, D], config T, last M) ([]study.Number, error)

	// These two are as in a [study.Spec].
	Tables  func(study.Results) []figures.Table
	Figures func(study.Results, study.FigureSources, *study.Drawn)
}

// Tuner is a trainer of a [Tuning].
type Tuner[M any] interface {
	train.Trainable[M]
	Begin(seed uint64) error
	Close()
}

// Tuned says how a [Tuning] trains. It is part of configurations.
type Tuned struct {
	BF16 bool `json:"bf16,omitempty"` // Compute the encoder in bfloat16, with float32 weights.

	Optimizer finetune.Optimizer `json:"optimizer"`
	Batch     int                `json:"batch"`
	Parts     int                `json:"parts"` // Parts that a batch is computed in, one after the other.
	Steps     int                `json:"steps"`
}

// Training is the part of a trainer's configuration that does not depend on its network.
func (t Tuned) Training() finetune.Training {
	colours := datasets.DefaultPreprocessing()
	return finetune.Training{Optimizer: t.Optimizer, Batch: t.Batch, Parts: t.Parts, Steps: t.Steps, Mean: colours.Mean, Std: colours.Std}
}

// Precision is the encoder with its computation in bfloat16, or as it is.
func (t Tuned) Precision(vit encoder.ViT) encoder.ViT {
	if t.BF16 {
		vit.ComputeDType = dtypes.BFloat16
	}
	return vit
}

// Model is the file of the trained network, in a cell's folder. The end of the training is beside it.
const (
	Model     = "model.safetensors"
	finalFile = "final.safetensors"
)

// Spec returns the study.
func (e Tuning[C, D, T, R, M]) Spec() study.Spec[C, D] {
	e.Final = cmp.Or(e.Final, finalFile)
	e.Sources.Experiment = e.Grid.Name
	return study.Spec[C, D]{
		Name: e.Grid.Name, Parts: e.Parts, Datasets: e.Sources.Datasets, Cells: e.Grid.Cells,
		Open: func(o study.Options, dataset string, cells []study.Cell[C]) (_ D, err error) {
			defer try.Handle(&err)
			try.E(study.CheckShared(cells, "images", "shares", "classes", "holdout"))
			return e.Images(o, dataset, cells[0].Config, cells[0].Seed)
		},
		Numbers: func(d D, c study.Cell[C]) []study.Number {
			return lo.Map(e.Columns(d, c.Config), func(column string, _ int) study.Number {
				return study.Number{Row: encoderOf(&c.Config).Row, Column: column}
			})
		},
		Steps: func(_ D, c study.Cell[C]) int {
			steps, _ := e.Amount(c.Config)
			return steps
		},
		NewWorker: func(*study.Run[C, D]) (study.Worker[C, D], error) {
			return tuner[C, D, T, R, M]{e, map[string]R{}}, nil
		},
		Folder: func(d D, c study.Cell[C]) string {
			hash := study.Hash([]byte(c.Name() + " " + c.Hash() + " " + d.Identity()))
			return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
		},
		ProfileConfig: e.ProfileConfig, Common: e.Common, Tables: e.Tables, Figures: e.Figures, Random: Random,
	}
}

// Recorded is what a picture shows of a row and column: the record of the lowest seed, its configuration, and the file of what it has left. A row and column without
// records is an error.
func Recorded[C any](results study.Results, out, row, column string) (record study.Record, config C, file string, err error) {
	group := results.Of(row, column)
	if len(group) == 0 {
		return record, config, "", fmt.Errorf("no record of %s, %s in the %s profile", row, column, results.Profile)
	}
	err = group[0].DecodeConfig(&config)
	return group[0], config, group[0].File(out, group[0].Encoder), err
}

// tuner runs cells one after the other. It keeps the trainers that it has compiled, by their configuration: they serve all encoders of one architecture.
type tuner[C comparable, D study.Data, T any, R Tuner[M], M any] struct {
	of       Tuning[C, D, T, R, M]
	trainers map[string]R
}

// Close frees the memory of the trainers.
func (w tuner[C, D, T, R, M]) Close() {
	for _, trainer := range w.trainers {
		trainer.Close()
	}
	clear(w.trainers)
}

// compiled returns the trainer of a configuration.
func (w tuner[C, D, T, R, M]) compiled(b compute.Backend, config T) (trainer R, err error) {
	key := fmt.Sprintf("%+v", config)
	if trainer, ok := w.trainers[key]; ok {
		return trainer, nil
	}
	if !w.of.KeepAll {
		w.Close()
	}
	if trainer, err = w.of.New(b, config); err == nil {
		w.trainers[key] = trainer
	}
	return trainer, err
}

// trained is the state of a training that its checkpoints hold beside the trainer's.
type trained[M any] struct {
	Seconds float64 `json:"seconds"` // Training time.
	Last    M       `json:"last"`
	Losses  *M      `json:"losses,omitempty"` // Last as checkpoints of earlier versions of the experiment transfer have it.
}

// Run trains a cell's network, and records what its test measures.
func (w tuner[C, D, T, R, M]) Run(r *study.Run[C, D]) (err error) {
	defer try.Handle(&err)
	e, c := w.of, r.Cell.Config
	vit, store := try.E2(encoderOf(&c).Load(r.Cell.Seed))
	defer store.Finalize()
	config, err := e.Training(c, vit, r.Data)
	if err = cmp.Or(err, settings.Check(config)); err != nil {
		return study.BadOption{Err: err}
	}
	trainer := try.E1(w.compiled(r.Backend(), config))
	done := try.E1(e.Take(trainer, r, vit, store))
	defer done()
	try.E(trainer.Begin(uint64(r.Cell.Seed)))
	var state trained[M]
	peak := usage.PeakResident(func() { state, err = w.train(r, trainer) })
	try.E(err)
	numbers := try.E1(e.Test(trainer, r, config, state.Last))
	left := try.E1(r.Path(lo.Ternary(e.Final == finalFile, Model, e.Final)))
	columns := e.Columns(r.Data, c)
	steps, batch := e.Amount(c)
	for i := range numbers {
		n := &numbers[i]
		n.Row, n.Column, n.Encoder, n.Seconds = encoderOf(&c).Row, columns[i], left, state.Seconds
		try.E(encoderOf(&c).addGate(&n.Details))
		n.Details[e.Unit+"s_per_second"] = float64(steps*batch) / state.Seconds
		if counted, ok := any(config).(interface{ FLOPs() float64 }); ok {
			if n.Details["gflop_per_"+e.Unit] = 3 * counted.FLOPs() / 1e9; peak > 0 {
				n.Details["peak_memory_gb"] = float64(peak) / 1e9
			}
		}
		maps.DeleteFunc(n.Details, func(_ string, value float64) bool { return math.IsNaN(value) || math.IsInf(value, 0) }) // JSON cannot encode it.
	}
	return r.Record(numbers...)
}

// train trains, from the last checkpoint if there is one.
func (w tuner[C, D, T, R, M]) train(r *study.Run[C, D], trainer R) (state trained[M], err error) {
	defer try.Handle(&err)
	began, before := time.Now(), 0.0
	loop := train.Loop[M]{
		Trainer: trainer, Final: w.of.Final, Keep: 1, Note: &state,
		Resumed: func(int) {
			if before = state.Seconds; state.Losses != nil {
				state.Last = *state.Losses
			}
		},
		After: func(step M, _ map[string]float64) error {
			state = trained[M]{Seconds: before + time.Since(began).Seconds(), Last: step}
			r.Step("loss %.3f", w.of.Loss(step))
			return nil
		},
	}
	try.E(study.Train(r, &loop))
	return state, loop.Clean()
}
