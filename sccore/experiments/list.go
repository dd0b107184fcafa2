// Package experiments lists the experiments of the paper.
//
// Each experiment has a folder below: its configuration, cells and what runs a cell (study.go), and, where they are long, its tables and pictures (table.go).
// Package study runs them, and has what lists show of them and the settings of their profiles (about/NAME.yaml). In go the records of all experiments; out come
// the experiments by name and the scoreboard of the paper's claims. A new experiment is a new folder and a line in [All].
package experiments

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/plural"
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

// Claims returns the scoreboard of the paper's claims from the records under the folder out. Each claim is measured by the experiment that it names, on
// synthetic data and on real ones apart. Runs with settings that --set changed count for no claim; the scoreboard names them. With set the claims of experiments
// that have its keys are measured on runs with these settings instead, which the scoreboard says; it is an error if no experiment with records has them. It lists the data behind its numbers.
func Claims(out string, profile study.Profile, set ...string) (_ figures.Scoreboard, err error) {
	defer try.Handle(&err)
	type key struct {
		id, part string
		kind     figures.DataKind
	}
	measured, notes := map[key]study.Evidence{}, []string(nil)
	var unknown error // Why an experiment with records does not have the settings; nil once one has.
	taken := false
	for _, e := range All() {
		records := try.E1(study.Records(study.Folder(out, e.Name)))
		selected, selectErr := e.Selected(records, study.Options{Profile: profile, Out: out, Set: set})
		asked := len(set) > 0 && selectErr == nil && len(records) > 0
		if len(set) > 0 && len(records) > 0 && selectErr != nil {
			unknown = selectErr
		}
		if asked {
			records, taken = selected, true
			notes = append(notes, fmt.Sprintf("Claims of %s are of runs with --set %s: %s.", e.Name, strings.Join(set, " --set "), plural.Count(len(records), "record")))
		}
		if len(records) > 0 && records[0].LeftOut > 0 {
			notes = append(notes, fmt.Sprintf("Left out as damaged: %s of %s.", plural.Count(records[0].LeftOut, "line"), filepath.Join(e.Name, study.RunsFile)))
		}
		claims := slices.DeleteFunc(figures.Claims(), func(claim figures.Claim) bool { return claim.Experiment != e.Name })
		for _, kind := range []figures.DataKind{figures.Synthetic, figures.Real} {
			found := try.E1(e.Measure(records, profile, kind, claims...))
			for i, claim := range claims {
				note := found[i].Note
				switch {
				case len(found[i].Changed) > 0 && !asked:
					note = fmt.Sprintf("Runs of %s on %s data count for no claim, because their settings differ from the profile's: %s.",
						e.Name, kind, strings.Join(found[i].Changed, ", "))
				case len(found[i].Blind) > 0:
					note = fmt.Sprintf("No claim is read from %s of %s on %s data: none of the encoders that it compares is above random weights by three standard errors.",
						strings.Join(found[i].Blind, ", "), e.Name, kind)
				case found[i].Gated > 0 && len(found[i].Values) == 0:
					note = fmt.Sprintf("No claim about CoTAP is read from %s on %s data: at the start the most similar pairs of objects are right less than a quarter more often than all pairs.",
						e.Name, kind)
				default:
					measured[key{claim.ID, claim.Part, kind}] = found[i]
					if n := found[i].Gated; n > 0 {
						note = strings.TrimSpace(note + fmt.Sprintf(" Claims about CoTAP leave out %d of %d seeds of %s on %s data: at the start their most similar pairs of objects are right less than a quarter more often than all pairs.",
							n, n+len(found[i].Values), e.Name, kind))
					}
				}
				if note != "" && !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
			}
		}
	}
	if unknown != nil && !taken {
		return figures.Scoreboard{}, unknown
	}
	board := figures.NewScoreboard(string(profile), func(c figures.Claim, kind figures.DataKind) (values []float64, data []string) {
		found := measured[key{c.ID, c.Part, kind}]
		return found.Values, found.Data
	})
	for i := range board.Rows {
		if row := &board.Rows[i]; row.Parts == 0 {
			row.Images = measured[key{row.Claim.ID, row.Claim.Part, row.Kind}].Images
		}
	}
	board.Notes = notes
	return board, nil
}
