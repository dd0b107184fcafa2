package mainresults

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
)

var mainResults = Experiment{
	Name:       MainResults,
	Title:      "What are frozen features worth for whole images and for their patches?",
	Reproduces: "Tab. main",
	Data:       "ImageNet-1k as class folders imagenet/train and imagenet/val, and COCOStuff-27, what --data has of the two, or synthetic objects and scenes without it",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "half a minute a row on 2 cores; give weights by --set weights.dino-s16=FILE",
		Full:  "1.4 million images a row: a GPU",
	},
	Run: runMainResults,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		groups, err := groupRecords(records, profile, mainSettings)
		if err != nil {
			return nil, err
		}
		return mainTables(groups, profile)
	},
}

// mainTitles are the datasets as records and tables name them.
var mainTitles = map[string]string{"imagenet": "ImageNet-1k", "coco": "COCOStuff-27", "synthetic": "synthetic objects and scenes"}

// mainSettings are the settings of a run without its encoder.
func mainSettings(r Record) (settings, error) {
	var config MainConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	config.Encoder = frozenEncoder{}
	dataset, _, _ := strings.Cut(r.Cell, "/")
	changed, err := changedKeys("", mainConfig(r.Profile, config.Images == 0).on(dataset), config)
	return settings{config, r.Data, changed}, err
}

// mainTables are the paper's, ours from runs on images that were read, the same of our own rows, which the paper does not have, and one of all rows
// that were run on synthetic images.
func mainTables(groups recordGroups, profile Profile) ([]figures.Table, error) {
	printed, err := figures.Paper("main")
	if err != nil {
		return nil, err
	}
	rows, err := paperRows("main")
	if err != nil {
		return nil, err
	}
	recordsOf := func(row frozenRow, datasets []string) (records []Record) {
		for _, dataset := range datasets {
			records = append(records, groups.runs[[2]string{row.key, dataset}]...)
		}
		return records
	}
	values := func(row frozenRow, column string, datasets []string) (values []float64) {
		for _, record := range recordsOf(row, datasets) {
			if value, ok := record.Details[column]; ok {
				values = append(values, value)
			}
		}
		return values
	}
	describe := func(t figures.Table, title, caption string, rows []frozenRow, datasets []string) figures.Table {
		t.Title, t.Caption, t.Unit, t.Profile = title, caption, "%", string(profile)
		for _, row := range rows {
			for _, record := range recordsOf(row, datasets) {
				if slices.Contains(t.Data, record.Data) {
					continue
				}
				t.Data = append(t.Data, record.Data)
				if changed := groups.changed[record.Column]; len(changed) > 0 {
					t.Caption += fmt.Sprintf(" Run on %s with other settings than the profile's: %s.", record.Column, strings.Join(changed, ", "))
				}
			}
		}
		return t
	}
	read, synthetic := []string{mainTitles["imagenet"], mainTitles["coco"]}, []string{mainTitles["synthetic"]}
	tables := []figures.Table{describe(printed.Beside(func(heads []string, column string) []float64 {
		i := slices.IndexFunc(rows, func(row frozenRow) bool { return slices.Equal(row.heads, heads) })
		if i < 0 {
			return nil
		}
		return values(rows[i], column, read)
	}), "Tab. main", "Frozen features: linear segmentation on COCOStuff-27, linear and k-NN classification on ImageNet-1k.", rows, read)}
	for _, more := range []struct {
		title, caption string
		rows           []frozenRow
		datasets       []string
	}{
		{"Tab. main for encoders of our own", "The same measures on the same images. The paper has no such rows.", ownRows(), read},
		{"The same on " + synthetic[0], "Linear segmentation of scenes, linear and k-NN classification of objects, of six classes each. The paper has no such table.",
			slices.Concat(ownRows(), rows), synthetic},
	} {
		t := figures.Table{RowHeads: printed.RowHeads[:2], Columns: printed.Columns}
		for _, row := range more.rows {
			found := recordsOf(row, more.datasets)
			if len(found) == 0 {
				continue
			}
			line := figures.Row{Heads: row.heads[:min(2, len(row.heads))]}
			if row.heads == nil {
				var config MainConfig
				if err := found[0].configuration(&config); err != nil {
					return nil, err
				}
				line.Heads = []string{ownMethods[row.key], config.Encoder.Architecture}
			}
			for _, column := range t.Columns {
				line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: values(row, column, more.datasets)})
			}
			t.Rows = append(t.Rows, line)
		}
		if len(t.Rows) > 0 {
			tables = append(tables, describe(t, more.title, more.caption, more.rows, more.datasets))
		}
	}
	return tables, nil
}
