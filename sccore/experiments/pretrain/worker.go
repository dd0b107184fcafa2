package pretrain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
)

// Files of a cell's folder. Those of a stage are below a folder of its name: checkpoints while it runs, and at its end a last one,
// final.safetensors, and its encoders; with labels the best encoder, too, see [improved].
const (
	finalFile      = "final.safetensors"
	onlineFile     = "online.safetensors"
	targetFile     = "target.safetensors"
	bestFile       = "best.safetensors"
	neighboursFile = "neighbours.safetensors"
	pretrainCurve  = "curve.jsonl"
)

// keptCheckpoints is the number of checkpoints of a running stage that are kept.
const keptCheckpoints = 2

// folder is where a cell's files stand, below the experiment's folder.
func (c pretrainCell) folder(data pretrainData) string {
	return filepath.Join("cells", c.dataset, fmt.Sprintf("seed%d-%s", c.seed, hashOf(append(configJSON(c.config), data.identity...))))
}

// pretrainRun is a cell at work.
type pretrainRun struct {
	ctx   context.Context
	study *pretrainStudy
	cell  pretrainCell
	data  pretrainData
	dir   string
	begun time.Time
}

// runCell trains and measures one cell from where its folder stands. When ctx ends, it leaves a checkpoint and returns ctx's error.
func (s *pretrainStudy) runCell(ctx context.Context, first, second *pretrainStage, c pretrainCell) error {
	r := &pretrainRun{ctx: ctx, study: s, cell: c, data: s.data, dir: filepath.Join(s.dir, c.folder(s.data)), begun: time.Now()}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(r.dir, "lock"))
	if errors.Is(err, errLocked) {
		s.options.warn("%s is left to another process, which is at it", c.name())
		s.found(c.steps())
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	recorded, err := s.recorded() // The other process may have finished between our look and now.
	if err != nil {
		return err
	}
	record := func(row string, stage *pretrainStage) error {
		if recorded.row(c, row, s.data) {
			return nil
		}
		return r.record(row, stage, recorded)
	}

	seed := uint64(c.seed)
	start, source, row := func() error { return second.trainer.BeginFrom(c.config.Init, seed) }, second, rowInit
	if c.config.Init == "" {
		if !recorded.row(c, rowRandom, s.data) {
			if err := first.trainer.Begin(seed); err != nil {
				return err
			}
			if err := record(rowRandom, first); err != nil {
				return err
			}
		}
		if err := r.train(first, func() error { return first.trainer.Begin(seed) }); err != nil {
			return err
		}
		from := filepath.Join(r.dir, first.name, finalFile)
		start, source, row = func() error { return second.trainer.BeginFrom(from, seed) }, first, rowFirst
	}
	if err := r.neighbours(second, source, start); err != nil {
		return err
	}
	if source == second && !recorded.row(c, row, s.data) {
		if err := start(); err != nil {
			return err
		}
		if source, err = second.unfiltered(s.backend); err != nil {
			return err
		}
		defer source.frozen.Close()
	}
	if err := record(row, source); err != nil {
		return err
	}
	if err := r.train(second, start); err != nil {
		return err
	}
	return record(rowSecond, second)
}

// neighbours gives the second stage the neighbours that it draws positives from: those of the file, or found with the encoder that it begins
// from.
func (r *pretrainRun) neighbours(second, source *pretrainStage, start func() error) error {
	config, objects := r.cell.config.Second, r.data.train.Objects.Len()
	if config.Lambdas.ImageConcentration == 0 {
		return nil
	}
	path := filepath.Join(r.dir, neighboursFile)
	if _, err := os.Stat(path); err == nil {
		found, err := sccore.ReadNeighbours(path, objects, r.neighboursSource())
		if err != nil {
			return fmt.Errorf("%w (remove the file to find them again)", err)
		}
		second.trainer.SetNeighbours(found)
		return nil
	}
	if source == second {
		// Any will do to begin with: the encoder is all that is needed.
		second.trainer.SetNeighbours(&sccore.Neighbours{K: 1, Indices: make([]int32, objects)})
		if err := start(); err != nil {
			return err
		}
	}
	r.study.bar.Set(int(r.study.done.Load()), r.cell.name()+"  neighbours")
	found, err := r.findNeighbours(source)
	if err != nil {
		return err
	}
	second.trainer.SetNeighbours(found)
	return found.Write(path)
}

