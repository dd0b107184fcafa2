package evaluation_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
)

// clusters draws n unnormalised features of dimension dim around one centre a class.
func clusters(seed uint64, n, dim, classes int, noise float64) (features [][]float32, labels []int32) {
	rng := rand.New(rand.NewPCG(seed, 0))
	centres := rand.New(rand.NewPCG(1, 2)) // The same for every seed.
	centre := make([][]float64, classes)
	for c := range centre {
		for range dim {
			centre[c] = append(centre[c], centres.NormFloat64())
		}
	}
	for range n {
		label := int32(rng.IntN(classes))
		labels = append(labels, label)
		row, length := make([]float32, dim), 0.5+rng.Float64()
		for j := range row {
			row[j] = float32(length * (centre[label][j] + noise*rng.NormFloat64()))
		}
		features = append(features, row)
	}
	return features, labels
}

// reference is the classifier in float64, one query at a time.
func reference(c evaluation.KNN, bank [][]float32, labels []int32, classes int, queries [][]float32) []int32 {
	unit := func(row []float32) []float64 {
		out, norm := make([]float64, len(row)), 0.0
		for j, x := range row {
			out[j] = float64(x)
			norm += out[j] * out[j]
		}
		for j := range out {
			out[j] /= math.Max(math.Sqrt(norm), 1e-12)
		}
		return out
	}
	var predictions []int32
	for _, query := range queries {
		q := unit(query)
		similarity := make([]float64, len(bank))
		order := make([]int, len(bank))
		for i, row := range bank {
			order[i] = i
			for j, x := range unit(row) {
				similarity[i] += x * q[j]
			}
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case similarity[a] > similarity[b]:
				return -1
			case similarity[a] < similarity[b]:
				return 1
			}
			return 0
		})
		votes := make([]float64, classes)
		for _, i := range order[:min(c.K, len(order))] {
			votes[labels[i]] += math.Exp(similarity[i] / c.Temperature)
		}
		best := 0
		for class := range votes {
			if votes[class] > votes[best] {
				best = class
			}
		}
		predictions = append(predictions, int32(best))
	}
	return predictions
}

func TestKNNEqualsReferenceToTheLastPrediction(t *testing.T) {
	const classes = 10
	bank, labels := clusters(3, 700, 16, classes, 2)
	queries, truth := clusters(4, 300, 16, classes, 2) // Neither a multiple of the block.
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []evaluation.KNN{{K: 200, Temperature: 0.1}, {K: 1, Temperature: 0.1}, {K: 20, Temperature: 0.07}, {K: 5000, Temperature: 0.5}} {
			got, err := c.Predict(b, tensors.FromValue(bank), labels, classes, tensors.FromValue(queries))
			if err != nil {
				t.Fatal(err)
			}
			want := reference(c, bank, labels, classes, queries)
			if !slices.Equal(got, want) {
				t.Errorf("%+v: predictions differ from the reference", c)
			}
			if accuracy := evaluation.Accuracy(got, truth); accuracy < 30 || accuracy > 99 {
				t.Errorf("%+v: accuracy %.1f %% says nothing (chance 10 %%)", c, accuracy)
			}
		}
	})
}

// TestKNNGolden compares with scikit-learn's neighbours and a vote in NumPy; testdata/golden.py made the file.
func TestKNNGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		K             int
		Temperature   float64
		Bank, Queries [][]float32
		Labels        []int32
		Predictions   []int32
		Ranked        [][]int32
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		c := evaluation.KNN{K: golden.K, Temperature: golden.Temperature}
		got, err := c.Predict(b, tensors.FromValue(golden.Bank), golden.Labels, 5, tensors.FromValue(golden.Queries))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, golden.Predictions) {
			t.Errorf("predictions %v, scikit-learn %v", got, golden.Predictions)
		}
		ranked, err := c.Rank(b, tensors.FromValue(golden.Bank), golden.Labels, 5, tensors.FromValue(golden.Queries), 3)
		if err != nil {
			t.Fatal(err)
		}
		for i, classes := range ranked {
			if !slices.Equal(classes, golden.Ranked[i][:3]) {
				t.Errorf("query %d: classes %v, scikit-learn's neighbours %v", i, classes, golden.Ranked[i])
			}
		}
	})
}

func TestKNNTiesAndZeros(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		bank := tensors.FromValue([][]float32{{0, 1}, {1, 0}, {0, 0}})
		queries := tensors.FromValue([][]float32{{1, 1}, {0, 0}, {-1, 5}})
		got, err := evaluation.KNN{K: 2, Temperature: 0.1}.Predict(b, bank, []int32{2, 1, 0}, 3, queries)
		if err != nil {
			t.Fatal(err)
		}
		// Equal votes go to the lower class: 1 of {2, 1}; a zero query is equally near to all, and the first two vote.
		if want := []int32{1, 1, 2}; !slices.Equal(got, want) {
			t.Errorf("predictions %v, want %v", got, want)
		}
	})
}

