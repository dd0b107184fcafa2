// Package effectaug is the augmentation study (Tab. effect_aug and effect_aug_full). It measures how the k-NN accuracy of four image-level methods
// depends on the transformations that make their views, and on whether the views show different positions.
package effectaug

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// Name is the experiment's name.
const Name = augmentation.Study

// untrained is the row of encoders with their initial weights, above which a training must come.
const untrained = "untrained"

// Study is the experiment.
var Study = study.Spec[augmentation.Config, augmentation.Data]{
	Name:     Name,
	Random:   untrained,
	Parts:    []string{"dataset", "method", "row", "seed"},
	Datasets: augmentation.DatasetNames,
	Cells:    cells,
	Open: func(o study.Options, dataset string, cells []study.Cell[augmentation.Config]) (_ augmentation.Data, err error) {
		defer try.Handle(&err)
		try.E(study.CheckShared(cells, "shares"))
		return augmentation.Open(o, dataset, cells[0].Config.Shares, cells[0].Seed)
	},
	Numbers: func(d augmentation.Data, c study.Cell[augmentation.Config]) []study.Number {
		return []study.Number{{Row: c.Path[2], Column: augmentation.Column(d.Title(), c.Config.Method)}}
	},
	Steps: func(d augmentation.Data, c study.Cell[augmentation.Config]) int {
		if c.Path[2] == untrained {
			return 0
		}
		return c.Config.Epochs * (max(c.Config.EpochImages, d.Train.Len()-d.Train.HeldOut(c.Config.Validation)) / c.Config.Batch)
	},
	NewWorker: func(r *run) (_ study.Worker[augmentation.Config, augmentation.Data], err error) {
		defer try.Handle(&err)
		c := r.Cell.Config
		d := try.E1(heldOut(r.Data, c.Validation))
		trainer, err := methods.NewTrainer(r.Backend(), d.Train.Repeat(c.EpochImages), c.Config)
		return worker{trainer}, err
	},
	Shares: func(c study.Cell[augmentation.Config]) string {
		return fmt.Sprintf("%s %+v", c.Dataset, c.Config.Config)
	},
	ProfileConfig: augmentation.Defaults,
	Common:        func(config, _ augmentation.Config) augmentation.Config { return config.Base() },
	Tables:        tables,
	Figures: func(r study.Results, _ study.FigureSources, all *study.Drawn) {
		for _, dataset := range augmentation.Datasets(r) {
			all.Add(CropDrop(r, dataset), nil,
				"k-NN accuracy that each method loses when its views no longer show different positions of the image. Filled: ours; hollow: the paper's, grey on another dataset.", "crop-drop", dataset)
			all.Add(Richness(r, dataset), nil,
				"k-NN accuracy by the number of transformations, with independent crops. Filled: ours; hollow: the paper's, grey on another dataset.", "richness", dataset)
		}
	},
}

