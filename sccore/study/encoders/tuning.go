package encoders

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/finetune"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Tuning is an experiment that trains each encoder together with a network on it, tests the whole, and leaves it in the cell's folder. C is the configuration of
// a cell, which embeds [Config] and [Tuned]; D its images; T the configuration of a trainer R, whose steps report M.
type Tuning[C comparable, D study.Data, T tuning, R Tuner[M], M any] struct {
	study.Info
	Grid[C]
	Sources[D]
	Parts []string // As in a [study.Spec].

	// Images opens the images of a seed.
	Images func(dir, dataset string, config C, seed int) (D, error)
	// Columns are those of the numbers of a cell.
	Columns func(d D, config C) []string
	Unit    string // What a batch has: "image" or "crop".

	Training func(config C, vit encoder.ViT, d D) T // The trainer's configuration.
	New      func(b compute.Backend, config T) (R, error)
	// Take gives a trainer the cell's images and the encoder's weights.
	Take func(trainer R, r *study.Run[C, D], pretrained *model.Store)
	Loss func(step M) float64
	// Test measures what has been trained, writes it to the file [Model] of the cell's folder, and returns numbers in the order of Columns, with their own details.
	Test func(trainer R, r *study.Run[C, D], config T) ([]study.Number, error)

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

// tuning is a trainer's configuration.
type tuning interface {
	comparable
	FLOPs() float64 // Of one unit, forward.
}

// Tuned says how a [Tuning] trains. It is part of configurations.
type Tuned struct {
	BF16 bool `json:"bf16,omitempty"` // Compute the encoder in bfloat16, with float32 weights.

	Optimizer finetune.Optimizer `json:"optimizer"`
	Batch     int                `json:"batch"`
	Parts     int                `json:"parts"` // Parts that a batch is computed in, one after the other.
	Steps     int                `json:"steps"`
}

func (t Tuned) tuned() Tuned { return t }

// tunedOf returns how a configuration that embeds [Tuned] trains.
func tunedOf(config any) Tuned { return config.(interface{ tuned() Tuned }).tuned() }

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
	return study.Spec[C, D]{
		Info: e.Info, Parts: e.Parts, Datasets: e.Sources.Datasets, Cells: e.Grid.Cells, BySeed: Drawn,
		Open: func(o study.Options, dataset string, cells []study.Cell[C]) (D, error) {
			return e.Images(o.Data, dataset, cells[0].Config, cells[0].Seed)
		},
		Numbers: func(d D, c study.Cell[C]) (numbers []study.Number) {
			for _, column := range e.Columns(d, c.Config) {
				numbers = append(numbers, study.Number{Row: encoderOf(&c.Config).Row, Column: column})
			}
			return numbers
		},
		Steps:     func(_ D, c study.Cell[C]) int { return tunedOf(c.Config).Steps },
		NewWorker: func(*study.Run[C, D]) (study.Worker[C, D], error) { return &tuner[C, D, T, R, M]{of: e}, nil },
		Folder: func(d D, c study.Cell[C]) string {
			hash := study.Hash([]byte(c.Name() + " " + c.Hash() + " " + d.Identity()))
			return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, hash))
		},
		ProfileConfig: e.ProfileConfig, Common: e.Common, Tables: e.Tables, Figures: e.Figures, Random: Random,
	}
}

// Recorded is what a picture shows of a row and column: the record of the lowest seed, its configuration, its dataset, and the folder of its cell. A row and
// column without records is an error.
func Recorded[C any](results study.Results, out, experiment, row, column string) (record study.Record, config C, dataset, folder string, err error) {
	group := results.Of(row, column)
	if len(group) == 0 {
		return record, config, "", "", fmt.Errorf("no record of %s, %s in the %s profile", row, column, results.Profile)
	}
	record = group[0]
	err = record.DecodeConfig(&config)
	dataset, _, _ = strings.Cut(record.Cell, "/")
	return record, config, dataset, filepath.Join(study.Folder(out, experiment), filepath.FromSlash(record.Curve)), err
}

// tuner runs cells one after the other. It keeps the trainer that it compiled last, which serves all encoders of one architecture.
type tuner[C comparable, D study.Data, T tuning, R Tuner[M], M any] struct {
	of       Tuning[C, D, T, R, M]
	trainer  R
	config   T // Of the trainer.
	compiled bool
}

// Close frees the memory of the trainer.
func (w *tuner[C, D, T, R, M]) Close() {
	if w.compiled {
		w.trainer.Close()
		w.compiled = false
	}
}

// trained is the state of a training that its checkpoints hold beside the trainer's.
type trained[M any] struct {
	Seconds float64 `json:"seconds"` // Training time.
	Last    M       `json:"last"`
}

// Run trains a cell's network, and records what its test measures.
func (w *tuner[C, D, T, R, M]) Run(r *study.Run[C, D]) error {
	e, c := w.of, r.Cell.Config
	vit, store, err := encoderOf(&c).Load(r.Cell.Seed)
	if err != nil {
		return err
	}
	defer store.Finalize()
	config := e.Training(c, vit, r.Data)
	if err := settings.Check(config); err != nil {
		return study.BadOption{Err: err}
	}
	if !w.compiled || w.config != config {
		w.Close()
		if w.trainer, err = e.New(r.Backend(), config); err != nil {
			return err
		}
		w.config, w.compiled = config, true
	}
	e.Take(w.trainer, r, store)
	if err := w.trainer.Begin(uint64(r.Cell.Seed)); err != nil {
		return err
	}
	var state trained[M]
	peak := usage.PeakResident(func() { state, err = w.train(r) })
	if err != nil {
		return err
	}
	numbers, err := e.Test(w.trainer, r, config)
	if err != nil {
		return err
	}
	dir, err := r.Path("")
	if err != nil {
		return err
	}
	columns := e.Columns(r.Data, c)
	for i := range numbers {
		n := &numbers[i]
		n.Row, n.Column, n.Curve, n.Seconds = encoderOf(&c).Row, columns[i], dir, state.Seconds
		n.Details["loss"], n.Details["gflop_per_"+e.Unit] = e.Loss(state.Last), 3*config.FLOPs()/1e9
		n.Details[e.Unit+"s_per_second"] = float64(tunedOf(c).Steps*tunedOf(c).Batch) / state.Seconds
		if peak > 0 {
			n.Details["peak_memory_gb"] = float64(peak) / 1e9
		}
	}
	return r.Record(numbers...)
}

// train trains, from the last checkpoint if there is one.
func (w *tuner[C, D, T, R, M]) train(r *study.Run[C, D]) (state trained[M], err error) {
	began, before := time.Now(), 0.0
	loop := train.Loop[M]{
		Trainer: w.trainer, Final: finalFile, Keep: 1, Note: &state,
		Resumed: func(int) { before = state.Seconds },
		After: func(step M, _ map[string]float64) error {
			state = trained[M]{before + time.Since(began).Seconds(), step}
			r.Step("loss %.3f", w.of.Loss(step))
			return nil
		},
	}
	if err := study.Train(r, &loop); err != nil {
		return state, err
	}
	return state, loop.Clean()
}
