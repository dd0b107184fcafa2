package effectaug

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// ImageSize is the study's image height and width in pixels, CIFAR's.
const ImageSize = 32

// smokeTrain and smokeTest are the numbers of images in the smoke profile.
const smokeTrain, smokeTest = 256, 128

// quickTrain is the most training images that a seed of the quick profile has, and the number of images of its epochs.
const quickTrain = 10_000

// syntheticName is the name of the source of drawn images.
const syntheticName = "synthetic"

// source is a dataset that the study can run on.
type source struct {
	name  string // The name in cell names.
	title string // The name in the table's column heads.
	read  func(split datasets.Split) (*datasets.Images, error)
}

// Data holds the images of a source that a seed trains and tests on.
type Data struct {
	source
	Train, Test *datasets.Images
	identity    string
}

// Identity identifies both splits. It is that of all seeds.
func (d Data) Identity() string { return d.identity }

// Title is the name of the data in tables.
func (d Data) Title() string { return d.title }

// Skipped lists the files that could not be read.
func (d Data) Skipped() []string {
	lines := []string{}
	for _, skipped := range slices.Concat(d.Train.Skipped, d.Test.Skipped) {
		lines = append(lines, skipped.File+": "+skipped.Reason)
	}
	return lines
}

// datasetNames lists the datasets that the options provide.
func datasetNames(o study.Options) (names, missing []string, err error) {
	all, err := sources(o.Profile, o.Data, 0)
	for _, s := range all {
		names = append(names, s.name)
	}
	return names, missing, err
}

// Open reads both splits of a dataset and cuts them into shares, of which it returns the seed's, or draws the images of a seed. shares is 0 or 1 if all seeds have
// the same images, or images that are drawn.
func Open(o study.Options, dataset string, shares, seed int) (Data, error) {
	all, err := sources(o.Profile, o.Data, synthetic.Run(seed))
	if err != nil {
		return Data{}, err
	}
	d := Data{source: all[slices.IndexFunc(all, func(s source) bool { return s.name == dataset })]}
	if d.Train, err = d.read(datasets.Train); err != nil {
		return d, err
	}
	if d.Test, err = d.read(datasets.Test); err != nil {
		return d, err
	}
	if !slices.Equal(d.Train.Classes, d.Test.Classes) {
		return d, fmt.Errorf("%s: training and test images have different classes", d.Test.Name)
	}
	if shares > 1 {
		shares = min(o.SharesOf(d.Train.Name, d.Train.SmallestClass(), "images", shares), o.SharesOf(d.Test.Name, d.Test.SmallestClass(), "images", shares))
	}
	if shares > 1 { // A share's own identity would differ between seeds.
		d.identity = study.IdentityOfShares(d.Train.Identity+"; "+d.Test.Identity, shares)
		d.Train, d.Test = d.Train.Share(seed, shares), d.Test.Share(seed, shares)
	}
	train, test := d.Train.Len(), d.Test.Len() // At most so many, the first of each class.
	switch o.Profile {
	case study.Smoke:
		train, test = smokeTrain, smokeTest
	case study.Quick:
		train = quickTrain
	}
	if d.identity != "" && (train < d.Train.Len() || test < d.Test.Len()) {
		d.identity += fmt.Sprintf("; the first of each class, at most %d to train and %d to test", train, test)
	}
	d.Train, d.Test = d.Train.Subset(train), d.Test.Subset(test)
	if d.identity == "" {
		d.identity = d.Train.Identity + "; " + d.Test.Identity
	}
	return d, nil
}

// heldOut puts a share of the training images in place of the test images; training and neighbours do without them. Share 0 changes nothing.
func (d Data) heldOut(share float64) (Data, error) {
	if share > 0 {
		all := d.Train
		if d.Train, d.Test = all.HoldOut(share); d.Test.Len() == 0 {
			return d, fmt.Errorf("validation %g holds out none of the %d training images of %s", share, all.Len(), all.Name)
		}
	}
	return d, nil
}

