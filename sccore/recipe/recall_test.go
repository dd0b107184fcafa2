package recipe

import (
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
)

// TestRecallWithoutBackgroundNeedsNamedClasses: a sample of a dataset may lack patches of the classes that nobody named.
func TestRecallWithoutBackgroundNeedsNamedClasses(t *testing.T) {
	for _, c := range []struct {
		classes []string
		named   bool
		want    int
	}{
		{[]string{"background", "cat", "dog"}, true, 3},
		{[]string{"background", "cat", "dog"}, false, 2},
		{[]string{"background", "cat"}, true, 2}, // One class alone has nothing that it could be taken for.
		{[]string{"cat", "cow", "dog"}, true, 2},
	} {
		set := &datasets.Segmentation{Classes: c.classes}
		recall := Recall{Classes: map[bool]string{true: strings.Join(c.classes, ",")}[c.named]}
		got := NumbersOf("row", Data{Annotated: [2]*datasets.Segmentation{set, set}}.RecallMeasures(recall, evaluation.PatchProbe{}))
		if len(got) != c.want || (got[len(got)-1].Column == ColumnForegroundRecall) != (c.want == 3) {
			t.Errorf("%v, named %t: %v, want %d numbers", c.classes, c.named, got, c.want)
		}
	}
	if got := (Data{}).RecallMeasures(Recall{}, evaluation.PatchProbe{}); got != nil {
		t.Errorf("without images: %v", got)
	}
}
