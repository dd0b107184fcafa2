package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Evaluators returns the evaluators of an encoder that run during training, every [Config].EvaluateEvery steps: with labels k-NN and the linear probe, without the spread
// of patch features, and those that [Config].Evaluate names.
func Evaluators(extractor *evaluation.FeatureExtractor, data Data, c Config, seed int) (all []train.Evaluator) {
	during := func(name string, e evaluation.Evaluation, images evaluation.Data) {
		all = append(all, evaluation.During(c.EvaluateEvery, name, e, &evaluation.Encoder{FeatureExtractor: extractor, Seed: uint64(seed)}, images))
	}
	if labelled := data.Labelled(); data.Scenes[0] == nil {
		during("spread", evaluation.Spread{Images: 256, Size: c.Size}, labelled)
	} else {
		during("knn", evaluation.KNN{Classifier: c.KNN, Size: c.Size}, labelled)
		during("probe", c.Probe, labelled)
	}
	for _, o := range data.evaluations {
		during(o.name, o.evaluation, o.data)
	}
	return all
}

// opened is an evaluation that [Config].Evaluate names, with its images.
type opened struct {
	name       string // As Evaluate and the curve have it.
	named      evaluation.Named
	dataset    string // The one that Evaluate names, or empty.
	evaluation evaluation.Evaluation
	data       evaluation.Data
}

