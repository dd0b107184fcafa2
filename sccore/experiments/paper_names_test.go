package experiments

import (
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
)

func TestThePapersTablesFindTheirExperiments(t *testing.T) {
	for _, label := range figures.PaperNames() {
		name, listed := paperTables[label]
		if !listed {
			t.Errorf("Tab. %s stands in figures/paper and not in paperTables", label)
		}
		e, table, err := Find(label)
		switch {
		case name == "":
			if err == nil || !strings.Contains(err.Error(), "no experiment reproduces Tab. "+label) {
				t.Errorf("Tab. %s: %v", label, err)
			}
		case err != nil || e.Name != name || (table == "") != (label == name):
			t.Errorf("Tab. %s: %s, table %q, %v", label, e.Name, table, err)
		case !strings.Contains(e.Reproduces, "Tab. "+label):
			t.Errorf("%s does not say that it reproduces Tab. %s", name, label)
		}
	}
	if len(paperTables) != len(figures.PaperNames()) {
		t.Errorf("%d tables, the paper has %d", len(paperTables), len(figures.PaperNames()))
	}
	_, _, err := Find("video-seg")
	if err == nil || !strings.Contains(err.Error(), EffectAug) || !strings.Contains(err.Error(), "video_seg") {
		t.Errorf("an unknown name: %v", err)
	}
}
