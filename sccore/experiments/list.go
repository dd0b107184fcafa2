// Package experiments lists the experiments of the paper.
//
// Each experiment has a folder below: its configuration, cells and profiles (study.go), the worker that runs a cell (worker.go), and its tables and
// pictures (table.go, pictures.go). Package study runs them. In go the records of all experiments; out come the experiments by name and the scoreboard
// of the paper's claims. A new experiment is a new folder and a line in [All].
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

// ByName returns the experiment with the given name; the error has the name that a mistyped one most likely means.
func ByName(name string) (study.Experiment, error) {
	var names []string
	for _, e := range All() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return study.Experiment{}, unknown(name, names)
}

// unknown is the error for a name that is none of names.
func unknown(name string, names []string) error {
	if near := nearest(name, names); near != "" {
		return fmt.Errorf("unknown experiment %q: did you mean %s? \"semcon list\" has all", name, near)
	}
	return fmt.Errorf("unknown experiment %q; \"semcon list\" has all", name)
}

// Find returns the experiment with the given name, or the one that reproduces the paper's table or figure with that label, which it then returns as table. The
// error has the name of either kind that a mistyped one most likely means.
func Find(name string) (e study.Experiment, table string, err error) {
	if e, err = ByName(name); err == nil {
		return e, "", nil
	}
	var known, names []string
	for _, e := range All() {
		if slices.Contains(e.Labels, name) {
			return e, name, nil
		}
		known, names = append(known, e.Labels...), append(names, e.Name)
	}
	slices.Sort(known)
	if slices.Contains(figures.PaperNames(), name) {
		return e, "", fmt.Errorf("no experiment reproduces Tab. %s yet; the reproduced tables are %s", name, strings.Join(known, ", "))
	}
	return e, "", unknown(name, append(names, known...))
}

// nearest returns the name that a mistyped one most likely means, or "" if none is near: at most a third of its letters are to be changed, and at least
// one may be.
func nearest(typed string, names []string) (near string) {
	least := max(len(typed)/3, 1) + 1
	for _, name := range names {
		if d := distance(strings.ToLower(typed), name); d < least {
			near, least = name, d
		}
	}
	return near
}

// distance is the least number of letters to insert, remove, replace or swap with the next one that turns a into b.
func distance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				d[i][j] = j
				continue
			}
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
