// Package experiments lists the experiments of the paper.
//
// Each experiment has a folder below: its configuration, cells and profiles (study.go), the worker that runs a cell (worker.go), and its tables and
// pictures (table.go, pictures.go). Package study runs them. In go the records of all experiments; out come the experiments by name and the scoreboard
// of the paper's claims. A new experiment is a new folder and a line in [All].
package experiments

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/spelling"
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
	"github.com/semcon/semcon/sccore/experiments/patchrecall"
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
		patchrecall.Study.Experiment(),
		centroid.Study.Experiment(),
	}
}

// Find returns the experiment with the given name, or the one that reproduces the paper's table or figure with that label, which it then returns as table. The
// error has the name of either kind that a mistyped one most likely means.
func Find(name string) (e study.Experiment, table string, err error) {
	var known, names []string
	for _, e := range All() {
		if e.Name == name {
			return e, "", nil
		}
		if slices.Contains(e.Labels, name) {
			return e, name, nil
		}
		known, names = append(known, e.Labels...), append(names, e.Name)
	}
	slices.Sort(known)
	if slices.Contains(figures.PaperNames(), name) {
		return e, "", fmt.Errorf("no experiment reproduces Tab. %s yet; the reproduced tables are %s", name, strings.Join(known, ", "))
	}
	return e, "", fmt.Errorf("unknown experiment %q%s \"semcon list\" has all", name, cmp.Or(spelling.DidYouMean(name, append(names, known...)), ";"))
}
