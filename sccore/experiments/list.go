package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/ablation"
	"github.com/semcon/semcon/sccore/experiments/centroid"
	"github.com/semcon/semcon/sccore/experiments/detection"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/extendedtraining"
	"github.com/semcon/semcon/sccore/experiments/finetuning"
	"github.com/semcon/semcon/sccore/experiments/mainresults"
	"github.com/semcon/semcon/sccore/experiments/noiserate"
	"github.com/semcon/semcon/sccore/experiments/noisetolerance"
	"github.com/semcon/semcon/sccore/experiments/overdispersion"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/experiments/teacherquality"
	"github.com/semcon/semcon/sccore/experiments/theory"
	"github.com/semcon/semcon/sccore/experiments/transfer"
	"github.com/semcon/semcon/sccore/experiments/video"
	"github.com/semcon/semcon/sccore/study"
)

// All lists the experiments, each after those whose runs it reads.
func All() []study.Experiment {
	return []study.Experiment{
		effectaug.Study.Experiment(),
		theory.Study.Experiment(),
		noisetolerance.Study.Experiment(),
		pretrain.Study.Experiment(),
		teacherquality.Study.Experiment(),
		ablation.Study.Experiment(),
		extendedtraining.Study.Experiment(),
		mainresults.Study.Experiment(),
		transfer.Study.Experiment(),
		finetuning.Study.Experiment(),
		detection.Study.Experiment(),
		video.Study.Experiment(),
		noiserate.Study.Experiment(),
		overdispersion.Study.Experiment(),
		centroid.Study.Experiment(),
	}
}

// ByName returns the experiment with the given name; the error lists the known names.
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

// Find returns the experiment with the given name, or the one that reproduces the paper's table or figure with that label, which it then returns as table. The
// error lists the known names of both kinds.
func Find(name string) (e study.Experiment, table string, err error) {
	if e, err = ByName(name); err == nil {
		return e, "", nil
	}
	var known []string
	for _, e := range All() {
		if slices.Contains(e.Labels, name) {
			return e, name, nil
		}
		known = append(known, e.Labels...)
	}
	slices.Sort(known)
	if slices.Contains(figures.PaperNames(), name) {
		return e, "", fmt.Errorf("no experiment reproduces Tab. %s yet; the reproduced tables are %s", name, strings.Join(known, ", "))
	}
	return e, "", fmt.Errorf("%w; the tables of the paper are %s", err, strings.Join(known, ", "))
}
