package teacherquality

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// data holds a seed's images. Those of train train; scenes or measured measure.
type data struct {
	train    sccore.Data
	classes  int               // Number of labels, without 0 for none.
	scenes   [2]*synthetic.Set // Synthetic scenes: the first train, the second test.
	measured recipe.Data       // Photographs that measure recall.

	title, identity string
}

// Identity identifies the images, and the files that photographs start from, in records.
func (d data) Identity() string { return d.identity }

// Title describes the images.
func (d data) Title() string { return d.title }

// Skipped is nil because an unreadable image is an error.
func (data) Skipped() []string { return nil }

// open opens the images of a seed.
func open(o study.Options, dataset string, cells []study.Cell[Config]) (data, error) {
	c, seed := cells[0].Config, cells[0].Seed
	if dataset == voc {
		return openPhotographs(o, c, seed)
	}
	n, side, run := c.Images, c.Second.ImageSize, synthetic.Run(seed)
	objects, scenes := run.Objects(n, side, 1), run.Scenes(n, side, 2)
	d := data{title: "synthetic scenes", train: recipe.LabelledData(objects, scenes), classes: len(scenes.Classes), scenes: [2]*synthetic.Set{scenes, run.Scenes(max(n/2, 1), side, 4)}}
	d.identity = objects.Identity + "; " + scenes.Identity + "; " + d.scenes[1].Identity
	return d, nil
}

// of returns the training images of a condition: those from labels have labels with its errors.
func (d data) of(c Condition, seed int) sccore.Data {
	train := d.train
	if c.concentrates() && c.Teacher == 0 { // From labels.
		level := 0.0
		if c.Errors == errorsOfObjects {
			level = c.Level
		}
		train.TeacherLabels = mistaken(train.Labels, d.classes, level, uint64(seed))
	}
	return train
}

// mistaken returns labels in which a share of the classes of each image, drawn by the seed, is taken for another class: all their pixels in the image
// have the same wrong label.
func mistaken(labels func(image int32, canvas []uint8, side int) error, classes int, share float64, seed uint64) func(int32, []uint8, int) error {
	return func(image int32, canvas []uint8, side int) error {
		if err := labels(image, canvas, side); err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(image)))
		taken := make([]uint8, 1+classes) // Label 0 is none.
		for class := 1; class <= classes; class++ {
			taken[class] = uint8(class)
			wrong, by := rng.Float64() < share, rng.IntN(classes-1)
			if wrong {
				taken[class] = uint8(1 + (class+by)%classes)
			}
		}
		for i, label := range canvas {
			canvas[i] = taken[label]
		}
		return nil
	}
}

// run is a running cell.
type run = study.Run[Config, data]

// worker runs cells that share a compiled step.
type worker struct{ *recipe.Trainer }

func newWorker(r *run) (study.Worker[Config, data], error) {
	s := recipe.Stage{Name: "second", Config: r.Cell.Config.second()}
	switch {
	case isStart(r.Cell):
		s = recipe.Stage{Name: "start", Config: r.Cell.Config.First}
	case isTeacher(r.Cell):
		s = recipe.Stage{Name: "teacher", Config: r.Cell.Config.third()}
	}
	t, err := recipe.New(r.Backend(), r.Data.of(r.Cell.Config.Condition, r.Cell.Seed), s)
	return worker{t}, err
}

// teacherSeed is what the seed of a third encoder is above that of its run.
const teacherSeed = 1000

