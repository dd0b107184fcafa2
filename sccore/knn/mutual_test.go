package knn

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestMutualIsNumpys compares with testdata/mutual.py.
func TestMutualIsNumpys(t *testing.T) {
	content, err := os.ReadFile("testdata/mutual.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		N, M, Dim int
		Threshold float64
		Matches   [][3]float64
	}
	if err := json.Unmarshal(content, &cases); err != nil || len(cases) != 4 {
		t.Fatal(len(cases), err)
	}
	wave := func(k, n int) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(math.Sin(12.9898*float64(i*i) + 78.233*float64(k)))
		}
		return values
	}
	for _, c := range cases {
		got, err := Mutual(wave(c.N, c.N*c.Dim), wave(c.M+2, c.M*c.Dim), c.Dim, c.Threshold)
		if err != nil || len(got) != len(c.Matches) {
			t.Errorf("%+v: %d matches, %v", c, len(got), err)
			continue
		}
		for i, want := range c.Matches {
			if got[i].First != int(want[0]) || got[i].Second != int(want[1]) || !(math.Abs(got[i].Similarity-want[2]) <= 2e-6) {
				t.Errorf("match %d: %+v, want %v", i, got[i], want)
			}
		}
	}
}

func TestMutualByHand(t *testing.T) {
	// Two features of the first set are nearest to the one feature of the second, and the lower one is its nearest.
	got, err := Mutual([]float32{2, 0, 1, 0, 0, 1}, []float32{3, 0}, 2, 0)
	if err != nil || len(got) != 1 || got[0].First != 0 || got[0].Second != 0 || !(math.Abs(got[0].Similarity-1) <= 1e-6) {
		t.Error(got, err)
	}
	if got, err := Mutual([]float32{1}, nil, 1, 0); got != nil || err != nil {
		t.Error(got, err)
	}
	for want, bad := range map[string][]float32{"set 1: 3 numbers are not rows of 2": {1, 2, 3},
		"set 1: feature vector 0: value 0 is NaN": {float32(math.NaN()), 1}} {
		if _, err := Mutual(bad, []float32{1, 1}, 2, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
