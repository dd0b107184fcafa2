package knn_test

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
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// labelled are rows with labels.
func labelled(rows [][]float32, labels []int32, classes int) knn.Labelled {
	return knn.Labelled{Features: slices.Concat(rows...), Dim: len(rows[0]), Labels: labels, Classes: classes}
}

// reference is the classifier in float64, one query at a time.
func reference(c knn.Classifier, bank [][]float32, labels []int32, classes int, queries [][]float32) []int32 {
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

func TestClassifierEqualsReferenceToTheLastPrediction(t *testing.T) {
	const classes = 10
	bank, labels := testvalues.Clusters(3, 700, 16, classes, 2)
	queries, truth := testvalues.Clusters(4, 300, 16, classes, 2) // Neither is a multiple of the block.
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []knn.Classifier{{K: 200, Temperature: 0.1}, {K: 1, Temperature: 0.1}, {K: 20, Temperature: 0.07}, {K: 5000, Temperature: 0.5}} {
			got, err := c.Rank(b, labelled(bank, labels, classes), slices.Concat(queries...), 1)
			if err != nil {
				t.Fatal(err)
			}
			want := reference(c, bank, labels, classes, queries)
			if !slices.Equal(slices.Concat(got...), want) {
				t.Errorf("%+v: predictions differ from the reference", c)
			}
			if accuracy := metrics.TopKAccuracy(got, truth, 1); accuracy < 30 || accuracy > 99 {
				t.Errorf("%+v: accuracy %.1f %% is no evidence (chance is 10 %%)", c, accuracy)
			}
		}
	})
}

// TestClassifierGolden compares with scikit-learn's neighbours and a vote in NumPy; testdata/classifier.py made the file.
func TestClassifierGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/classifier.json")
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
		c := knn.Classifier{K: golden.K, Temperature: golden.Temperature}
		got, err := c.Rank(b, labelled(golden.Bank, golden.Labels, 5), slices.Concat(golden.Queries...), 1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(slices.Concat(got...), golden.Predictions) {
			t.Errorf("predictions %v, scikit-learn %v", got, golden.Predictions)
		}
		ranked, err := c.Rank(b, labelled(golden.Bank, golden.Labels, 5), slices.Concat(golden.Queries...), 3)
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

func TestClassifierTiesAndZeros(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		bank := [][]float32{{0, 1}, {1, 0}, {0, 0}}
		queries := []float32{1, 1, 0, 0, -1, 5}
		got, err := knn.Classifier{K: 2, Temperature: 0.1}.Rank(b, labelled(bank, []int32{2, 1, 0}, 3), queries, 1)
		if err != nil {
			t.Fatal(err)
		}
		// Ties go to the lower class: 1 of {2, 1}. A zero query is equally near to all, and the first two vote.
		if want := []int32{1, 1, 2}; !slices.Equal(slices.Concat(got...), want) {
			t.Errorf("predictions %v, want %v", got, want)
		}
	})
}

func TestClassifierBadInput(t *testing.T) {
	b := testbackend.Fastest(t)
	bank, queries := [][]float32{{1, 0}, {0, 1}}, []float32{1, 0}
	good := knn.Classifier{K: 1, Temperature: 0.1}
	for want, call := range map[string]func() ([][]int32, error){
		"k 0": func() ([][]int32, error) {
			return knn.Classifier{K: 0, Temperature: 0.1}.Rank(b, labelled(bank, []int32{0, 1}, 2), queries, 1)
		},
		"temperature 0 ": func() ([][]int32, error) {
			return knn.Classifier{K: 1}.Rank(b, labelled(bank, []int32{0, 1}, 2), queries, 1)
		},
		"1 labels": func() ([][]int32, error) { return good.Rank(b, labelled(bank, []int32{0}, 2), queries, 1) },
		"label 7":  func() ([][]int32, error) { return good.Rank(b, labelled(bank, []int32{0, 7}, 2), queries, 1) },
		"no training images": func() ([][]int32, error) {
			return good.Rank(b, knn.Labelled{Dim: 2, Classes: 2}, queries, 1)
		},
		"and 1 of queries": func() ([][]int32, error) {
			return good.Rank(b, labelled(bank, []int32{0, 1}, 2), []float32{1}, 1)
		},
		"k-NN: bank: feature vector 1: value 0 is NaN": func() ([][]int32, error) {
			return good.Rank(b, labelled([][]float32{{1, 0}, {float32(math.NaN()), 1}}, []int32{0, 1}, 2), queries, 1)
		},
		"k-NN: queries: feature vector 0: value 1 is +Inf": func() ([][]int32, error) {
			return good.Rank(b, labelled(bank, []int32{0, 1}, 2), []float32{1, float32(math.Inf(1))}, 1)
		},
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v is not one line with %q", err, want)
		}
	}
}

func ExampleClassifier() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	bank := [][]float32{{1, 0}, {0.9, 0.1}, {0, 1}}
	ranked, err := knn.Classifier{K: 2, Temperature: 0.1}.Rank(b, labelled(bank, []int32{0, 0, 1}, 2), []float32{2, 0.5, 0, 7}, 1)
	fmt.Println(ranked, err)
	// Output: [[0] [1]] <nil>
}
