// Package noiserate is the experiment of Fig. noise_rate: how often do similar patches of different images share their class, before and after training
// with the method?
//
// In go annotated images, COCOStuff-27, PASCAL VOC or synthetic scenes, and the encoders of package encoders. Out come records of the positive rate by
// similarity of patch tokens and, in columns of their own, of projected features of the target branch; tables, the figures and the claims C20 and C21, which are
// about projected features.
package noiserate

import (
	"fmt"
	"math"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "noise-rate"

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	evaluation.NoiseRate
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Grid:       encoders.Grid[Config]{Name: Name, Table: "main"},
	Evaluation: func(c Config) evaluation.Evaluation { return c.NoiseRate },
	Columns: func(d evaluation.Data, _ study.Cell[Config]) []string {
		return []string{d.Title(), d.Title() + projected}
	},
	Group: "sample.",
	Tables: func(results study.Results) (tables []figures.Table) { // One for each dataset with records.
		for _, column := range results.Columns() {
			data, is := strings.CutSuffix(column, projected)
			table := study.TableOf(Name, lo.Ternary(is, "projected", "patches"))
			table.Title, table.Rows = strings.Replace(table.Title, "DATA", data, 1), encoders.AllRows(results, "main", column)
			for i := range table.Columns {
				table.Columns[i].From = []string{column}
			}
			tables = append(tables, table.Of(results))
		}
		return tables
	},
	Figures: func(results study.Results, _ study.FigureSources, all *study.Drawn) {
		for _, column := range results.Columns() {
			figure, err := Figure(results, column)
			all.Add(figure, err, "Positive rate of pairs of patches by their similarity, and by its rank: Fig. noise_rate of "+column+".", "noise-rate", strings.ReplaceAll(column, "/", "-"))
		}
	},
}.Spec()

// projected ends the columns of projected features.
const projected = "/projected"

// leastShare is the least share of the pairs in % that a bin of the figure has: the rate of fewer pairs is chance.
const leastShare = 0.01

// Figure draws Fig. noise_rate of a dataset, a column of the records: the positive rate by similarity, and by its rank, where encoders can be
// compared. Both are means over seeds. Without records of the column it is an error.
func Figure(r study.Results, column string) (figures.CurvesRow, error) {
	f := figures.CurvesRow{
		{Title: fmt.Sprintf("%s, %s profile", column, r.Profile), X: "cosine similarity", Y: "positive rate (%)"},
		{Title: "by rank", X: "decile of similarity", Y: "positive rate (%)"},
	}
	for _, row := range encoders.AllRows(r, "main", column) {
		var c Config
		if err := r.Of(row.Key, column)[0].DecodeConfig(&c); err != nil {
			return nil, err
		}
		mean := func(detail string) float64 { return stats.MeanInterval(r.Details(row.Key, column, detail)).Mean }
		by := figures.Series{Name: encoders.Title(row.Key)}
		for i := range c.Bins {
			by.X = append(by.X, (2*float64(i)+1)/float64(c.Bins)-1)
			by.Y = append(by.Y, lo.Ternary(mean(evaluation.BinPairs(i)) >= leastShare, mean(evaluation.BinRate(i)), math.NaN()))
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
