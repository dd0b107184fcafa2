package effectaug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/methods"
)

// Files of a cell's folder.
const (
	checkpointFile = "checkpoint.safetensors" // While it runs.
	curveFile      = "curve.jsonl"
	weightsFile    = "weights.safetensors" // The encoder and its heads, at the end.
)

// key identifies what a record on this data measures.
func (c cell) key(data effectAugData) string {
	return recordKey(c.name(), hashOf(configJSON(c.config)), data.identity())
}

// folder is where a cell's files stand, below the experiment's folder. Another configuration or other data are another folder.
func (c cell) folder(data effectAugData) string {
	return filepath.Join("cells", c.dataset, c.method, c.row.Name,
		fmt.Sprintf("seed%d-%s", c.seed, hashOf(append(configJSON(c.config), data.identity()...))))
}

// course is how far a run has come; it travels in the checkpoint's metadata.
type course struct {
	Points  []Point `json:"points"`
	Seconds float64 `json:"seconds"`
	Backend string  `json:"backend"` // That it began on.
}

// runCell trains and evaluates one cell from where its folder stands, records the result and removes the checkpoint. When ctx ends, it
// leaves a checkpoint and returns ctx's error.
func (s *effectAugStudy) runCell(ctx context.Context, t *methods.Trainer, c cell, data effectAugData) error {
	dir := filepath.Join(s.dir, c.folder(data))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if errors.Is(err, errLocked) {
		s.options.warn("%s is left to another process, which is at it", c.name())
		s.found(t.Steps())
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	// The other process may have finished it between our look at the records and now.
	if recorded, err := recordedOn(s.dir); err != nil || recorded[c.key(data)] {
		s.found(t.Steps())
		return err
	}
	if err := atomicfile.Sweep(dir); err != nil {
		return err
	}

	begun := time.Now()
	run := &cellRun{study: s, trainer: t, cell: c, data: data, dir: dir}
	if err := run.begin(); err != nil {
		return err
	}
	before := run.course.Seconds
	elapsed := func() float64 { return before + time.Since(begun).Seconds() }
	saved := time.Now()
	for t.Done() < t.Steps() {
		if ctx.Err() != nil || time.Since(saved) > s.options.CheckpointEvery {
			run.course.Seconds = elapsed()
			if err := run.save(); err != nil {
				return err
			}
			saved = time.Now()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := run.step(ctx); err != nil {
			return err
		}
	}
	run.course.Seconds = elapsed()
	return run.finish()
}

// cellRun is a cell in training.
type cellRun struct {
	study   *effectAugStudy
	trainer *methods.Trainer
	cell    cell
	data    effectAugData
	dir     string
	course  course
}

func (r *cellRun) path(file string) string { return filepath.Join(r.dir, file) }

// begin sets the weights to those of the checkpoint, if there is one, or to initial ones.
func (r *cellRun) begin() error {
	if err := r.trainer.Begin(methods.Run{Recipe: r.cell.config.Recipe, Seed: uint64(r.cell.seed)}); err != nil {
		return err
	}
	if _, err := os.Stat(r.path(checkpointFile)); err == nil {
		note, err := r.trainer.Resume(r.path(checkpointFile))
		if err != nil {
			return fmt.Errorf("%w (remove the file to start this run afresh)", err)
		}
		if err := json.Unmarshal([]byte(note), &r.course); err != nil {
			return fmt.Errorf("%s: %w (remove the file to start this run afresh)", r.path(checkpointFile), err)
		}
		r.study.found(r.trainer.Done())
		if r.course.Backend != backend.Name() {
			r.study.options.warn("%s goes on with %s where %s began it: its last digits will be those of neither alone", r.cell.name(), backend.Name(), r.course.Backend)
		}
	}
	r.course.Backend = backend.Name()
	return writeCurve(r.path(curveFile), r.course.Points)
}

func (r *cellRun) save() error {
	note, err := json.Marshal(r.course)
	if err != nil {
		return err
	}
	return r.trainer.Save(r.path(checkpointFile), string(note))
}

// step trains one step and, at the end of an epoch, adds a point to the curve.
func (r *cellRun) step(ctx context.Context) error {
	t := r.trainer
	rate := t.Rate()
	loss, err := t.Step(ctx)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%s  loss %.3f", r.cell.name(), loss)
	if t.Done()%t.StepsPerEpoch() == 0 {
		epoch := t.Done() / t.StepsPerEpoch()
		point := Point{Step: t.Done(), Epoch: float64(epoch), Loss: t.EpochLoss(), LearningRate: rate}
		if epoch%r.cell.config.EvaluateEvery == 0 || t.Done() == t.Steps() {
			if err := r.evaluate(&point); err != nil {
				return err
			}
			note += fmt.Sprintf("  k-NN %.1f %%", point.KNN)
		}
		r.course.Points = append(r.course.Points, point)
		if err := writeCurve(r.path(curveFile), r.course.Points); err != nil {
			return err
		}
		if watch := r.study.options.Watch; watch != nil {
			watch(r.cell.name(), slices.Clone(r.course.Points))
		}
	}
	r.study.bar.Set(int(r.study.done.Add(1)), note)
	return nil
}

// evaluate fills in what is measured on frozen features: the k-NN accuracy on the test images and the collapse gauges on the training
// images.
func (r *cellRun) evaluate(p *Point) error {
	bank, err := r.trainer.Features(r.data.train)
	if err != nil {
		return err
	}
	defer bank.FinalizeAll()
	queries, err := r.trainer.Features(r.data.test)
	if err != nil {
		return err
	}
	defer queries.FinalizeAll()
	predictions, err := r.cell.config.KNN.Predict(r.study.backend, bank, r.data.train.Labels, len(r.data.train.Classes), queries)
	if err != nil {
		return err
	}
	gauges, err := evaluation.MeasureCollapse(bank)
	if err != nil {
		return err
	}
	p.Evaluated = true
	p.KNN = evaluation.Accuracy(predictions, r.data.test.Labels)
	p.FeatureStd, p.EffectiveRank = gauges.FeatureStd, gauges.EffectiveRank
	return nil
}

// finish keeps the weights, records the result and removes the checkpoint, in this order: a kill in between repeats only the rest.
func (r *cellRun) finish() error {
	if err := r.trainer.SaveOnline(r.path(weightsFile), map[string]string{"run": r.cell.name(), "config": string(configJSON(r.cell.config))}); err != nil {
		return err
	}
	last := r.course.Points[len(r.course.Points)-1]
	config := configJSON(r.cell.config)
	images := float64(r.trainer.Steps() * r.cell.config.Batch)
	record := Record{
		Experiment: EffectAug, Cell: r.cell.name(), Row: r.cell.row.Name, Column: r.data.title + "/" + methodTitles[r.cell.method],
		Metric: "k-NN accuracy", Unit: "%", Value: last.KNN,
		Seed: r.cell.seed, Profile: r.study.options.Profile,
		Config: config, ConfigHash: hashOf(config),
		Protocol: "weighted k-NN, K " + strconv.Itoa(r.cell.config.KNN.K) + ", temperature " + strconv.FormatFloat(r.cell.config.KNN.Temperature, 'g', -1, 64) +
			", cosine, backbone features of un-augmented images, training images as neighbours",
		Data: r.data.identity(),
		Details: map[string]float64{
			"loss": last.Loss, "feature_std": last.FeatureStd, "effective_rank": last.EffectiveRank,
			"images_per_second": images / r.course.Seconds,
		},
		Curve:    filepath.ToSlash(filepath.Join(r.cell.folder(r.data), curveFile)),
		Skipped:  r.data.skipped(),
		Backend:  backend.Name(),
		Versions: versions(),
		Seconds:  r.course.Seconds,
		Finished: time.Now().UTC().Truncate(time.Second),
	}
	if err := record.Append(r.study.dir); err != nil {
		return err
	}
	if err := os.Remove(r.path(checkpointFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
