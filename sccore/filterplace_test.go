package sccore_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/settings"
)

// TestPlaceOfTheFilter: settings without it are written as before, and lines without a filter have none.
func TestPlaceOfTheFilter(t *testing.T) {
	config := tiny()
	if text, err := json.Marshal(config); err != nil || strings.Contains(string(text), "blocks_after_filter") {
		t.Errorf("settings %s, %v", text, err)
	}
	config.BlocksAfterFilter = 2
	if text, err := json.Marshal(config); err != nil || !strings.Contains(string(text), `"prototypes":4,"blocks_after_filter":2,`) {
		t.Errorf("settings %s, %v", text, err)
	}
	for line, want := range map[*sccore.Ablation]int{&sccore.Ablations[5]: 0, &sccore.Ablations[6]: 2, &sccore.FilterAblations[0]: 1} {
		if c := line.Config(config); c.BlocksAfterFilter != want || settings.Check(c) != nil {
			t.Errorf("line %d: %d blocks after the filter, want %d; %v", line.Line, c.BlocksAfterFilter, want, settings.Check(c))
		}
	}
}
