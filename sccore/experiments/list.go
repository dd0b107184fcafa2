package experiments

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore/experiments/ablation"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/mainresults"
	"github.com/semcon/semcon/sccore/experiments/noisetolerance"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/experiments/teacherquality"
	"github.com/semcon/semcon/sccore/experiments/theory"
	"github.com/semcon/semcon/sccore/experiments/transfer"
	"github.com/semcon/semcon/sccore/experiments/video"
	"github.com/semcon/semcon/sccore/study"
)

// All lists the experiments.
func All() []study.Experiment {
	return []study.Experiment{
		effectaug.Study.Experiment(),
		theory.Study.Experiment(),
		noisetolerance.Study.Experiment(),
		pretrain.Study.Experiment(),
		teacherquality.Study.Experiment(),
		ablation.Study.Experiment(),
		mainresults.Study.Experiment(),
		transfer.Study.Experiment(),
		video.Study.Experiment(),
	}
}

// ByName finds an experiment; the error lists the known ones.
func ByName(name string) (study.Experiment, error) {
	var names []string
	for _, e := range All() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return study.Experiment{}, fmt.Errorf("experiment %q is unknown; the experiments are %s", name, strings.Join(names, ", "))
}