// Run trains, measures and records a cell, or trains what the cells of a seed begin from.
func (w worker) Run(r *run) error {
	c, t := r.Cell.Config, w.Trainer
	if err := w.SetData(r.Data.of(c.Condition, r.Cell.Seed)); err != nil {
		return err
	}
	switch {
	case isStart(r.Cell):
		return w.make(r, c.First, uint64(r.Cell.Seed))
	case isTeacher(r.Cell):
		return w.make(r, c.third(), uint64(r.Cell.Seed+teacherSeed))
	}
	if err := t.Configure(c.second()); err != nil {
		return err
	}
	details := map[string]float64{}
	if c.Loss == lossUntrained {
		if err := t.Begin(uint64(r.Cell.Seed)); err != nil {
			return err
		}
		return w.record(r, details)
	}
	start, teacher := c.Init, c.TeacherFile
	for _, needed := range needs(r.Cell) {
		if file := made(r.Root(), r.Data, needed); isTeacher(needed) {
			teacher = file
		} else {
			start = file
		}
	}
	if err := t.BeginFrom(start, uint64(r.Cell.Seed)); err != nil {
		return err
	}
	if c.Teacher != 0 {
		if err := t.SetTeacher(teacher); err != nil {
			return err
		}
	}
	d, err := t.Diagnostics(r.Context)
	if err != nil {
		return err
	}
	for i, precision := range d.Precision {
		details[fmt.Sprintf("precision_top%g", 100*sccore.TopShares[i])] = precision
	}
	details["precision_top100"] = metrics.PrecisionAtTop(d.Scores, d.Same, 1)[0] // What scores without any sense would have at the top.
	if auc, err := stats.AUC(d.Scores, d.Same); err == nil {                     // Without pairs of one class there is none.
		details["auc"] = auc
	}
	if c.Loss != lossStart {
		if err := w.train(r); err != nil {
			return err
		}
		details["lambda"] = t.Lambdas().PatchConcentration
	}
	return w.record(r, details)
}

// record measures the online branch.
func (w worker) record(r *run, details map[string]float64) error {
	c := r.Cell.Config
	if r.Cell.Dataset == voc {
		numbers, err := r.Data.measured.MeasureRecall(r.Context, &evaluation.Encoder{FeatureExtractor: w.Frozen, Seed: uint64(r.Cell.Seed)}, c.Recall, c.Probe)
		if err != nil {
			return err
		}
		for i := range numbers {
			numbers[i].Row, numbers[i].Details = c.row(), details
			numbers[i].Protocol += ", online branch"
		}
		return r.Record(numbers...)
	}
	sets, err := evaluation.EncodeScenes(w.Frozen, r.Data.scenes, r.Data.scenes[0].Width)
	if err != nil {
		return err
	}
	result, err := c.Probe.Evaluate(r.Backend(), sets[0], sets[1], 1+len(r.Data.scenes[0].Classes), uint64(r.Cell.Seed))
	if err != nil {
		return err
	}
	details["accuracy"] = result.Accuracy
	return r.Record(study.Number{
		Row: c.row(), Column: recipe.ColumnMIoU, Metric: "mIoU", Unit: "%", Value: result.MIoU, Details: details,
		Protocol: fmt.Sprintf("linear probe of the online branch's patch features on scenes, %d steps of %d patches, background a class, logits resized to the annotation",
			c.Probe.Steps, c.Probe.Batch),
	})
}

// train completes a training that has begun. It takes a minute, so it writes no checkpoints.
func (w worker) train(r *run) error {
	for t := w.Trainer; t.Done() < t.Steps(); {
		m, err := t.Step(r.Context)
		if err != nil {
			return err
		}
		r.Step("%s", recipe.Describe(m))
	}
	return nil
}

// made returns the checkpoint of a cell that others begin from.
func made(root string, d data, c study.Cell[Config]) string {
	return filepath.Join(root, madeFolder(d, c)) + ".safetensors"
}

// madeFolder is its path below the experiment's folder, without the extension.
func madeFolder(d data, c study.Cell[Config]) string {
	config := c.Config.First
	if isTeacher(c) {
		config = c.Config.third()
	}
	key := study.EncodeConfig(struct {
		Kind   string
		Config sccore.Config
		Data   string
	}{c.Path[0], config, d.identity})
	return filepath.Join("starts", study.Hash(key), fmt.Sprintf("seed%d", c.Seed))
}

// make trains what others begin from, unless its file exists.
func (w worker) make(r *run, config sccore.Config, seed uint64) error {
	t, path := w.Trainer, made(r.Root(), r.Data, r.Cell)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.Configure(config); err != nil {
		return err
	}
	if err := t.Begin(seed); err != nil {
		return err
	}
	if err := w.train(r); err != nil {
		return err
	}
	return t.Save(path, "")
}
