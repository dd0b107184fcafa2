package recipe

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
)

// Files in a stage's folder besides the checkpoints. bestFile exists only with labels; see [improved].
const (
	FinalFile  = "final.safetensors" // The last checkpoint.
	OnlineFile = "online.safetensors"
	targetFile = "target.safetensors"
	bestFile   = "best.safetensors"
	CurveFile  = "curve.jsonl"
)

// Stage is a compiled stage of training, with the encoder that is measured: that of the online branch, as in the paper ("Evaluation protocol").
type Stage struct {
	Name    string
	Trainer *sccore.Trainer
	Frozen  *evaluation.FeatureExtractor
}

// NewStage compiles a stage.
func NewStage(b compute.Backend, name string, data sccore.Data, config sccore.Config) (*Stage, error) {
	trainer, err := sccore.NewTrainer(b, data, config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	vit, store, scope := trainer.Encoder(sccore.Online)
	frozen, err := evaluation.NewFeatureExtractor(b, vit, store, scope, evaluation.EncodeBatch)
	return &Stage{name, trainer, frozen}, err
}

// SetData gives a compiled stage the images of a run.
func (s *Stage) SetData(data sccore.Data) error { return s.Trainer.SetData(data) }

// Report makes a run's records and warnings name the images that the stage cannot read, in training and in measuring.
func Report[C comparable, D study.Data](r *study.Run[C, D], s *Stage) {
	skip := func(image datasets.Skipped) { r.Skip(image.File, image.Reason) }
	s.Trainer.Skipped, s.Frozen.Skipped = skip, skip
}

// Close frees the device's memory.
func (s *Stage) Close() {
	if s != nil {
		s.Frozen.Close()
		s.Trainer.Close()
	}
}

// Unfiltered is the encoder of the stage without the filter. Before training the filter has random weights, which would change the features of a
// checkpoint.
func (s *Stage) Unfiltered(b compute.Backend) (*evaluation.FeatureExtractor, error) {
	vit, store, scope := s.Trainer.Encoder(sccore.Online)
	vit.Prototypes = 0
	frozen, err := evaluation.NewFeatureExtractor(b, vit, store, scope, evaluation.EncodeBatch)
	if err == nil {
		frozen.Skipped = s.Frozen.Skipped
	}
	return frozen, err
}

// TrainStage completes a stage of a run, from its last checkpoint or from start, and saves its encoders in dir.
func TrainStage[C comparable, D study.Data](
	r *study.Run[C, D], s *Stage, dir string, start func() error, evaluators []train.Evaluator,
) error {
	t := s.Trainer
	Report(r, s)
	save := func(branch sccore.Branch, file string) error {
		return t.SaveEncoder(filepath.Join(dir, file), branch, map[string]string{
			"run": r.Cell.Name(), "stage": s.Name, "step": fmt.Sprint(t.Done()), "config": string(study.EncodeConfig(r.Cell.Config)),
		})
	}
	var curve []sccore.StepMetrics
	loop := train.Loop[sccore.StepMetrics]{Trainer: t, Dir: dir, Final: FinalFile, Start: start, Note: &curve, Evaluators: evaluators}
	loop.After = func(m sccore.StepMetrics, evaluated map[string]float64) error {
		m.Evaluated = evaluated
		r.Step("%s  %s", s.Name, Describe(m))
		if m.Class == nil && evaluated == nil && t.Done() < t.Steps() {
			return nil
		}
		curve = append(curve, m)
		if err := study.WriteCurve(filepath.Join(dir, CurveFile), curve); err != nil {
			return err
		}
		if watch := r.Options().Watch; watch != nil {
			watch(r.Cell.Name()+"/"+s.Name, Points(curve))
		}
		if improved(curve) {
			return save(sccore.Online, bestFile)
		}
		return nil
	}
	if err := study.Train(r, &loop); err != nil {
		return err
	}
	for file, branch := range map[string]sccore.Branch{OnlineFile: sccore.Online, targetFile: sccore.Target} {
		if err := save(branch, file); err != nil {
			return err
		}
	}
	return loop.Clean()
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

// CurveOf returns the curve file of a stage as records name it, and details from its last point.
func CurveOf[C comparable, D study.Data](r *study.Run[C, D], dir string) (file string, details map[string]float64, err error) {
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
	file, err = filepath.Rel(r.Root(), file)
	return filepath.ToSlash(file), details, err
}

// EncoderFile returns the file of a recorded run's encoder after the stage "first", "control" or "second", or of the file that it started from, "init": that of the online branch, which the paper freezes
// ("Evaluation protocol").
func EncoderFile(out string, r study.Record, stage string) string {
	return filepath.Join(study.Folder(out, Pretraining), filepath.FromSlash(filepath.Dir(filepath.Dir(r.Curve))), stage, OnlineFile)
}