func TestKNNBadInput(t *testing.T) {
	b := testbackend.Fastest(t)
	bank, queries := tensors.FromValue([][]float32{{1, 0}, {0, 1}}), tensors.FromValue([][]float32{{1, 0}})
	good := evaluation.KNN{K: 1, Temperature: 0.1}
	for want, call := range map[string]func() ([]int32, error){
		"k 0": func() ([]int32, error) {
			return evaluation.KNN{K: 0, Temperature: 0.1}.Predict(b, bank, []int32{0, 1}, 2, queries)
		},
		"temperature 0 ": func() ([]int32, error) { return evaluation.KNN{K: 1}.Predict(b, bank, []int32{0, 1}, 2, queries) },
		"1 labels":       func() ([]int32, error) { return good.Predict(b, bank, []int32{0}, 2, queries) },
		"label 7":        func() ([]int32, error) { return good.Predict(b, bank, []int32{0, 7}, 2, queries) },
		"no images": func() ([]int32, error) {
			return good.Predict(b, tensors.FromFlatDataAndDimensions([]float32{}, 0, 2), nil, 2, queries)
		},
		"do not match": func() ([]int32, error) {
			return good.Predict(b, bank, []int32{0, 1}, 2, tensors.FromValue([][]float32{{1}}))
		},
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v is not one line with %q", err, want)
		}
	}
}

func TestAccuracy(t *testing.T) {
	if got := evaluation.Accuracy([]int32{1, 2, 3, 4}, []int32{1, 2, 0, 4}); got != 75 {
		t.Errorf("accuracy %g, want 75", got)
	}
	if got := evaluation.Accuracy(nil, nil); got != 0 {
		t.Errorf("accuracy of nothing is %g, want 0", got)
	}
}

func TestAccuracyWithin(t *testing.T) {
	ranked := [][]int32{{1, 2}, {2, 0}, {0, 1}, {2, 1}}
	for k, want := range map[int]float64{1: 25, 2: 75, 9: 75} {
		if got := evaluation.AccuracyWithin(ranked, []int32{1, 0, 2, 1}, k); got != want {
			t.Errorf("top-%d accuracy %g, want %g", k, got, want)
		}
	}
	if got := evaluation.AccuracyWithin(nil, nil, 5); got != 0 {
		t.Errorf("top-5 accuracy of nothing is %g, want 0", got)
	}
}

func TestCollapseGauges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	gauges := func(row func() []float32) evaluation.Collapse {
		var rows [][]float32
		for range 4000 {
			rows = append(rows, row())
		}
		c, err := evaluation.MeasureCollapse(tensors.FromValue(rows))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const dim = 8
	sphere := gauges(func() []float32 {
		row := make([]float32, dim)
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		return row
	})
	if math.Abs(sphere.FeatureStd-1) > 0.02 || math.Abs(sphere.EffectiveRank-dim) > 0.1 {
		t.Errorf("on the whole sphere: %+v, want std 1 and rank %d", sphere, dim)
	}
	point := gauges(func() []float32 { return []float32{1, 2, 3, 4, 0, 0, 0, 0} })
	if point.FeatureStd > 1e-6 || point.EffectiveRank != 0 {
		t.Errorf("at one point: %+v, want 0", point)
	}
	plane := gauges(func() []float32 {
		angle := 2 * math.Pi * rng.Float64()
		return []float32{float32(math.Cos(angle)), float32(math.Sin(angle)), 0, 0, 0, 0, 0, 0}
	})
	if math.Abs(plane.EffectiveRank-2) > 0.01 {
		t.Errorf("on a circle: rank %g, want 2", plane.EffectiveRank)
	}
	if _, err := evaluation.MeasureCollapse(tensors.FromValue([][]float32{{1, 2}})); err == nil {
		t.Error("one vector has no spread")
	}
	if _, err := evaluation.MeasureCollapse(tensors.FromValue([][]float32{{float32(math.NaN()), 2}, {1, 1}})); err == nil {
		t.Error("NaN features measured without an error")
	}
}

func ExampleKNN() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	bank := tensors.FromValue([][]float32{{1, 0}, {0.9, 0.1}, {0, 1}})
	predictions, err := evaluation.KNN{K: 2, Temperature: 0.1}.Predict(b, bank, []int32{0, 0, 1}, 2, tensors.FromValue([][]float32{{2, 0.5}, {0, 7}}))
	fmt.Println(predictions, err)
	// Output: [0 1] <nil>
}

func ExampleMeasureCollapse() {
	c, err := evaluation.MeasureCollapse(tensors.FromValue([][]float32{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}))
	fmt.Printf("std %.3f, rank %.1f, %v\n", c.FeatureStd, c.EffectiveRank, err)
	// Output: std 1.000, rank 2.0, <nil>
}
