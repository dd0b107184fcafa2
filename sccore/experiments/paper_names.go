package experiments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
)

// paperTables says which experiment reproduces each table of the paper, by the table's label; none yet where it is empty.
var paperTables = map[string]string{
	"ablation":         Ablation,
	"effect_aug":       EffectAug,
	"effect_aug_full":  EffectAug,
	"main":             MainResults,
	"obj_det":          "",
	"obj_det_full":     "",
	"semantic_seg":     Transfer,
	"semantic_seg_acc": Transfer,
	"semantic_seg_ft":  "",
	"video_seg":        Video,
}

// Find finds an experiment by its own name, or by the label of a table of the paper that it reproduces, which table then is. The error lists
// the known names of both kinds.
func Find(name string) (e Experiment, table string, err error) {
	if e, err = ByName(name); err == nil {
		return e, "", nil
	}
	var known []string
	for _, label := range figures.PaperNames() {
		if paperTables[label] != "" {
			known = append(known, label)
		}
	}
	if slices.Contains(known, name) {
		e, err = ByName(paperTables[name])
		return e, name, err
	}
	err = fmt.Errorf("%w; the tables of the paper are %s", err, strings.Join(known, ", "))
	if slices.Contains(figures.PaperNames(), name) {
		err = fmt.Errorf("no experiment reproduces Tab. %s yet; those that are reproduced are %s", name, strings.Join(known, ", "))
	}
	return e, "", err
}