// sources returns the datasets of a profile: without --data synthetic objects; with it CIFAR-10, or the user's own images if there is no CIFAR-10; in the
// full profile CIFAR-10 and CIFAR-100.
func sources(profile study.Profile, dir string, run synthetic.Run) ([]source, error) {
	if dir == "" && profile == study.Full {
		return nil, fmt.Errorf("the full profile needs --data DIR with CIFAR-10 and CIFAR-100 (\"semcon data fetch cifar10 cifar100 --data DIR\" gets them)")
	}
	if dir == "" {
		return []source{{name: syntheticName, title: "synthetic objects", read: func(split datasets.Split) (*datasets.Images, error) {
			switch training := split == datasets.Train; {
			case profile == study.Smoke && training:
				return run.Images(smokeTrain, ImageSize, 1), nil
			case profile == study.Smoke:
				return run.Images(smokeTest, ImageSize, 2), nil
			case training:
				return run.Images(quickTrain, ImageSize, 1), nil
			}
			return run.Images(2000, ImageSize, 2), nil
		}}}, nil
	}
	ten := source{name: "cifar10", title: "CIFAR-10", read: func(split datasets.Split) (*datasets.Images, error) { return datasets.CIFAR10(dir, split) }}
	hundred := source{name: "cifar100", title: "CIFAR-100", read: func(split datasets.Split) (*datasets.Images, error) { return datasets.CIFAR100(dir, split) }}
	if profile == study.Full {
		return []source{ten, hundred}, nil
	}
	_, err := ten.read(datasets.Test)
	if !errors.Is(err, fs.ErrNotExist) {
		return []source{ten}, nil
	}
	ext, ok := datasets.FindClassFolders(dir) // The user's own images: class folders under train and test, or zips of class folders.
	if !ok {
		return nil, fmt.Errorf("%w; there are also neither folders train and test of class folders nor train.zip and test.zip", err)
	}
	return []source{{name: "images", title: "images", read: func(split datasets.Split) (*datasets.Images, error) {
		path := filepath.Join(dir, string(split)+ext)
		if ext == ".zip" {
			return datasets.ReadZip(path, ImageSize, datasets.SkipBroken)
		}
		return datasets.ReadFolder(path, ImageSize, datasets.SkipBroken)
	}}}, nil
}

// Files in a cell's folder.
const (
	curveFile   = "curve.jsonl"
	WeightsFile = "weights.safetensors" // The trained encoder and its heads.
)

// run is a running cell.
type run = study.Run[Config, Data]

// worker trains the cells of one method with one compiled step.
type worker struct{ trainer *methods.Trainer }

func newWorker(r *run) (study.Worker[Config, Data], error) {
	d, err := r.Data.heldOut(r.Cell.Config.Validation)
	if err != nil {
		return nil, err
	}
	trainer, err := methods.NewTrainer(r.Backend(), d.Train.Repeat(r.Cell.Config.EpochImages), r.Cell.Config.Config)
	return worker{trainer}, err
}

// Close frees the device's memory.
func (w worker) Close() { w.trainer.Close() }

// runState is the state of a run that its checkpoints hold beside the trainer's.
type runState struct {
	Points  []study.Point `json:"points"`
	Seconds float64       `json:"seconds"`
	Backend string        `json:"backend"` // The backend of the last step.
}

