package transfer

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
)

// runTransfer runs the cells of the experiment that are not recorded yet, several at a time.
func runTransfer(ctx context.Context, b compute.Backend, options Options) error {
	names, missing, err := presentDatasets(options.Profile, options.Data)
	if err != nil {
		return err
	}
	study := &transferStudy{backend: b, options: options, dir: folderOf(options.Out, Transfer), data: map[string]transferData{}}
	if options.Profile == Smoke && options.Data != "" {
		study.options.warn("the smoke profile is the same everywhere: synthetic scenes, and nothing of --data %s", options.Data)
	}
	for _, line := range missing {
		study.options.warn("%s", line)
	}
	cells, err := transferCells(options, names)
	if err != nil {
		return BadOption{err}
	}
	if !slices.ContainsFunc(cells, func(c transferCell) bool { return c.config.Encoder.Weights != "" }) {
		study.options.warn("no encoder has learnt: \"semcon run pretrain --profile %s\" trains two, and --set weights.dino-s16=FILE names one", options.Profile)
	}
	if cells, err = selected(cells, transferParts, options.Only); err != nil {
		return BadOption{err}
	}
	recorded, err := recordedOn(study.dir)
	if err != nil {
		return err
	}
	total, finished := 0, 0
	var todo []transferCell
	for _, c := range cells {
		if _, opened := study.data[c.dataset]; !opened {
			if study.data[c.dataset], err = openTransferData(options.Data, c.dataset, c.config); err != nil {
				return err
			}
		}
		total += c.steps()
		if recorded[c.key(study.data[c.dataset].identity())] {
			finished += c.steps()
		} else {
			todo = append(todo, c)
		}
	}
	study.bar = options.bar(fmt.Sprintf("%s (%s) on %s", Transfer, options.Profile, strings.Join(names, ", ")), total)
	defer study.bar.Close()
	study.found(finished)
	if len(todo) == 0 {
		study.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}

	return fromQueue(ctx, options.Parallel, todo, func(ctx context.Context, queue <-chan transferCell) error {
		w := newTransferWorker(study)
		defer w.close()
		for c := range queue {
			if err := w.run(ctx, c); err != nil {
				return fmt.Errorf("%s: %w", c.name(), err)
			}
		}
		return nil
	})
}

// transferStudy is what the workers of one call share.
type transferStudy struct {
	backend compute.Backend
	options Options
	dir     string // out/transfer
	data    map[string]transferData

	bar  progress.Bar
	done atomic.Int64 // Steps, for the bar.

	features sync.Mutex // Held while files of features are looked for and made.
}

func (s *transferStudy) found(steps int) {
	s.done.Add(int64(steps))
	s.bar.Found(steps)
}

// transferWorker runs cells one after the other, and keeps what is compiled: heads serve all, an encoder those that follow each other.
type transferWorker struct {
	study    *transferStudy
	encoder  openEncoder
	trainers map[string]*evaluation.SegmentationTrainer // By what they were compiled for.
}

// openEncoder is a compiled encoder and its weights.
type openEncoder struct {
	*evaluation.Frozen
	store *model.Store
	of    frozenCell
}

func newTransferWorker(study *transferStudy) *transferWorker {
	return &transferWorker{study: study, trainers: map[string]*evaluation.SegmentationTrainer{}}
}

func (e openEncoder) close() {
	if e.Frozen != nil {
		e.Close()
		e.store.Finalize()
	}
}

func (w *transferWorker) close() {
	w.encoder.close()
	for _, trainer := range w.trainers {
		trainer.Close()
	}
}

// prepare returns what a cell needs, compiled: its encoder and the trainer of its head.
func (w *transferWorker) prepare(c transferCell, classes int) (*evaluation.Frozen, *evaluation.SegmentationTrainer, error) {
	if of := (frozenCell{c.config.Encoder, c.seed}); w.encoder.Frozen == nil || w.encoder.of != of {
		w.encoder.close()
		w.encoder = openEncoder{}
		vit, store, err := of.open(c.seed)
		if err != nil {
			return nil, nil, err
		}
		frozen, err := evaluation.NewFrozen(w.study.backend, vit, store, "/", frozenBatch)
		if err != nil {
			store.Finalize()
			return nil, nil, err
		}
		w.encoder = openEncoder{frozen, store, of}
	}
	vit := w.encoder.ViT
	if err := c.config.checkPatches(vit); err != nil {
		return nil, nil, err
	}
	training := c.config.training(vit, classes)
	key := fmt.Sprintf("%+v", training)
	if w.trainers[key] == nil {
		trainer, err := evaluation.NewSegmentationTrainer(w.study.backend, training)
		if err != nil {
			return nil, nil, err
		}
		w.trainers[key] = trainer
	}
	return w.encoder.Frozen, w.trainers[key], nil
}

// folder is where the files of a cell on images of an identity stand, below the experiment's folder.
func (c transferCell) folder(identity string) string {
	return filepath.Join("cells", c.dataset, c.config.Encoder.Row, c.config.Head, fmt.Sprintf("seed%d-%s", c.seed, hashOf([]byte(c.key(identity)))))
}
