package recipe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
	"gonum.org/v1/gonum/stat"
)

// CurveFile is the curve in a stage's folder.
const CurveFile = "curve.jsonl"

// bestOver is the number of consecutive measurements whose mean rates an encoder; a single measurement is of one batch only.
const bestOver = 3

// improved reports whether the encoder at the end of a curve is the best so far: whether the between-class share of the variance of patch features,
// averaged over the last bestOver measurements, is higher than ever before.
//
// Without labels there is no best encoder, and the last one counts, as in the paper. The loss does not show which encoder is better: its target branch
// moves with the online branch, and it is lowest when both have collapsed.
//
// The result depends on the curve alone, so a resumed run writes the same encoders at the same steps as an uninterrupted one.
func improved(curve []sccore.StepMetrics) bool {
	if len(curve) == 0 || curve[len(curve)-1].Classes == nil {
		return false
	}
	measured := lo.Filter(curve, func(m sccore.StepMetrics, _ int) bool { return m.Classes != nil })
	shares := lo.Map(measured, func(m sccore.StepMetrics, _ int) float64 { return m.Classes.Share() })
	best, last := 0.0, 0.0
	for i := bestOver; i <= len(shares); i++ {
		best, last = max(best, last), stat.Mean(shares[i-bestOver:i], nil)
	}
	return last > best
}

// Describe formats metrics for the progress bar.
func Describe(m sccore.StepMetrics) string {
	line := fmt.Sprintf("loss %.3f", m.Total)
	if m.PatchEntropy > 0 {
		line += fmt.Sprintf("  entropy %.2f", m.PatchEntropy)
	}
	if m.Patches != nil {
		line += fmt.Sprintf("  rank %.1f", m.Patches.Rank)
	}
	return line
}

// Points converts the metrics of a stage to a curve.
func Points(curve []sccore.StepMetrics) (points []study.Point) {
	for _, m := range curve {
		p := study.Point{Step: m.Step, Loss: m.Total, LearningRate: m.LearningRate}
		if m.Patches != nil {
			p.FeatureStd, p.EffectiveRank = m.Patches.Std, m.Patches.Rank
		}
		if _, rank := m.Evaluated["spread/rank"]; rank || m.Evaluated["knn/accuracy"] > 0 {
			p.Evaluated, p.KNN, p.MIoU = true, m.Evaluated["knn/accuracy"], m.Evaluated["probe/miou"]
		}
		if m.Classes != nil {
			p.Within, p.Between = m.Classes.Within, m.Classes.Between
		}
		points = append(points, p)
	}
	return points
}

// curveOf returns the curve file of a stage as records name it, and details from its last point.
func curveOf[C comparable, D study.Data](r *study.Run[C, D], dir string) (file string, details map[string]float64, err error) {
	file = filepath.Join(dir, CurveFile)
	curve, err := study.ReadCurve[sccore.StepMetrics](file)
	if err != nil || len(curve) == 0 {
		return "", nil, err
	}
	last := curve[len(curve)-1]
	details = map[string]float64{"loss": last.Total, "step": float64(last.Step)}
	if last.Patches != nil {
		details["patch_rank"], details["class_rank"] = last.Patches.Rank, last.Class.Rank
	}
	if last.Classes != nil {
		details["within_classes"], details["between_classes"] = last.Classes.Within, last.Classes.Between
	}
	for key, value := range last.Evaluated {
		if name, ok := strings.CutPrefix(key, "gauges/"); ok {
			details[name] = value
		}
	}
	if l := last.Lambdas; l != nil {
		details["lambda_patch_concentration"], details["lambda_image_concentration"] = l.PatchConcentration, l.ImageConcentration
	}
	file, err = filepath.Rel(r.Root(), file)
	return filepath.ToSlash(file), details, cmp.Or(err, AddGate(dir, details))
}

// EncoderFile returns the file of a recorded run's encoder after the stage "first", "control" or "second", or of the file that it started from, "init". It is
// the online branch's encoder, which the paper freezes ("Evaluation protocol").
func EncoderFile(out string, r study.Record, stage string) string {
	return filepath.Join(study.Folder(out, Pretraining), filepath.FromSlash(filepath.Dir(filepath.Dir(r.Curve))), stage, OnlineFile)
}

// Correspondences say how well S_t finds pairs of patches of one class: "precision_top1" to "precision_top10", in percent, beside "precision_top100", which
// random scores would have, and "auc"; and the same over pairs of two objects, as "objects_auc". What no pair gives is missing.
func Correspondences(d sccore.Diagnostics) map[string]float64 {
	said := map[string]float64{}
	for prefix, pairs := range map[string]sccore.Pairs{"": d.Pairs, "objects_": d.Objects} {
		if len(pairs.Scores) == 0 {
			continue
		}
		shares := append([]float64{1}, sccore.TopShares...)
		for i, precision := range metrics.PrecisionAtTop(pairs.Scores, pairs.Same, shares...) {
			said[fmt.Sprintf("%sprecision_top%g", prefix, 100*shares[i])] = precision
		}
		if auc, err := stats.AUC(pairs.Scores, pairs.Same); err == nil { // Without pairs of one class there is none.
			said[prefix+"auc"] = auc
		}
	}
	return said
}

