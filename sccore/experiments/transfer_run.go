package experiments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"golang.org/x/sync/errgroup"
)

// runTransfer runs the cells of the experiment that are not recorded yet, several at a time.
func runTransfer(ctx context.Context, b compute.Backend, options Options) error {
	names, missing, err := presentDatasets(options.Profile, options.Data)
	if err != nil {
		return err
	}
	study := &transferStudy{backend: b, options: options, dir: folderOf(options.Out, Transfer), data: map[string]transferData{}}
	if options.Profile == Smoke && options.Data != "" {
		study.warn("the smoke profile is the same everywhere: synthetic scenes, and nothing of --data %s", options.Data)
	}
	for _, line := range missing {
		study.warn("%s", line)
	}
	encoders, err := pretrained(options.Out, options.Profile)
	if err != nil {
		return err
	}
	cells, err := transferCells(options, names, encoders)
	if err != nil {
		return BadOption{err}
	}
	if !slices.ContainsFunc(cells, func(c transferCell) bool { return c.config.Weights != "" }) {
		study.warn("no encoder has learnt: \"semcon run pretrain --profile %s\" trains two, and --set dino.weights=FILE names one", options.Profile)
	}
	if cells, err = selected(cells, transferParts, options.Only); err != nil {
		return BadOption{err}
	}
	recorded, err := study.recorded()
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
		key, err := study.key(c)
		if err != nil {
			return err
		}
		if recorded[key] {
			finished += c.steps()
		} else {
			todo = append(todo, c)
		}
	}
	open := options.Bar
	if open == nil {
		open = func(string, int) progress.Bar { return progress.Discard }
	}
	study.bar = open(fmt.Sprintf("%s (%s) on %s", Transfer, options.Profile, strings.Join(names, ", ")), total)
	defer study.bar.Close()
	study.found(finished)
	if len(todo) == 0 {
		study.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}

	queue := make(chan transferCell, len(todo))
	for _, c := range todo {
		queue <- c
	}
	close(queue)
	group, ctx := errgroup.WithContext(ctx)
	for range min(max(options.Parallel, 1), len(todo)) {
		group.Go(func() error {
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
	return group.Wait()
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

func (s *transferStudy) warn(format string, args ...any) {
	if s.options.Warn != nil {
		s.options.Warn(fmt.Sprintf(format, args...))
	}
}

// describeData says what a cell's number depends on besides its configuration: the images and the encoder's weights.
func (s *transferStudy) describeData(c transferCell) (string, error) {
	encoder, err := c.identity()
	return s.data[c.dataset].identity() + "; encoder: " + encoder, err
}

// key identifies what a record measures. Where the weights' file lies is left out: their digest is in the data.
func (s *transferStudy) key(c transferCell) (string, error) {
	data, err := s.describeData(c)
	c.config.Weights = ""
	return c.name() + " " + hashOf(c.config.encode()) + " " + data, err
}

// recorded tells which cells have a record.
func (s *transferStudy) recorded() (map[string]bool, error) {
	records, err := Records(s.dir)
	if err != nil {
		return nil, err
	}
	recorded := map[string]bool{}
	for _, r := range records {
		recorded[r.Cell+" "+r.ConfigHash+" "+r.Data] = true
	}
	return recorded, nil
}

// transferWorker runs cells one after the other, and keeps what is compiled: a few encoders and heads serve all.
type transferWorker struct {
	study    *transferStudy
	encoders map[encoder.ViT]compiledEncoder
	trainers map[string]*evaluation.SegmentationTrainer // By what they were compiled for.
}

// compiledEncoder is a compiled encoder and its weights.
type compiledEncoder struct {
	*evaluation.Frozen
	store *model.Store
}

func newTransferWorker(study *transferStudy) *transferWorker {
	return &transferWorker{study, map[encoder.ViT]compiledEncoder{}, map[string]*evaluation.SegmentationTrainer{}}
}

func (w *transferWorker) close() {
	for _, frozen := range w.encoders {
		frozen.Close()
		frozen.store.Finalize()
	}
	for _, trainer := range w.trainers {
		trainer.Close()
	}
}

// prepare returns what a cell needs, compiled, the encoder with the cell's weights.
func (w *transferWorker) prepare(c transferCell, classes int) (*evaluation.Frozen, *evaluation.SegmentationTrainer, error) {
	vit := c.config.vit()
	frozen, compiled := w.encoders[vit]
	if !compiled {
		frozen.store = model.NewStore()
	}
	err := c.load(frozen.store)
	if err == nil && !compiled {
		frozen.Frozen, err = evaluation.NewFrozen(w.study.backend, vit, frozen.store, "/", frozenBatch)
		w.encoders[vit] = frozen
	}
	if err != nil {
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
	return frozen.Frozen, w.trainers[key], nil
}

// folder is where a cell's files stand, below the experiment's folder.
func (s *transferStudy) folder(c transferCell) (string, error) {
	key, err := s.key(c)
	return filepath.Join("cells", c.dataset, c.row.key, c.config.Head, fmt.Sprintf("seed%d-%s", c.seed, hashOf([]byte(key)))), err
}

// errAllDiverged says that none of a run's heads has a finite loss.
var errAllDiverged = errors.New("the loss of every head diverged")
