package experiments

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
)

var mainResults = Experiment{
	Name:       MainResults,
	Title:      "What are frozen features worth for whole images and for their patches?",
	Reproduces: "Tab. main: classification; segmentation on synthetic scenes",
	Data:       "ImageNet-1k as class folders imagenet/train and imagenet/val, or synthetic objects and scenes without --data",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "half a minute a row on 2 cores; give weights by --set weights.dino-s16=FILE",
		Full:  "1.3 million images a row: a GPU",
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
var mainTitles = map[string]string{"imagenet": "ImageNet-1k", "synthetic": "synthetic objects and scenes"}

// mainSettings are the settings of a run without its encoder.
func mainSettings(r Record) (settings, error) {
	var config MainConfig
	if err := json.Unmarshal(r.Config, &config); err != nil {
		return settings{}, fmt.Errorf("the configuration of record %s: %w", r.Cell, err)
	}
	config.Encoder = frozenEncoder{}
	changed, err := changedKeys("", mainConfig(r.Profile, config.Images == 0), config)
	return settings{config, r.Data, changed}, err
}

// mainTables are the paper's, ours from runs on ImageNet, and one of the rows that were run on synthetic images.
func mainTables(groups recordGroups, profile Profile) ([]figures.Table, error) {
	printed, err := figures.Paper("main")
	if err != nil {
		return nil, err
	}
	rows, err := paperRows("main")
	if err != nil {
		return nil, err
	}
	values := func(row, dataset, column string) (values []float64) {
		for _, record := range groups.runs[[2]string{row, dataset}] {
			if value, ok := record.Details[column]; ok {
				values = append(values, value)
			}
		}
		return values
	}
	describe := func(t figures.Table, title, caption, dataset string) figures.Table {
		t.Title, t.Caption, t.Unit, t.Profile = title, caption, "%", string(profile)
		for key, group := range groups.runs {
			if key[1] == dataset {
				t.Data = []string{group[0].Data}
			}
		}
		if changed := groups.changed[dataset]; len(changed) > 0 {
			t.Caption += fmt.Sprintf(" Run with other settings than the profile's: %s.", strings.Join(changed, ", "))
		}
		return t
	}
	imageNet, synthetic := mainTitles["imagenet"], mainTitles["synthetic"]
	tables := []figures.Table{describe(printed.Beside(func(heads []string, column string) []float64 {
		i := slices.IndexFunc(rows, func(row frozenRow) bool { return slices.Equal(row.heads, heads) })
		if i < 0 {
			return nil
		}
		return values(rows[i].key, imageNet, column)
	}), "Tab. main", "Frozen features: linear segmentation on COCOStuff-27, linear and k-NN classification on ImageNet-1k.", imageNet)}
	t := figures.Table{RowHeads: printed.RowHeads[:2], Columns: printed.Columns}
	for _, row := range slices.Concat(ownRows(), rows) {
		group := groups.runs[[2]string{row.key, synthetic}]
		if len(group) == 0 {
			continue
		}
		line := figures.Row{}
		if row.heads != nil {
			line.Heads = row.heads[:2]
		} else {
			var config MainConfig
			if err := json.Unmarshal(group[0].Config, &config); err != nil {
				return nil, fmt.Errorf("the configuration of record %s: %w", group[0].Cell, err)
			}
			line.Heads = []string{ownMethods[row.key], config.Encoder.Architecture}
		}
		for _, column := range t.Columns {
			line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: values(row.key, synthetic, column)})
		}
		t.Rows = append(t.Rows, line)
	}
	if len(t.Rows) > 0 {
		tables = append(tables, describe(t, "The same on "+synthetic,
			"Linear segmentation of scenes, linear and k-NN classification of objects, of six classes each. The paper has no such table.", synthetic))
	}
	return tables, nil
}
