package recipe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/metrics"
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

// Correspondences say how well S_t tells pairs of patches of one class: "precision_top1" to "precision_top10", in percent, beside "precision_top100", which scores
// without any sense would have, and "auc"; and the same over pairs of two objects, as "objects_auc". What no pair gives is missing.
func Correspondences(d sccore.Diagnostics) map[string]float64 {
	said := map[string]float64{}
	for prefix, pairs := range map[string]sccore.Pairs{"": d.Pairs, "objects_": d.Objects} {
		if len(pairs.Scores) == 0 {
			continue
		}
		shares := append([]float64{1}, sccore.TopShares...)
		for i, precision := range metrics.PrecisionAtTop(pairs.Scores, pairs.Same, shares...) {
			said[fmt.Sprintf("%sprecision_top%g", prefix, 100*shares[i])] = precision
		}
		if auc, err := stats.AUC(pairs.Scores, pairs.Same); err == nil { // Without pairs of one class there is none.
			said[prefix+"auc"] = auc
		}
	}
	return said
}

// gateFile holds the correspondences that a stage with CoTAP began with, in its folder.
const gateFile = "correspondences.json"

// measureGate measures the correspondences of a stage with patch concentration that has just begun, on images with labels, prints them and writes them to its folder.
func (t *Trainer) measureGate(ctx context.Context, s Stage, dir string, say func(format string, args ...any)) error {
	if s.Config.Lambdas.PatchConcentration == 0 {
		return nil
	}
	d, err := t.Diagnostics(ctx)
	if err != nil || d.Precision == nil {
		return err
	}
	said := Correspondences(d)
	if chance, paired := said["objects_precision_top100"]; paired {
		said["gate"] = said["objects_precision_top5"] / max(chance, 1e-9) // 0 without pairs of one class.
	}
	say("%s: correspondences at the start: AUC %.3f, of objects %.3f; precision at the top 1, 5, 10 and 100 %% of objects %.0f, %.0f, %.0f and %.0f %%", s.Name, said["auc"],
		said["objects_auc"], said["objects_precision_top1"], said["objects_precision_top5"], said["objects_precision_top10"], said["objects_precision_top100"])
	content, err := json.Marshal(said)
	return errors.Join(err, atomicfile.WriteBytes(filepath.Join(dir, gateFile), content))
}

// AddGate adds to the details of a record the correspondences that the stage in a folder began with, if it has patch concentration and images with labels.
func AddGate(dir string, details map[string]float64) error {
	content, err := os.ReadFile(filepath.Join(dir, gateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	said := map[string]float64{}
	if err == nil {
		err = json.Unmarshal(content, &said)
	}
	for name, value := range said {
		details["start_"+name] = value // Of them [study.DetailGate].
	}
	return err
}