// gateFile holds the correspondences that a stage with CoTAP began with, in its folder.
const gateFile = "correspondences.json"

// measureGate measures the correspondences of a stage with patch concentration that has just begun, on images with labels, prints them and writes them to its folder.
func (t *Trainer) measureGate(ctx context.Context, s Stage, dir string, say func(format string, args ...any)) error {
	if s.Config.Lambdas.PatchConcentration == 0 {
		return nil
	}
	d, err := t.Correspondences(ctx)
	if err != nil || d.Precision == nil {
		return err
	}
	said := Correspondences(d)
	if chance, paired := said["objects_precision_top100"]; paired {
		said["gate"] = said["objects_precision_top5"] / max(chance, 1e-9) // 0 without pairs of one class.
	}
	of := func(prefix string) string {
		return fmt.Sprintf("AUC %.3f, precision at the top 1, 5, 10 and 100 %% %.0f, %.0f, %.0f and %.0f %%", said[prefix+"auc"],
			said[prefix+"precision_top1"], said[prefix+"precision_top5"], said[prefix+"precision_top10"], said[prefix+"precision_top100"])
	}
	say("%s: correspondences at the start: %s; of objects: %s", s.Name, of(""), of("objects_"))
	content, err := json.Marshal(said)
	return errors.Join(err, atomicfile.WriteBytes(filepath.Join(dir, gateFile), content))
}

// AddGate adds to the details of a record the correspondences that the stage in a folder began with, if it has patch concentration and images with labels.
func AddGate(dir string, details map[string]float64) error {
	content, err := os.ReadFile(filepath.Join(dir, gateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	said := map[string]float64{}
	if err == nil {
		err = json.Unmarshal(content, &said)
	}
	for name, value := range said {
		details["start_"+name] = value // Of them [study.DetailGate].
	}
	return err
}

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
	// The classes that count, with commas between them; empty for all. Test images must have patches of each; so the quick profile takes the seven that a small
	// part of the dataset has enough of.
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

// openRecall opens PASCAL VOC below the data folder: in every seed, all training and test images measure. Without the dataset it opens nothing.
func (d *Data) openRecall(o study.Options, c Recall) (err error) {
	defer try.Handle(&err)
	var sets [2]*datasets.Segmentation
	var identities []string
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		opened, err := Annotated(evaluation.Source{Dir: o.Data, Dataset: "voc2012", Classes: c.Classes}, "recall.classes", split)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		try.E(err)
		set, identity := cmp.Or(opened.Train, opened.Test), opened.ID
		if o.Profile == study.Smoke {
			identity += smokeIdentity
			set = set.Pick(datasets.Spread(set.Len(), smokeImages))
		}
		sets[i], identities = set, append(identities, identity)
	}
	d.Annotated, d.annotated = sets, "; measured on "+strings.Join(identities, "; ")
	return nil
}

// Annotated opens splits of a dataset with a class for every pixel. key is the setting of the classes that count; the error for an unknown class names it.
func Annotated(s evaluation.Source, key string, splits ...datasets.Split) (evaluation.Data, error) {
	d, err := s.Segmentation(splits...)
	if errors.As(err, new(evaluation.BadSetting)) {
		err = study.BadOption{Err: fmt.Errorf("--set %s=%s: %w", key, s.Classes, err)}
	}
	return d, err
}

// RecallMeasures measure recall over patches of PASCAL VOC: none without images to measure on. probe is the linear classifier. Recall without background
// needs named classes, at least two besides background: otherwise a small dataset may have too few classes that count.
func (d Data) RecallMeasures(c Recall, probe evaluation.PatchProbe) []Measure {
	if d.Annotated[0] == nil {
		return nil
	}
	e := evaluation.DefaultPatchRecall()
	e.Size, e.Least, e.Probe = c.Size, c.Least, probe
	m := Measure{Evaluation: e, Images: evaluation.Data{Train: d.Annotated[0], Test: d.Annotated[1]}}
	for _, column := range RecallColumns {
		if column == ColumnForegroundRecall && (c.Classes == "" || len(d.Annotated[0].Classes) < 3 || !d.Annotated[0].HasBackground()) {
			continue
		}
		m.Numbers = append(m.Numbers, study.Number{Column: column, Metric: "recall", Unit: "%", Data: d.ID + d.annotated})
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
func NumbersOf(row string, measures []Measure) []study.Number {
	numbers := lo.FlatMap(measures, func(m Measure, _ int) []study.Number { return m.Numbers })
	for i := range numbers {
		numbers[i].Row = row
	}
	return numbers
}

// MeasureAll measures an encoder.
func MeasureAll(ctx context.Context, e *evaluation.Encoder, measures []Measure) (numbers []study.Number, err error) {
	defer try.Handle(&err)
	for _, m := range measures {
		made := slices.Clone(m.Numbers)
		try.E(m.Read(made, try.E1(m.Measure(ctx, e, m.Images))))
		numbers = append(numbers, made...)
	}
	return numbers, nil
}