// train brings a stage to its end: from its last checkpoint, or from start.
func (r *pretrainRun) train(stage *pretrainStage, start func() error) error {
	t, dir := stage.trainer, filepath.Join(r.dir, stage.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := atomicfile.Sweep(dir); err != nil {
		return err
	}
	resume := func(path string) (course []sccore.StepMetrics, err error) {
		note, err := t.Resume(path)
		if err == nil {
			err = json.Unmarshal([]byte(note), &course)
		}
		if err != nil {
			return nil, fmt.Errorf("%w (remove %s to start this run afresh)", err, r.dir)
		}
		r.study.found(t.Done())
		return course, nil
	}
	final := filepath.Join(dir, finalFile)
	if _, err := os.Stat(final); err == nil {
		if _, err := resume(final); err != nil {
			return err
		}
		return r.finish(stage)
	}
	checkpoints, err := pretrainCheckpoints(dir)
	if err != nil {
		return err
	}
	var course []sccore.StepMetrics
	if len(checkpoints) > 0 {
		course, err = resume(checkpoints[len(checkpoints)-1])
	} else {
		err = start()
	}
	if err != nil {
		return err
	}
	save := func(path string) error {
		note, err := json.Marshal(course)
		if err != nil {
			return err
		}
		return t.Save(path, string(note))
	}
	saved := time.Now()
	for t.Done() < t.Config().Steps {
		if r.ctx.Err() != nil || time.Since(saved) > r.study.options.CheckpointEvery {
			if err := save(filepath.Join(dir, fmt.Sprintf("step-%09d.safetensors", t.Done()))); err != nil {
				return err
			}
			if err := keepLast(dir, keptCheckpoints); err != nil {
				return err
			}
			saved = time.Now()
		}
		gauges, err := t.Step(r.ctx)
		if err != nil {
			return err
		}
		if gauges.Class != nil || t.Done() == t.Config().Steps {
			course = append(course, gauges)
			if err := r.show(stage, course); err != nil {
				return err
			}
			if improved(course) {
				if err := r.saveEncoder(stage, sccore.Online, bestFile); err != nil {
					return err
				}
			}
		}
		r.study.bar.Set(int(r.study.done.Add(1)), fmt.Sprintf("%s  %s  %s", r.cell.name(), stage.name, describe(gauges)))
	}
	if err := save(final); err != nil {
		return err
	}
	return r.finish(stage)
}

// finish writes the encoders of a stage that is done, and removes its checkpoints but the final one.
func (r *pretrainRun) finish(stage *pretrainStage) error {
	for file, branch := range map[string]sccore.Branch{onlineFile: sccore.Online, targetFile: sccore.Target} {
		if err := r.saveEncoder(stage, branch, file); err != nil {
			return err
		}
	}
	return keepLast(filepath.Join(r.dir, stage.name), 0)
}

// saveEncoder writes the encoder of a branch of a stage as it is to a file of the stage's folder.
func (r *pretrainRun) saveEncoder(stage *pretrainStage, branch sccore.Branch, file string) error {
	metadata := map[string]string{
		"run": r.cell.name(), "stage": stage.name, "step": fmt.Sprint(stage.trainer.Done()), "config": string(configJSON(r.cell.config)),
	}
	return stage.trainer.SaveEncoder(filepath.Join(r.dir, stage.name, file), branch, metadata)
}

// describe is a line of gauges for the bar.
func describe(g sccore.StepMetrics) string {
	line := fmt.Sprintf("loss %.3f", g.Total)
	if g.PatchEntropy > 0 {
		line += fmt.Sprintf("  entropy %.2f", g.PatchEntropy)
	}
	if g.Patches != nil {
		line += fmt.Sprintf("  rank %.1f", g.Patches.Rank)
	}
	return line
}

// show replaces the stage's curve file and tells whoever watches.
func (r *pretrainRun) show(stage *pretrainStage, course []sccore.StepMetrics) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	for _, gauges := range course {
		if err := encoder.Encode(gauges); err != nil {
			return err
		}
	}
	if err := atomicfile.WriteBytes(filepath.Join(r.dir, stage.name, pretrainCurve), content.Bytes()); err != nil {
		return err
	}
	if watch := r.study.options.Watch; watch != nil {
		watch(r.cell.name()+"/"+stage.name, pretrainPoints(course))
	}
	return nil
}

