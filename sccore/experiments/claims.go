package experiments

import (
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Claims is the scoreboard of the paper's claims from the records under the folder out. Each is measured by the experiment that it names; the
// scoreboard names the data behind the numbers that it has.
func Claims(out string, profile study.Profile) (figures.Scoreboard, error) {
	measured := map[[2]string][]float64{} // By the claim's ID and part.
	var data []string
	for _, e := range All() {
		records, err := study.Records(study.Folder(out, e.Name))
		if err != nil {
			return figures.Scoreboard{}, err
		}
		for _, claim := range figures.Claims() {
			if claim.Experiment != e.Name {
				continue
			}
			values, behind, err := e.Measure(records, profile, claim)
			if err != nil {
				return figures.Scoreboard{}, err
			}
			measured[[2]string{claim.ID, claim.Part}] = values
			for _, identity := range behind {
				if !slices.Contains(data, identity) {
					data = append(data, identity)
				}
			}
		}
	}
	return figures.NewScoreboard(string(profile), data, func(c figures.Claim) []float64 { return measured[[2]string{c.ID, c.Part}] }), nil
}
