package experiments

import (
	"fmt"
	"math"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
)

var teacherQuality = Experiment{
	Name:       TeacherQuality,
	Title:      "How good must the teacher's correspondences be for patch concentration to help?",
	Reproduces: "\"Patch correspondence distillation\"; explains what claim C16 needs",
	Data:       "synthetic scenes and objects, whose labels make teachers of known quality",
	Cost: map[Profile]string{
		Smoke: "seconds",
		Quick: "about 20 minutes on 2 quiet cores",
		Full:  "about 5 hours on 2 cores: ten seeds, finer steps",
	},
	Run: runTeacherQuality,
	Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
		results, err := newTeacherQualityResults(records, profile)
		if err != nil {
			return nil, err
		}
		return []figures.Table{results.table()}, nil
	},
}

// qualityTitles are the losses as tables and legends name them.
var qualityTitles = map[string]string{
	lossStart: "alignment, first stage", lossAlignment: "patch alignment", sccore.WithCoTAP: "+ CoTAP", sccore.WithBCE: "+ binary cross-entropy",
}

// TeacherQualityResults are the records of the study in one profile.
type TeacherQualityResults struct {
	profile      Profile
	recordGroups // A row is a condition; there is one column.
}

// LoadTeacherQuality reads the study's records under the folder out.
func LoadTeacherQuality(out string, profile Profile) (TeacherQualityResults, error) {
	records, err := Records(folderOf(out, TeacherQuality))
	if err != nil {
		return TeacherQualityResults{}, err
	}
	return newTeacherQualityResults(records, profile)
}

func newTeacherQualityResults(records []Record, profile Profile) (TeacherQualityResults, error) {
	groups, err := groupRecords(records, profile, func(r Record) (settings, error) {
		var config TeacherQualityConfig
		if err := r.configuration(&config); err != nil {
			return settings{}, err
		}
		changed, err := changedKeys("", teacherQualityConfig(r.Profile), config.shared())
		return settings{config.shared(), r.Data, changed}, err
	})
	return TeacherQualityResults{profile, groups}, err
}

// group are the records of a condition by ascending seed.
func (r TeacherQualityResults) group(c TeacherQualityConfig) []Record {
	return r.runs[[2]string{c.row(), columnMIoU}]
}

// Gain is what a loss of patch concentration gains over patch alignment alone, in points of linear mIoU, one value for each seed that has both:
// "cotap" or "bce" with weight λ2 and q from labels of that AUC, or from the real teacher if auc is 0.
func (r TeacherQualityResults) Gain(loss string, lambda, auc float64) []float64 {
	return r.gain(TeacherQualityConfig{Loss: loss, Lambda: lambda, Teacher: map[bool]string{true: sccore.FromHead, false: sccore.FromLabels}[auc == 0], AUC: auc})
}

func (r TeacherQualityResults) gain(c TeacherQualityConfig) (gains []float64) {
	alignment := map[int]float64{}
	for _, record := range r.group(TeacherQualityConfig{Loss: lossAlignment}) {
		alignment[record.Seed] = record.Value
	}
	for _, record := range r.group(c) {
		if alone, ok := alignment[record.Seed]; ok {
			gains = append(gains, record.Value-alone)
		}
	}
	return gains
}

// realAUC is the mean over seeds of the real teacher's AUC; NaN without runs.
func (r TeacherQualityResults) realAUC() float64 {
	var values []float64
	for _, record := range r.group(TeacherQualityConfig{Loss: lossAlignment}) {
		values = append(values, record.Details["teacher_auc_head"])
	}
	return stats.MeanInterval(values).Mean
}

func (r TeacherQualityResults) table() figures.Table {
	t := figures.Table{
		Title: "What patch concentration gains, against its teacher's quality",
		Caption: "Linear mIoU after training on from one checkpoint a seed, and the gain over patch alignment alone on the same seed with its 95 % interval. " +
			"The teacher is the AUC of its correspondences: of labels with noise, and of the target branch itself. The paper has no such table.",
		Unit: "%", Profile: string(r.profile),
		RowHeads: []figures.RowHead{{Name: "loss"}, {Name: "λ2"}, {Name: "teacher"}, {Name: "interval of the gain"}},
		Columns:  []string{columnMIoU, "gain"},
	}
	if changed := r.changed[columnMIoU]; len(changed) > 0 {
		t.Caption += fmt.Sprintf(" Run with other settings than the profile's: %v.", changed)
	}
	for _, c := range qualityRows(r.profile) {
		heads := []string{qualityTitles[c.Loss], "", "", ""}
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
		var values []float64
		for _, record := range r.group(c) {
			values = append(values, record.Value)
			t.Data = []string{record.Data}
		}
		t.Rows = append(t.Rows, figures.Row{Heads: heads, Cells: []figures.Cell{{Paper: math.NaN(), Ours: values}, {Paper: math.NaN(), Ours: gain}}})
	}
	return t
}

// Gains is the figure of the gain against the teacher's AUC: one series for each loss and λ2, the real teacher at its own AUC.
func (r TeacherQualityResults) Gains() figures.Gains {
	f := figures.Gains{Title: fmt.Sprintf("Gain over patch alignment alone, %s profile", r.profile), X: "AUC of the teacher's correspondences", Y: "gain in linear mIoU (points)"}
	var last string
	for _, c := range qualityRows(r.profile) {
		if c.teacher() == "none" {
			continue
		}
		name := fmt.Sprintf("%s, λ2 = %g", qualityTitles[c.Loss], c.Lambda)
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
