package teacherquality

import (
	"fmt"
	"math"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/study"
)

// titles are the names of the losses in tables and legends.
var titles = map[string]string{
	lossStart: "alignment, first stage", lossAlignment: "patch alignment", sccore.WithCoTAP: "+ CoTAP", sccore.WithBCE: "+ binary cross-entropy",
}

// Results are the records of the study in one profile. A row is a condition; there is one column.
type Results struct{ study.Results }

// Load reads the study's records under the folder out.
func Load(out string, profile study.Profile) (Results, error) {
	results, err := Study.Load(out, profile)
	return Results{results}, err
}

// Gain is the gain of a patch-concentration loss, "cotap" or "bce" with weight λ2, over patch alignment alone, in points of linear mIoU: one value for
// each seed with both runs. q comes from labels with the given AUC, or from the real teacher if auc is 0.
func (r Results) Gain(loss string, lambda, auc float64) []float64 {
	return r.gain(Config{Loss: loss, Lambda: lambda, Teacher: map[bool]string{true: sccore.FromHead, false: sccore.FromLabels}[auc == 0], AUC: auc})
}

func (r Results) gain(c Config) (gains []float64) {
	return r.Differences(pretrain.ColumnMIoU, c.row(), Config{Loss: lossAlignment}.row())
}

// realAUC is the mean over seeds of the real teacher's AUC; NaN without runs.
func (r Results) realAUC() float64 {
	return stats.MeanInterval(r.Details(Config{Loss: lossAlignment}.row(), pretrain.ColumnMIoU, "teacher_auc_head")).Mean
}

func (r Results) table() figures.Table {
	t := figures.Table{
		Title: "Gain of patch concentration by the quality of its teacher",
		Caption: "Linear mIoU after the second stage, which starts from one checkpoint per seed, and the gain over patch alignment alone on the same seed with its " +
			"95 % interval. The AUC measures the teacher's correspondences, from labels with noise or from the target branch. The paper has no such table.",
		RowHeads: []figures.RowHead{{Name: "loss"}, {Name: "λ2"}, {Name: "teacher"}, {Name: "interval of the gain"}},
		Columns:  []string{pretrain.ColumnMIoU, "gain"},
	}
	for _, c := range rows(r.Profile) {
		heads := []string{titles[c.Loss], "", "", ""}
		var gain []float64
		if c.teacher() != "none" {
			heads[1], heads[2] = fmt.Sprintf("%g", c.Lambda), fmt.Sprintf("labels, AUC %.2f", c.AUC)
			if c.Teacher == sccore.FromHead {
				if heads[2] = "real"; !math.IsNaN(r.realAUC()) {
					heads[2] = fmt.Sprintf("real, AUC %.2f", r.realAUC())
				}
			}
			gain = r.gain(c)
			if interval := stats.MeanInterval(gain); !math.IsNaN(interval.Low) {
				heads[3] = strings.ReplaceAll(fmt.Sprintf("%+.1f to %+.1f", interval.Low, interval.High), "-", "−")
			}
		}
		values := r.Values(c.row(), pretrain.ColumnMIoU)
		t.Rows = append(t.Rows, figures.Row{Heads: heads, Cells: []figures.Cell{{Paper: math.NaN(), Ours: values}, {Paper: math.NaN(), Ours: gain}}})
	}
	r.DescribeAs(&t, "%", pretrain.ColumnMIoU)
	return t
}

// Gains plots the gain against the teacher's AUC: one series for each loss and λ2, with the real teacher at its measured AUC.
func (r Results) Gains() figures.GainPlot {
	f := figures.GainPlot{Title: fmt.Sprintf("Gain over patch alignment alone, %s profile", r.Profile), X: "AUC of the teacher's correspondences", Y: "gain in linear mIoU (points)"}
	var last string
	for _, c := range rows(r.Profile) {
		if c.teacher() == "none" {
			continue
		}
		name := fmt.Sprintf("%s, λ2 = %g", titles[c.Loss], c.Lambda)
		if name != last {
			f.Series = append(f.Series, figures.GainSeries{Name: name})
			last = name
		}
		point := figures.GainPoint{X: c.AUC, Gains: r.gain(c)}
		if c.Teacher == sccore.FromHead {
			point.X, point.Real = r.realAUC(), true
		}
		if series := &f.Series[len(f.Series)-1]; len(point.Gains) > 0 {
			series.Points = append(series.Points, point)
		}
	}
	return f
}
