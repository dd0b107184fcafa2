package experiments

import (
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/figures"
)

// Claims is the scoreboard of the paper's claims from the records under the folder out. A claim is judged on the paper's own dataset where
// there are runs on it, and else on the first that has runs; the scoreboard names the data.
func Claims(out string, profile Profile) (figures.Scoreboard, error) {
	results, err := LoadEffectAug(out, profile)
	if err != nil {
		return figures.Scoreboard{}, err
	}
	var dataset string
	var data []string
	if len(results.Datasets()) > 0 {
		dataset = results.Datasets()[0]
		data = results.dataOf(dataset)
	}
	noise, err := LoadNoiseTolerance(out, profile)
	if err != nil {
		return figures.Scoreboard{}, err
	}
	if len(noise.runs) > 0 {
		data = append(data, noiseData)
	}
	lines, err := LoadAblation(out, profile)
	if err != nil {
		return figures.Scoreboard{}, err
	}
	data = append(data, lines.data()...)
	videos, err := LoadVideo(out, profile)
	if err != nil {
		return figures.Scoreboard{}, err
	}
	for _, claim := range figures.Claims() {
		if claim.Experiment != Video {
			continue
		}
		_, judged := videos.Gain(claim.Part)
		for _, identity := range judged {
			if !slices.Contains(data, identity) {
				data = append(data, identity)
			}
		}
	}
	segmented, err := LoadTransfer(out, profile)
	if err != nil {
		return figures.Scoreboard{}, err
	}
	data = append(data, segmented.data()...)
	return figures.NewScoreboard(string(profile), data, func(c figures.Claim) []float64 {
		switch c.Experiment {
		case EffectAug:
			return results.Measure(c, dataset)
		case NoiseTolerance:
			return noise.Tolerance()
		case Ablation:
			return lines.Measure(c)
		case Video:
			gain, _ := videos.Gain(c.Part)
			return gain
		case Transfer:
			return segmented.Gain(c.Part)
		}
		return nil
	}), nil
}

// folderOf is where an experiment's records and files stand.
func folderOf(out, experiment string) string { return filepath.Join(out, experiment) }
