package settings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"
)

// FuzzApply gives --set any text: it is refused in one line and changes nothing, or it changes what [Changed] then says, and no more.
func FuzzApply(f *testing.F) {
	for _, assignment := range []string{
		"rate=0.5", "batch=64", "knn.k=20", "recipe.Crop=same", "recipe.blur_probability=0.25", "encoder=conv4", "rate", "speed=3", "knn=3", "rate.x=3", "batch=1e3", "rate=null", "encoder=\n", "knn.k= 7",
		"rate=1e999", "batch=\"3\"", "recipe.MinScale=[1]", "=", ".=", "knn..k=2",
	} {
		f.Add(assignment)
	}
	f.Fuzz(func(t *testing.T, assignment string) {
		config := newSetConfig()
		before := encode(t, config)
		if err := settings.Apply(&config, assignment); err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || encode(t, config) != before {
				t.Errorf("%q: error %q, and the configuration is %s", assignment, err, encode(t, config))
			}
			return
		}
		key, _, _ := strings.Cut(assignment, "=")
		changed, err := settings.Changed("", newSetConfig(), config)
		if err != nil || len(changed) > 1 || len(changed) == 1 && !settings.Given(changed, key) {
			t.Fatalf("%q changed %q, %v", assignment, changed, err)
		}
		again := newSetConfig()
		for _, assignments := range [][]string{{assignment, assignment}, changed} {
			if err := settings.Apply(&again, assignments...); err != nil || encode(t, again) != encode(t, config) {
				// A text with escapes is shown as JSON writes it.
				if slices.Equal(assignments, changed) && (key == "encoder" || settings.Key(key) == "recipe.crop") {
					return
				}
				t.Errorf("%q gives %s, %v; want %s", assignments, encode(t, again), err, encode(t, config))
			}
			again = newSetConfig()
		}
	})
}
