package teacher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/analysis"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/train"
	"golang.org/x/sync/errgroup"
)

// qualityStudy is what the workers of one call share.
type qualityStudy struct {
	backend  compute.Backend
	options  Options
	dir      string // out/teacher-quality
	data     sccore.Data
	identity string
	scenes   [2]*datasets.Scenes // For training the probe, and for testing.

	mu   sync.Mutex // Held while recording and while moving the bar.
	bar  progress.Bar
	done int // Steps.
}

// runTeacherQuality runs the cells of the study that are not recorded yet: first the checkpoints that they begin from, then, several at a
// time, the cells of one compiled step after the other. A run takes half a minute and has no checkpoints of its own.
func runTeacherQuality(ctx context.Context, b compute.Backend, options Options) error {
	cells, err := qualityCells(options)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, qualityParts, options.Only); err != nil {
		return BadOption{err}
	}
	if options.Data != "" {
		options.warn("the study needs labels of pixels: it is on synthetic scenes, and nothing of --data %s", options.Data)
	}
	s := newQualityStudy(b, options, cells[0].config)
	records, err := Records(s.dir)
	if err != nil {
		return err
	}
	recorded := map[string]bool{}
	for _, r := range records {
		if r.Data == s.identity && r.Profile == options.Profile {
			recorded[r.Cell+" "+r.ConfigHash] = true
		}
	}
	todo := slices.DeleteFunc(slices.Clone(cells), func(c qualityCell) bool { return recorded[c.key()] })
	total := 0
	var seeds []int
	for _, c := range cells {
		total += c.config.steps()
	}
	for _, c := range todo {
		if !slices.Contains(seeds, c.seed) {
			seeds = append(seeds, c.seed)
		}
	}
	total += len(seeds) * cells[0].config.First.Steps
	s.bar = options.bar(fmt.Sprintf("%s (%s)", TeacherQuality, options.Profile), total)
	defer s.bar.Close()
	for _, c := range cells {
		if recorded[c.key()] {
			s.found(c.config.steps())
		}
	}
	if len(todo) == 0 {
		s.bar.Set(total, fmt.Sprintf("recorded: %d of %d runs", len(cells), len(cells)))
		return nil
	}
	if err := s.makeStarts(ctx, cells[0].config, seeds); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(options.Parallel, 1))
	for len(todo) > 0 {
		step := todo[0].compiledFor()
		var mine []qualityCell
		for _, c := range todo {
			if c.compiledFor() == step {
				mine = append(mine, c)
			}
		}
		todo = slices.DeleteFunc(todo, func(c qualityCell) bool { return c.compiledFor() == step })
		group.Go(func() error { return s.work(ctx, mine) })
	}
	return group.Wait()
}

func newQualityStudy(b compute.Backend, options Options, config TeacherQualityConfig) *qualityStudy {
	n, side := config.Images, config.Second.Canvas
	objects, scenes := datasets.SyntheticObjects(n, side, 1), datasets.SyntheticScenes(n, side, 2)
	s := &qualityStudy{backend: b, options: options, dir: folderOf(options.Out, TeacherQuality)}
	s.scenes = [2]*datasets.Scenes{scenes, datasets.SyntheticScenes(max(n/2, 1), side, 4)}
	s.data = trainOn(objects, scenes)
	s.identity = objects.Identity + "; " + scenes.Identity + "; " + s.scenes[1].Identity
	return s
}

// found moves the bar over steps that this process does not take.
func (s *qualityStudy) found(steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done += steps
	s.bar.Found(steps)
}

// advance moves the bar over a step.
func (s *qualityStudy) advance(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
	s.bar.Set(s.done, text)
}

// start is what the runs of a seed begin from: files of a checkpoint and of what its target branch's correspondences are worth.
func (s *qualityStudy) start(config TeacherQualityConfig, seed int) (checkpoint, quality string) {
	key, err := json.Marshal(struct {
		First sccore.Config
		Pairs int
		Data  string
	}{config.First, config.Pairs, s.identity})
	if err != nil {
		panic(err) // Numbers and text.
	}
	path := filepath.Join(s.dir, "starts", hashOf(key), fmt.Sprintf("seed%d", seed))
	return path + ".safetensors", path + ".json"
}

// teacherAUC is how well the target branch tells pairs of patches of one class from others at the start: the area under the ROC curve of S_t.
type teacherAUC struct {
	Head     float64 `json:"head"`     // Of projected features, which are the real teacher's.
	Backbone float64 `json:"backbone"` // Of patch tokens.
}

