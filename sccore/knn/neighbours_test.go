package knn

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
)

// nearestReference sorts all other images by cosine in float64, the lower index first among equals.
func nearestReference(features []float32, dim, k int) []int32 {
	n := len(features) / dim
	cosine := func(i, j int) float64 {
		var dot, a, b float64
		for d := range dim {
			x, y := float64(features[i*dim+d]), float64(features[j*dim+d])
			dot, a, b = dot+x*y, a+x*x, b+y*y
		}
		return dot / math.Sqrt(a*b)
	}
	var all []int32
	for i := range n {
		var others []int32
		for j := range n {
			if j != i {
				others = append(others, int32(j))
			}
		}
		slices.SortStableFunc(others, func(a, b int32) int {
			switch x, y := cosine(i, int(a)), cosine(i, int(b)); {
			case x > y+1e-9:
				return -1
			case x < y-1e-9:
				return 1
			}
			return 0
		})
		all = append(all, others[:k]...)
	}
	return all
}

// TestNeighboursAreTheNearest has block sizes that leave parts of blocks empty, and features on a grid of four directions, most of whose
// cosines are exactly equal.
func TestNeighboursAreTheNearest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	smooth, grid := make([]float32, 53*6), make([]float32, 53*2)
	for i := range smooth {
		smooth[i] = float32(rng.NormFloat64())
	}
	for i := range 53 {
		grid[2*i+i%2] = float32(1 - 2*(i/2%2))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, c := range map[string]struct {
			features []float32
			dim, k   int
		}{"smooth": {smooth, 6, 5}, "smooth, all": {smooth, 6, 52}, "ties": {grid, 2, 7}} {
			want := nearestReference(c.features, c.dim, c.k)
			for _, s := range []blocks{{queries: 7, features: 16}, {queries: 64, features: 64}, {queries: 53, features: 12}} {
				bank, err := NewBank(b, c.features, c.dim)
				if err != nil {
					t.Fatal(err)
				}
				bank.blocks = s
				found, err := bank.neighbours(t.Context(), c.k)
				bank.Close()
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(found.Indices, want) {
					t.Errorf("%s in %+v: %v, want %v", name, s, found.Indices, want)
				}
			}
		}
	})
}

func TestFindInItsOwnBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	features := make([]float32, 90*8)
	for i := range features {
		features[i] = float32(rng.NormFloat64())
	}
	found, err := Find(t.Context(), testbackend.Fastest(t), features, 8, 3)
	if err != nil {
		t.Fatal(err)
	}
	if want := nearestReference(features, 8, 3); !slices.Equal(found.Indices, want) {
		t.Errorf("%v, want %v", found.Indices, want)
	}
}

func TestFindSaysWhatIsWrong(t *testing.T) {
	b := testbackend.Fastest(t)
	good := []float32{1, 0, 0, 1, 1, 1}
	for want, c := range map[string]struct {
		features []float32
		dim, k   int
	}{
		"6 numbers are not rows of 4":       {good, 4, 1},
		"6 numbers are not rows of 0":       {good, 0, 1},
		"k 3 of 3 images, want 1 to 2":      {good, 2, 3},
		"k 0 of 3 images":                   {good, 2, 0},
		"feature vector 1: value 1 is NaN":  {[]float32{1, 0, 0, float32(math.NaN()), 1, 1}, 2, 1},
		"feature vector 0: value 0 is +Inf": {[]float32{float32(math.Inf(1)), 0, 0, 1}, 2, 1},
	} {
		if _, err := Find(t.Context(), b, c.features, c.dim, c.k); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Find(ctx, b, good, 2, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after it was cancelled", err)
	}
}

func TestPositivesAreDrawnFromTheNeighbours(t *testing.T) {
	n := &Neighbours{K: 3, Indices: []int32{1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2}}
	positive, other := n.Positive(1), n.Positive(2)
	drawn, differs := map[int32]int{}, 0
	for step := range 3000 {
		p := positive(step, 2)
		drawn[p]++
		if p != n.Positive(1)(step, 2) {
			t.Fatalf("step %d draws two positives", step)
		}
		if p != other(step, 2) {
			differs++
		}
	}
	for _, neighbour := range []int32{0, 1, 3} {
		if times := drawn[neighbour]; times < 850 || times > 1150 {
			t.Errorf("neighbour %d was drawn %d times of 3000", neighbour, times)
		}
	}
	if len(drawn) != 3 || differs < 1800 {
		t.Errorf("drew %v; another seed differs in %d of 3000", drawn, differs)
	}
}

func TestNeighboursAreStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "neighbours.safetensors")
	n := &Neighbours{K: 2, Indices: []int32{1, 2, 0, 2, 1, 0}, Source: "three images by a checkpoint"}
	if err := n.Write(path); err != nil {
		t.Fatal(err)
	}
	read, err := Read(path, 3, n.Source)
	if err != nil || read.K != 2 || !slices.Equal(read.Indices, n.Indices) || read.Source != n.Source {
		t.Errorf("read %+v, %v", read, err)
	}
	bad := filepath.Join(t.TempDir(), "bad.safetensors")
	if err := (&Neighbours{K: 1, Indices: []int32{1, 7}}).Write(bad); err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "self.safetensors")
	if err := (&Neighbours{K: 1, Indices: []int32{1, 1}}).Write(self); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.safetensors")
	if err := os.WriteFile(text, []byte("no tensors in here"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, read := range map[string]func() (*Neighbours, error){
		"neighbours of 3 images, want 4":                 func() (*Neighbours, error) { return Read(path, 4, n.Source) },
		`of "three images by a checkpoint", not of "no"`: func() (*Neighbours, error) { return Read(path, 3, "no") },
		"image 1 has neighbour 7 of 2 images":            func() (*Neighbours, error) { return Read(bad, 2, "") },
		"image 1 has neighbour 1 of 2 images":            func() (*Neighbours, error) { return Read(self, 2, "") },
		"text.safetensors":                               func() (*Neighbours, error) { return Read(text, 2, "") },
	} {
		if _, err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// BenchmarkFind compares 16,384 images of ViT-S's width in whole blocks; time is quadratic in their number.
func BenchmarkFind(b *testing.B) {
	const n, dim = 16384, 384
	rng := rand.New(rand.NewPCG(5, 6))
	features := make([]float32, n*dim)
	for i := range features {
		features[i] = float32(rng.NormFloat64())
	}
	backend := testbackend.Fastest(b)
	for b.Loop() {
		if _, err := Find(b.Context(), backend, features, dim, DefaultK); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*n*float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
