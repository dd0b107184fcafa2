package recipe

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

// CurveFile is the curve in a stage's folder.
const CurveFile = "curve.jsonl"

// bestOver is the number of consecutive measurements whose mean rates an encoder; a single measurement is of one batch only.
const bestOver = 3

// improved reports whether the encoder at the end of a curve is the best so far: whether the between-class share of the variance of patch features,
// averaged over the last bestOver measurements, is higher than ever before.
//
// Without labels there is no best encoder, and the last one counts, as in the paper. The loss does not show which encoder is better: its target branch
// moves with the online branch, and it is lowest when both have collapsed.
//
// The result depends on the curve alone, so a resumed run writes the same encoders at the same steps as an uninterrupted one.
func improved(curve []sccore.StepMetrics) bool {
	if len(curve) == 0 || curve[len(curve)-1].Classes == nil {
		return false
	}
	var shares []float64
	for _, m := range curve {
		if m.Classes != nil {
			shares = append(shares, m.Classes.Share())
		}
	}
	best, last := 0.0, 0.0
	for i := bestOver; i <= len(shares); i++ {
		best, last = max(best, last), stat.Mean(shares[i-bestOver:i], nil)
	}
	return last > best
}

// Describe formats metrics for the progress bar.
func Describe(m sccore.StepMetrics) string {
	line := fmt.Sprintf("loss %.3f", m.Total)
	if m.PatchEntropy > 0 {
		line += fmt.Sprintf("  entropy %.2f", m.PatchEntropy)
	}
	if m.Patches != nil {
		line += fmt.Sprintf("  rank %.1f", m.Patches.Rank)
	}
	return line
}

// Points converts the metrics of a stage to a curve.
func Points(curve []sccore.StepMetrics) (points []study.Point) {
	for _, m := range curve {
		p := study.Point{Step: m.Step, Loss: m.Total, LearningRate: m.LearningRate}
		if m.Patches != nil {
			p.FeatureStd, p.EffectiveRank = m.Patches.Std, m.Patches.Rank
		}
		if _, rank := m.Evaluated["spread/rank"]; rank || m.Evaluated["knn/accuracy"] > 0 {
			p.Evaluated, p.KNN, p.MIoU = true, m.Evaluated["knn/accuracy"], m.Evaluated["probe/miou"]
		}
		if m.Classes != nil {
			p.Within, p.Between = m.Classes.Within, m.Classes.Between
		}
		points = append(points, p)
	}
	return points
}

// curveOf returns the curve file of a stage as records name it, and details from its last point.
func curveOf[C comparable, D study.Data](r *study.Run[C, D], dir string) (file string, details map[string]float64, err error) {
	file = filepath.Join(dir, CurveFile)
	curve, err := study.ReadCurve[sccore.StepMetrics](file)
	if err != nil || len(curve) == 0 {
		return "", nil, err
	}
	last := curve[len(curve)-1]
	details = map[string]float64{"loss": last.Total, "step": float64(last.Step)}
	if last.Patches != nil {
		details["patch_rank"], details["class_rank"] = last.Patches.Rank, last.Class.Rank
	}
	if last.Classes != nil {
		details["within_classes"], details["between_classes"] = last.Classes.Within, last.Classes.Between
	}
	for key, value := range last.Evaluated {
		if name, ok := strings.CutPrefix(key, "gauges/"); ok {
			details[name] = value
		}
	}
	if l := last.Lambdas; l != nil {
		details["lambda_patch_concentration"], details["lambda_image_concentration"] = l.PatchConcentration, l.ImageConcentration
	}
	if err := AddGate(dir, details); err != nil {
		return "", nil, err
	}
	file, err = filepath.Rel(r.Root(), file)
	return filepath.ToSlash(file), details, err
}

// EncoderFile returns the file of a recorded run's encoder after the stage "first", "control" or "second", or of the file that it started from, "init". It is
// the online branch's encoder, which the paper freezes ("Evaluation protocol").
func EncoderFile(out string, r study.Record, stage string) string {
	return filepath.Join(study.Folder(out, Pretraining), filepath.FromSlash(filepath.Dir(filepath.Dir(r.Curve))), stage, OnlineFile)
}
