package teacherquality

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/study"
)

// data holds the study's images. The first scenes train, the second test.
type data struct {
	train    sccore.Data
	scenes   [2]*synthetic.Set
	identity string
}

// Identity identifies the images in records.
func (d data) Identity() string { return d.identity }

// Title describes the images.
func (data) Title() string { return "synthetic scenes" }

// Skipped is nil because no files are read.
func (data) Skipped() []string { return nil }

// open draws the images.
func open(_ study.Options, _ string, cells []study.Cell[Config]) (data, error) {
	n, side := cells[0].Config.Images, cells[0].Config.Second.ImageSize
	run := synthetic.Run(cells[0].Seed)
	objects, scenes := run.Objects(n, side, 1), run.Scenes(n, side, 2)
	d := data{train: pretrain.LabelledData(objects, scenes), scenes: [2]*synthetic.Set{scenes, run.Scenes(max(n/2, 1), side, 4)}}
	d.identity = objects.Identity + "; " + scenes.Identity + "; " + d.scenes[1].Identity
	return d, nil
}

// run is a running cell.
type run = study.Run[Config, data]

// worker runs cells that share a compiled step.
type worker struct{ stage *pretrain.Stage }

func newWorker(r *run) (study.Worker[Config, data], error) {
	name, config := "second", r.Cell.Config.second()
	if isStart(r.Cell) {
		name, config = "start", r.Cell.Config.First
	}
	stage, err := pretrain.NewStage(r.Backend(), name, r.Data.train, config)
	return worker{stage}, err
}

// Close frees the device's memory.
func (w worker) Close() { w.stage.Close() }

// Run trains, measures and records a cell, or trains the first stage that the cells of a seed start from.
func (w worker) Run(r *run) error {
	if err := w.stage.SetData(r.Data.train); err != nil {
		return err
	}
	if isStart(r.Cell) {
		return w.makeStart(r)
	}
	t, c := w.stage.Trainer, r.Cell.Config
	checkpoint, quality := start(r.Root(), r.Data, c, r.Cell.Seed)
	content, err := os.ReadFile(quality)
	if err != nil {
		return err
	}
	var auc teacherAUC
	if err := json.Unmarshal(content, &auc); err != nil {
		return fmt.Errorf("%s: %w", quality, err)
	}
	if err := t.Configure(c.second()); err != nil {
		return err
	}
	if err := t.BeginFrom(checkpoint, uint64(r.Cell.Seed)); err != nil {
		return err
	}
	if c.Loss != lossStart {
		if err := w.train(r); err != nil {
			return err
		}
	}
	sets, err := evaluation.EncodeScenes(w.stage.Frozen, r.Data.scenes, r.Data.scenes[0].Width)
	if err != nil {
		return err
	}
	result, err := c.Probe.Evaluate(r.Backend(), sets[0], sets[1], 1+len(r.Data.scenes[0].Classes), uint64(r.Cell.Seed))
	if err != nil {
		return err
	}
	return r.Record(study.Number{
		Row: c.row(), Column: pretrain.ColumnMIoU, Metric: "mIoU", Unit: "%", Value: result.MIoU,
		Protocol: fmt.Sprintf("linear probe of the online branch's patch features on scenes, %d steps of %d patches, background a class, logits resized to the annotation",
			c.Probe.Steps, c.Probe.Batch),
		Details: map[string]float64{"accuracy": result.Accuracy, "teacher_auc_head": auc.Head, "teacher_auc_backbone": auc.Backbone},
	})
}

// train completes a training that has begun. It takes half a minute, so it writes no checkpoints.
func (w worker) train(r *run) error {
	for t := w.stage.Trainer; t.Done() < t.Steps(); {
		m, err := t.Step(r.Context)
		if err != nil {
			return err
		}
		r.Step("%s", pretrain.Describe(m))
	}
	return nil
}

// teacherAUC is the AUC of S_t after the first stage: how well the target branch separates patch pairs of one class from other pairs.
type teacherAUC struct {
	Head     float64 `json:"head"`     // From projected features, as the real teacher uses them.
	Backbone float64 `json:"backbone"` // From patch tokens.
}

// start returns the files that the cells of a seed start from: the checkpoint, and the AUC of its target branch.
func start(root string, d data, c Config, seed int) (checkpoint, quality string) {
	path := filepath.Join(root, startFolder(d, c, seed))
	return path + ".safetensors", path + ".json"
}

// startFolder is the path of those files without their extensions.
func startFolder(d data, c Config, seed int) string {
	key := study.EncodeConfig(struct {
		First sccore.Config
		Pairs int
		Data  string
	}{c.First, c.Pairs, d.identity})
	return filepath.Join("starts", study.Hash(key), fmt.Sprintf("seed%d", seed))
}

// makeStart trains the first stage of a seed unless its files exist.
func (w worker) makeStart(r *run) error {
	t, c := w.stage.Trainer, r.Cell.Config
	checkpoint, quality := start(r.Root(), r.Data, c, r.Cell.Seed)
	if _, err := os.Stat(quality); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.Begin(uint64(r.Cell.Seed)); err != nil {
		return err
	}
	if err := w.train(r); err != nil {
		return err
	}
	auc, err := w.auc(r.Context, c.Pairs)
	if err != nil {
		return err
	}
	content, err := json.Marshal(auc)
	if err != nil {
		return err
	}
	if err := t.Save(checkpoint, ""); err != nil {
		return err
	}
	return atomicfile.WriteBytes(quality, append(content, '\n')) // Written last, because its existence says that the checkpoint is complete.
}

// auc measures the AUC of the target branch's correspondences on a number of batches.
func (w worker) auc(ctx context.Context, batches int) (auc teacherAUC, err error) {
	for from, value := range map[string]*float64{sccore.FromHead: &auc.Head, sccore.FromBackbone: &auc.Backbone} {
		pairs, err := w.stage.Trainer.Pairs(ctx, from, batches)
		if err != nil {
			return auc, err
		}
		if *value, err = stats.AUC(pairs.Target, pairs.Same); err != nil {
			return auc, err
		}
	}
	return auc, nil
}
