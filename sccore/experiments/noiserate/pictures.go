package noiserate

import (
	"fmt"
	"math"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// leastShare is the least share of the pairs in % that a bin of the figure has: the rate of fewer pairs is chance.
const leastShare = 0.01

// Results are the records of the experiment in one profile.
type Results struct{ study.Results }

// Load reads the experiment's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

// Figure draws Fig. noise_rate of a dataset, a column of the records: the positive rate by similarity, and by its rank, where encoders can be
// compared. Both are means over seeds. Without records of the column it is an error.
func (r Results) Figure(column string) (figures.CurvesRow, error) {
	f := figures.CurvesRow{
		{Title: fmt.Sprintf("%s, %s profile", column, r.Profile), X: "cosine similarity", Y: "positive rate (%)"},
		{Title: "by rank", X: "decile of similarity", Y: "positive rate (%)"},
	}
	for _, row := range encoders.AllRows(r.Results, "main", column) {
		var c Config
		if err := r.Of(row.Key, column)[0].DecodeConfig(&c); err != nil {
			return nil, err
		}
		mean := func(detail string) float64 { return stats.MeanInterval(r.Details(row.Key, column, detail)).Mean }
		by := figures.Series{Name: encoders.Title(row.Key)}
		for i := range c.Bins {
			by.X = append(by.X, (2*float64(i)+1)/float64(c.Bins)-1)
			rate := math.NaN()
			if mean(evaluation.BinPairs(i)) >= leastShare {
				rate = mean(evaluation.BinRate(i))
			}
			by.Y = append(by.Y, rate)
		}
		rank := figures.Series{Name: by.Name}
		for g := range evaluation.Deciles {
			rank.X, rank.Y = append(rank.X, float64(g+1)), append(rank.Y, mean(evaluation.DecileRate(g)))
		}
		f[0].Series, f[1].Series = append(f[0].Series, by), append(f[1].Series, rank)
	}
	if len(f[0].Series) == 0 {
		return nil, fmt.Errorf("no record of %s in the %s profile", column, r.Profile)
	}
	return f, nil
}

// drawn draws the positive rate by similarity, for each dataset with records.
func drawn(results study.Results, _ study.FigureSources, all *study.Drawn) {
	for _, column := range results.Columns() {
		figure, err := Results{results}.Figure(column)
		all.Add(figure, err, "Share of pairs of patches of one class by their similarity, and by its rank: Fig. noise_rate.", "noise-rate", column)
	}
}
