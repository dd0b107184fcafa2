package evaluation_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/testvalues"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
)

// TestLinearProbeFollowsPyTorch compares with a classifier that PyTorch trained; testdata/linearprobe.py writes the file.
func TestLinearProbeFollowsPyTorch(t *testing.T) {
	raw, err := os.ReadFile("testdata/linearprobe.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		evaluation.LinearProbe
		Classes       int
		Bank, Queries [][]float32
		Labels        []int32
		Ranked        [][]int32
	}
	if err := json.Unmarshal(raw, &golden); err != nil || len(golden.Ranked) != 50 {
		t.Fatalf("%d queries, %v", len(golden.Ranked), err)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		// A batch size equal to the number of images, and one above it.
		for _, batch := range []int{len(golden.Bank), 4096} {
			p := golden.LinearProbe
			p.Batch = batch
			got, err := p.Rank(b, labelled(golden.Bank, golden.Labels, golden.Classes), slices.Concat(golden.Queries...), golden.Classes, 1)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if !slices.Equal(got[i], golden.Ranked[i]) {
					t.Errorf("query %d: classes %v, PyTorch %v", i, got[i], golden.Ranked[i])
				}
			}
		}
	})
}

// TestLinearProbeLearns has ten classes, so that chance is 10 %.
func TestLinearProbeLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	const classes = 10
	bank, labels := testvalues.Clusters(3, 600, 16, classes, 1)
	queries, truth := testvalues.Clusters(4, 300, 16, classes, 1)
	p := evaluation.LinearProbe{Images: 500, Epochs: 5, Batch: 64, LearningRate: 0.05} // The last batch of an epoch is smaller.
	rank := func(b compute.Backend, seed uint64) [][]int32 {
		ranked, err := p.Rank(b, labelled(bank, labels, classes), slices.Concat(queries...), 5, seed)
		if err != nil {
			t.Fatal(err)
		}
		return ranked
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		ranked := rank(b, 1)
		one, five := metrics.TopKAccuracy(ranked, truth, 1), metrics.TopKAccuracy(ranked, truth, 5)
		if one < 60 || five < 95 || five > 100 {
			t.Errorf("top-1 %.1f %%, top-5 %.1f %%: chance finds 10 and 50", one, five)
		}
		again, other := rank(b, 1), rank(b, 2)
		if fmt.Sprint(ranked) != fmt.Sprint(again) || fmt.Sprint(ranked) == fmt.Sprint(other) {
			t.Error("the same seed gives different results")
		}
	})
}

func TestLinearProbeBadInput(t *testing.T) {
	b := testbackend.Fastest(t)
	bank, queries := [][]float32{{1, 0}, {0, 1}}, []float32{1, 0}
	good := evaluation.LinearProbe{Epochs: 1, Batch: 2, LearningRate: 0.1}
	for want, call := range map[string]func() error{
		"images -1": func() error {
			return settings.Check(evaluation.LinearProbe{Images: -1, Epochs: 1, Batch: 2, LearningRate: 0.1})
		},
		"epochs 0": func() error { return settings.Check(evaluation.LinearProbe{Batch: 2, LearningRate: 0.1}) },
		"batch 0":  func() error { return settings.Check(evaluation.LinearProbe{Epochs: 1, LearningRate: 0.1}) },
		"rate NaN": func() error {
			return settings.Check(evaluation.LinearProbe{Epochs: 1, Batch: 2, LearningRate: math.NaN()})
		},
		"decay -1": func() error {
			return settings.Check(evaluation.LinearProbe{Epochs: 1, Batch: 2, LearningRate: 1, WeightDecay: -1})
		},
		"label 7": func() error { return errorOf(good.Rank(b, labelled(bank, []int32{0, 7}, 2), queries, 1, 0)) },
		"no training images": func() error {
			return errorOf(good.Rank(b, knn.Labelled{Dim: 2, Classes: 2}, queries, 1, 0))
		},
		"top 0 is below 1": func() error { return errorOf(good.Rank(b, labelled(bank, []int32{0, 1}, 2), queries, 0, 0)) },
		"scores of query 1: entry 0 is NaN": func() error {
			return errorOf(good.Rank(b, labelled(bank, []int32{0, 1}, 2), []float32{1, 0, float32(math.NaN()), 0}, 1, 0))
		},
		"scores of query 0: entry ": func() error {
			return errorOf(good.Rank(b, labelled(bank, []int32{0, 1}, 2), []float32{float32(math.Inf(1)), 0}, 1, 0))
		},
		"linear probe: the loss is NaN at step 0": func() error {
			return errorOf(good.Rank(b, labelled([][]float32{{float32(math.NaN()), 0}, {0, 1}}, []int32{0, 1}, 2), queries, 1, 0))
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v is not one line with %q", err, want)
		}
	}
	for _, p := range []evaluation.LinearProbe{{Epochs: 100, Batch: 4096, LearningRate: 1e-5, WeightDecay: 0.01}, evaluation.FastLinearProbe()} {
		if err := settings.Check(p); err != nil {
			t.Error(err)
		}
	}
}

func ExampleLinearProbe() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	probe := evaluation.LinearProbe{Epochs: 20, Batch: 4, LearningRate: 0.1}
	bank := [][]float32{{1, 0}, {0.9, 0.1}, {0, 1}, {0.2, 0.9}}
	ranked, err := probe.Rank(b, labelled(bank, []int32{0, 0, 1, 1}, 2), []float32{2, 0.5, 0, 3}, 2, 1)
	fmt.Println(ranked, err)
	// Output: [[0 1] [1 0]] <nil>
}

// labelled are rows with labels.
func labelled(rows [][]float32, labels []int32, classes int) knn.Labelled {
	return knn.Labelled{Features: slices.Concat(rows...), Dim: len(rows[0]), Labels: labels, Classes: classes}
}

func errorOf[T any](_ T, err error) error { return err }
