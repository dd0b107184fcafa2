package study

import (
	"fmt"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	var names []string
	for _, method := range []string{"simclr", "barlow-twins", "moco", "simsiam"} {
		for _, row := range []string{"crop+flip", "crop+gray", "crop+blur", "crop", "same+blur", "same+gray", "flip"} {
			for seed := range 3 {
				names = append(names, fmt.Sprintf("cifar10/%s/%s/seed%d", method, row, seed))
			}
		}
	}
	kinds := []string{"dataset", "method", "row", "seed"}
	count := func(patterns ...string) (kept int, err error) {
		keep, err := Select(names, kinds, patterns)
		for _, one := range keep {
			if one {
				kept++
			}
		}
		return kept, err
	}
	for pattern, want := range map[string]int{
		"cifar10/simclr/crop/seed0": 1, "*/moco": 21, "moco/crop/seed0": 1, "moco": 21, "*/*/crop*/seed1": 16, "*/*/same+*": 24, "*": 84,
	} {
		if kept, err := count(pattern); err != nil || kept != want {
			t.Errorf("--only %s keeps %d cells, want %d (%v)", pattern, kept, want, err)
		}
	}
	if kept, err := count("*/moco/crop/seed0", "*/moco/crop/*"); err != nil || kept != 3 {
		t.Errorf("overlapping patterns keep %d cells, want 3 (%v)", kept, err)
	}
	for pattern, want := range map[string]string{
		"cifar10/byol": `no method "byol" among simclr`,
		"*/*/crop+cut": `no row "crop+cut"`,
		"imagenet":     `no dataset "imagenet"`,
		"*/*/*/seed9":  `no seed "seed9"`,
		"a/b/c/d/e":    "more parts",
		"*/moco/[":     "syntax error",
	} {
		if _, err := count(pattern); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("--only %s: error %v is not one line with %q", pattern, err, want)
		}
	}
	// Names may lack the first parts.
	keep, err := Select([]string{"line1/seed0", "line2/seed0"}, []string{"dataset", "row", "seed"}, []string{"line2"})
	if err != nil || keep[0] || !keep[1] {
		t.Errorf("--only line2 keeps %v, %v", keep, err)
	}
}
