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
	"github.com/semcon/semcon/sccore/study"
)

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

// OpenRecall opens what measures the recall of encoders that another experiment trains: a seed's share of the test images, if shares is above 1. identity
// identifies what they are trained on.
func OpenRecall(o study.Options, c Recall, seed, shares int, identity string) (Data, error) {
	d := Data{title: Images, identity: identity, skipped: []string{}}
	err := d.openRecall(o, c, seed, shares)
	return d, err
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
	d.Annotated, d.annotated, d.named = sets, "; measured on "+strings.Join(identities, "; "), c.Classes != ""
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

// RecallNumbers lists the numbers of [Data.MeasureRecall], without their values: none without images to measure on. Recall without background needs named
// classes, of which two are left: in a small dataset the classes that count may be too few otherwise.
func (d Data) RecallNumbers(row string) (numbers []study.Number) {
	if d.Annotated[0] == nil {
		return nil
	}
	for _, column := range RecallColumns {
		if classes := d.Annotated[0].Classes; column == ColumnForegroundRecall && (!d.named || len(classes) < 3 || classes[0] != "background") {
			continue
		}
		numbers = append(numbers, study.Number{Row: row, Column: column, Metric: "recall", Unit: "%", Data: d.identity + d.annotated})
	}
	return numbers
}

// MeasureRecall measures an encoder by the recall over patches of PASCAL VOC. probe is the linear classifier.
func (d Data) MeasureRecall(ctx context.Context, e *evaluation.Encoder, c Recall, probe evaluation.PatchProbe) ([]study.Number, error) {
	numbers := d.RecallNumbers("")
	if len(numbers) == 0 {
		return nil, nil
	}
	measuring := evaluation.DefaultPatchRecall()
	measuring.Size, measuring.Least, measuring.Probe = c.Size, c.Least, probe
	measured, err := measuring.Measure(ctx, e, evaluation.Data{Train: d.Annotated[0], Test: d.Annotated[1]})
	if err != nil {
		return nil, err
	}
	recalls := measured.Report.(evaluation.PatchRecalls)
	for name := range strings.SplitSeq(c.Classes, ",") {
		if name != "" && !slices.Contains(recalls.Names, name) { // Else the chance would differ between seeds.
			return nil, fmt.Errorf("%s: fewer than %d patches of %q, in training or in testing: choose other classes by --set recall.classes, or a smaller recall.least", d.Annotated[1].Name, c.Least, name)
		}
	}
	linear, nearest := measured.Numbers[0], measured.Numbers[1]
	values := []float64{linear.Value, nearest.Value, linear.Details["foreground"]}
	for i := range numbers { // With the third, all named classes are there: background and at least two more.
		numbers[i].Value, numbers[i].Protocol, numbers[i].Images = values[i], measured.Protocol, recalls.ByImage[i]
	}
	return numbers, nil
}
