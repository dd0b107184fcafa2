package ablation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/train"
	"golang.org/x/sync/errgroup"
)

// runAblation runs the cells that are not recorded yet: what the lines of each seed begin from, then the lines, several at a time.
func runAblation(ctx context.Context, b compute.Backend, options Options) error {
	if options.Profile == Full && options.Data == "" {
		return errors.New("the full profile needs --data DIR with ImageNet's images in imagenet/train and imagenet/val and COCO's in coco")
	}
	config, cells, err := ablationCells(options)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, ablationParts(options.Data != ""), options.Only); err != nil {
		return BadOption{err}
	}
	data, measured, missing, err := openAblationData(options.Data, config)
	if err != nil {
		return err
	}
	s := &ablationStudy{
		pretrainStudy: &pretrainStudy{backend: b, options: options, dir: folderOf(options.Out, Ablation), data: data},
		config:        config, measured: measured, waiting: map[int]bool{},
	}
	for _, line := range missing {
		s.options.warn("%s", line)
	}
	for _, skipped := range data.skipped {
		s.options.warn("left out %s", skipped)
	}
	recorded, err := s.recorded()
	if err != nil {
		return err
	}
	total := 0
	var firsts, lines []ablationCell // What is to be done, one after the other.
	seeds := map[int]bool{}          // That a beginning is needed of.
	for _, c := range cells {
		if _, isLine := c.line(); isLine {
			total += config.Second.Steps
			if s.whole(recorded, c) {
				s.done.Add(int64(config.Second.Steps))
				continue
			}
			lines = append(lines, c)
		} else if s.whole(recorded, c) {
			continue
		}
		if !seeds[c.seed] {
			seeds[c.seed] = true
			firsts = append(firsts, ablationCell{c.dataset, config.beginning(), c.seed})
		}
	}
	if config.Init == "" {
		total += len(seeds) * config.First.Steps
	}
	s.bar = options.bar(fmt.Sprintf("%s (%s) on %s", Ablation, options.Profile, data.name), total)
	defer s.bar.Close()
	s.bar.Found(int(s.done.Load()))
	if len(seeds) == 0 {
		s.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}
	wanted := func(c ablationCell) bool { return slices.Contains(cells, c) && !s.whole(recorded, c) }

	if err := s.each(ctx, firsts, func(ctx context.Context, stage *pretrainStage, c ablationCell) error {
		return s.first(ctx, stage, c, wanted)
	}); err != nil {
		return err
	}
	if err := s.each(ctx, lines, s.line); err != nil {
		return err
	}
	if len(s.diverged) > 0 {
		return fmt.Errorf("%d of %d runs diverged: %s", len(s.diverged), len(cells), strings.Join(s.diverged, "; "))
	}
	return nil
}

// ablationStudy is what the workers of one call share.
type ablationStudy struct {
	*pretrainStudy
	config   AblationConfig
	measured []ablationMeasure
	waiting  map[int]bool // Seeds whose beginning another process is at; their lines cannot begin.
}

// ablationRecorded are the numbers that have a record, by cell and column.
type ablationRecorded map[ablationCell]map[string]bool

// recorded reads what is recorded of this configuration and on this data.
func (s *ablationStudy) recorded() (ablationRecorded, error) {
	records, err := Records(s.dir)
	if err != nil {
		return nil, err
	}
	recorded := ablationRecorded{}
	for _, r := range records {
		if r.Profile != s.options.Profile || r.ConfigHash != hashOf(configJSON(s.config)) {
			continue
		}
		for _, m := range s.measured {
			if r.Data != m.identity || !slices.Contains(m.columns(), r.Column) {
				continue
			}
			c := ablationCell{s.data.name, r.Row, r.Seed}
			if recorded[c] == nil {
				recorded[c] = map[string]bool{}
			}
			recorded[c][r.Column] = true
		}
	}
	return recorded, nil
}

// whole tells whether a cell has a record in every column that is measured.
func (s *ablationStudy) whole(recorded ablationRecorded, c ablationCell) bool {
	return !slices.ContainsFunc(s.measured, func(m ablationMeasure) bool {
		return slices.ContainsFunc(m.columns(), func(column string) bool { return !recorded[c][column] })
	})
}

