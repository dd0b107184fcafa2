package knn

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/usage"
)

// exactRows draws n rows of 16 numbers: 0, 1, 4 or 16 of them are ± a power of two, the others 0. Their cosines are the same in float32 and float64, and
// many are equal.
func exactRows(rng *rand.Rand, n int) []float32 {
	rows := make([]float32, n*16)
	for i := range n {
		size := float32(math.Ldexp(1, rng.IntN(9)-4))
		for _, j := range rng.Perm(16)[:[]int{0, 1, 4, 4, 16}[rng.IntN(5)]] {
			rows[i*16+j] = size * float32(1-2*rng.IntN(2))
		}
	}
	return rows
}

// definition sorts the whole bank by cosine for each query, in float64. It returns the k nearest and, as a classifier with temperature 1/2 does, the classes
// by votes.
func definition(bank, queries []float32, dim, k int, labels []int32, classes int) (found Nearest, ranked [][]int32) {
	unit := func(row []float32) []float64 {
		out, squares := make([]float64, dim), 0.0
		for _, x := range row {
			squares += float64(x) * float64(x)
		}
		for j, x := range row {
			out[j] = float64(x) / max(math.Sqrt(squares), 1e-12)
		}
		return out
	}
	found.K = k
	for q := range len(queries) / dim {
		query, cosines, order := unit(queries[q*dim:(q+1)*dim]), []float64{}, []int32{}
		for i := range len(bank) / dim {
			cosine := 0.0
			for j, x := range unit(bank[i*dim : (i+1)*dim]) {
				cosine += x * query[j]
			}
			cosines, order = append(cosines, cosine), append(order, int32(i))
		}
		slices.SortStableFunc(order, func(a, b int32) int {
			switch {
			case cosines[a] > cosines[b]:
				return -1
			case cosines[a] < cosines[b]:
				return 1
			}
			return 0
		})
		votes, all := make([]float64, classes), make([]int32, classes)
		for _, i := range order[:k] {
			found.Indices, found.Similarities = append(found.Indices, i), append(found.Similarities, float32(cosines[i]))
			votes[labels[i]] += math.Exp(2 * cosines[i])
		}
		for class := range all {
			all[class] = int32(class)
		}
		slices.SortStableFunc(all, func(a, b int32) int {
			switch {
			case votes[a] > votes[b]:
				return -1
			case votes[a] < votes[b]:
				return 1
			}
			return 0
		})
		ranked = append(ranked, all)
	}
	return found, ranked
}

// checkBank compares a search and a vote with their definition, to the last bit.
func checkBank(t *testing.T, b compute.Backend, rng *rand.Rand, n, asked, k, classes int, size blocks) {
	t.Helper()
	features, queries, labels := exactRows(rng, n), exactRows(rng, asked), make([]int32, n)
	for i := range labels {
		labels[i] = int32(rng.IntN(classes))
	}
	want, classesWant := definition(features, queries, 16, k, labels, classes)
	bank, err := NewBank(b, features, 16)
	if err != nil {
		t.Fatal(err)
	}
	bank.blocks = size
	defer bank.Close()
	for range 2 { // Nothing is left of an earlier search.
		found, err := bank.Find(t.Context(), queries, k)
		if err != nil {
			t.Fatal(err)
		}
		if found.K != k || !slices.Equal(found.Indices, want.Indices) || !slices.Equal(found.Similarities, want.Similarities) {
			t.Errorf("%d of %d, k %d, %+v: %v, want %v", asked, n, k, size, found, want)
		}
	}
	c := Classifier{K: k, Temperature: 0.5}
	ranked, err := c.Rank(b, Labelled{features, 16, labels, classes}, queries, classes)
	if err != nil {
		t.Fatal(err)
	}
	for q := range ranked {
		if !slices.Equal(ranked[q], classesWant[q]) {
			t.Errorf("%d of %d, k %d: query %d has classes %v, want %v", asked, n, k, q, ranked[q], classesWant[q])
		}
	}
}

func TestBankEqualsItsDefinition(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(7, 8))
		checkBank(t, b, rng, 700, 60, 20, 7, defaultBlocks)
		checkBank(t, b, rng, 150, 33, 150, 40, blocks{queries: 8, features: 64}) // All of them, and parts of blocks are empty.
		checkBank(t, b, rng, 64, 16, 1, 3, blocks{queries: 16, features: 16})
		checkBank(t, b, rng, 1, 1, 1, 1, blocks{queries: 4, features: 4})
	})
}