// Run trains and evaluates a cell, and saves its weights.
func (w worker) Run(r *run) error {
	t, c := w.trainer, r.Cell.Config
	d, err := r.Data.heldOut(c.Validation)
	if err != nil {
		return err
	}
	if err := t.SetImages(d.Train.Repeat(c.EpochImages)); err != nil {
		return err
	}
	if r.Cell.Path[2] == RowUntrained {
		return w.untrained(r, d)
	}
	var h runState
	begun, before := time.Now(), 0.0
	if err := t.Begin(methods.Run{Recipe: c.Recipe, Seed: uint64(r.Cell.Seed)}); err != nil {
		return err
	}
	loop := train.Loop[float64]{
		Trainer: t,
		Note:    &h,
		Resumed: func(int) {
			before = h.Seconds
			if h.Backend != backend.Name() {
				r.Warnf("%s resumes on %s after %s: its results will equal those of neither backend alone", r.Cell.Name(), backend.Name(), h.Backend)
			}
		},
		Evaluators: []train.Evaluator{w.knn(r, d)},
	}
	loop.After = func(loss float64, evaluated map[string]float64) error {
		h.Seconds, h.Backend = before+time.Since(begun).Seconds(), backend.Name()
		note := fmt.Sprintf("loss %.3f", loss)
		if t.Done()%t.StepsPerEpoch() == 0 {
			p := study.Point{Step: t.Done(), Epoch: float64(t.Done() / t.StepsPerEpoch()), Loss: t.EpochLoss(), LearningRate: t.LearningRate(t.Done() - 1)}
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
	if err := study.Train(r, &loop); err != nil {
		return err
	}
	return w.finish(r, h, loop)
}

// knn evaluates frozen features: k-NN accuracy on the test images, or on those held out, and the standard deviation and effective rank of training features.
func (w worker) knn(r *run, d Data) train.Evaluator {
	c := r.Cell.Config
	return train.Evaluator{Name: "knn", Every: c.EvaluateEvery * w.trainer.StepsPerEpoch(), Evaluate: func(context.Context) (map[string]float64, error) {
		bank, err := w.trainer.Features(d.Train)
		if err != nil {
			return nil, err
		}
		defer bank.FinalizeAll()
		queries, err := w.trainer.Features(d.Test)
		if err != nil {
			return nil, err
		}
		defer queries.FinalizeAll()
		predictions, err := c.KNN.Predict(r.Backend(), bank, d.Train.Labels, len(d.Train.Classes), queries)
		if err != nil {
			return nil, err
		}
		spread, err := metrics.MeasureSpread(bank)
		return map[string]float64{
			"accuracy": metrics.Accuracy(predictions, d.Test.Labels), "feature_std": spread.Std, "effective_rank": spread.Rank,
		}, err
	}}
}

// untrained evaluates and records the initial weights of a seed.
func (w worker) untrained(r *run, d Data) error {
	if err := w.trainer.Begin(methods.Run{Recipe: r.Cell.Config.Recipe, Seed: uint64(r.Cell.Seed)}); err != nil {
		return err
	}
	evaluated, err := w.knn(r, d).Evaluate(r.Context)
	if err != nil {
		return err
	}
	n := number(r, evaluated["accuracy"])
	n.Details = map[string]float64{"feature_std": evaluated["feature_std"], "effective_rank": evaluated["effective_rank"]}
	return r.Record(n)
}

// number is the number of a cell, without its details.
func number(r *run, accuracy float64) study.Number {
	c := r.Cell.Config.KNN
	protocol := fmt.Sprintf("weighted k-NN, K %d, temperature %g, cosine, backbone features of un-augmented images, training images as neighbours", c.K, c.Temperature)
	if share := r.Cell.Config.Validation; share > 0 {
		protocol += fmt.Sprintf(", on held-out training images: %g of each class", share)
	}
	return study.Number{
		Row: r.Cell.Path[2], Column: column(r.Data, r.Cell), Metric: "k-NN accuracy", Unit: "%", Value: accuracy, Protocol: protocol,
	}
}

// finish saves the weights, records the result and removes the checkpoints. In this order, a run that is killed in between repeats only the rest.
func (w worker) finish(r *run, h runState, loop train.Loop[float64]) error {
	c := r.Cell.Config
	metadata := map[string]string{"run": r.Cell.Name(), "config": string(study.EncodeConfig(c))}
	if err := w.trainer.SaveOnline(filepath.Join(r.Dir, WeightsFile), metadata); err != nil {
		return err
	}
	curve, err := r.Path(curveFile)
	if err != nil {
		return err
	}
	last := h.Points[len(h.Points)-1]
	n := number(r, last.KNN)
	n.Curve, n.Seconds = curve, h.Seconds
	n.Details = map[string]float64{
		"loss": last.Loss, "feature_std": last.FeatureStd, "effective_rank": last.EffectiveRank,
		"images_per_second": float64(w.trainer.Steps()*c.Batch) / h.Seconds,
	}
	if err := r.Record(n); err != nil {
		return err
	}
	return loop.Clean()
}