// each does the cells, those of one row by one worker, which compiles the row's step once.
func (s *ablationStudy) each(ctx context.Context, cells []ablationCell, do func(context.Context, *pretrainStage, ablationCell) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(s.options.Parallel, 1))
	for len(cells) > 0 {
		count := 1
		for count < len(cells) && cells[count].row == cells[0].row && cells[0].row != rowFirst {
			count++
		}
		batch := cells[:count]
		cells = cells[count:]
		group.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			name, config := "first", s.config.First
			if batch[0].row == rowInit { // Its encoder has no filter, as the file's has none.
				name, config = "init", sccore.Ablations[2].Config(s.config.Second)
			}
			if line, ok := batch[0].line(); ok {
				name, config = "line"+batch[0].row, line.Config(s.config.Second)
			}
			s.bar.Set(int(s.done.Load()), "compiling "+name)
			stage, err := s.newStage(name, config)
			if err != nil {
				return err
			}
			defer stage.close()
			for _, c := range batch {
				switch err := do(ctx, stage, c); {
				case errors.Is(err, train.ErrDiverged): // The other runs are none the worse for it.
					s.mu.Lock()
					s.diverged = append(s.diverged, fmt.Sprintf("%s: %v", c.name(), err))
					s.mu.Unlock()
				case err != nil:
					return fmt.Errorf("%s: %w", c.name(), err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// begin makes a run of a seed; its stages share a folder, and each has its own lock. The run is nil where another process is at the stage.
func (s *ablationStudy) begin(ctx context.Context, stage *pretrainStage, c ablationCell) (run *pretrainRun, unlock func(), err error) {
	run = &pretrainRun{ctx: ctx, study: s.pretrainStudy, data: s.data, begun: time.Now(), cell: pretrainCell{s.data.name, c.seed, s.config.PretrainConfig}}
	run.dir = filepath.Join(s.dir, s.folder(c.seed))
	if err := os.MkdirAll(filepath.Join(run.dir, stage.name), 0o755); err != nil {
		return nil, nil, err
	}
	unlock, err = lock(filepath.Join(run.dir, stage.name, "lock"))
	if errors.Is(err, errLocked) {
		s.options.warn("%s is left to another process, which is at it", c.name())
		if c.row != rowInit {
			s.found(stage.trainer.Config().Steps)
		}
		return nil, func() {}, nil
	}
	return run, unlock, err
}

// folder is where the files of a seed stand, below the study's folder. Its name depends on what is trained; how it is measured may change.
func (s *ablationStudy) folder(seed int) string {
	trained := PretrainConfig{First: s.config.First, Second: s.config.Second, Images: s.config.Images}
	return filepath.Join("cells", fmt.Sprintf("seed%d-%s", seed, hashOf(append(configJSON(trained), s.data.identity...))))
}

// first finds the neighbours with what all lines of a seed begin from, and measures it where that is wanted: the weights of a file, or what a first
// stage leaves, which it trains, and its random weights before.
func (s *ablationStudy) first(ctx context.Context, stage *pretrainStage, c ablationCell, wanted func(ablationCell) bool) error {
	run, unlock, err := s.begin(ctx, stage, c)
	if err != nil {
		return err
	}
	if run == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[c.seed] = true
		return nil
	}
	defer unlock()
	start := func() error { return stage.trainer.Begin(uint64(c.seed)) }
	if c.row == rowInit {
		if err := stage.trainer.BeginFrom(s.config.Init, uint64(c.seed)); err != nil {
			return err
		}
	} else {
		if random := (ablationCell{c.dataset, rowRandom, c.seed}); wanted(random) {
			if err := start(); err != nil {
				return err
			}
			if err := s.record(run, random, stage); err != nil {
				return err
			}
		}
		if err := run.train(stage, start); err != nil {
			return err
		}
	}
	if wanted(c) {
		if err := s.record(run, c, stage); err != nil {
			return err
		}
	}
	path := filepath.Join(run.dir, neighboursFile)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	found, err := run.findNeighbours(stage)
	if err != nil {
		return err
	}
	return found.Write(path)
}

// line trains and measures a line from what all lines of its seed begin from.
func (s *ablationStudy) line(ctx context.Context, stage *pretrainStage, c ablationCell) error {
	if s.waiting[c.seed] {
		s.options.warn("%s is left out until what it begins from is there: run it again then", c.name())
		s.found(stage.trainer.Config().Steps)
		return nil
	}
	run, unlock, err := s.begin(ctx, stage, c)
	if err != nil || run == nil {
		return err
	}
	defer unlock()
	recorded, err := s.recorded() // Another process may have finished between our look and now.
	if err != nil || s.whole(recorded, c) {
		return err
	}
	if stage.trainer.Config().Lambdas.ImageConcentration > 0 {
		if err := run.neighbours(stage, nil, nil); err != nil {
			return err
		}
	}
	from := s.config.Init
	if from == "" {
		from = filepath.Join(run.dir, "first", finalFile)
	}
	if err := run.train(stage, func() error { return stage.trainer.BeginFrom(from, uint64(c.seed)) }); err != nil {
		return err
	}
	return s.record(run, c, stage)
}

// record measures the online branch of a stage as it is, and records each column that is not recorded yet.
func (s *ablationStudy) record(run *pretrainRun, c ablationCell, stage *pretrainStage) error {
	s.bar.Set(int(s.done.Load()), "measuring "+c.name())
	recorded, err := s.recorded()
	if err != nil {
		return err
	}
	details := map[string]float64{}
	curve := filepath.Join(s.folder(c.seed), stage.name, pretrainCurve)
	if c.row == rowRandom || c.row == rowInit {
		curve = ""
	} else if course, err := ReadGauges(filepath.Join(s.dir, curve)); err != nil {
		return err
	} else if len(course) > 0 {
		last := course[len(course)-1]
		details["loss"], details["step"] = last.Total, float64(last.Step)
		if last.Patches != nil {
			details["patch_rank"], details["class_rank"] = last.Patches.Rank, last.Class.Rank
		}
	}
	config := configJSON(s.config)
	for _, m := range s.measured {
		columns := slices.DeleteFunc(m.columns(), func(column string) bool { return recorded[c][column] })
		if len(columns) == 0 {
			continue
		}
		cell := mainCell{m.dataset, c.seed, s.config.measuring()}
		numbers, err := measureFrozen(run.ctx, s.backend, stage.frozen, cell, m.mainData)
		if err != nil {
			return err
		}
		for _, column := range columns {
			err := Record{
				Experiment: Ablation, Cell: c.name(), Row: c.row, Column: column,
				Metric: ablationMetrics[column], Unit: "%", Value: numbers[column],
				Seed: c.seed, Profile: s.options.Profile, Config: config, ConfigHash: hashOf(config),
				Protocol: m.protocol(column, s.config) + ", online branch", Data: m.identity, Details: details, Curve: filepath.ToSlash(curve),
				Skipped: s.data.skipped, Backend: backend.Name(), Versions: versions(), Seconds: time.Since(run.begun).Seconds(),
				Finished: time.Now().UTC().Truncate(time.Second),
			}.Append(s.dir)
			if err != nil {
				return err
			}
		}
	}
	return nil
}
