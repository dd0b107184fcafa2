package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Claims returns the scoreboard of the paper's claims from the records under the folder out. Each claim is measured by the experiment that it names. The
// scoreboard lists the data behind its numbers and the settings that --set changed.
func Claims(out string, profile study.Profile) (figures.Scoreboard, error) {
	measured := map[[2]string][]float64{} // By the claim's ID and part.
	board := figures.Scoreboard{Profile: string(profile)}
	for _, e := range All() {
		records, err := study.Records(study.Folder(out, e.Name))
		if err != nil {
			return figures.Scoreboard{}, err
		}
		for _, claim := range figures.Claims() {
			if claim.Experiment != e.Name {
				continue
			}
			evidence, err := e.Measure(records, profile, claim)
			if err != nil {
				return figures.Scoreboard{}, err
			}
			measured[[2]string{claim.ID, claim.Part}] = evidence.Values
			for _, identity := range evidence.Data {
				if !slices.Contains(board.Data, identity) {
					board.Data = append(board.Data, identity)
				}
			}
			if len(evidence.Changed) > 0 {
				note := fmt.Sprintf("%s ran with settings that differ from the profile's: %s.", e.Name, strings.Join(evidence.Changed, ", "))
				if !slices.Contains(board.Notes, note) {
					board.Notes = append(board.Notes, note)
				}
			}
		}
	}
	board.Judge(func(c figures.Claim) []float64 { return measured[[2]string{c.ID, c.Part}] })
	return board, nil
}
