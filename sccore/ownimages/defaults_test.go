package ownimages

import (
	"strings"
	"testing"
)

func TestConfigFollowsTheNumberOfImages(t *testing.T) {
	for _, test := range []struct {
		images, batch, steps int
		set                  string
	}{
		{8, 4, 200, ""}, {64, 32, 200, ""}, {1000, 32, 3125, ""}, {8000, 32, 25000, ""}, {1 << 20, 32, 100_000, ""},
		{1000, 16, 6250, "batch=16"}, {1000, 32, 77, "steps=77"},
	} {
		s := Start{}
		if test.set != "" {
			s.Set = []string{test.set}
		}
		c, err := s.Config(test.images, test.images)
		if err != nil || c.Batch != test.batch || c.Steps != test.steps || c.WarmupSteps != c.Steps/10 {
			t.Errorf("%d images, %s: batch %d, %d steps, %v", test.images, test.set, c.Batch, c.Steps, err)
		}
		if c.Prototypes != 0 || c.Lambdas.PatchConcentration != 0 || c.Lambdas.PatchAlignment != 1 {
			t.Errorf("from random weights: prototypes %d, lambdas %+v", c.Prototypes, c.Lambdas)
		}
	}
	large, err := Start{Set: []string{"encoder=vit-s16"}}.Config(1000, 1000)
	if err != nil || large.Views.GlobalCropSize != 224 || large.Views.Locals != 4 || large.Views.LocalCropSize != 96 || large.PatchHead.OutDim != 256 || large.LearningRate != 1.8e-4 {
		t.Errorf("vit-s16: %+v, %v", large, err)
	}
	slow, err := Start{Set: []string{"rate=1e-7"}}.Config(5000, 60)
	if err != nil || slow.FinalLearningRate != 1e-8 || slow.Neighbours != 7 { // The end follows the rate, and the neighbours follow the objects.
		t.Errorf("rate 1e-7 and 60 objects: ends at %g, %d neighbours, %v", slow.FinalLearningRate, slow.Neighbours, err)
	}
	for set, want := range map[string]string{"speed=1": `"speed"`, "batch=1": "batch 1", "encoder=vit-x": "vit-x", "steps=none": "none", "rate=-1": "rate -1", "correspondences.from=teacher": "teacher"} {
		if _, err := (Start{Set: []string{set}}).Config(100, 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", set, err, want)
		}
	}
}

func TestHeldOut(t *testing.T) {
	for n, want := range map[int]int{8: 2, 20: 5, 40: 10, 100: 10, 1000: 50, 1 << 20: mostHeld} {
		if got := heldOut(n); got != want {
			t.Errorf("%d of %d images are held out, want %d", got, n, want)
		}
	}
}

func TestDiagnosticsSayWhatIsDamaged(t *testing.T) {
	initial := Diagnostics{Rank: 20, Similarity: 1, Kept: 1}
	for _, test := range []struct {
		diagnostics Diagnostics
		pretrained  bool
		want        string
	}{
		{Diagnostics{Rank: 18, Similarity: 0.9, Kept: 0.8}, true, ""}, {Diagnostics{Rank: 40, Similarity: 0.3, Kept: 0.8}, true, "similarity 0.30"},
		{Diagnostics{Rank: 9, Similarity: 0.9, Kept: 0.8}, true, "rank 9.0"}, {Diagnostics{Rank: 20, Similarity: 0.9, Kept: 0.1}, true, "0.10 of them"},
		{Diagnostics{Rank: 18, Similarity: 0.1}, false, ""}, {Diagnostics{Rank: 2, Similarity: 0.9}, false, "rank 2.0"},
	} {
		if got := test.diagnostics.Damage(initial, test.pretrained); test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.diagnostics, got, test.want)
		}
	}
}

func TestCurveImproves(t *testing.T) {
	good, bad := Diagnostics{Rank: 20, Similarity: 0.9, Kept: 0.9}, Diagnostics{Rank: 20, Similarity: 0.1, Kept: 0.9}
	at := func(knn float64) Diagnostics { g := good; g.KNN = knn; return g }
	for name, test := range map[string]struct {
		diagnostics []Diagnostics
		classes     int
		want        string // Of each point, whether it is the best so far.
	}{
		"no labels: the last undamaged":  {[]Diagnostics{good, good, good, bad, good}, 0, "-++-+"},
		"labels: the highest accuracy":   {[]Diagnostics{at(50), at(60), at(59), at(60), at(61)}, 10, "-+--+"},
		"not by what guessing reaches":   {[]Diagnostics{at(9), at(12), at(11), at(10), at(11)}, 10, "-++++"},
		"once above chance, by accuracy": {[]Diagnostics{at(9), at(12), at(60), at(10), at(70)}, 10, "-++-+"},
	} {
		var curve []Point
		got := ""
		for _, g := range test.diagnostics {
			curve = append(curve, Point{Diagnostics: &g}, Point{}) // A point without diagnostics changes nothing.
			mark := "-"
			if (verdict{true, test.classes, 100}).improved(curve[:len(curve)-1]) {
				mark = "+"
			}
			got += mark
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