// evaluations lists what Evaluate names, without images.
func (c Config) evaluations() (all []opened, err error) {
	if c.Evaluate == "" {
		return nil, nil
	}
	taken := []string{"knn", "probe", "spread", "gauges"}
	for part := range strings.SplitSeq(c.Evaluate, ",") {
		name, dataset, _ := strings.Cut(strings.TrimSpace(part), ":")
		named, err := evaluation.ByName(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("evaluate: %w", err)
		case named.Single:
			return nil, fmt.Errorf("evaluate: %s takes images of sizes of their own, and runs after a training alone: semcon evaluate %s", name, name)
		case c.EvaluateEvery == 0:
			return nil, errors.New("evaluate: evaluate_every is 0, so nothing is evaluated during the training")
		}
		o := opened{strings.TrimSpace(part), named, dataset, named.New(), evaluation.Data{}}
		if slices.Contains(taken, o.name) {
			return nil, fmt.Errorf("evaluate: %s runs already", o.name)
		}
		taken = append(taken, o.name)
		for _, key := range named.Sizes {
			if err := settings.Apply(o.evaluation, fmt.Sprintf("%s=%d", key, c.Size)); err != nil {
				return nil, fmt.Errorf("evaluate: %s: %w", name, err)
			}
		}
		if err := settings.Check(o.evaluation); err != nil {
			return nil, fmt.Errorf("evaluate: %s: %w", name, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// openEvaluations opens the images of what Evaluate names: of the named dataset, of the first that is in the data folder, or drawn ones without a folder.
func (c Config) openEvaluations(dir string, seed int) ([]opened, error) {
	all, err := c.evaluations()
	for i := range all {
		o := &all[i]
		source, choice := evaluation.Source{Dir: dir}, o.named.Datasets
		switch {
		case dir == "":
			source, choice = evaluation.Source{Images: c.Images, Size: c.Size, Seed: seed}, []string{cmp.Or(o.dataset, evaluation.Synthetic)}
		case o.dataset != "" || len(choice) == 0:
			choice = []string{o.dataset}
		}
		for _, source.Dataset = range choice {
			if o.data, err = o.evaluation.Open(source); !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("evaluate: %s: %w", o.name, err)
		}
	}
	return all, err
}

// The columns of recall over patches: of a linear probe, of nearest neighbours, and of a linear probe without background. Training on photographs shows in them
// soonest.
const (
	ColumnRecall           = "VOC patch recall, linear"
	ColumnNearestRecall    = "VOC patch recall, k-NN"
	ColumnForegroundRecall = "VOC patch recall without background, linear"
)

// RecallColumns are the columns of recall over patches, in the order of tables.
var RecallColumns = []string{ColumnRecall, ColumnNearestRecall, ColumnForegroundRecall}

// Recall says how the patches of PASCAL VOC measure encoders that are trained on real images; see [evaluation.PatchRecall].
type Recall struct {
	Size int `json:"size" range:"0|[8,2048]"` // Height and width in pixels that images are resized to; 0 leaves the measure out.
	// The classes that count, with commas between them; empty for all. Each seed's share of the test images must have patches of each; so the quick profile takes
	// the seven that a small part of the dataset has enough of.
	Classes string `json:"classes"`
	Least   int    `json:"least" range:"[1,4000]"` // Classes with fewer patches, in training or in testing, are left out.
}

// missingRecall says that the data folder lacks the images to measure on, if it does.
func missingRecall(dir string) (missing []string) {
	for _, split := range []datasets.Split{datasets.Train, datasets.Test} {
		if _, err := datasets.VOC(dir, split); errors.Is(err, fs.ErrNotExist) {
			return []string{fmt.Sprintf("skipped the columns of recall over patches: %v", err)}
		}
	}
	return nil
}

// openRecall opens PASCAL VOC below the data folder: all images that train the classifiers, because a fifth of a small set has too few patches of a class, and a
// seed's share of those that test them. Without the dataset there are none.
func (d *Data) openRecall(o study.Options, c Recall, seed, shares int) error {
	var sets [2]*datasets.Segmentation
	var identities []string
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		opened, err := Annotated(evaluation.Source{Dir: o.Data, Dataset: "voc2012", Classes: c.Classes}, "recall.classes", split)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		set, identity := cmp.Or(opened.Train, opened.Test), opened.ID
		if split == datasets.Test {
			if shares = o.SharesOf(set.Name, set.Len(), "images", shares); shares > 1 {
				identity += fmt.Sprintf(", of it %d shares, one for a seed", shares)
			}
			set = set.Share(seed, shares)
		}
		if o.Profile == study.Smoke {
			identity += smokeIdentity
			set = set.Pick(datasets.Spread(set.Len(), smokeImages))
		}
		sets[i], identities = set, append(identities, identity)
	}
	d.Annotated, d.annotated = sets, "; measured on "+strings.Join(identities, "; ")
	return nil
}

// Annotated opens splits of a dataset with a class for every pixel, for settings of which key has the classes that count: others are an error of that option.
func Annotated(s evaluation.Source, key string, splits ...datasets.Split) (evaluation.Data, error) {
	d, err := s.Segmentation(splits...)
	if errors.As(err, new(evaluation.BadSetting)) {
		err = study.BadOption{Err: fmt.Errorf("--set %s=%s: %w", key, s.Classes, err)}
	}
	return d, err
}

// RecallMeasures measure recall over patches of PASCAL VOC: none without images to measure on. probe is the linear classifier. Recall without background needs named
// classes, of which two are left: in a small dataset the classes that count may be too few otherwise.
func (d Data) RecallMeasures(c Recall, probe evaluation.PatchProbe) []Measure {
	if d.Annotated[0] == nil {
		return nil
	}
	e := evaluation.DefaultPatchRecall()
	e.Size, e.Least, e.Probe = c.Size, c.Least, probe
	m := Measure{Evaluation: e, Images: evaluation.Data{Train: d.Annotated[0], Test: d.Annotated[1]}}
	for _, column := range RecallColumns {
		if classes := d.Annotated[0].Classes; column == ColumnForegroundRecall && (c.Classes == "" || len(classes) < 3 || classes[0] != "background") {
			continue
		}
		m.Numbers = append(m.Numbers, study.Number{Column: column, Metric: "recall", Unit: "%", Data: d.identity + d.annotated})
	}
	m.Read = func(numbers []study.Number, measured evaluation.Result) error {
		recalls := measured.Report.(evaluation.PatchRecalls)
		for name := range strings.SplitSeq(c.Classes, ",") {
			if name != "" && !slices.Contains(recalls.Names, name) { // Else the chance would differ between seeds.
				return fmt.Errorf("%s: fewer than %d patches of %q, in training or in testing: choose other classes by --set recall.classes, or a smaller recall.least", d.Annotated[1].Name, c.Least, name)
			}
		}
		linear, nearest := measured.Numbers[0], measured.Numbers[1]
		values := []float64{linear.Value, nearest.Value, linear.Details["foreground"]}
		for i := range numbers { // With the third, all named classes are there: background and at least two more.
			numbers[i].Value, numbers[i].Protocol, numbers[i].Images = values[i], measured.Protocol, recalls.ByImage[i]
		}
		return nil
	}
	return []Measure{m}
}

// Measure is an evaluation of trained encoders with its images, and the numbers that are recorded of it.
type Measure struct {
	evaluation.Evaluation
	Images  evaluation.Data
	Numbers []study.Number // Without their row and value.
	// Read fills in the values of numbers from a result, and what else it says.
	Read func(numbers []study.Number, result evaluation.Result) error
}

// NumbersOf lists the numbers of a row that measures record.
func NumbersOf(row string, measures []Measure) (numbers []study.Number) {
	for _, m := range measures {
		for _, n := range m.Numbers {
			n.Row = row
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// MeasureAll measures an encoder.
func MeasureAll(ctx context.Context, e *evaluation.Encoder, measures []Measure) (numbers []study.Number, err error) {
	for _, m := range measures {
		result, err := m.Measure(ctx, e, m.Images)
		made := slices.Clone(m.Numbers)
		if err == nil {
			err = m.Read(made, result)
		}
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, made...)
	}
	return numbers, nil
}
