package patchrecall

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
)

// Parts of columns that name how patches are classified.
const (
	linear  = "linear"
	nearest = "k-NN"
)

// classifiers are in the order of the tables' columns.
var classifiers = []string{linear, nearest}

// column is the column of a dataset and a classifier.
func column(dataset, classifier string) string { return dataset + "/" + classifier }

// Names of details.
const (
	detailChance           = "chance"
	detailForeground       = "foreground" // The recall without the class background.
	detailForegroundChance = "foreground_chance"
)

// numbers are those that a cell records, without their values.
func numbers(data Data, c study.Cell[Config]) (all []study.Number) {
	for _, classifier := range classifiers {
		all = append(all, study.Number{Row: c.Config.Encoder.Row, Column: column(data.Title(), classifier), Metric: "recall", Unit: "%"})
	}
	return all
}

// run measures a cell's encoder and records its numbers. Each seed has images of its own, so that intervals over seeds have the images' share in them: synthetic
// ones are drawn, and of a dataset's test images it has a share that no other seed has. All its training images train, because a fifth of a small set has too few patches of a class.
func run(r *study.Run[Config, Data]) error {
	c := r.Cell.Config
	encoder, err := c.Encoder.Open(r.Backend(), r.Cell.Seed)
	if err != nil {
		return err
	}
	defer encoder.Close()
	if patch := encoder.ViT.PatchSize; c.Size%patch != 0 {
		return study.BadOption{Err: fmt.Errorf("size %d is not made of patches of %d, which %s sees", c.Size, patch, encoder.ViT.Name)}
	}
	seed := uint64(r.Cell.Seed)
	of := func(s *datasets.Segmentation) evaluation.FrozenFeatures {
		if s.Len() > c.Images && c.Images > 0 {
			s = s.Pick(datasets.Spread(s.Len(), c.Images))
		}
		return evaluation.FrozenFeatures{Extractor: encoder.FeatureExtractor, Images: s, Seed: seed, TestSize: c.Size}
	}
	result, err := c.recall().Evaluate(r.Context, r.Backend(), of(r.Data.train), of(r.Data.test))
	if err != nil {
		return err
	}
	all := numbers(r.Data, r.Cell)
	for i, value := range []func(evaluation.Recall) float64{
		func(recall evaluation.Recall) float64 { return recall.Linear }, func(recall evaluation.Recall) float64 { return recall.KNN },
	} {
		all[i].Value, all[i].Details = value(result.All), map[string]float64{
			detailChance: result.All.Chance, "training_patches_per_class": float64(result.All.Training), "test_patches": float64(result.All.Test),
		}
		if result.Foreground != nil {
			all[i].Details[detailForeground], all[i].Details[detailForegroundChance] = value(*result.Foreground), result.Foreground.Chance
			all[i].Details["foreground_training_patches_per_class"] = float64(result.Foreground.Training)
		}
		all[i].Protocol = fmt.Sprintf("%s; classes %s; %s", c.recall().Protocol(c.Size), strings.Join(result.Names, ", "), r.Data.how)
	}
	r.Step("recall %.1f %% linear, %.1f %% k-NN", result.All.Linear, result.All.KNN)
	return r.Record(all...)
}
