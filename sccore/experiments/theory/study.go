// Package theory measures the quantities of the paper's theorem on trained encoders, which the augmentation study leaves.
package theory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/theory"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "theory"

// Config is the configuration of a cell.
type Config struct {
	// Images is n, the number of training images per class, or the size of the smallest class if that is lower. Views is m, the number of views per image.
	Images int `json:"images" range:"[2,2^16]"`
	Views  int `json:"views" range:"[1,1024]"`
	// Thresholds is the number of values of δ_T and d_T that are searched; see theory.Features.Thresholds.
	Thresholds int `json:"thresholds" range:"[2,10000]"`
	// Trained is the hash of the configuration that trained the encoder.
	Trained string `json:"trained"`
}

// profileConfig returns a profile's configuration with --set applied.
func profileConfig(profile study.Profile, set ...string) (config Config, err error) {
	defer try.Handle(&err)
	config = study.Configured(Name, Config{}, string(profile))
	try.E(settings.Apply(&config, set...))
	const classes, bytesOfFeature = 10, 4 * 512 // CIFAR-10's; with more classes there are fewer images of each.
	what := fmt.Sprintf("images %d of views %d", config.Images, config.Views)
	return config, cmp.Or(settings.Check(config), settings.Fit(settings.MaxBytes, what, classes, config.Images, config.Views, bytesOfFeature))
}

// Study is the experiment.
var Study = study.Spec[Config, data]{
	Name:  Name,
	Parts: []string{"dataset", "method", "row", "seed"},
	Datasets: func(o study.Options) (names, missing []string, err error) { // Those with encoders.
		if _, err := profileConfig(o.Profile, o.Set...); err != nil {
			return nil, nil, study.BadOption{Err: err}
		}
		trained, err := trainedEncoders(o)
		return lo.Uniq(lo.Map(trained, func(r study.Record, _ int) string { return strings.Split(r.Cell, "/")[0] })), nil, err
	},
	Cells: cells,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (d data, err error) {
		defer try.Handle(&err)
		d.trained = lo.KeyBy(try.E1(trainedEncoders(o)), func(r study.Record) string { return r.Cell })
		var settings augmentation.Config
		try.E(d.trained[cells[0].Name()].DecodeConfig(&settings))
		d.Data, err = augmentation.Open(o, dataset, settings.Shares, cells[0].Seed)
		d.Unread = []string{} // The records of the encoders list the skipped files.
		return d, err
	},
	Numbers: func(d data, c study.Cell[Config]) []study.Number {
		r := d.trained[c.Name()]
		return []study.Number{{Row: r.Row, Column: r.Column}}
	},
	Steps:     func(data, study.Cell[Config]) int { return 1 },
	NewWorker: func(*study.Run[Config, data]) (study.Worker[Config, data], error) { return worker{}, nil },
	Folder: func(_ data, c study.Cell[Config]) string {
		return filepath.Join("cells", filepath.FromSlash(c.Name())+"-"+c.Hash())
	},
	ProfileConfig: func(r study.Record, config Config) Config {
		c, _ := profileConfig(r.Profile) // It is always in range.
		c.Trained = config.Trained
		return c
	},
	Common: func(config, _ Config) Config {
		config.Trained = "" // Row, method and seed identify the encoder.
		return config
	},
	Tables: tables,
	Figures: func(r study.Results, from study.FigureSources, all *study.Drawn) {
		for _, dataset := range augmentation.Datasets(r) {
			all.Add(Ladder(r, dataset), nil, "The error of the nearest class mean and the bounds on it, for each method and row.", "ladder", dataset)
			for _, views := range []struct{ name, title string }{{CommonViews, "the views of the first row"}, {OwnViews, "the views that each encoder was trained with"}} {
				all.Add(Concentration(r, dataset, views.name), nil, "Error by the mean similarity of features, on "+views.title+". A point is an encoder.", "concentration", views.name, dataset)
			}
			if method, seed, ok := first(r, dataset); ok {
				tails, err := Tails(r, from.Out, dataset, method, seed)
				all.Add(tails, err, "Mean tails p and q by their thresholds, for the encoders of "+augmentation.Title(method)+".", "tails", dataset)
			}
		}
	},
}

// cells lists one cell for each encoder of the augmentation study, in the order of the paper's table.
func cells(o study.Options, dataset string) (cells []study.Cell[Config], err error) {
	defer try.Handle(&err)
	config := try.E1(profileConfig(o.Profile, o.Set...))
	for _, r := range try.E1(trainedEncoders(o)) {
		if path := strings.Split(r.Cell, "/"); path[0] == dataset && (o.Seeds == 0 || r.Seed < o.Seeds) {
			config.Trained = r.ConfigHash
			cells = append(cells, study.Cell[Config]{Dataset: dataset, Path: path[:len(path)-1], Seed: r.Seed, Config: config})
		}
	}
	return cells, nil
}

