package evaluation

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/settings"
)

// TestListMeasuresDrawnImages: each evaluation of the list that drawn images serve is in range once it has a size, says its protocol in one line, and measures an
// encoder, during a training too. Of an encoder that has diverged it makes no number.
func TestListMeasuresDrawnImages(t *testing.T) {
	if testing.Short() {
		t.Skip("trains heads")
	}
	if !slices.IsSortedFunc(List, func(a, b Named) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the list is not sorted")
	}
	b := testbackend.Soonest(t)
	v, store, err := RandomViT("vit-16x1x2p8", 0)
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := NewFeatureExtractor(b, v, store, "/", 8)
	if err != nil {
		t.Fatal(err)
	}
	e := &Encoder{FeatureExtractor: frozen, Owned: store}
	defer e.Close()
	_, lost, err := RandomViT("vit-16x1x2p8", 0)
	if err != nil {
		t.Fatal(err)
	}
	bias := make([]float32, v.Dim)
	bias[3] = float32(math.Inf(1))
	if err := lost.GetVariable("/norm/bias").SetValue(tensors.FromValue(bias)); err != nil {
		t.Fatal(err)
	}
	diverged, err := NewEncoder(b, v, lost, 8, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer diverged.Close()
	small := map[string][]string{
		"fcn": {"epochs=1", "batch=4", "width=4"}, "linear": {"epochs=1", "batch=4"}, "in-context": {"memory=[20,40]"}, "knn": {"k=3"},
		"linear-classification": {"batch=4"}, "noise-rate": {"sample.images=6"}, "overclustering": {"clusters=7", "iterations=2"},
		"patches": {"least=1", "probe.steps=5", "probe.batch=16"}, "video": {"short=64", "previous=1"}, "spread": {"images=4"},
	}
	for _, named := range List {
		evaluated := named.New()
		for _, key := range named.Sizes {
			small[named.Name] = append(small[named.Name], key+"=32")
		}
		if err := settings.Apply(evaluated, small[named.Name]...); err != nil {
			t.Fatalf("%s: %v", named.Name, err)
		}
		if err := settings.Check(evaluated); err != nil {
			t.Errorf("%s: %v", named.Name, err)
		}
		if text := evaluated.Protocol(); text == "" || strings.Contains(text, "\n") || reflect.TypeOf(evaluated).Kind() != reflect.Pointer {
			t.Errorf("%s: %T with protocol %q", named.Name, evaluated, text)
		}
		if named.Single { // Of a dataset that is not drawn.
			continue
		}
		source := Source{Dataset: Synthetic, Images: 16, Size: 32}
		if named.Name == "video" {
			source = Source{Dataset: Synthetic, Images: 1, Size: 64, Frames: 3}
		}
		d, err := evaluated.Open(source)
		if err != nil {
			t.Fatalf("%s: %v", named.Name, err)
		}
		values, err := During(1, named.Name, evaluated, e, d).Evaluate(t.Context())
		if err != nil || len(values) == 0 {
			t.Errorf("%s: %v, %v", named.Name, values, err)
		}
		for name, value := range values {
			if !(value >= 0 && value <= 100) {
				t.Errorf("%s: %s %g", named.Name, name, value)
			}
		}
		if result, err := evaluated.Measure(t.Context(), diverged, d); err == nil || !strings.Contains(err.Error(), "finite") {
			t.Errorf("%s of features that are not finite: %v, %v", named.Name, result.Numbers, err)
		}
	}
	if _, err := ByName("mood"); err == nil || !strings.Contains(err.Error(), "in-context") {
		t.Errorf("an evaluation that is not there: %v", err)
	}
}

// TestSampleLeavesDrawnObjects: they are as many as their source names, and the identity does not say otherwise.
func TestSampleLeavesDrawnObjects(t *testing.T) {
	d, err := Source{Dataset: Synthetic, Images: 16, Size: 32}.Labelled()
	if err != nil {
		t.Fatal(err)
	}
	if some := d.Sample(4); some.ID != d.ID || some.Objects[0].Len() != 16 || len(some.Labels[1]) != 16 {
		t.Errorf("%d objects, %s", some.Objects[0].Len(), some.ID)
	}
	if own, parts := d.Share(1, func(int) int { return 2 }); parts != 1 || own.Objects[0].Len() != 16 {
		t.Errorf("%d objects in one of %d shares", own.Objects[0].Len(), parts)
	}
}

// TestNumbersAreNamedOnce: a metric that ends with the number's name names it.
func TestNumbersAreNamedOnce(t *testing.T) {
	for want, n := range map[string]Number{
		"k-NN accuracy               62.50 %": {Name: "accuracy", Metric: "k-NN accuracy", Unit: "%", Value: 62.5},
		"linear, recall               0.25":   {Name: "linear", Metric: "recall", Value: 0.25},
	} {
		if got := n.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
