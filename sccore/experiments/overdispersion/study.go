// Package overdispersion is the experiment of Fig. over-disp: does aligning patches alone disperse their features as training goes on, and does
// concentration prevent it?
//
// In go synthetic scenes, photographs of PASCAL VOC in the real profile, or of COCO in full, and the two lines of the ablation that differ in patch concentration alone, both from one
// encoder. Out come records of how dense and image quality change along training, with curves, a table, the figure and claim C19. On photographs recall over patches
// stands for both, of a linear probe and of nearest neighbours, and on COCO linear segmentation. The figure's second half, mis-segmentation, is drawn by the experiment transfer from the
// encoders that the lines leave: --set weights.line2=FILE --set weights.line5=FILE.
package overdispersion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Name is the experiment's name.
const Name = "over-dispersion"

// rows are the rows of the records, lines of the ablation: patch alignment alone, and with patch concentration.
var rows = []struct {
	row, short string // short is the name in figures.
	line       sccore.Ablation
}{{"2", "alignment", sccore.Ablations[1]}, {"5", "and concentration", sccore.Ablations[4]}}

// columnContrast is the column of how much more similar patches of one class are than patches of two.
const columnContrast = "contrast"

// quality is what becomes better or worse along training. Its column has the value at the end, and another one the slope over the last third.
type quality struct{ column, evaluated, metric, title string }

func (q quality) slope() string { return q.column + " per 100 epochs" }

// measured are the points of a curve at which it was evaluated.
func (q quality) measured(points []sccore.StepMetrics) []sccore.StepMetrics {
	return lo.Filter(points, func(p sccore.StepMetrics, _ int) bool { return lo.HasKey(p.Evaluated, q.evaluated) })
}

// qualities are the qualities of patches and of images; on photographs both are of patches, by recall, or on COCO by segmentation.
func qualities(c recipe.Config) [2]quality {
	switch {
	case segments(c):
		return [2]quality{
			{"mIoU", "segmentation/miou", "mIoU", "linear segmentation, mIoU (%)"}, {"pixel accuracy", "segmentation/accuracy", "pixel accuracy", "linear segmentation, pixel accuracy (%)"},
		}
	case c.Recall.Size > 0:
		return [2]quality{{"recall", "recall/linear", "recall", "linear recall of patches (%)"}, {"k-NN recall", "recall/k-NN", "recall", "k-NN recall of patches (%)"}}
	}
	return [2]quality{{"mIoU", "probe/miou", "mIoU", "linear segmentation, mIoU (%)"}, {"k-NN", "knn/accuracy", "k-NN accuracy", "k-NN accuracy (%)"}}
}

// segments reports whether linear segmentation of COCO measures the lines: in the full profile.
func segments(c recipe.Config) bool { return c.Shares > 0 && c.Recall.Size == 0 }

// columns are the columns of the records.
func columns(c recipe.Config) []string {
	q := qualities(c)
	return []string{q[0].slope(), q[1].slope(), q[0].column, q[1].column, columnContrast}
}

// start is the cell that both lines begin from: the first stage of the experiment pretrain. It has no row.
const start = "start"

// profileConfig returns the configuration of a profile before --set.
func profileConfig(profile study.Profile) recipe.Config {
	c := study.Configured(Name, recipe.ProfileConfig(profile, profile == study.Full), string(profile))
	recipe.FollowSteps(&c.Second, study.Options{Profile: profile})
	return c
}

// onPhotographs reports whether a profile is for photographs.
func onPhotographs(profile study.Profile) bool { return profile == study.Real || profile == study.Full }

