package sccore_test

import (
	"math"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
)

// TestTwoDevicesEqualOne trains on two devices and on one, and resumes the checkpoint of each on the other. Sinkhorn's assignments, positives, pairs of images,
// prototypes and gauges are those of the whole batch.
func TestTwoDevicesEqualOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	config := tiny()
	config.Views.Locals, config.Steps = 0, 20
	one, two := newTrainer(t, testbackend.Devices(t, 1), tinyData(), config), newTrainer(t, testbackend.Devices(t, 2), tinyData(), config)

	want := trained(t, one, 1, 20)
	weights := testbackend.Values(t, one.Store())
	got := trained(t, two, 1, 10)
	ofTwo := filepath.Join(t.TempDir(), "two.safetensors")
	if err := two.Save(ofTwo, ""); err != nil {
		t.Fatal(err)
	}
	agree(t, "on two devices", append(got, more(t, two, 10)...), want)
	// The bias of keys adds the same to all scores of a softmax. Its gradient is 0 but for rounding, which Adam scales up.
	keys := func(path string) bool { return strings.HasSuffix(path, "/qkv/bias") || strings.HasSuffix(path, "/k/bias") }
	after := testbackend.Values(t, two.Store())
	type pair struct {
		path string
		d    float64
	}
	var all []pair
	for path := range weights {
		all = append(all, pair{path, testbackend.Distance(after, weights, func(p string) bool { return p != path })})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].d > all[j].d })
	for _, p := range all[:30] {
		t.Log(p)
	}
	distance := testbackend.Distance(after, weights, keys)
	t.Log("distance", distance, testbackend.Distance(after, weights, nil))
	if !(distance < 1e-5) {
		t.Errorf("the weights are %g apart", distance)
	}

	ofOne := filepath.Join(t.TempDir(), "one.safetensors")
	if _, err := one.Resume(ofTwo); err != nil {
		t.Fatal(err)
	}
	agree(t, "resumed on one", more(t, one, 5), want[10:15])
	if err := one.Save(ofOne, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Resume(ofOne); err != nil {
		t.Fatal(err)
	}
	agree(t, "resumed on two", more(t, two, 5), want[15:])
}

// agree compares the metrics of steps.
func agree(t *testing.T, what string, got, want []sccore.StepMetrics) {
	t.Helper()
	worst := 0.0
	for step := range want {
		g, w := got[step], want[step]
		for name, pair := range map[string][2]float64{
			"total": {g.Total, w.Total}, "gradient": {g.GradientNorm, w.GradientNorm}, "image alignment": {g.ImageAlignment, w.ImageAlignment},
			"patch alignment": {g.PatchAlignment, w.PatchAlignment}, "image concentration": {g.ImageConcentration, w.ImageConcentration},
			"patch concentration": {g.PatchConcentration, w.PatchConcentration}, "prototypes": {g.Prototypes, w.Prototypes},
		} {
			off := math.Abs(pair[0]-pair[1]) / math.Abs(pair[1])
			if worst = max(worst, off); !(off < 1e-5) {
				t.Errorf("%s: at step %d the %s is %g, want %g", what, w.Step, name, pair[0], pair[1])
			}
		}
	}
	t.Logf("%s: metrics agree to %.1e", what, worst)
}
