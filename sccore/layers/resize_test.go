package layers

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// testdata/resize.py writes the file.
func TestBilinearIsPyTorchs(t *testing.T) {
	raw, err := os.ReadFile("testdata/resize.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Line    []float64
		Resized map[string][]float64
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	for size, want := range golden.Resized {
		to, err := strconv.Atoi(size)
		if err != nil {
			t.Fatal(err)
		}
		from := len(golden.Line)
		matrix := BilinearWeights(from, to)
		for i := range to {
			got := 0.0
			for j, x := range golden.Line {
				got += matrix[i*from+j] * x
			}
			if !(math.Abs(got-want[i]) <= 1e-12) {
				t.Errorf("sample %d of %d: %g, PyTorch %g", i, to, got, want[i])
			}
		}
	}
}