func FuzzBank(f *testing.F) {
	f.Add(uint64(1), uint8(30), uint8(5), uint8(3), uint8(2), uint8(4), uint8(8))
	f.Add(uint64(2), uint8(9), uint8(9), uint8(8), uint8(0), uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, n, asked, k, classes, queries, block uint8) {
		rows := 1 + int(n)%100
		checkBank(t, testbackend.Go(t), rand.New(rand.NewPCG(seed, 0)), rows, 1+int(asked)%40, 1+int(k)%rows, 1+int(classes),
			blocks{queries: 1 + int(queries)%50, features: 1 + int(block)%120})
	})
}

func TestBankOfHugeAndTinyFeatures(t *testing.T) {
	bank, err := NewBank(testbackend.Go(t), []float32{3e38, 3e38, 0, 1e-30, 1e-20, 0}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer bank.Close()
	found, err := bank.Find(t.Context(), []float32{0, 2e30, 1e-5, 0}, 3)
	if err != nil {
		t.Fatal(err)
	}
	// Norms below 10⁻¹² count as 10⁻¹²: the second and third feature are short.
	if want := []int32{0, 1, 2, 0, 2, 1}; !slices.Equal(found.Indices, want) || !(math.Abs(float64(found.Similarities[0])-math.Sqrt(0.5)) <= 1e-4) {
		t.Errorf("%v, want %v", found, want)
	}
}

// TestClassifierHoldsNoVotesOfTheWholeBank has so many classes that one number for each feature and class would be 320 MB.
func TestClassifierHoldsNoVotesOfTheWholeBank(t *testing.T) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("this system does not report memory:", err)
	}
	const n, classes = 40000, 2000
	rng := rand.New(rand.NewPCG(9, 9))
	bank, labels := exactRows(rng, n), make([]int32, n)
	for i := range labels {
		labels[i] = int32(i % classes)
	}
	queries, b := exactRows(rng, 64), testbackend.Fastest(t)
	peak := usage.PeakMemory(func() {
		if _, err := (Classifier{K: 20, Temperature: 0.07}).Rank(b, Labelled{bank, 16, labels, classes}, queries, 5); err != nil {
			t.Fatal(err)
		}
	})
	if t.Logf("a peak of %d MB", peak>>20); peak > 100<<20 {
		t.Errorf("it took %d MB", peak>>20)
	}
}

func TestBankSaysWhatIsWrong(t *testing.T) {
	b := testbackend.Go(t)
	for want, values := range map[string][]float32{
		"bank: 3 numbers are not rows of 2":       {1, 2, 3},
		"bank: no features":                       {},
		"bank: feature vector 1: value 0 is NaN":  {1, 2, float32(math.NaN()), 4},
		"bank: feature vector 0: value 1 is -Inf": {1, float32(math.Inf(-1)), 3, 4},
		"bank: feature vector 1: value 1 is +Inf": {math.MaxFloat32, 1, 3, float32(math.Inf(1))},
	} {
		if _, err := NewBank(b, values, 2); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	bank, err := NewBank(b, []float32{1, 0, 0, 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer bank.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, find := range map[string]func() (Nearest, error){
		"k 0 of 2 features":                          func() (Nearest, error) { return bank.Find(t.Context(), []float32{1, 0}, 0) },
		"k 3 of 2 features":                          func() (Nearest, error) { return bank.Find(t.Context(), []float32{1, 0}, 3) },
		"queries: 3 numbers":                         func() (Nearest, error) { return bank.Find(t.Context(), []float32{1, 0, 1}, 1) },
		"queries: feature vector 0: value 1 is +Inf": func() (Nearest, error) { return bank.Find(t.Context(), []float32{1, float32(math.Inf(1))}, 1) },
		context.Canceled.Error():                     func() (Nearest, error) { return bank.Find(cancelled, []float32{1, 0}, 1) },
	} {
		if _, err := find(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := bank.Find(cancelled, []float32{1, 0}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after it was cancelled", err)
	}
}
