package effectaug

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/views"
)

// TrainingImages returns the training images of a profile's first dataset and of seed 0, given the folder of the datasets.
func TrainingImages(profile study.Profile, dir string) (*datasets.Images, error) {
	all, err := sources(profile, dir, 0)
	if err != nil {
		return nil, err
	}
	return all[0].read(datasets.Train)
}

// Views draws one image and pairs of its views under each row of the table, as training sees them in the first epochs of the given seed.
func Views(b compute.Backend, images *datasets.Images, index, pairs int, seed uint64) (figures.ImageGrid, error) {
	var recipes []features.NamedRecipe
	for _, row := range Rows {
		recipes = append(recipes, features.NamedRecipe{Name: strings.ReplaceAll(row.Name, "+", " + "), Recipe: row.Recipe(views.Default())})
	}
	sheet, err := features.ViewPairs(b, images, index, pairs, seed, recipes)
	sheet.Title = fmt.Sprintf("%s, image %d: pairs of views under each row of the table", images.Name, index)
	return sheet, err
}

// Curves plots loss, k-NN accuracy and the effective rank of features, which shows collapse, against the epoch.
func Curves(points []study.Point) figures.CurvesRow {
	var loss, knn, rank []figures.Series
	for _, p := range points {
		figures.AddPoint(&loss, "loss", p.Epoch, p.Loss)
		if p.Evaluated {
			figures.AddPoint(&knn, "k-NN accuracy", p.Epoch, p.KNN)
			figures.AddPoint(&rank, "effective rank", p.Epoch, p.EffectiveRank)
		}
	}
	return figures.CurvesRow{
		{X: "epoch", Y: "loss", Series: loss},
		{X: "epoch", Y: "k-NN accuracy (%)", Series: knn},
		{X: "epoch", Y: "effective rank of features", Series: rank},
	}
}

// drawn draws what each method loses without crops, and what it gains by transformations, on each dataset with records.
func drawn(results study.Results, _ study.FigureSources, all *study.Drawn) {
	r := Results{results}
	for _, dataset := range r.Datasets() {
		drop, err := r.CropDrop(dataset)
		all.Add(drop, err, "k-NN accuracy that each method loses when its views no longer show different positions of the image. Filled: ours; hollow: the paper's.", "crop-drop", dataset)
		richness, err := r.Richness(dataset)
		all.Add(richness, err, "k-NN accuracy by the number of transformations, with independent crops. Filled: ours; hollow: the paper's.", "richness", dataset)
	}
}