// trainedEncoders returns the records of effect-aug, whose encoders are measured, in the order of the paper's table. Without any, the error says how to train
// some.
func trainedEncoders(o study.Options) (trained []study.Record, err error) {
	defer try.Handle(&err)
	results := try.E1(augmentation.Load(o))
	for _, method := range methods.Names {
		for _, row := range augmentation.Rows {
			for _, dataset := range augmentation.Datasets(results) {
				trained = append(trained, results.Of(string(row), augmentation.Column(dataset, method))...)
			}
		}
	}
	if len(trained) == 0 {
		return nil, fmt.Errorf("no trained encoder in %s in the %s profile; \"semcon run %s --profile %[2]s --out %[4]s\" trains some",
			study.Folder(o.Out, augmentation.Study), o.Profile, augmentation.Study, o.Out)
	}
	return trained, nil
}

// data holds a dataset and, by cell, the records of the encoders that were trained on it.
type data struct {
	augmentation.Data
	trained map[string]study.Record
}

// worker measures encoders. It compiles each architecture once.
type worker map[string]*methods.FeatureExtractor

// Close frees the device's memory.
func (w worker) Close() {
	for _, frozen := range w {
		frozen.Close()
	}
}

// tailsFile holds an encoder's curves of p_T and q_T.
const tailsFile = "tails.csv"

// The views that features are computed from.
const (
	OwnViews    = "own" // The views that the encoder was trained with.
	CommonViews = "all" // The views with all transformations, the same for every encoder.
)

// Run records the quantities of one encoder, on the views that it was trained with and on the views with all transformations.
func (w worker) Run(r *study.Run[Config, data]) (err error) {
	defer try.Handle(&err)
	trained, config := r.Data.trained[r.Cell.Name()], r.Cell.Config
	if trained.Data != r.Data.Identity() {
		return fmt.Errorf("the encoder was trained on other data than --data: %s", trained.Data)
	}
	var settings augmentation.Config
	try.E(trained.DecodeConfig(&settings))
	encoder := w[settings.Encoder]
	if encoder == nil {
		encoder = try.E1(methods.NewFeatureExtractor(r.Backend(), settings.Encoder, augmentation.ImageSize, config.Views))
		w[settings.Encoder] = encoder
	}
	file := trained.File(r.Options().Out, path.Join(path.Dir(trained.Curve), augmentation.WeightsFile))
	if err := encoder.Load(file); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: the encoder of this record does not exist any more", file)
	} else if err != nil {
		return err
	}
	train := r.Data.Train
	images := train.Subset(len(train.Classes) * min(config.Images, train.SmallestClass()))
	details, tails := map[string]float64{"knn_accuracy": trained.Value / 100}, &theory.TailsFile{}
	for _, name := range []string{OwnViews, CommonViews} {
		recipe := lo.Ternary(name == CommonViews, augmentation.AllCrops.Recipe(settings.Recipe), settings.Recipe)
		flat, dim := try.E2(encoder.Features(images, recipe, uint64(trained.Seed)))
		for _, form := range theory.Forms {
			f := try.E1(theory.NewFeaturesInForm(flat, dim, images.Labels, len(train.Classes), form))
			values, curves := try.E2(f.Quantities(config.Thresholds))
			for quantity, value := range values {
				details[name+"."+form+"."+quantity] = value
			}
			tails.Add(name, form, curves)
		}
	}
	try.E(atomicfile.WriteBytes(filepath.Join(r.Dir, tailsFile), tails.Bytes()))
	curve := try.E1(r.Path(tailsFile))
	r.Step("measured")
	return r.Record(study.Number{
		Row: trained.Row, Column: trained.Column, Metric: "nearest-mean error", Unit: "%", Value: 100 * details[OwnViews+"."+theory.BackboneForm+".error"],
		Protocol: fmt.Sprintf("backbone features of %d training images, the first of each class, %d views each; error of the nearest class mean on these views",
			images.Len(), config.Views),
		Details: details, Curve: curve,
	})
}

// detail is the name of a quantity on one kind of views among the details of records.
func detail(views, quantity string) string {
	return views + "." + theory.PrincipalForm + "." + quantity
}

