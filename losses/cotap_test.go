package losses_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/settings"
)

type lossFunction = func(p, q *graph.Node) *graph.Node

// algorithms compute the same loss in different ways.
func algorithms(c losses.CoTAP) map[string]lossFunction {
	return map[string]lossFunction{"brute force": c.BruteForce, "tree": c.Tree, "deep tree": c.DeepTree, "tree for GPUs": c.GPUTree}
}

// withGradient compiles a loss together with its gradient in p.
func withGradient(t testing.TB, b compute.Backend, f lossFunction) *graph.Exec {
	t.Helper()
	exec := graph.MustNewExec(b, func(in []*graph.Node) []*graph.Node {
		loss := f(in[0], in[1])
		return append([]*graph.Node{loss}, graph.Gradient(loss, in[0])...)
	})
	t.Cleanup(exec.Finalize)
	return exec
}

// evaluatePairs runs a graph of withGradient on a batch of image pairs.
func evaluatePairs[T float32 | float64](t *testing.T, exec *graph.Exec, p, q [][]T) (loss float64, gradient []float64) {
	t.Helper()
	out, err := exec.Call(p, q)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tensors.MustCopyFlatData[T](out[1]) {
		gradient = append(gradient, float64(x))
	}
	return float64(out[0].Value().(T)), gradient
}

// agree compares a loss and its gradient, whose error is relative to its largest entry.
func agree(t *testing.T, what string, loss, want, lossTolerance float64, gradient, wantGradient []float64, gradientTolerance float64) {
	t.Helper()
	if !(math.Abs(loss-want) <= lossTolerance*math.Max(math.Abs(want), 1e-9)) {
		t.Errorf("%s: loss %.15g, want %.15g", what, loss, want)
	}
	largest, worst := 1e-6, 0.0
	for i := range wantGradient {
		largest = math.Max(largest, math.Abs(wantGradient[i]))
		worst = max(worst, math.Abs(gradient[i]-wantGradient[i])) // NaN stays.
	}
	if !(worst <= gradientTolerance*largest) {
		t.Errorf("%s: gradient off by %g where its largest entry is %g", what, worst, largest)
	}
}

// agreeOnTheHost compares the sweep with the definition.
func agreeOnTheHost(t *testing.T, c losses.CoTAP, p, q []float64, lossTolerance, gradientTolerance float64) {
	t.Helper()
	want, wantGradient := cotapReference(c, p, q)
	loss, gradient, err := c.Evaluate(p, q)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, fmt.Sprintf("Evaluate %+v", c), loss, want, lossTolerance, gradient, wantGradient, gradientTolerance)
}

func TestCoTAPOnTheHostAgainstReference(t *testing.T) {
	for n := 1; n < 60; n++ {
		for _, levels := range []int{0, 2, 7} {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(levels)))
			p, q := scoresOf(rng, n, levels), scoresOf(rng, n, levels)
			for _, c := range []losses.CoTAP{losses.DefaultCoTAP(), {Threshold: 0.4, Margin: 0.1}, {Threshold: -1, Margin: 3}} {
				agreeOnTheHost(t, c, p, q, 1e-12, 1e-11)
			}
		}
	}
}

// TestCoTAPOnTheHostOfCloseScores: sums are taken over scores minus their mean, so that close scores with an equally small margin keep their digits.
func TestCoTAPOnTheHostOfCloseScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	agreeOnTheHost(t, losses.CoTAP{Threshold: -0.2, Margin: 1e-4}, closeScoresOf(rng, 200), scoresOf(rng, 200, 0), 1e-11, 1e-10)
}

// TestCoTAPOnTheHostOfNegativeZeros: −0 counts as 0, below all other scores.
func TestCoTAPOnTheHostOfNegativeZeros(t *testing.T) {
	negative := math.Copysign(0, -1)
	p, q := []float64{negative, 0.5, 0, 0.3}, []float64{0.5, negative, 0, 0.2}
	agreeOnTheHost(t, losses.DefaultCoTAP(), p, q, 1e-12, 1e-11)
}

// TestCoTAPOfAWideMargin: even with a margin wider than all differences, the padding of a leaf's last block must not become a negative.
func TestCoTAPOfAWideMargin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p, q := scoresOf(rng, 301, 0), scoresOf(rng, 301, 0)
	c := losses.CoTAP{Threshold: -0.2, Margin: 3}
	want, wantGradient := cotapReference(c, p, q)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		loss, gradient := evaluatePairs(t, withGradient(t, b, c.Tree), [][]float64{p}, [][]float64{q})
		agree(t, "tree", loss, want, 1e-10, gradient, wantGradient, 1e-9)
	})
}

