package noise

import (
	"fmt"
	"math"
	"slices"

	"github.com/semcon/semcon/figures"
)

var noiseTolerance = Experiment{
	Name:       NoiseTolerance,
	Title:      "Does a ranking loss tolerate flipped pseudo labels better than binary cross-entropy?",
	Reproduces: "claim C25, which the paper states without a number",
	Data:       "patches of synthetic classes",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "half a minute on 2 cores",
		Full:  "half an hour on 2 cores: ten times the steps, 20 seeds",
	},
	Run: runNoiseTolerance,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		results, err := newNoiseToleranceResults(records, profile)
		if err != nil {
			return nil, err
		}
		return []figures.Table{results.table()}, nil
	},
}

// noiseTitles are the losses as tables head them.
var noiseTitles = map[string]string{"bce": "binary cross-entropy", "cotap": "CoTAP"}

// NoiseToleranceResults are the records of the noise study in one profile.
type NoiseToleranceResults struct {
	profile      Profile
	recordGroups // A row is a loss and a column a share of flipped labels.
}

// LoadNoiseTolerance reads the study's records under the folder out.
func LoadNoiseTolerance(out string, profile Profile) (NoiseToleranceResults, error) {
	records, err := Records(folderOf(out, NoiseTolerance))
	if err != nil {
		return NoiseToleranceResults{}, err
	}
	return newNoiseToleranceResults(records, profile)
}

func newNoiseToleranceResults(records []Record, profile Profile) (NoiseToleranceResults, error) {
	groups, err := groupRecords(records, profile, noiseToleranceSettings)
	return NoiseToleranceResults{profile, groups}, err
}

// noiseToleranceSettings are the settings of a training of either loss.
func noiseToleranceSettings(r Record) (settings, error) {
	var config NoiseToleranceConfig
	if err := r.configuration(&config); err != nil {
		return settings{}, err
	}
	own := noiseToleranceConfig(r.Profile, config.Loss)
	own.Flipped = config.Flipped
	changed, err := changedKeys("", own, config)
	// The losses and their rates differ and are compared; anything else must not.
	config.Loss, config.Flipped, config.Rate = "", 0, config.Rate/own.Rate
	return settings{config, r.Data, changed}, err
}

// values are the average precisions of a loss at a share of flipped labels by ascending seed.
func (r NoiseToleranceResults) values(loss string, share float64) []float64 {
	var values []float64
	for _, record := range r.runs[[2]string{loss, flippedColumn(share)}] {
		values = append(values, record.Value)
	}
	return values
}

// drop is what a seed loses from clean labels to a share of flipped ones, in points; ok tells whether both have run.
func (r NoiseToleranceResults) drop(loss string, share float64, seed int) (points float64, ok bool) {
	at := func(share float64) (float64, bool) {
		group := r.runs[[2]string{loss, flippedColumn(share)}]
		i := slices.IndexFunc(group, func(record Record) bool { return record.Seed == seed })
		if i < 0 {
			return 0, false
		}
		return group[i].Value, true
	}
	clean, hasClean := at(0)
	flipped, hasFlipped := at(share)
	return clean - flipped, hasClean && hasFlipped
}

// Tolerance is the quantity of claim C25, one value a seed: what binary cross-entropy loses in average precision and CoTAP does not, the mean
// over the shares of flipped labels that both losses have runs of.
func (r NoiseToleranceResults) Tolerance() []float64 {
	var values []float64
	for _, record := range r.runs[[2]string{"bce", flippedColumn(0)}] {
		sum, shares := 0.0, 0
		for _, share := range flippedShares[1:] {
			bce, hasBCE := r.drop("bce", share, record.Seed)
			cotap, hasCoTAP := r.drop("cotap", share, record.Seed)
			if hasBCE && hasCoTAP {
				sum += bce - cotap
				shares++
			}
		}
		if shares > 0 {
			values = append(values, sum/float64(shares))
		}
	}
	return values
}

func (r NoiseToleranceResults) table() figures.Table {
	t := figures.Table{
		Title:   "Flipped pseudo labels",
		Caption: "Average precision of the student's patch correspondences on new images, after training on pseudo labels of which a share is flipped. The paper has no such table.",
		Unit:    "%", Profile: string(r.profile),
		RowHeads: []figures.RowHead{{Name: "loss"}},
	}
	if len(r.runs) > 0 {
		t.Data = []string{noiseData}
	}
	for _, share := range flippedShares {
		t.Columns = append(t.Columns, flippedColumn(share))
	}
	for _, loss := range noiseLosses {
		row := figures.Row{Heads: []string{noiseTitles[loss]}}
		for _, share := range flippedShares {
			row.Cells = append(row.Cells, figures.Cell{Paper: math.NaN(), Ours: r.values(loss, share)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Curves is the figure of average precision against the share of flipped labels, the mean over seeds.
func (r NoiseToleranceResults) Curves() figures.Curves {
	f := figures.Curves{Title: fmt.Sprintf("Flipped pseudo labels, %s profile", r.profile), X: "flipped labels (%)", Y: "average precision (%)"}
	for _, loss := range noiseLosses {
		series := figures.Series{Name: noiseTitles[loss]}
		for _, share := range flippedShares {
			if values := r.values(loss, share); len(values) > 0 {
				sum := 0.0
				for _, value := range values {
					sum += value
				}
				series.X, series.Y = append(series.X, 100*share), append(series.Y, sum/float64(len(values)))
			}
		}
		f.Series = append(f.Series, series)
	}
	return f
}
