package experiments

import (
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
)

func TestThePapersTablesFindTheirExperiments(t *testing.T) {
	reproduced := 0
	for _, label := range figures.PaperNames() {
		e, table, err := Find(label)
		if err != nil {
			if !strings.Contains(err.Error(), "no experiment reproduces Tab. "+label) {
				t.Errorf("Tab. %s: %v", label, err)
			}
			continue
		}
		reproduced++
		if !slices.Contains(e.Labels, label) || (table == "") != (label == e.Name) {
			t.Errorf("Tab. %s: %s, table %q", label, e.Name, table)
		}
	}
	for _, e := range All() {
		for _, label := range e.Labels {
			if strings.Contains(e.Reproduces, "Fig. "+label) { // The paper prints no numbers.
				continue
			}
			if !strings.Contains(e.Reproduces, "Tab. "+label) || !slices.Contains(figures.PaperNames(), label) {
				t.Errorf("%s does not say that it reproduces Tab. %s, or the paper has no such table", e.Name, label)
			}
		}
	}
	if reproduced < 7 {
		t.Errorf("%d tables of the paper are reproduced", reproduced)
	}
	for typed, want := range map[string]string{
		"pretrian":  `unknown experiment "pretrian": did you mean pretrain? "semcon list" has all`,
		"Ablatoin":  `unknown experiment "Ablatoin": did you mean ablation? "semcon list" has all`,
		"video-seg": `unknown experiment "video-seg": did you mean video_seg? "semcon list" has all`,
		"imagenet":  `unknown experiment "imagenet"; "semcon list" has all`,
		"":          `unknown experiment ""; "semcon list" has all`,
	} {
		if _, _, err := Find(typed); err == nil || err.Error() != want {
			t.Errorf("%q: %v", typed, err)
		}
	}
}