// TestCoTAPAgainstReference covers single leaves, several levels of the tree, ties in p and q across leaves, and close scores.
func TestCoTAPAgainstReference(t *testing.T) {
	cases := map[string]func(rng *rand.Rand, n int) []float64{
		"free":   func(rng *rand.Rand, n int) []float64 { return scoresOf(rng, n, 0) },
		"ties":   func(rng *rand.Rand, n int) []float64 { return scoresOf(rng, n, 3) },
		"single": func(rng *rand.Rand, n int) []float64 { return scoresOf(rng, n, 1) },
		"close":  closeScoresOf,
	}
	c := losses.DefaultCoTAP()
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for algorithm, f := range algorithms(c) {
			exec := withGradient(t, b, f)
			for name, draw := range cases {
				for _, n := range []int{3, 90, 301} {
					if algorithm == "tree" && n <= 160 {
						continue // A single leaf, which the deep tree's leaves cover.
					}
					rng := rand.New(rand.NewPCG(uint64(n), 5))
					p32, q32 := make([][]float32, 2), make([][]float32, 2)
					p, q := make([][]float64, 2), make([][]float64, 2)
					want, wantGradient := 0.0, []float64{}
					for image := range p {
						p32[image], q32[image] = narrow(draw(rng, n)), narrow(draw(rng, n))
						p[image], q[image] = widen(p32[image]), widen(q32[image])
						loss, gradient := cotapReference(c, p[image], q[image])
						want += loss / 2
						for _, x := range gradient {
							wantGradient = append(wantGradient, x/2)
						}
					}
					loss, gradient := evaluatePairs(t, exec, p, q)
					agree(t, algorithm+", "+name+", float64", loss, want, 1e-10, gradient, wantGradient, 1e-9)
					loss, gradient = evaluatePairs(t, exec, p32, q32)
					agree(t, algorithm+", "+name+", float32", loss, want, 1e-5, gradient, wantGradient, 1e-4)
				}
			}
		}
	})
}

// TestCoTAPOfAThreshold: pairs with q at most τ1 have no weight, and they remain negatives of the others. A threshold below 0 never shows this.
func TestCoTAPOfAThreshold(t *testing.T) {
	c := losses.CoTAP{Threshold: 0.4, Margin: 0.1}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for algorithm, f := range algorithms(c) {
			rng := rand.New(rand.NewPCG(12, 12))
			p, q := scoresOf(rng, 301, 0), scoresOf(rng, 301, 10)
			want, wantGradient := cotapReference(c, p, q)
			loss, gradient := evaluatePairs(t, withGradient(t, b, f), [][]float64{p}, [][]float64{q})
			agree(t, algorithm, loss, want, 1e-10, gradient, wantGradient, 1e-9)
		}
	})
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = float64(x[i])
	}
	return out
}

// TestCoTAPManyPairs compares the tree with the host's sweep, as brute force in Go would take long; only XLA sorts that many pairs fast.
func TestCoTAPManyPairs(t *testing.T) {
	if !testbackend.HasXLA() {
		t.Skip("without the XLA plugin only the small cases are tested")
	}
	rng := rand.New(rand.NewPCG(3, 3))
	c := losses.DefaultCoTAP()
	exec := withGradient(t, testbackend.Fastest(t), c.Loss)
	for _, levels := range []int{0, 50} {
		p32, q32 := narrow(scoresOf(rng, 9604, 0)), narrow(scoresOf(rng, 9604, levels))
		want, wantGradient, err := c.Evaluate(widen(p32), widen(q32))
		if err != nil {
			t.Fatal(err)
		}
		loss, gradient := evaluatePairs(t, exec, [][]float32{p32}, [][]float32{q32})
		agree(t, "9604 pairs", loss, want, 1e-5, gradient, wantGradient, 1e-4)
	}
}

func TestCoTAPGradients(t *testing.T) {
	// Scores differ by more than the finite differences, so that no pair changes its rank.
	rng := rand.New(rand.NewPCG(4, 4))
	const n = 46
	p, q := make([]float64, n), scoresOf(rng, n, 6)
	for i, at := range rng.Perm(n) {
		p[i] = (float64(at) + 0.5 + 0.4*rng.Float64()) / (n + 1)
	}
	target := tensors.FromValue(q)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, f := range algorithms(losses.DefaultCoTAP()) {
			t.Run(name, func(t *testing.T) {
				testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
					return f(in[0], graph.ConstTensor(in[0].Graph(), target))
				}, 1e-5, tensors.FromValue(p))
			})
		}
	})
}

func TestCoTAPTakesNoGradientInTargets(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(8, 8))
		gradient := graph.MustExecOnce(b, func(p, q *graph.Node) *graph.Node {
			return graph.Gradient(losses.DefaultCoTAP().Loss(p, q), q)[0]
		}, scoresOf(rng, 20, 0), scoresOf(rng, 20, 0))
		for _, x := range tensors.MustCopyFlatData[float64](gradient) {
			if x != 0 {
				t.Fatalf("the target scores have gradient %g", x)
			}
		}
	})
}

// TestCoTAPOfPerfectOrder has three groups of pairs whose p, like their q, differ by more than the margin.
func TestCoTAPOfPerfectOrder(t *testing.T) {
	const n = 120
	p, q := make([]float64, n), make([]float64, n)
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range p {
		group := float64(rng.IntN(3))
		p[i], q[i] = 0.4*group+0.05*rng.Float64(), 0.5*group
	}
	c := losses.CoTAP{Threshold: -0.2, Margin: 0.3}
	loss, gradient, err := c.Evaluate(p, q)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, "Evaluate", loss, 0, 1e-3, gradient, make([]float64, n), 1e-2)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, f := range algorithms(c) {
			loss, gradient := evaluatePairs(t, withGradient(t, b, f), [][]float64{p}, [][]float64{q})
			agree(t, name, loss, 0, 1e-3, gradient, make([]float64, n), 1e-2)
		}
	})
}