// cells lists the cells of a profile in the order in which they run: all rows of a method with one seed before the next seed, so that the results of an
// interrupted study are comparable.
func cells(o study.Options, dataset string) (cells []study.Cell[augmentation.Config], err error) {
	defer try.Handle(&err)
	rows, seeds := augmentation.Rows, study.Seeds(Name, o)
	switch o.Profile {
	case study.Quick: // The rows that the claims compare.
		rows = append(rows[:5:5], augmentation.NoCrop, augmentation.SameCrop)
	case study.Smoke:
		rows = []augmentation.Row{augmentation.AllCrops, augmentation.NoCrop}
	}
	for _, method := range methods.Names {
		config := augmentation.ProfileConfig(o.Profile, method, !augmentation.Drawn(dataset))
		// "simclr.rate=0.1" is for one method, "rate=0.1" for all.
		try.E(settings.Apply(&config, settings.For(o.Set, method, methods.Names)...))
		if config.Method != method {
			return nil, fmt.Errorf("--set method=%s: choose methods with --only '*/%s/*/*'", config.Method, config.Method)
		}
		if config != config.Base() {
			return nil, errors.New("--set recipe: the rows switch the transformations; choose rows with --only '*/*/ROW/*'")
		}
		try.E(settings.Check(config))
		if augmentation.Drawn(dataset) && config.Shares != 0 {
			return nil, errors.New("shares: synthetic images are drawn for each seed")
		}
		try.E(study.CheckSeeds(seeds, config.Shares))
		for seed := range seeds {
			cell := study.Cell[augmentation.Config]{Dataset: dataset, Seed: seed}
			for _, row := range rows {
				cell.Path, cell.Config = []string{dataset, method, string(row)}, config
				cell.Config.Recipe = row.Recipe(config.Recipe)
				cells = append(cells, cell)
			}
			cell.Path, cell.Config = []string{dataset, method, untrained}, config
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// heldOut puts a share of the training images in place of the test images; training and neighbours do without them. Share 0 changes nothing.
func heldOut(d augmentation.Data, share float64) (augmentation.Data, error) {
	if share > 0 {
		all := d.Train
		if d.Train, d.Test = all.HoldOut(share); d.Test.Len() == 0 {
			return d, fmt.Errorf("validation %g holds out none of the %d training images of %s", share, all.Len(), all.Name)
		}
	}
	return d, nil
}

// curveFile is the curve in a cell's folder.
const curveFile = "curve.jsonl"

// run is a running cell.
type run = study.Run[augmentation.Config, augmentation.Data]

// worker trains the cells of one method with one compiled step.
type worker struct{ *methods.Trainer }

// runState is the state of a run that its checkpoints hold beside the trainer's.
type runState struct {
	Points  []study.Point `json:"points"`
	Seconds float64       `json:"seconds"`
	Backend string        `json:"backend"` // The backend of the last step.
}

// Run trains a cell, records it and saves its weights, or records the initial weights of its seed.
func (w worker) Run(r *run) (err error) {
	defer try.Handle(&err)
	c := r.Cell.Config
	d := try.E1(heldOut(r.Data, c.Validation))
	try.E(w.SetImages(d.Train.Repeat(c.EpochImages)))
	var h runState
	begun, before := time.Now(), 0.0
	try.E(w.Begin(c.Recipe, uint64(r.Cell.Seed)))
	if r.Cell.Path[2] == untrained {
		evaluated := try.E1(w.evaluate(r, d))
		return record(r, study.Number{
			Value: evaluated["accuracy"], Details: map[string]float64{"feature_std": evaluated["feature_std"], "effective_rank": evaluated["effective_rank"]},
		})
	}
	loop := train.Loop[float64]{
		Trainer: w.Trainer,
		Note:    &h,
		Resumed: func(int) {
			before = h.Seconds
			if h.Backend != backend.Name() {
				r.Warnf("%s resumes on %s after %s: its results will differ from a run on either backend alone", r.Cell.Name(), backend.Name(), h.Backend)
			}
		},
		Evaluators: []train.Evaluator{{Name: "knn", Every: c.EvaluateEvery * w.StepsPerEpoch(), Evaluate: func(context.Context) (map[string]float64, error) {
			return w.evaluate(r, d)
		}}},
	}
	loop.After = func(loss float64, evaluated map[string]float64) error {
		h.Seconds, h.Backend = before+time.Since(begun).Seconds(), backend.Name()
		note := fmt.Sprintf("loss %.3f", loss)
		if w.Done()%w.StepsPerEpoch() == 0 {
			p := study.Point{Step: w.Done(), Epoch: float64(w.Done() / w.StepsPerEpoch()), Loss: w.EpochLoss(), LearningRate: w.LearningRate(w.Done() - 1)}
			if evaluated != nil {
				p.Evaluated, p.KNN, p.FeatureStd, p.EffectiveRank = true, evaluated["knn/accuracy"], evaluated["knn/feature_std"], evaluated["knn/effective_rank"]
				note += fmt.Sprintf("  k-NN %.1f %%", p.KNN)
			}
			h.Points = append(h.Points, p)
			if err := study.WriteCurve(filepath.Join(r.Dir, curveFile), h.Points); err != nil {
				return err
			}
			if watch := r.Options().Watch; watch != nil {
				watch(r.Cell.Name(), slices.Clone(h.Points))
			}
		}
		r.Step("%s", note)
		return nil
	}
	try.E(study.Train(r, &loop))
	// A run that is killed between weights, record and the end of its checkpoints repeats only the rest.
	metadata := map[string]string{"run": r.Cell.Name(), "config": string(study.EncodeConfig(c))}
	try.E(w.SaveOnline(filepath.Join(r.Dir, augmentation.WeightsFile), metadata))
	curve := try.E1(r.Path(curveFile))
	last := h.Points[len(h.Points)-1]
	try.E(record(r, study.Number{Value: last.KNN, Curve: curve, Seconds: h.Seconds, Details: map[string]float64{
		"loss": last.Loss, "feature_std": last.FeatureStd, "effective_rank": last.EffectiveRank, "images_per_second": float64(w.Steps()*c.Batch) / h.Seconds,
	}}))
	return loop.Clean()
}

// evaluate measures frozen features: k-NN accuracy on the test images, or on those held out, and the standard deviation and effective rank of training features.
func (w worker) evaluate(r *run, d augmentation.Data) (_ map[string]float64, err error) {
	defer try.Handle(&err)
	features, dim := try.E2(w.Features(d.Train))
	queries, _ := try.E2(w.Features(d.Test))
	from := knn.Labelled{Features: features, Dim: dim, Labels: d.Train.Labels, Classes: len(d.Train.Classes)}
	ranked := try.E1(r.Cell.Config.KNN.Rank(r.Backend(), from, queries, 1))
	spread, err := metrics.MeasureSpread(features, dim)
	return map[string]float64{
		"accuracy": metrics.TopKAccuracy(ranked, d.Test.Labels, 1), "feature_std": spread.Std, "effective_rank": spread.Rank,
	}, err
}

// record records the k-NN accuracy of a cell.
func record(r *run, n study.Number) error {
	c := r.Cell.Config
	n.Row, n.Column, n.Metric, n.Unit = r.Cell.Path[2], augmentation.Column(r.Data.Title(), c.Method), "k-NN accuracy", "%"
	n.Protocol = fmt.Sprintf("weighted k-NN, K %d, temperature %g, cosine, backbone features of un-augmented images, training images as neighbours", c.KNN.K, c.KNN.Temperature)
	if c.Validation > 0 {
		n.Protocol += fmt.Sprintf(", on held-out training images: %g of each class", c.Validation)
	}
	return r.Record(n)
}

// printed lists the rows of one of the paper's tables. The excerpt has no column for the flip, which none of its rows uses.
func printed(table string) []study.Row {
	return lo.Map(figures.MustPaper(table).Rows, func(row figures.PaperRow, _ int) study.Row {
		heads := append(slices.Clone(row.Heads), "")[:5]
		i := slices.IndexFunc(augmentation.Rows, func(r augmentation.Row) bool { return slices.Equal(r.Heads(), heads) })
		return study.Row{Key: string(augmentation.Rows[i]), Heads: row.Heads}
	})
}

// tables returns the paper's full table, its excerpt in the main text, and one table for each dataset that the paper does not have.
func tables(r study.Results) (tables []figures.Table) {
	const full, excerpt = "effect_aug_full", "effect_aug"
	paper := figures.MustPaper(full)
	shown := []study.Table{{Title: "Tab. " + full, Paper: full, Rows: printed(full)}, {Title: "Tab. " + excerpt, Paper: excerpt, Rows: printed(excerpt)}}
	for _, dataset := range augmentation.Datasets(r) {
		t := study.Table{Title: fmt.Sprintf("Tab. %s on %s, which the paper does not have", full, dataset), RowHeads: paper.RowHeads, Rows: printed(full)}
		t.Columns = study.Columns("", lo.Map(methods.Names, func(method string, _ int) string { return augmentation.Column(dataset, method) })...)
		if !slices.Contains(paper.Columns, t.Columns[0].Head) {
			shown = append(shown, t)
		}
	}
	for _, t := range shown {
		t.Caption, t.Unit = "k-NN accuracy of frozen features under different transformations.", "%"
		made := t.Of(r)
		addUntrained(r, &made)
		if slices.ContainsFunc(made.Columns, func(column string) bool {
			return slices.ContainsFunc(r.Changed(column), func(setting string) bool { return strings.HasPrefix(setting, "validation=") })
		}) {
			made.Caption += " Numbers with validation are on held-out training images, not on test images."
		}
		tables = append(tables, made)
	}
	return tables
}

// addUntrained adds the row of encoders that have not been trained, if there are records of any. Such a row needs a head of its own: without a switch on,
// it would look like one without transformations.
func addUntrained(r study.Results, t *figures.Table) {
	if !r.Recorded(untrained, t.Columns...) {
		return
	}
	row := figures.Row{Heads: append([]string{untrained}, make([]string, len(t.RowHeads))...)}
	row.Cells = lo.Map(t.Columns, func(column string, _ int) figures.Cell { return r.Cell(untrained, column) })
	t.RowHeads = append([]figures.RowHead{{Name: "encoder"}}, t.RowHeads...)
	for i := range t.Rows {
		t.Rows[i].Heads = append([]string{"trained"}, t.Rows[i].Heads...)
	}
	t.Rows = append(t.Rows, row)
}

// printedOn is the dataset whose printed numbers stand beside ours on a dataset, and what the legend calls them. It is CIFAR-10 where the paper does not have ours.
func printedOn(dataset string) (other, name string) {
	if slices.Contains(figures.MustPaper("effect_aug_full").Columns, augmentation.Column(dataset, methods.SimCLR)) {
		return dataset, "paper"
	}
	return "CIFAR-10", "paper, on CIFAR-10"
}

// CropDrop plots the accuracy that each method loses on a dataset without different positions, ours beside the paper's.
func CropDrop(r study.Results, dataset string) figures.Curves {
	paper := figures.MustPaper("effect_aug_full")
	on, name := printedOn(dataset)
	figure := figures.Curves{Title: fmt.Sprintf("%s, %s profile", dataset, r.Profile), Y: "drop in k-NN accuracy (points)", Points: true, Levels: []float64{0}, Shift: 0.13}
	for i, lost := range []struct {
		name string
		row  augmentation.Row
	}{{"no crop", augmentation.NoCrop}, {"same crop", augmentation.SameCrop}} {
		ours := figures.Series{Name: lost.name + ": ours, mean ± sd", Bars: figures.Deviations, Look: i + 1}
		printed := figures.Series{Name: lost.name + ": " + name, Hollow: true, Grey: on != dataset, Look: i + 1}
		for place, method := range methods.Names {
			column := augmentation.Column(dataset, method)
			ours.X, ours.Values = append(ours.X, float64(place)), append(ours.Values, r.Differences(column, string(augmentation.AllCrops), string(lost.row)))
			column = augmentation.Column(on, method)
			printed.Y = append(printed.Y, paper.Value(column, augmentation.AllCrops.Heads()...)-paper.Value(column, lost.row.Heads()...))
		}
		printed.X = ours.X
		figure.Series = append(figure.Series, ours, printed)
	}
	figure.Names = lo.Map(methods.Names, func(method string, _ int) string { return augmentation.Title(method) })
	return figure
}

// Richness plots accuracy on a dataset against the number of transformations, ours beside the paper's.
func Richness(r study.Results, dataset string) figures.Chart {
	paper, figure := figures.MustPaper("effect_aug_full"), figures.Chart{Title: fmt.Sprintf("%s, %s profile", dataset, r.Profile), Shared: true}
	on, name := printedOn(dataset)
	for _, method := range methods.Names {
		column := augmentation.Column(dataset, method)
		ours, printed := figures.Series{Name: "ours, mean ± sd", Bars: figures.Deviations}, figures.Series{Name: name, Hollow: true, Grey: on != dataset}
		for _, row := range augmentation.Rows {
			if row.Has("crop") {
				ours.X, ours.Values = append(ours.X, float64(row.Transformations())), append(ours.Values, r.Values(string(row), column))
				printed.Y = append(printed.Y, paper.Value(augmentation.Column(on, method), row.Heads()...))
			}
		}
		printed.X = ours.X
		panel := figures.Curves{Title: augmentation.Title(method), X: "transformations", Y: "k-NN accuracy (%)", Series: []figures.Series{ours, printed}}
		figure.Panels = append(figure.Panels, panel)
	}
	return figure
}

// Curve reads the curve of a recorded run on the first dataset that has it. A missing record is an error that names the run.
func Curve(r study.Results, out, method string, row augmentation.Row, seed int) ([]study.Point, error) {
	for _, dataset := range augmentation.Datasets(r) {
		if record, ok := r.OfSeed(string(row), augmentation.Column(dataset, method), seed); ok {
			return study.ReadCurve[study.Point](record.File(out, record.Curve))
		}
	}
	return nil, fmt.Errorf("no record of %s, row %s, seed %d in the %s profile", method, row, seed, r.Profile)
}

// Curves plots loss, k-NN accuracy and the effective rank of features, which shows collapse, against the epoch. title says of which run.
func Curves(title string, points []study.Point) figures.CurvesRow {
	var loss, knn, rank []figures.Series
	for _, p := range points {
		figures.AddPoint(&loss, "loss", p.Epoch, p.Loss)
		if p.Evaluated {
			figures.AddPoint(&knn, "k-NN accuracy", p.Epoch, p.KNN)
			figures.AddPoint(&rank, "effective rank", p.Epoch, p.EffectiveRank)
		}
	}
	return figures.CurvesRow{
		{Title: title, X: "epoch", Y: "loss", Series: loss}, {X: "epoch", Y: "k-NN accuracy (%)", Series: knn},
		{X: "epoch", Y: "effective rank of features", Series: rank},
	}
}

// TrainingImages returns the training images of a profile's first dataset and of seed 0, given the folder of the datasets.
func TrainingImages(profile study.Profile, dir string) (_ *datasets.Images, err error) {
	defer try.Handle(&err)
	o := study.Options{Profile: profile, Data: dir}
	names, _ := try.E2(augmentation.DatasetNames(o))
	return try.E1(augmentation.Open(o, names[0], 1, 0)).Train, nil
}

// Views draws one image and pairs of its views under each row of the table, as training sees them in the first epochs of the given seed.
func Views(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64) (figures.ImageGrid, error) {
	recipes := lo.Map(augmentation.Rows, func(row augmentation.Row, _ int) features.NamedRecipe {
		return features.NamedRecipe{Name: strings.ReplaceAll(string(row), "+", " + "), Recipe: row.Recipe(views.Default())}
	})
	sheet, err := features.ViewPairs(b, images, index, pairs, seed, recipes)
	sheet.Title = fmt.Sprintf("%s, image %d: pairs of views under each row of the table", images.Name, index)
	return sheet, err
}
