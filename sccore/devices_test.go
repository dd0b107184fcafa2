package sccore_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
)

// TestTwoDevicesEqualOne trains on two devices and on one, and resumes the checkpoint of each on the other. Sinkhorn's assignments, positives, pairs of images,
// prototypes and diagnostics cover the whole batch.
func TestTwoDevicesEqualOne(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	config := tiny()
	config.Views.Locals, config.Steps = 0, 20
	one, two := newTrainer(t, testbackend.Devices(t, 1), tinyData(), config), newTrainer(t, testbackend.Devices(t, 2), tinyData(), config)

	want := trained(t, one, 1, 10)
	weights := testbackend.Values(t, one.Store())
	got := trained(t, two, 1, 5)
	ofTwo := filepath.Join(t.TempDir(), "two.safetensors")
	if err := two.Save(ofTwo, ""); err != nil {
		t.Fatal(err)
	}
	agree(t, "on two devices", append(got, more(t, two, 5)...), want)
	distance := testbackend.Distance(testbackend.Values(t, two.Store()), weights)
	if t.Logf("the weights are %.1e apart", distance); !(distance < 1e-4) {
		t.Errorf("the weights are %g apart", distance)
	}

	ofOne := filepath.Join(t.TempDir(), "one.safetensors")
	if _, err := one.Resume(ofTwo); err != nil {
		t.Fatal(err)
	}
	agree(t, "resumed on one", more(t, one, 3), want[5:8])
	if err := one.Save(ofOne, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Resume(ofOne); err != nil {
		t.Fatal(err)
	}
	agree(t, "resumed on two", more(t, two, 2), want[8:])
}

// agree compares the losses of steps, the norms of their gradients and their diagnostics.
func agree(t *testing.T, what string, got, want []sccore.StepMetrics) {
	t.Helper()
	var all []float64
	for step, w := range want {
		g := got[step]
		off := max(math.Abs(g.Total-w.Total)/w.Total, math.Abs(g.GradientNorm-w.GradientNorm)/w.GradientNorm)
		if w.Class != nil {
			off = max(off, math.Abs(g.Class.Std-w.Class.Std)/w.Class.Std, math.Abs(g.Patches.Std-w.Patches.Std)/w.Patches.Std)
		}
		all = append(all, off)
	}
	testbackend.Agree(t, what, all)
}

// TestPartsHaveTwoOfAKind: what compares the images of a part, such as the partners of CoTAP, says nothing of one image.
func TestPartsHaveTwoOfAKind(t *testing.T) {
	for parts, want := range map[int]string{1: "", 2: "need two of a kind", 4: "even number"} { // Of 4 images: 2 objects and 2 scenes, one of each, one.
		config := tiny()
		config.AccumulationSteps = parts
		trainer, err := sccore.NewTrainer(testbackend.Fastest(t), tinyData(), config)
		if err == nil {
			trainer.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d parts: %v, want %q", parts, err, want)
		}
	}
}