// makeStarts trains the first stage of each seed that has none.
func (s *qualityStudy) makeStarts(ctx context.Context, config TeacherQualityConfig, seeds []int) error {
	var trainer *sccore.Trainer
	defer func() {
		if trainer != nil {
			trainer.Close()
		}
	}()
	for _, seed := range seeds {
		checkpoint, quality := s.start(config, seed)
		if _, err := os.Stat(quality); err == nil {
			s.found(config.First.Steps)
			continue
		}
		if trainer == nil {
			var err error
			if trainer, err = sccore.NewTrainer(s.backend, s.data, config.First); err != nil {
				return err
			}
		}
		if err := trainer.Begin(uint64(seed)); err != nil {
			return err
		}
		if err := s.train(ctx, trainer, fmt.Sprintf("start of seed %d", seed)); err != nil {
			return err
		}
		var auc teacherAUC
		for from, value := range map[string]*float64{sccore.FromHead: &auc.Head, sccore.FromBackbone: &auc.Backbone} {
			pairs, err := trainer.Pairs(ctx, from, config.Pairs)
			if err != nil {
				return err
			}
			if *value, err = analysis.AUC(pairs.Target, pairs.Same); err != nil {
				return fmt.Errorf("start of seed %d: %w", seed, err)
			}
		}
		content, err := json.Marshal(auc)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(checkpoint), 0o755); err != nil {
			return err
		}
		if err := trainer.Save(checkpoint, ""); err != nil {
			return err
		}
		if err := atomicfile.WriteBytes(quality, append(content, '\n')); err != nil { // Last: it says that the start is whole.
			return err
		}
	}
	return nil
}

// train takes the steps of a run that has begun.
func (s *qualityStudy) train(ctx context.Context, trainer *sccore.Trainer, name string) error {
	for trainer.Done() < trainer.Config().Steps {
		gauges, err := trainer.Step(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.advance(name + "  " + describe(gauges))
	}
	return nil
}

// work runs cells that share a compiled step.
func (s *qualityStudy) work(ctx context.Context, cells []qualityCell) error {
	trainer, err := sccore.NewTrainer(s.backend, s.data, cells[0].config.second())
	if err != nil {
		return err
	}
	defer trainer.Close()
	vit, store, scope := trainer.Encoder(sccore.Online)
	frozen, err := evaluation.NewFrozen(s.backend, vit, store, scope, frozenBatch)
	if err != nil {
		return err
	}
	defer frozen.Close()
	var diverged error
	for _, c := range cells {
		err := s.runCell(ctx, trainer, frozen, c)
		if errors.Is(err, train.ErrDiverged) { // The other runs are none the worse for it.
			diverged = errors.Join(diverged, err)
		} else if err != nil {
			return err
		}
	}
	return diverged
}

// runCell trains, measures and records one cell.
func (s *qualityStudy) runCell(ctx context.Context, trainer *sccore.Trainer, frozen *evaluation.Frozen, c qualityCell) error {
	begun := time.Now()
	checkpoint, quality := s.start(c.config, c.seed)
	var auc teacherAUC
	content, err := os.ReadFile(quality)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &auc); err != nil {
		return fmt.Errorf("%s: %w", quality, err)
	}
	if err := trainer.Configure(c.config.second()); err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	if err := trainer.BeginFrom(checkpoint, uint64(c.seed)); err != nil {
		return err
	}
	if c.config.Loss != lossStart {
		if err := s.train(ctx, trainer, c.name()); err != nil {
			return err
		}
	}
	result, err := s.measure(frozen, c)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	config := configJSON(c.config)
	return Record{
		Experiment: TeacherQuality, Cell: c.name(), Row: c.config.row(), Column: columnMIoU, Metric: "mIoU", Unit: "%", Value: result.MIoU,
		Seed: c.seed, Profile: s.options.Profile, Config: config, ConfigHash: hashOf(config),
		Protocol: fmt.Sprintf("linear probe of the online branch's patch features on scenes, %d steps of %d patches, background a class, logits resized to the annotation",
			c.config.Probe.Steps, c.config.Probe.Batch),
		Data:    s.identity,
		Details: map[string]float64{"accuracy": result.Accuracy, "teacher_auc_head": auc.Head, "teacher_auc_backbone": auc.Backbone},
		Backend: backend.Name(), Versions: versions(), Seconds: time.Since(begun).Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
	}.Append(s.dir)
}

// measure probes the online branch's patch features on scenes.
func (s *qualityStudy) measure(frozen *evaluation.Frozen, c qualityCell) (evaluation.Segmentation, error) {
	sets, err := annotatedScenes(frozen, s.scenes, s.scenes[0].Width)
	if err != nil {
		return evaluation.Segmentation{}, err
	}
	return c.config.Probe.Measure(s.backend, sets[0], sets[1], 1+len(s.scenes[0].Classes), uint64(c.seed))
}
