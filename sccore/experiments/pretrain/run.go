package pretrain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
)

// runPretrain runs the cells of the experiment that are not recorded yet, several at a time.
func runPretrain(ctx context.Context, b compute.Backend, options Options) error {
	dataset := "synthetic"
	if options.Data != "" {
		dataset = "images"
	}
	if options.Profile == Full && options.Data == "" {
		return errors.New("the full profile needs --data DIR with ImageNet's images in imagenet/train and COCO's in coco/train2017")
	}
	cells, err := pretrainCells(options, dataset)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, pretrainParts, options.Only); err != nil {
		return BadOption{err}
	}
	data, err := openPretrainData(options.Data, cells[0].config)
	if err != nil {
		return err
	}
	study := &pretrainStudy{backend: b, options: options, dir: folderOf(options.Out, Pretrain), data: data}
	for _, skipped := range data.skipped {
		study.options.warn("left out %s", skipped)
	}
	recorded, err := study.recorded()
	if err != nil {
		return err
	}
	total, finished := 0, 0
	var todo []pretrainCell
	for _, c := range cells {
		total += c.steps()
		if slices.ContainsFunc(c.rows(), func(row string) bool { return !recorded.row(c, row, data) }) {
			todo = append(todo, c)
		} else {
			finished += c.steps()
		}
	}
	study.bar = options.bar(fmt.Sprintf("%s (%s) on %s", Pretrain, options.Profile, data.name), total)
	defer study.bar.Close()
	study.found(finished)
	if len(todo) == 0 {
		study.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}

	if err := fromQueue(ctx, options.Parallel, todo, study.work); err != nil {
		return err
	}
	if len(study.diverged) > 0 {
		return fmt.Errorf("%d of %d runs diverged: %s", len(study.diverged), len(cells), strings.Join(study.diverged, "; "))
	}
	return nil
}

// pretrainStudy is what the workers of one call share.
type pretrainStudy struct {
	backend compute.Backend
	options Options
	dir     string // out/pretrain
	data    pretrainData

	bar  progress.Bar
	done atomic.Int64 // Steps, for the bar.

	mu       sync.Mutex
	diverged []string // Runs whose loss left the numbers, and where.
}

func (s *pretrainStudy) found(steps int) {
	s.done.Add(int64(steps))
	s.bar.Found(steps)
}

// pretrainRecorded are the numbers that have a record, by their key.
type pretrainRecorded map[string]bool

// key identifies a number, data aside.
func (c pretrainCell) key(row, column string) string {
	return c.name() + " " + hashOf(configJSON(c.config)) + " " + row + " " + column
}

// row tells whether a row of a cell is recorded whole.
func (r pretrainRecorded) row(c pretrainCell, row string, data pretrainData) bool {
	for _, column := range data.columns() {
		if !r[c.key(row, column)] {
			return false
		}
	}
	return true
}

// recorded reads what is recorded on this data.
func (s *pretrainStudy) recorded() (pretrainRecorded, error) {
	records, err := Records(s.dir)
	if err != nil {
		return nil, err
	}
	recorded := pretrainRecorded{}
	for _, r := range records {
		if r.Data == s.data.identity && r.Profile == s.options.Profile {
			recorded[r.Cell+" "+r.ConfigHash+" "+r.Row+" "+r.Column] = true
		}
	}
	return recorded, nil
}

// pretrainStage is a compiled stage of training, and the encoder that is measured: its online branch's, as the paper has it
// ("Evaluation protocol").
type pretrainStage struct {
	name    string
	trainer *sccore.Trainer
	frozen  *evaluation.Frozen
}

func (s *pretrainStage) close() {
	if s != nil {
		s.frozen.Close()
		s.trainer.Close()
	}
}

func (s *pretrainStudy) newStage(name string, config sccore.Config) (*pretrainStage, error) {
	trainer, err := sccore.NewTrainer(s.backend, s.data.train, config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	trainer.Skipped = func(image datasets.Skipped) { s.options.warn("left out %s: %s", image.File, image.Reason) }
	vit, store, scope := trainer.Encoder(sccore.Online)
	frozen, err := evaluation.NewFrozen(s.backend, vit, store, scope, frozenBatch)
	return &pretrainStage{name, trainer, frozen}, err
}

// unfiltered is the stage with its encoder measured without the filter: before training it has only random weights, and a file's features
// are those of the file.
func (s *pretrainStage) unfiltered(b compute.Backend) (*pretrainStage, error) {
	vit, store, scope := s.trainer.Encoder(sccore.Online)
	vit.Prototypes = 0
	frozen, err := evaluation.NewFrozen(b, vit, store, scope, frozenBatch)
	return &pretrainStage{s.name, s.trainer, frozen}, err
}

// work runs cells from queue until it is empty, all with the stages that it compiles once.
func (s *pretrainStudy) work(ctx context.Context, queue <-chan pretrainCell) (err error) {
	var first, second *pretrainStage
	defer func() { first.close(); second.close() }()
	for c := range queue {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if first == nil && c.config.Init == "" {
			if first, err = s.newStage("first", c.config.First); err != nil {
				return err
			}
		}
		if second == nil {
			if second, err = s.newStage("second", c.config.Second); err != nil {
				return err
			}
		}
		err := s.runCell(ctx, first, second, c)
		if errors.Is(err, train.ErrDiverged) { // The other runs are none the worse for it.
			s.mu.Lock()
			s.diverged = append(s.diverged, fmt.Sprintf("%s: %v", c.name(), err))
			s.mu.Unlock()
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	return nil
}