// tables returns one table per method and dataset, with the theorem's quantities for each row of Tab. effect_aug_full.
func tables(r study.Results) (tables []figures.Table) {
	shown := study.TableOf(Name, "quantities")
	quantities := shown.Columns
	shown.RowHeads = figures.MustPaper("effect_aug_full").RowHeads
	shown.Rows = lo.Map(augmentation.Rows, func(row augmentation.Row, _ int) study.Row { return study.Row{Key: string(row), Heads: row.Heads()} })
	for _, dataset := range augmentation.Datasets(r) {
		for _, method := range methods.Names {
			shown.Title = augmentation.Column(dataset, method)
			shown.Columns = lo.Map(quantities, func(c study.Column, _ int) study.Column {
				return study.Column{Head: c.Head, From: []string{shown.Title}, Detail: detail(OwnViews, c.Detail), Factor: 100}
			})
			if t := shown.Of(r); len(t.Rows) > 0 {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// Ladder plots the true error and its bounds on a dataset, for each row and method.
func Ladder(r study.Results, dataset string) figures.Chart {
	figure := figures.Chart{Title: fmt.Sprintf("%s, %s profile, K principal axes of centred features", dataset, r.Profile), Shared: true}
	for _, method := range methods.Names {
		column := augmentation.Column(dataset, method)
		panel := figures.Curves{Title: augmentation.Title(method), Y: "error rate, or bound on it", Points: true, Levels: []float64{0, 1}, Shift: 0.12}
		panel.Names = lo.FilterMap(augmentation.Rows, func(row augmentation.Row, _ int) (string, bool) { return string(row), r.Recorded(string(row), column) })
		for i, rung := range study.TableOf(Name, "quantities").Columns[:5] {
			series := figures.Series{Name: rung.Head, Hollow: i > 0}
			for place, row := range panel.Names {
				series.X, series.Values = append(series.X, float64(place)), append(series.Values, r.Details(row, column, detail(OwnViews, rung.Detail)))
			}
			panel.Series = append(panel.Series, series)
		}
		if len(panel.Names) > 0 {
			figure.Panels = append(figure.Panels, panel)
		}
	}
	return figure
}

// Concentration plots an encoder's error on a dataset against the mean similarity of its features, for views of one image and for images of one class:
// a series per row, with a point per method and seed. [CommonViews] compares encoders on the same views, with which only the first row was trained;
// [OwnViews] measures each encoder on the views that it was trained with.
func Concentration(r study.Results, dataset, views string) (plots figures.CurvesRow) {
	title := lo.Ternary(views == CommonViews, "views of all five transformations", "each encoder's own views")
	for _, x := range []struct{ name, title string }{
		{"view_similarity", "mean similarity of views of an image"}, {"class_similarity", "mean similarity of images of a class"},
	} {
		plot := figures.Curves{Title: dataset + ", " + title, X: x.title, Y: "nearest-mean error", Points: true}
		for _, row := range augmentation.Rows {
			series := figures.Series{Name: "trained with " + string(row)}
			for _, method := range methods.Names {
				column := augmentation.Column(dataset, method)
				series.X = append(series.X, r.Details(string(row), column, detail(views, x.name))...)
				series.Y = append(series.Y, r.Details(string(row), column, detail(views, "error"))...)
			}
			if len(series.X) > 0 {
				plot.Series = append(plot.Series, series)
			}
		}
		plots = append(plots, plot)
	}
	return plots
}

// Tails plots p_T against δ_T and q_T against d_T for the encoders of one method and seed, a curve per row. It shows means over images, because the
// suprema over a thousand images are near their largest values for all encoders: 1, and for p_T 1 − 1/m, as each of m views pairs with itself, too.
func Tails(r study.Results, out, dataset, method string, seed int) (_ figures.CurvesRow, err error) {
	defer try.Handle(&err)
	views := figures.Curves{Title: dataset, X: "δ_T", Y: "mean over images of p at δ_T"}
	class := figures.Curves{X: "d_T", Y: "mean over images of q at d_T"}
	for _, row := range augmentation.Rows {
		if record, ok := r.OfSeed(string(row), augmentation.Column(dataset, method), seed); ok {
			tails := try.E1(theory.ReadTails(record.File(out, record.Curve), OwnViews, theory.PrincipalForm))
			views.Series = append(views.Series, figures.Series{Name: string(row), X: tails.Thresholds, Y: tails.MeanView})
			class.Series = append(class.Series, figures.Series{Name: string(row), X: tails.Thresholds, Y: tails.MeanClass})
		}
	}
	if len(views.Series) == 0 {
		return nil, fmt.Errorf("no record of %s, seed %d on %s in the %s profile", method, seed, dataset, r.Profile)
	}
	return figures.CurvesRow{views, class}, nil
}

// first returns the first method of a dataset with records, and its lowest seed.
func first(r study.Results, dataset string) (method string, seed int, ok bool) {
	for _, method := range methods.Names {
		for _, row := range augmentation.Rows {
			if records := r.Of(string(row), augmentation.Column(dataset, method)); len(records) > 0 {
				return method, records[0].Seed, true
			}
		}
	}
	return "", 0, false
}
