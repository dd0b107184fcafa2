package tsne

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// drawn are vectors of classes, one after the other.
func drawn(n, dim, classes int, seed uint64) *mat.Dense {
	random := rand.New(rand.NewPCG(seed, 1))
	features := mat.NewDense(n, dim, nil)
	for i := range n {
		for d := range dim {
			features.Set(i, d, random.NormFloat64()+4*math.Sin(float64(7*(i%classes)+3*d)))
		}
	}
	return features
}

func affinitiesOf(t *testing.T, features mat.Matrix, perplexity float64) *mat.SymDense {
	t.Helper()
	p, err := Affinities(features, perplexity)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGolden compares with scikit-learn's exact method on the same vectors; testdata/tsne.py made the file.
func TestGolden(t *testing.T) {
	content, err := os.ReadFile("testdata/tsne.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Perplexity                     float64
		Features, Affinities, Gradient [][]float64
		Points                         [][2]float64
		Divergence                     float64
		Divergences                    []float64 // By the first points.
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("perplexity %g", c.Perplexity), func(t *testing.T) {
			features := mat.NewDense(len(c.Features), len(c.Features[0]), slices.Concat(c.Features...))
			p := affinitiesOf(t, features, c.Perplexity)
			for i, row := range c.Affinities {
				for j, want := range row {
					if got := p.At(i, j); !(math.Abs(got-want) <= 1e-4*want+1e-9) {
						t.Fatalf("p[%d, %d] = %g, want %g", i, j, got, want)
					}
				}
			}
			var points []Point
			for _, y := range c.Points {
				points = append(points, Point{y[0], y[1]})
			}
			if got := Divergence(p, points); !(math.Abs(got-c.Divergence) <= 1e-4*c.Divergence) {
				t.Errorf("divergence of scikit-learn's points %g, want %g", got, c.Divergence)
			}
			for i, slope := range gradient(mat.DenseCopyOf(p), 1, points) {
				if want := c.Gradient[i]; math.Hypot(slope.X-want[0], slope.Y-want[1]) > 1e-6 {
					t.Fatalf("gradient of point %d %v, want %v", i, slope, want)
				}
			}
			// A descent ends in one of several hollows, and rounding decides which. So the best of descents from the same first points, two of the vectors'
			// numbers, is compared.
			best := math.Inf(1)
			for start := range c.Divergences {
				for i := range points {
					points[i] = Point{initialDeviation * features.At(i, start), initialDeviation * features.At(i, start+1)}
				}
				if err := descend(context.Background(), mat.DenseCopyOf(p), points, 1000); err != nil {
					t.Fatal(err)
				}
				best = min(best, Divergence(p, points))
			}
			if want := slices.Min(c.Divergences); !(math.Abs(best-want) <= 0.02*want) {
				t.Errorf("best divergence %g, want %g within 2 %%", best, want)
			}
		})
	}
}

func TestGradientIsThatOfTheDivergence(t *testing.T) {
	for seed := range uint64(5) {
		const n = 12
		p := affinitiesOf(t, drawn(n, 3, 3, seed), 3)
		random := rand.New(rand.NewPCG(seed, 2))
		points := make([]Point, n)
		for i := range points {
			points[i] = Point{2 * random.NormFloat64(), 2 * random.NormFloat64()}
		}
		const step = 1e-5
		for i, slope := range gradient(mat.DenseCopyOf(p), 1, points) {
			for axis, got := range []float64{slope.X, slope.Y} {
				var sides [2]float64
				for side := range sides {
					moved := slices.Clone(points)
					by := step * float64(1-2*side)
					if axis == 0 {
						moved[i].X += by
					} else {
						moved[i].Y += by
					}
					sides[side] = Divergence(p, moved)
				}
				if want := (sides[0] - sides[1]) / (2 * step); !(math.Abs(got-want) <= 1e-8) {
					t.Errorf("point %d, axis %d: %g, want %g", i, axis, got, want)
				}
			}
		}
	}
}

