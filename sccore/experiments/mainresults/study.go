// Package mainresults is the experiment of the paper's main table. It evaluates frozen features: [CLS] tokens by classification, patch tokens by segmentation.
//
// In go ImageNet and COCOStuff-27, or synthetic objects and scenes, and the encoders of package encoders. Out come records with the columns of Tab. main.
// The ablation also measures with [evaluation.MainTable].
package mainresults

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

var grid = encoders.Grid[Config]{
	Name: encoders.Main, Table: "main", Shares: func(c Config) int { return c.Shares },
	Base: func(_ study.Profile, dataset string) (c Config) {
		if !encoders.Drawn(dataset) {
			c.Preprocessing = datasets.DefaultPreprocessing()
		}
		return c
	},
	Rules: Config.check, On: Config.on, Colours: func(c Config) datasets.Preprocessing { return c.Preprocessing },
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Grid:       grid,
	Sources:    encoders.MainTable,
	Evaluation: func(c Config) evaluation.Evaluation { return c.measures() },
	Part: func(o study.Options, d evaluation.Data, c Config, seed int) evaluation.Data {
		if o.Data == "" {
			return d
		}
		return encoders.Share(o, d, seed, c.Shares).Sample(c.Images)
	},
	Columns: func(_ evaluation.Data, c study.Cell[Config]) []string { return []string{titles[c.Dataset]} },
	Tables:  tables,
}.Spec()

// titles are the names of the datasets in records and tables.
var titles = map[string]string{evaluation.ImageNet: "ImageNet-1k", encoders.COCOStuff: "COCOStuff-27", encoders.Synthetic: "synthetic objects and scenes"}

// Config is the configuration of a cell. Settings that its dataset does not use are 0 and omitted from the JSON.
type Config struct {
	encoders.Config

	// Preprocessing makes crops of Size of pictures to classify. To segment, only its colours count; the default is omitted then.
	Preprocessing datasets.Preprocessing `json:"preprocessing,omitzero"`

	Images int                    `json:"images" range:"[0,2^31)"`          // Images per split and seed: drawn, or taken evenly spread from the seed's share of a real dataset, where 0 means all.
	Shares int                    `json:"shares,omitzero" range:"[0,2^20]"` // Shares that the images of a real dataset are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Size   int                    `json:"size,omitzero" range:"0|[8,2048]"` // Height and width in pixels of objects and of synthetic scenes.
	KNN    knn.Classifier         `json:"knn,omitzero"`                     // Classifies [CLS] features of objects.
	Class  evaluation.LinearProbe `json:"class,omitzero"`                   // Classifies them, too.
	Patch  evaluation.PatchProbe  `json:"patch,omitzero"`                   // Segments synthetic scenes.

	Authors evaluation.AuthorsProbe `json:"authors,omitzero"` // Classifies objects as the printed baselines' authors do; in full alone.

	Segmentation evaluation.SegmentationProbe `json:"segmentation,omitzero"` // Segments COCOStuff-27.
}

func (c Config) measures() evaluation.MainTable {
	return evaluation.MainTable{Preprocessing: c.Preprocessing, Size: c.Size, KNN: c.KNN, Class: c.Class, Authors: c.Authors, Patch: c.Patch, Segmentation: c.Segmentation}
}

// on returns the configuration without the settings that a dataset does not use.
func (c Config) on(dataset string) Config {
	switch dataset {
	case evaluation.ImageNet:
		c.Segmentation = evaluation.SegmentationProbe{}
	case encoders.COCOStuff:
		c.Size, c.KNN, c.Class, c.Authors = 0, knn.Classifier{}, evaluation.LinearProbe{}, evaluation.AuthorsProbe{}
		colours := datasets.DefaultPreprocessing()
		if colours.Mean, colours.Std = c.Preprocessing.Mean, c.Preprocessing.Std; colours == datasets.DefaultPreprocessing() {
			colours = datasets.Preprocessing{}
		}
		c.Preprocessing = colours
	}
	return c
}

// check returns an error that names the first value out of range.
func (c Config) check(dataset string) error {
	switch {
	case encoders.Drawn(dataset) && c.Shares != 0:
		return errors.New("shares: synthetic images are drawn for each seed")
	case encoders.Drawn(dataset):
		return nil
	case c.Preprocessing.CropMode == datasets.WholeImage:
		return fmt.Errorf("preprocessing: crop_mode %s: this experiment takes crops of one size", c.Preprocessing.CropMode)
	}
	return cmp.Or(settings.CheckGroup("preprocessing", c.Preprocessing), settings.Between("shares", c.Shares, 1, 1<<20))
}

// tables returns the paper's table with our numbers on real images, the same table for our own rows, a table of all rows on class folders that are not
// ImageNet-1k, and one on synthetic images.
func tables(results study.Results) []figures.Table {
	read, synthetic := []string{titles[evaluation.ImageNet], titles[encoders.COCOStuff]}, titles[encoders.Synthetic]
	other := results.Where(func(r study.Record) bool { return evaluation.OtherClasses(r.Data) })
	results = results.Where(func(r study.Record) bool { return !evaluation.OtherClasses(r.Data) })
	measures := figures.MustPaper("main").Columns
	beside := encoders.Beside("main", "Frozen features: linear segmentation on COCOStuff-27, linear and k-NN classification on ImageNet-1k.",
		encoders.Details(read, "", measures...)...).Of(results)
	all := []figures.Table{beside}
	const authors = "authors_"
	if len(results.Where(func(r study.Record) bool { return r.Details[authors+measures[2]] > 0 }).Columns()) > 0 {
		t := encoders.Beside("main", "Linear classification of ImageNet-1k by the protocol of DINO, iBOT and Mugs, for their printed numbers; ours are of the last epoch at one rate. The paper describes another protocol, shown in the table above.",
			encoders.Details(read, "", authors+measures[2], authors+measures[3])...)
		for i := range t.Columns {
			t.Columns[i].Head = measures[2+i]
		}
		t.Title += ", linear classification as the baselines are measured"
		t.Rows = append(t.Rows, encoders.WithRecords(results, encoders.OurRows(results, "main"), read...)...)
		all = append(all, t.Of(results))
	}
	add := func(results study.Results, from []string, rows []study.Row, title, caption string) {
		t := encoders.Alone(title, caption, rows, encoders.Details(from, "", measures...)...)
		if t.RowHeads = beside.RowHeads[:2]; len(rows) > 0 {
			all = append(all, t.Of(results))
		}
	}
	add(results, read, encoders.WithRecords(results, encoders.OurRows(results, "main"), read...),
		"Tab. main for encoders of our own", "The same measures on the same images. The paper has no such rows.")
	add(other, read, encoders.AllRows(other, "main", read...), "Main results on class folders of another number than ImageNet-1k's",
		"Linear and k-NN classification of the images in imagenet/, with which the paper's numbers do not compare.")
	add(results, []string{synthetic}, encoders.AllRows(results, "main", synthetic), "Main results on "+synthetic,
		"Linear segmentation of scenes, linear and k-NN classification of objects, of six classes each. The paper has no such table.")
	return all
}