func cells(o study.Options, dataset string) (cells []study.Cell[recipe.Config], err error) {
	defer try.Handle(&err)
	c, photographs := profileConfig(o.Profile), onPhotographs(o.Profile)
	try.E(c.Configure(o, &c, photographs))
	for _, row := range rows {
		if err := settings.Check(row.line.Config(c.Second)); err != nil {
			return nil, fmt.Errorf("line %s: second.%w", row.row, err)
		}
	}
	if c.Init != "" && !photographs {
		return nil, errors.New("init: both lines begin from the first stage of this experiment")
	}
	const least = 6 // The last third of so many evaluations has a slope.
	if c.EvaluateEvery < 1 || c.Second.Steps < least*c.EvaluateEvery {
		return nil, fmt.Errorf("evaluate_every %d: want 1 to %d, for at least %d evaluations in %d steps", c.EvaluateEvery, c.Second.Steps/least, least, c.Second.Steps)
	}
	seeds := study.Seeds(Name, o)
	try.E(study.CheckSeeds(seeds, c.Shares))
	for seed := range seeds {
		cell := study.Cell[recipe.Config]{Dataset: dataset, Path: []string{start}, Seed: seed, Config: c}
		if c.Init == "" {
			cells = append(cells, cell)
		}
		for _, row := range rows {
			cell.Path, cell.Row = []string{"line" + row.row}, row.row
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// Study is the experiment.
var Study = training.Spec(study.Spec[recipe.Config, recipe.Data]{
	Name:      Name,
	Parts:     []string{"line", "seed"},
	DataBySet: true,
	Datasets: func(o study.Options) (names, missing []string, err error) {
		if onPhotographs(o.Profile) {
			return recipe.DatasetNames(o)
		}
		if o.Data != "" {
			return nil, nil, datasets.Missing(fmt.Sprintf("%s draws its images in the %s profile: leave out --data", Name, o.Profile))
		}
		return []string{""}, nil, nil
	},
	Cells: cells,
	Open: func(o study.Options, _ string, cells []study.Cell[recipe.Config]) (recipe.Data, error) {
		c := cells[0].Config
		d, err := recipe.Open(o, c, cells[0].Seed)
		if err == nil && c.Recall.Size > 0 {
			d.ID = d.RecallMeasures(c.Recall, c.Probe)[0].Numbers[0].Data // With the images that are measured on.
		} else if err == nil && segments(c) {
			var coco evaluation.Data
			coco, err = evaluation.Source{Dir: o.Data, Dataset: "coco"}.Segmentation(datasets.Train, datasets.Test)
			d.Train.Objects, d.Annotated = nil, [2]*datasets.Segmentation{coco.Train, coco.Test}
			d.ID += "; measured on " + coco.ID
		}
		return d, err
	},
	Numbers: func(_ recipe.Data, c study.Cell[recipe.Config]) []study.Number {
		if c.Row == "" {
			return nil
		}
		return lo.Map(columns(c.Config), func(column string, _ int) study.Number { return study.Number{Row: c.Row, Column: column} })
	},
	Needs: func(c study.Cell[recipe.Config]) []study.Cell[recipe.Config] {
		if c.Row == "" || c.Config.Init != "" {
			return nil
		}
		c.Path, c.Row = []string{start}, ""
		return []study.Cell[recipe.Config]{c}
	},
	Folder: func(d recipe.Data, c study.Cell[recipe.Config]) string { // The cells of a seed share a folder.
		return filepath.Join("cells", fmt.Sprintf("seed%d-%s", c.Seed, study.Hash(study.EncodeConfig(c.Config), []byte(d.Identity()))), c.Path[0])
	},
	Ran: func(c study.Cell[recipe.Config]) (ran recipe.Config, derived bool) {
		ran = c.Config
		if derived = c.Row != ""; derived {
			ran.Second = stage(c).Config
		}
		return ran, derived
	},
	Common: recipe.Common,
	ProfileConfig: func(r study.Record, config recipe.Config) recipe.Config {
		c := profileConfig(r.Profile)
		if onPhotographs(r.Profile) {
			c.Init = config.Init
		}
		return c
	},
	AcrossColumns: true,
	Tables: func(results study.Results) []figures.Table {
		return []figures.Table{study.TableOf(Name, string(results.Profile)).Of(results)}
	},
	Figures: func(results study.Results, from study.FigureSources, all *study.Drawn) {
		figure, err := Figure(results, from.Out)
		all.Add(figure, err, "Both measures of the table along training, and how much more similar patches of one class are than those of two: Fig. over-disp.", "over-dispersion")
	},
})

// run is a running cell.
type run = study.Run[recipe.Config, recipe.Data]

// training is how cells train: the start without evaluations, and the lines from it.
var training = recipe.Cells[recipe.Config, recipe.Data]{
	Stage: stage,
	Base: func(r *run) (recipe.Data, recipe.Config) {
		c := r.Cell.Config
		if r.Cell.Row == "" {
			c.EvaluateEvery, c.GradientsEvery = 0, 0
		}
		return r.Data, c
	},
	Evaluators: func(r *run, t *recipe.Trainer) []train.Evaluator {
		c, seed, d := r.Cell.Config, uint64(r.Cell.Seed), r.Data
		encoder := &evaluation.Encoder{FeatureExtractor: t.Frozen, Seed: seed}
		dispersed := train.Evaluator{Name: "dispersion", Every: c.EvaluateEvery, Evaluate: func(ctx context.Context) (_ map[string]float64, err error) {
			defer try.Handle(&err)
			if d.Annotated[0] == nil {
				encoded := try.E1(evaluation.Encode(ctx, t.Frozen, d.Scenes[1].Images, c.Size, dispersedScenes, true))
				return similarities(patchesOf(encoded, d.Scenes[1]))
			}
			sample := evaluation.PatchSample{Images: dispersedPhotographs, PerImage: 16, Size: cmp.Or(c.Recall.Size, c.Size)}
			return similarities(try.E1(sample.Draw(ctx, t.Frozen, d.Annotated[1], seed)).Dispersion(d.Annotated[1].HasBackground()))
		}}
		switch {
		case r.Cell.Row == "":
			return nil
		case d.Annotated[0] == nil:
			return []train.Evaluator{dispersed}
		case segments(c):
			coco := evaluation.Data{Train: d.Annotated[0], Test: d.Annotated[1]}
			return []train.Evaluator{evaluation.During(c.EvaluateEvery, "segmentation", segmentation(c), encoder, coco), dispersed}
		}
		recall := train.Evaluator{Name: "recall", Every: c.EvaluateEvery, Evaluate: func(ctx context.Context) (map[string]float64, error) {
			numbers, err := recipe.MeasureAll(ctx, encoder, d.RecallMeasures(c.Recall, c.Probe))
			values := map[string]float64{}
			for i, n := range numbers {
				values[[]string{"linear", "k-NN", "foreground"}[i]] = n.Value
			}
			return values, err
		}}
		return []train.Evaluator{recall, dispersed}
	},
	Record: record,
}

// stage is what a cell trains: a line, or what both begin from.
func stage(c study.Cell[recipe.Config]) recipe.Stage {
	for _, row := range rows {
		if c.Row == row.row {
			return c.Config.Stage(c.Path[0], row.line.Config(c.Config.Second), filepath.Join(start, recipe.FinalFile))
		}
	}
	return recipe.Stage{Name: start, Config: c.Config.First}
}

// segmentation is the linear segmentation of Tab. main, with no larger a batch than the training's.
func segmentation(c recipe.Config) evaluation.Evaluation {
	p := evaluation.DefaultSegmentationProbe()
	p.Batch = min(p.Batch, c.Second.Batch)
	return p
}

// record records what became of a line's encoder along its training.
func record(r *run, t *recipe.Trainer) (err error) {
	defer try.Handle(&err)
	c := r.Cell.Config
	if r.Cell.Row == "" {
		return nil
	}
	points := try.E1(study.ReadCurve[sccore.StepMetrics](filepath.Join(r.Dir, recipe.CurveFile)))
	train := r.Data.Train
	objects, scenes := datasets.PerBatch(c.Second.Batch, train.Objects, train.Scenes)
	epoch := float64(cmp.Or(train.Scenes, train.Objects).Len()) / float64(cmp.Or(scenes, objects))
	numbers, err := summary(points, epoch, qualities(c))
	if err != nil {
		return fmt.Errorf("%s: %w", r.Cell.Name(), err)
	}
	gate := map[string]float64{}
	try.E(recipe.AddGate(r.Dir, gate))
	curve, err := r.Path(recipe.CurveFile)
	protocol := lo.Ternary(segments(c), segmentation(c).Protocol(), "linear probe and k-NN of frozen features")
	if c.Recall.Size > 0 { // The curve has no counts of images.
		encoder := &evaluation.Encoder{FeatureExtractor: t.Frozen, Seed: uint64(r.Cell.Seed)}
		atEnd := try.E1(recipe.MeasureAll(r.Context, encoder, r.Data.RecallMeasures(c.Recall, c.Probe)))
		for i, n := range atEnd[:2] {
			numbers[2+i].Value, numbers[2+i].Images = n.Value, n.Images
		}
	}
	for i := range numbers {
		if numbers[i].Details == nil {
			numbers[i].Details = gate
		}
		numbers[i].Row, numbers[i].Curve = r.Cell.Row, curve
		numbers[i].Protocol += fmt.Sprintf("; %s every %d steps, online branch", protocol, c.EvaluateEvery)
	}
	return cmp.Or(err, r.Record(numbers...))
}

// summary makes the numbers of a training from its curve. epoch is the number of steps in which the scenes are seen once.
func summary(points []sccore.StepMetrics, epoch float64, qualities [2]quality) (numbers []study.Number, err error) {
	points = qualities[0].measured(points)
	steps := lo.Map(points, func(p sccore.StepMetrics, _ int) float64 { return float64(p.Step) })
	// The first evaluation in the last third.
	last := max(0, slices.IndexFunc(steps, func(step float64) bool { return step >= 2*steps[len(steps)-1]/3 }))
	if len(steps)-last < 2 {
		return nil, fmt.Errorf("%d evaluations in the last third of training, want at least 2", len(steps)-last)
	}
	slope := func(name string) float64 {
		values := lo.Map(points[last:], func(p sccore.StepMetrics, _ int) float64 { return p.Evaluated[name] })
		_, perStep := stat.LinearRegression(steps[last:], values, nil, false)
		return 100 * perStep * epoch
	}
	final := func(name string) float64 { return points[len(points)-1].Evaluated[name] }
	const overLast = "slope of the straight line through the evaluations in the last third of training; an epoch is once through the scenes"
	for _, q := range qualities {
		numbers = append(numbers, study.Number{Column: q.slope(), Metric: "slope of " + q.metric, Unit: "points per 100 epochs", Value: slope(q.evaluated), Protocol: overLast})
	}
	for _, q := range qualities {
		numbers = append(numbers, study.Number{Column: q.column, Metric: q.metric, Unit: "%", Value: final(q.evaluated), Protocol: "at the end"})
	}
	return append(numbers, study.Number{
		Column: columnContrast, Metric: "similarity of patches of one class minus that of two", Value: final(evaluatedClass) - final(evaluatedOther),
		Details:  map[string]float64{"instance": final(evaluatedInstance), "class": final(evaluatedClass), "other": final(evaluatedOther)},
		Protocol: "mean cosine of patch features of test scenes at the end: of different objects of a class, minus of two classes",
	}), nil
}

// Names of evaluated values in curves.
const (
	evaluatedInstance = "dispersion/instance"
	evaluatedClass    = "dispersion/class"
	evaluatedOther    = "dispersion/other"
)

// dispersedScenes and dispersedPhotographs are the numbers of images whose patches are compared.
const (
	dispersedScenes      = 32
	dispersedPhotographs = 128
)

// similarities are the mean similarities of patches on objects: of one object, of two objects of a class, and of two classes. On photographs the image stands for the
// object.
func similarities(patches dispersion.Patches) (map[string]float64, error) {
	similarity, _, err := patches.Measure(1)
	if err == nil && min(similarity.InstancePairs, similarity.ClassPairs, similarity.InterClassPairs) == 0 {
		err = fmt.Errorf("%d, %d and %d pairs of patches of one object, of one class and of two", similarity.InstancePairs, similarity.ClassPairs, similarity.InterClassPairs)
	}
	return map[string]float64{"instance": similarity.Instance, "class": similarity.Class, "other": similarity.InterClass}, err
}

// patchesOf labels patches by the pixel in their middle. Patches of no object are left out.
func patchesOf(encoded evaluation.Encoded, scenes *synthetic.Set) dispersion.Patches {
	count := len(encoded.Patches) / encoded.Dim
	values := lo.Map(encoded.Patches, func(x float32, _ int) float64 { return float64(x) })
	p := dispersion.Patches{Features: mat.NewDense(count, encoded.Dim, values)}
	places := encoded.Rows * encoded.Columns
	for i := range count {
		image, row, column := i/places, i%places/encoded.Columns, i%encoded.Columns
		y, x := (2*row+1)*scenes.Height/(2*encoded.Rows), (2*column+1)*scenes.Width/(2*encoded.Columns)
		at := (image*scenes.Height+y)*scenes.Width + x
		p.Class = append(p.Class, int(scenes.ClassMask[at])-1)
		p.Instance = append(p.Instance, 256*image+int(scenes.InstanceMask[at]))
	}
	return p
}

// Figure draws both panels of Fig. over-disp, dense and image quality along training, and beside them how much more similar patches of one class are than
// patches of two: means over seeds, from the curves that records below out name. Without records it is an error.
func Figure(r study.Results, out string) (_ figures.CurvesRow, err error) {
	defer try.Handle(&err)
	q, patches := qualities(profileConfig(r.Profile)), "patches"+figures.OnImages[r.Kinds()[0].Kind]
	f := figures.CurvesRow{
		{Title: patches, X: "step", Y: q[0].title},
		{Title: lo.Ternary(r.Kinds()[0].Kind == figures.Real, patches, "images"), X: "step", Y: q[1].title},
		{Title: fmt.Sprintf("similarity, %s profile", r.Profile), X: "step", Y: "cosine, one class − two classes"},
	}
	for _, row := range rows {
		along := map[int]*[3][]float64{} // By step, the values of each panel.
		for _, record := range r.Of(row.row, q[0].column) {
			points := try.E1(study.ReadCurve[sccore.StepMetrics](record.File(out, record.Curve)))
			for _, p := range q[0].measured(points) {
				if along[p.Step] == nil {
					along[p.Step] = new([3][]float64)
				}
				for panel, value := range []float64{p.Evaluated[q[0].evaluated], p.Evaluated[q[1].evaluated], p.Evaluated[evaluatedClass] - p.Evaluated[evaluatedOther]} {
					along[p.Step][panel] = append(along[p.Step][panel], value)
				}
			}
		}
		for _, step := range slices.Sorted(maps.Keys(along)) {
			for panel := range f {
				figures.AddPoint(&f[panel].Series, row.short, float64(step), stats.MeanInterval(along[step][panel]).Mean)
			}
		}
	}
	if f[0].Series == nil {
		return nil, fmt.Errorf("no records of %s in the %s profile", Name, r.Profile)
	}
	return f, nil
}
