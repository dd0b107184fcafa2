package report

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// along is what a run has recorded along the way: by quantity and step, one value for each seed.
type along map[string]map[float64][]float64

// curves fills in the curves of what both runs have recorded.
func (c *Comparison) curves(a, b Selection) {
	var of [2]along
	for i, s := range []Selection{a, b} {
		of[i] = along{}
		var read []string
		for _, r := range s.Records {
			if filepath.Ext(r.Curve) != ".jsonl" || slices.Contains(read, r.Curve) { // Others are folders of models, and tails.
				continue
			}
			read = append(read, r.Curve)
			points, err := readPoints(filepath.Join(s.Folder, filepath.FromSlash(r.Curve)))
			if err != nil {
				add(&c.Missing, err.Error())
				continue
			}
			of[i].add(points)
		}
	}
	for _, quantity := range slices.Sorted(maps.Keys(of[0])) {
		if of[1][quantity] == nil || of[0].constant(quantity) && of[1].constant(quantity) {
			continue
		}
		plot := figures.Curves{X: "step", Y: quantity}
		for i, name := range []string{"A", "B"} { // As in the tables. The names of runs are too long for a legend.
			for _, step := range slices.Sorted(maps.Keys(of[i][quantity])) {
				figures.AddPoint(&plot.Series, name, step, stats.MeanInterval(of[i][quantity][step]).Mean)
			}
		}
		c.Curves = append(c.Curves, plot)
	}
}

// add adds the points of a curve. A point without a step is left out.
func (a along) add(points []map[string]float64) {
	for _, p := range points {
		step, ok := p["step"]
		if !ok {
			continue
		}
		for quantity, value := range p {
			if quantity == "step" || quantity == "epoch" {
				continue
			}
			if a[quantity] == nil {
				a[quantity] = map[float64][]float64{}
			}
			a[quantity][step] = append(a[quantity][step], value)
		}
	}
}

// constant reports whether a quantity has one value, such as 0 for one that is switched off.
func (a along) constant(quantity string) bool {
	var seen []float64
	for _, values := range a[quantity] {
		for _, value := range values {
			if !slices.Contains(seen, value) {
				seen = append(seen, value)
			}
		}
		if len(seen) > 1 {
			return false
		}
	}
	return true
}

// readPoints reads the numbers of a curve file, which has a line of JSON for each point.
func readPoints(path string) (points []map[string]float64, err error) {
	lines, err := study.ReadCurve[json.RawMessage](path)
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		point := map[string]float64{}
		for name, text := range flatten(line) {
			if value, err := strconv.ParseFloat(text, 64); err == nil {
				point[name] = value
			}
		}
		points = append(points, point)
	}
	return points, nil
}
