package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Claims returns the scoreboard of the paper's claims from the records under the folder out. Each claim is measured by the experiment that it names, on
// synthetic data and on real ones apart. Runs with settings that --set changed count for no claim; the scoreboard names them. It lists the data behind
// its numbers.
func Claims(out string, profile study.Profile) (figures.Scoreboard, error) {
	type key struct {
		id, part string
		kind     figures.DataKind
	}
	measured := map[key]study.Evidence{}
	board := figures.Scoreboard{Profile: string(profile)}
	for _, e := range All() {
		records, err := study.Records(study.Folder(out, e.Name))
		if err != nil {
			return figures.Scoreboard{}, err
		}
		byKind := map[figures.DataKind][]study.Record{}
		for _, r := range records {
			byKind[r.Kind] = append(byKind[r.Kind], r)
		}
		for _, claim := range figures.Claims() {
			for _, kind := range []figures.DataKind{figures.Synthetic, figures.Real} {
				if claim.Experiment != e.Name || len(byKind[kind]) == 0 {
					continue
				}
				found, err := e.Measure(byKind[kind], profile, claim)
				if err != nil {
					return figures.Scoreboard{}, err
				}
				note := found.Note
				switch {
				case len(found.Changed) > 0:
					note = fmt.Sprintf("Runs of %s on %s data count for no claim, because their settings differ from the profile's: %s.",
						e.Name, kind, strings.Join(found.Changed, ", "))
				case len(found.Blind) > 0:
					note = fmt.Sprintf("No claim is read from %s of %s on %s data: none of the encoders that it compares is above random weights by three standard errors.",
						strings.Join(found.Blind, ", "), e.Name, kind)
				}
				if note != "" && !slices.Contains(board.Notes, note) {
					board.Notes = append(board.Notes, note)
				}
				if len(found.Changed)+len(found.Blind) > 0 {
					continue
				}
				measured[key{claim.ID, claim.Part, kind}] = found
			}
		}
	}
	board.Judge(func(c figures.Claim, kind figures.DataKind) (values []float64, data []string) {
		found := measured[key{c.ID, c.Part, kind}]
		return found.Values, found.Data
	})
	return board, nil
}
