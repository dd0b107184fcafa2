package pretrain

import (
	"fmt"

	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// drawn draws both stages of the run with the lowest seed.
func drawn(results study.Results, from study.FigureSources) ([]study.Figure, error) {
	var all study.Drawn
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnRank} { // With labels, and without.
		if records := results.Of(recipe.RowMethod, column); len(records) > 0 {
			stages, err := Results{results}.BothStages(from.Out, records[0].Seed)
			all.Add(stages, err, fmt.Sprintf("Both stages of training of seed %d, one after the other.", records[0].Seed), "stages")
			break
		}
	}
	return all.All()
}