// pretrainPoints are gauges as points of a course.
func pretrainPoints(course []sccore.StepMetrics) (points []Point) {
	for _, g := range course {
		p := Point{Step: g.Step, Loss: g.Total, LearningRate: g.Rate}
		if g.Patches != nil {
			p.FeatureStd, p.EffectiveRank = g.Patches.Std, g.Patches.Rank
		}
		if g.Classes != nil {
			p.Within, p.Between = g.Classes.Within, g.Classes.Between
		}
		points = append(points, p)
	}
	return points
}

// ReadGauges reads the curve file of a stage.
func ReadGauges(path string) (course []sccore.StepMetrics, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	for decoder.More() {
		var gauges sccore.StepMetrics
		if err := decoder.Decode(&gauges); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		course = append(course, gauges)
	}
	return course, nil
}

// pretrainCheckpoints are those of a running stage, the last one last.
func pretrainCheckpoints(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "step-*.safetensors"))
	slices.Sort(found)
	return found, err
}

// keepLast removes all but the last checkpoints of a stage.
func keepLast(dir string, count int) error {
	found, err := pretrainCheckpoints(dir)
	if err != nil {
		return err
	}
	for _, path := range found[:max(0, len(found)-count)] {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// record measures the encoder of a stage as it is and records each number that is not recorded yet.
func (r *pretrainRun) record(row string, stage *pretrainStage, recorded pretrainRecorded) error {
	r.study.bar.Set(int(r.study.done.Load()), fmt.Sprintf("%s  measuring %s", r.cell.name(), row))
	numbers, err := measurePretrain(r.study.backend, stage.frozen, r.data, r.cell.config, r.cell.seed)
	if err != nil {
		return err
	}
	config := configJSON(r.cell.config)
	details := map[string]float64{}
	curve := filepath.Join(r.cell.folder(r.data), stage.name, pretrainCurve)
	if course, err := ReadGauges(filepath.Join(r.study.dir, curve)); err == nil && len(course) > 0 && row != rowRandom && row != rowInit {
		last := course[len(course)-1]
		details["loss"], details["step"] = last.Total, float64(last.Step)
		if last.Patches != nil {
			details["patch_rank"], details["class_rank"] = last.Patches.Rank, last.Class.Rank
		}
		if last.Classes != nil {
			details["within_classes"], details["between_classes"] = last.Classes.Within, last.Classes.Between
		}
	} else {
		curve = ""
	}
	for _, number := range numbers {
		if recorded[r.cell.key(row, number.column)] {
			continue
		}
		err := Record{
			Experiment: Pretrain, Cell: r.cell.name(), Row: row, Column: number.column,
			Metric: number.metric, Unit: number.unit, Value: number.value,
			Seed: r.cell.seed, Profile: r.study.options.Profile, Config: config, ConfigHash: hashOf(config),
			Protocol: number.protocol + ", online branch", Data: r.data.identity, Details: details, Curve: filepath.ToSlash(curve),
			Skipped: r.data.skipped, Backend: backend.Name(), Versions: versions(),
			Seconds: time.Since(r.begun).Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
		}.Append(r.study.dir)
		if err != nil {
			return err
		}
	}
	return nil
}

// PretrainedEncoder is the file of the encoder that a recorded run left, after the stage "first" or "second": the online branch's, which the paper
// freezes ("Evaluation protocol").
func PretrainedEncoder(out string, record Record, stage string) string {
	return filepath.Join(folderOf(out, Pretrain), filepath.FromSlash(filepath.Dir(filepath.Dir(record.Curve))), stage, onlineFile)
}
