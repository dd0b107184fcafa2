// Package teacherquality is the experiment that decides when CoTAP helps. From one start for each seed, or on photographs from one file, patch alignment trains
// on with a loss of patch concentration. Its gradient has a set share of alignment's, and it learns from a frozen third encoder, labels or the run's branches.
//
// In go losses, shares and sources of correspondences. Out come records of linear mIoU, or of recall over patches, beside the records of alignment alone, with
// the precision and the AUC of what the loss has learned from, tables of gains and of what was predicted, and a figure of gains against precision.
package teacherquality

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/recipe/maintable"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Name is the experiment's name.
const Name = "teacher-quality"

// voc is the dataset of photographs, PASCAL VOC, whose masks give labels. Synthetic images have no name.
const voc = "voc2012"

// Study is the experiment.
var Study = recipe.Cells[Config, data]{Stage: stage}.Spec(study.Spec[Config, data]{
	Name:      Name,
	DataBySet: true,
	Parts:     []string{"dataset", "loss", "share", "source", "seed"},
	Datasets: func(o study.Options) (names, missing []string, err error) { // PASCAL VOC if there is a data folder, else the synthetic images, which have no name.
		if o.Data == "" && o.Profile == study.Real {
			return recipe.DatasetNames(o)
		}
		if o.Data == "" {
			return []string{""}, nil, nil
		}
		for _, key := range []string{"init", "teacher"} {
			if !settings.Given(o.Set, key) || slices.Contains(o.Set, key+"=") {
				return nil, nil, datasets.Missing(fmt.Sprintf(
					"photographs start from files that pretrain leaves: --set %s=FILE is missing (without --data the images are synthetic)", key))
			}
		}
		_, err = evaluation.Source{Dir: o.Data, Dataset: voc}.Segmentation(datasets.Train, datasets.Test)
		return []string{voc}, nil, err
	},
	Cells: cells,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (d data, err error) {
		c, seed := cells[0].Config, cells[0].Seed
		if dataset == voc {
			return openPhotographs(o, c, seed)
		}
		n, side, run := c.Images, c.Second.ImageSize, synthetic.Run(seed)
		objects, scenes := run.Objects(n, side, 1), run.Scenes(n, side, 2)
		d.Name, d.classes = "synthetic scenes", len(scenes.Classes)
		d.Train, d.Scenes = recipe.LabelledData(objects, scenes), [2]*synthetic.Set{scenes, run.Scenes(max(n/2, 1), side, 4)}
		d.ID = objects.Identity + "; " + scenes.Identity + "; " + d.Scenes[1].Identity
		return d, nil
	},
	Numbers: func(d data, c study.Cell[Config]) []study.Number {
		if makes(c) {
			return nil
		}
		return recipe.NumbersOf(c.Config.row(), d.measures(c.Config))
	},
	NewWorker: func(r *run) (study.Worker[Config, data], error) {
		t, err := recipe.New(r.Backend(), r.Data.of(r.Cell.Config.Condition, r.Cell.Seed), stage(r.Cell))
		return worker{t}, err
	},
	Needs:  needs,
	Folder: folder,
	ProfileConfig: func(r study.Record, config Config) Config {
		c := profileConfig(r.Profile, config.photographs())
		c.Condition, c.Init, c.TeacherFile = config.Condition, config.Init, config.TeacherFile
		if v, err := encoder.ViTByName(config.Second.Encoder); err == nil && config.photographs() {
			v.Positions = config.Second.Positions
			c.Second, c.Third = c.Second.Adapt(v), config.Third // As follow does.
		}
		return c
	},
	Common: func(config, _ Config) Config {
		config.OmitPaths() // The data of a record identify the files.
		return config.shared()
	},
	Tables:  tables,
	Figures: drawn,
})

// cells lists the cells of a dataset, all cells of one seed before the next seed.
func cells(o study.Options, dataset string) (cells []study.Cell[Config], err error) {
	defer try.Handle(&err)
	photographs := dataset == voc
	base := profileConfig(o.Profile, photographs)
	try.E(settings.Apply(&base, o.Set...))
	recipe.FollowSteps(&base.Second, study.Options{Profile: trainedAs(o.Profile), Set: o.Set, Warn: o.Warn})
	if base != base.shared() {
		return nil, errors.New("--set condition: choose runs with --only 'cotap/share1/labels'")
	}
	try.E(base.checkKind(photographs))
	seeds := study.Seeds(Name, o)
	if photographs {
		seeds = o.SeedsOr(min(seeds, 5)) // A dataset of masks is cut into as many shares.
		try.E(base.follow(o.Set))
	}
	try.E(study.CheckSeeds(seeds, base.Shares))
	for seed := range seeds {
		for _, base.Condition = range conditions(o.Profile, photographs) {
			try.E(base.check(photographs))
			path := strings.Split(base.row(), "/")
			if photographs {
				path = append([]string{dataset}, path...)
			}
			cells = append(cells, study.Cell[Config]{Dataset: dataset, Path: path, Seed: seed, Config: base})
		}
	}
	return cells, nil
}

// folder is the folder of a cell's files. What others begin from is a file of this name beside it.
func folder(d data, c study.Cell[Config]) string {
	if !makes(c) {
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, c.Hash()))
	}
	key := study.EncodeConfig(struct {
		Kind   string
		Config sccore.Config
		Data   string
	}{c.Path[0], stage(c).Config, d.Identity()})
	return filepath.Join("starts", study.Hash(key), fmt.Sprintf("seed%d", c.Seed))
}

// data holds a seed's training images, with the number of their labels, without 0 for none. Scenes or Annotated are measured.
type data struct {
	recipe.Data
	classes int
}