func TestCoTAPDoesNotDependOnTheOrderOfPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 130
	p, q := scoresOf(rng, n, 9), scoresOf(rng, n, 9)
	order := rng.Perm(n)
	movedP, movedQ := make([]float64, n), make([]float64, n)
	for to, from := range order {
		movedP[to], movedQ[to] = p[from], q[from]
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, f := range algorithms(losses.DefaultCoTAP()) {
			exec := withGradient(t, b, f)
			want, gradient := evaluatePairs(t, exec, [][]float64{p}, [][]float64{q})
			moved := make([]float64, n)
			for to, from := range order {
				moved[to] = gradient[from]
			}
			loss, got := evaluatePairs(t, exec, [][]float64{movedP}, [][]float64{movedQ})
			agree(t, name, loss, want, 1e-12, got, moved, 1e-11)
		}
	})
}

func TestCoTAPReportsBadScores(t *testing.T) {
	c := losses.DefaultCoTAP()
	good := []float64{0.1, 0.5, 0.9}
	var wrong [][2][]float64
	for _, bad := range []float64{math.NaN(), -0.01, 1.01, math.Inf(1)} {
		scores := []float64{0.3, bad, 0.2}
		wrong = append(wrong, [2][]float64{good, scores}, [2][]float64{scores, good})
	}
	for _, pair := range wrong {
		if _, _, err := c.Evaluate(pair[0], pair[1]); err == nil {
			t.Errorf("no error for %v", pair)
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, f := range algorithms(c) {
			exec := withGradient(t, b, f)
			for _, pair := range wrong {
				loss, gradient := evaluatePairs(t, exec, [][]float64{pair[0]}, [][]float64{pair[1]})
				finite := slices.ContainsFunc(gradient, func(x float64) bool { return !math.IsNaN(x) })
				if !math.IsNaN(loss) || len(gradient) != 3 || finite {
					t.Errorf("%s of %v: loss %v, gradient %v", name, pair, loss, gradient)
				}
			}
		}
	})
	if _, _, err := c.Evaluate([]float64{0, 1}, []float64{1}); err == nil {
		t.Error("no error for scores of different number")
	}
	if _, _, err := c.Evaluate(nil, nil); err == nil {
		t.Error("no error without pairs")
	}
}

func TestCoTAPRefusesBadHyperParameters(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []losses.CoTAP{
		{Threshold: 2, Margin: 1}, {Threshold: -inf, Margin: 1}, {Threshold: -1e5, Margin: 1}, {Threshold: nan, Margin: 1},
		{Margin: 0}, {Margin: -1}, {Margin: 1e-5}, {Margin: 1e-17}, {Margin: 1e-200}, {Margin: 1e5}, {Margin: inf}, {Margin: nan},
	} {
		if _, _, err := c.Evaluate([]float64{0, 1}, []float64{1, 0}); err == nil || !strings.Contains(err.Error(), "tau") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}

// TestCoTAPAtTheLimits: at the limits that the tags allow the sums still keep their digits.
func TestCoTAPAtTheLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	p, q := scoresOf(rng, 400, 0), scoresOf(rng, 400, 0)
	for _, c := range []losses.CoTAP{{Threshold: -1e4, Margin: 0.5}, {Threshold: 1, Margin: 0.5}, {Threshold: -0.2, Margin: 1e-4}, {Threshold: -0.2, Margin: 1e4}} {
		if err := settings.Check(c); err != nil {
			t.Fatal(err)
		}
		agreeOnTheHost(t, c, p, q, 1e-9, 1e-7)
	}
}

func FuzzCoTAP(f *testing.F) {
	f.Add([]byte{1, 200, 3, 4, 200, 6}, byte(100))
	f.Add([]byte{0, 0, 255, 255}, byte(0))
	f.Fuzz(func(t *testing.T, raw []byte, margin byte) {
		n := min(len(raw)/2, 300)
		if n == 0 {
			return
		}
		p, q := make([]float64, n), make([]float64, n)
		for i := range p {
			p[i], q[i] = float64(raw[2*i])/255, float64(raw[2*i+1])/255
		}
		c := losses.CoTAP{Threshold: -0.2, Margin: (float64(margin) + 1) / 128}
		agreeOnTheHost(t, c, p, q, 1e-9, 1e-8)
		weight := func(q float64) float64 { return 1 - q/2 }
		definition, err := losses.CoTAPDefinition(p, q, weight)
		if err != nil {
			t.Fatal(err)
		}
		if bound, err := losses.CoTAPBound(p, q, weight); err != nil || definition > bound*(1+1e-12) {
			t.Fatalf("definition %v above its bound %v, %v", definition, bound, err)
		}
	})
}