func TestAffinitiesHaveThePerplexity(t *testing.T) {
	features := drawn(40, 5, 4, 9)
	for _, perplexity := range []float64{1.5, 5, 13} {
		p := affinitiesOf(t, features, perplexity)
		if sum := mat.Sum(p); !(math.Abs(sum-1) <= 1e-12) {
			t.Errorf("P sums to %g", sum)
		}
		squared := make([]float64, 40)
		for j := range squared {
			d := floats.Distance(features.RawRowView(7), features.RawRowView(j), 2)
			squared[j] = d * d
		}
		entropy := 0.0
		for j, x := range neighbourhood(squared, 7, perplexity) {
			if x > 0 {
				entropy -= x * math.Log(x)
			}
			if j == 7 && x != 0 {
				t.Errorf("a vector is its own neighbour with %g", x)
			}
		}
		if got := math.Exp(entropy); !(math.Abs(got-perplexity) <= 1e-5) {
			t.Errorf("perplexity %g, want %g", got, perplexity)
		}
	}
	equal := affinitiesOf(t, mat.NewDense(8, 2, nil), 2)
	if got := equal.At(0, 1); !(math.Abs(got-1.0/56) <= 1e-12) {
		t.Errorf("equal vectors have affinity %g, want 1/56", got)
	}
}

func TestSameBytesForAnyNumberOfProcessors(t *testing.T) {
	p := affinitiesOf(t, drawn(50, 5, 4, 3), 8)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first, _, err := Options{Steps: 300, Seed: 4}.Embed(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, processors := range []int{2, 3} {
		runtime.GOMAXPROCS(processors)
		if again, _, _ := (Options{Steps: 300, Seed: 4}).Embed(context.Background(), p); !slices.Equal(first, again) {
			t.Errorf("other points with %d processors", processors)
		}
	}
	if other, _, _ := (Options{Steps: 300, Seed: 5}).Embed(context.Background(), p); slices.Equal(first, other) {
		t.Error("another seed gives the same points")
	}
}

func TestRefused(t *testing.T) {
	nan := drawn(9, 2, 2, 0)
	nan.Set(3, 1, math.NaN())
	for want, given := range map[string]struct {
		features   mat.Matrix
		perplexity float64
	}{
		"3 vectors, want 4":                           {drawn(3, 2, 2, 0), 1},
		"perplexity 4 of 10 vectors, want 1 to 3":     {drawn(10, 2, 2, 0), 4},
		"perplexity NaN of 10":                        {drawn(10, 2, 2, 0), math.NaN()},
		"vector 3 is not finite: NaN in place 1 of 2": {nan, 2},
		"8193 vectors, want 4 to 8192":                {mat.NewDense(8193, 1, nil), 30},
	} {
		if _, err := Affinities(given.features, given.perplexity); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := affinitiesOf(t, drawn(10, 2, 2, 0), 2)
	if _, _, err := (Options{Steps: 100}).Embed(context.Background(), p); err == nil || !strings.Contains(err.Error(), "100 steps") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := (Options{Steps: 300}).Embed(ctx, p); err != context.Canceled {
		t.Error(err)
	}
}

// BenchmarkEmbed measures 2,000 vectors of 384 numbers, 1,000 steps.
func BenchmarkEmbed(b *testing.B) {
	features := drawn(2000, 384, 20, 0)
	for b.Loop() {
		began := time.Now()
		p, err := Affinities(features, 30)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(began).Seconds(), "affinities-s")
		if _, _, err := (Options{Steps: 1000}).Embed(context.Background(), p); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleOptions_Embed() {
	// Two classes of vectors lie far from each other.
	p, _ := Affinities(mat.NewDense(8, 1, []float64{0, 0.1, 0.2, 0.3, 9, 9.1, 9.2, 9.3}), 2)
	points, _, _ := Options{Steps: 500, Seed: 1}.Embed(context.Background(), p)
	distance := func(a, b Point) float64 { return math.Hypot(a.X-b.X, a.Y-b.Y) }
	fmt.Println("nearer within a class:", distance(points[0], points[1]) < distance(points[0], points[4]))
	// Output: nearer within a class: true
}

func ExampleAffinities() {
	// Two pairs lie far from each other. At perplexity 1 each vector has only its nearest for a neighbour, so that p_01 is (1 + 1)/(2·4).
	p, err := Affinities(mat.NewDense(4, 1, []float64{0, 1, 10, 11}), 1)
	fmt.Printf("%.2f %.2f %.2f, %v\n", p.At(0, 1), p.At(2, 3), p.At(0, 2), err)
	// Output: 0.25 0.25 0.00, <nil>
}

func ExampleDivergence() {
	// All of P is between the first two of three vectors. Three equal points have q = 1/6 for each of six pairs, which is log(½/(1/6)) = log 3 away; with the third far from
	// the others Q is nearly P.
	p := mat.NewSymDense(3, []float64{0, 0.5, 0, 0.5, 0, 0, 0, 0, 0})
	fmt.Printf("%.3f %.3f\n", Divergence(p, make([]Point, 3)), Divergence(p, []Point{{0, 0}, {0, 0}, {1000, 0}}))
	// Output: 1.099 0.000
}
