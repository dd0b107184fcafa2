package video

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
)

var video = Experiment{
	Name:       Video,
	Title:      "Do patch features follow objects through a video?",
	Reproduces: "Tab. video_seg; claim C23",
	Data:       "DAVIS-2017, or synthetic videos without --data",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "a minute a row on 2 cores; give weights by --set weights.dino-s16=FILE",
		Full:  "2000 frames a row: half an hour on 2 cores for ViT-S/16",
	},
	Run: runVideo,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		results, err := newVideoResults(records, profile)
		if err != nil {
			return nil, err
		}
		return results.tables()
	},
}

// videoTitles are the datasets as records and tables name them.
var videoTitles = map[string]string{"davis": "DAVIS", "synthetic": "synthetic videos"}

// VideoResults are the records of the experiment in one profile.
type VideoResults struct {
	profile      Profile
	recordGroups // A row is an encoder's key and a column a dataset.
}

// LoadVideo reads the experiment's records under the folder out.
func LoadVideo(out string, profile Profile) (VideoResults, error) {
	records, err := Records(folderOf(out, Video))
	if err != nil {
		return VideoResults{}, err
	}
	return newVideoResults(records, profile)
}

func newVideoResults(records []Record, profile Profile) (VideoResults, error) {
	groups, err := groupRecords(records, profile, videoSettings)
	return VideoResults{profile, groups}, err
}

// videoSettings are the settings of a run without its encoder.
func videoSettings(r Record) (settings, error) {
	var config VideoConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	config.Encoder = frozenEncoder{}
	changed, err := changedKeys("", videoConfig(r.Profile, config.Size == 0), config)
	return settings{config, r.Data, changed}, err
}

// values are the numbers of a row on a dataset by ascending seed: a column of the paper's table, or a detail by its name.
func (r VideoResults) values(row, dataset, column string) (values []float64) {
	for _, record := range r.runs[[2]string{row, dataset}] {
		if column == "J&F_mean" {
			values = append(values, record.Value)
		} else if value, ok := record.Details[column]; ok {
			values = append(values, value)
		}
	}
	return values
}

// dataOf is the identity of a dataset's videos, nil if there are no runs.
func (r VideoResults) dataOf(dataset string) []string {
	for key, group := range r.runs {
		if key[1] == dataset {
			return []string{group[0].Data}
		}
	}
	return nil
}

// videoDetails are the columns beside the paper's.
var videoDetails = []string{"J&F_mean", "J_mean", "J_recall", "J_decay", "F_mean", "F_recall", "F_decay"}

// tables are the paper's, ours from runs on DAVIS, and one with recall and decay for each dataset with runs, of the rows that have any.
func (r VideoResults) tables() ([]figures.Table, error) {
	printed, err := figures.Paper("video_seg")
	if err != nil {
		return nil, err
	}
	rows, err := paperRows("video_seg")
	if err != nil {
		return nil, err
	}
	describe := func(t figures.Table, title, caption, dataset string) figures.Table {
		t.Title, t.Caption, t.Unit, t.Profile, t.Data = title, caption, "%", string(r.profile), r.dataOf(dataset)
		if changed := r.changed[dataset]; len(changed) > 0 {
			t.Caption += fmt.Sprintf(" Run with other settings than the profile's: %s.", strings.Join(changed, ", "))
		}
		return t
	}
	davis := videoTitles["davis"]
	tables := []figures.Table{describe(printed.Beside(func(heads []string, column string) []float64 {
		i := slices.IndexFunc(rows, func(row frozenRow) bool { return slices.Equal(row.heads, heads) })
		if i < 0 {
			return nil
		}
		return r.values(rows[i].key, davis, column)
	}), "Tab. video_seg", "Video object segmentation on DAVIS-2017 by label propagation with frozen features.", davis)}
	for _, dataset := range []string{davis, videoTitles["synthetic"]} {
		if r.dataOf(dataset) == nil {
			continue
		}
		t := figures.Table{RowHeads: printed.RowHeads, Columns: videoDetails}
		for _, row := range slices.Concat(ownRows(), rows) {
			if len(r.values(row.key, dataset, "J&F_mean")) == 0 {
				continue
			}
			line := figures.Row{Heads: row.heads}
			if line.Heads == nil {
				line.Heads = []string{ownMethods[row.key], r.architecture(row.key, dataset)}
			}
			for _, column := range t.Columns {
				line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: r.values(row.key, dataset, column)})
			}
			t.Rows = append(t.Rows, line)
		}
		tables = append(tables, describe(t, "Recall and decay on "+dataset,
			"All measures of video object segmentation; a high decay is a loss over time. The paper has no such table.", dataset))
	}
	return tables, nil
}

// architecture is what a row's encoder is, as its records say; empty where they do not.
func (r VideoResults) architecture(row, dataset string) string {
	var config VideoConfig
	for _, record := range r.runs[[2]string{row, dataset}] {
		if json.Unmarshal(record.Config, &config) == nil {
			return config.Encoder.Architecture
		}
	}
	return ""
}

// Gain is the quantity of a part of claim C23, one value a seed: J&F of the full method minus its initialisation. Parts are "DINO", "iBOT" and
// "Mugs", ViT-S/16 on DAVIS, and "own on DAVIS" and "own on synthetic videos", our own training against what it began from. data is the
// identity of the videos.
func (r VideoResults) Gain(part string) (values []float64, data []string) {
	method, dataset, own := strings.Cut(part, " on ")
	if !own {
		dataset = videoTitles["davis"]
	}
	ours, theirs := methodRows(method)
	if values = r.gains(ours, theirs, dataset); values == nil {
		return nil, nil
	}
	return values, r.dataOf(dataset)
}