// openPhotographs opens a seed's share of PASCAL VOC's training images with their labels, and what measures recall.
func openPhotographs(o study.Options, c Config, seed int) (d data, err error) {
	defer try.Handle(&err)
	start := try.E1(weights.Digest(c.Init))
	teacher := try.E1(weights.Digest(c.TeacherFile))
	if start == teacher {
		return d, study.BadOption{Err: fmt.Errorf("--set teacher=%s has the same content as init=%s, want another encoder", c.TeacherFile, c.Init)}
	}
	d.Data = try.E1(recipe.OpenAnnotated(o, c.Recall, c.Second.ImageSize, c.Shares, seed, fmt.Sprintf("; start sha256 %s; teacher sha256 %s", start, teacher)))
	d.Train.Objects, d.Train.Scenes = nil, d.Train.Objects
	d.Name, d.classes = "photographs of "+d.Annotated[0].Name, len(d.Annotated[0].Classes)
	return d, nil
}

// of returns the training images of a condition: those from labels have labels with its errors.
func (d data) of(c Condition, seed int) sccore.Data {
	train := d.Train
	if c.concentrates() && c.Teacher == 0 { // From labels.
		level := lo.Ternary(c.Errors == errorsOfObjects, c.Level, 0)
		first := lo.Ternary(d.Annotated[0] != nil && d.Annotated[0].HasBackground(), 2, 1)
		train.TeacherLabels = mistaken(train.Labels, first, d.classes, level, uint64(seed))
	}
	return train
}

// mistaken returns labels in which a share of the objects' classes in each image, drawn by the seed, is taken for another: all their pixels in the image
// have the same wrong label. Labels from first to classes are those of objects.
func mistaken(labels func(image int32, canvas []uint8, side int) error, first, classes int, share float64, seed uint64) func(int32, []uint8, int) error {
	return func(image int32, canvas []uint8, side int) (err error) {
		defer try.Handle(&err)
		try.E(labels(image, canvas, side))
		rng := rand.New(rand.NewPCG(seed, uint64(image)))
		taken, objects := lo.RangeFrom[uint8](0, 1+classes), 1+classes-first
		for class := first; class <= classes; class++ {
			wrong, by := rng.Float64() < share, rng.IntN(max(1, objects-1))
			if wrong {
				taken[class] = uint8(first + (class-first+1+by)%objects)
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

// teacherSeed is by how much the seed of a third encoder exceeds the seed of its run.
const teacherSeed = 1000

// Run trains, measures and records a cell, or trains what the cells of a seed begin from. A training takes a minute, so it writes no checkpoints.
func (w worker) Run(r *run) (err error) {
	defer try.Handle(&err)
	c, s, seed, details := r.Cell.Config, stage(r.Cell), uint64(r.Cell.Seed), map[string]float64{}
	try.E(w.SetData(r.Data.of(c.Condition, r.Cell.Seed)))
	try.E(w.Configure(s.Config))
	left := "" // The file that others begin from.
	if makes(r.Cell) {
		left = r.Dir + ".safetensors"
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if s.Name == teacherPath {
			seed += teacherSeed
		}
	}
	if left != "" || c.Loss == lossUntrained {
		try.E(w.Begin(seed))
	} else {
		files := []string{c.Init, c.TeacherFile}
		for i, needed := range needs(r.Cell) {
			files[i] = filepath.Join(r.Root(), folder(r.Data, needed)+".safetensors")
		}
		try.E(w.BeginFrom(files[0], seed))
		if c.Teacher == fromFile || c.Teacher > 0 {
			try.E(w.SetTeacher(files[1]))
		}
		maps.Copy(details, recipe.Correspondences(try.E1(w.Correspondences(r.Context))))
	}
	for phase := progress.Compiling; !s.Untrained && w.Done() < w.Steps(); phase = progress.Training {
		r.Phase(phase)
		r.Step("%s", recipe.Describe(try.E1(w.Step(r.Context))))
	}
	r.Phase(progress.Measuring)
	if left != "" {
		return w.Save(left, "")
	}
	if !s.Untrained {
		details["lambda"] = w.Lambdas().PatchConcentration
	}
	if c.concentrates() {
		lengths := try.E1(w.Diagnostics(r.Context)).Lengths
		details["share_at_end"] = w.Lambdas().PatchConcentration * lengths.PatchConcentration / lengths.PatchAlignment
	}
	numbers := try.E1(recipe.MeasureAll(r.Context, &evaluation.Encoder{FeatureExtractor: w.Frozen, Seed: seed}, r.Data.measures(c)))
	for i := range numbers {
		n := &numbers[i]
		maps.Copy(details, n.Details)
		n.Row, n.Details = c.row(), details
		if c.photographs() {
			n.Protocol += ", online branch"
		}
	}
	return r.Record(numbers...)
}

// measures measure recall over patches of photographs, or segment drawn scenes.
func (d data) measures(c Config) []recipe.Measure {
	if c.photographs() {
		return d.RecallMeasures(c.Recall, c.Probe)
	}
	n := study.Number{Column: recipe.ColumnMIoU, Metric: "mIoU", Unit: "%", Protocol: fmt.Sprintf(
		"linear probe of the online branch's patch features on scenes, %d steps of %d patches, background a class, logits resized to the annotation", c.Probe.Steps, c.Probe.Batch)}
	read := func(numbers []study.Number, result evaluation.Result) error {
		columns := result.Numbers[0].Details
		numbers[0].Value, numbers[0].Details = columns[maintable.ColumnMIoU], map[string]float64{"accuracy": columns[maintable.ColumnAccuracy]}
		return nil
	}
	return []recipe.Measure{{Evaluation: evaluation.MainTable{Patch: c.Probe}, Images: evaluation.Data{Scenes: d.Scenes}, Numbers: []study.Number{n}, Read: read}}
}
