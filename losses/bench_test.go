package losses_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/losses"
)

// benchmarkPairs are numbers of patch pairs in an image pair: the squares of 48, 98, 196 (ViT/16 at 224²), 392 and 784 (ViT/8) patches.
var benchmarkPairs = []int{2304, 9604, 38416, 153664, 614656}

// way is one way to compute the loss and its gradient, ready to run.
type way struct {
	run     func()
	compile float64 // The seconds by which the first run is slower than the second.
}

func newWay(b *testing.B, name string, n int) way {
	rng := rand.New(rand.NewPCG(7, 7))
	p, q := make([]float32, n), make([]float32, n)
	for i := range p {
		q[i] = rng.Float32()
		p[i] = 0.5*q[i] + 0.5*rng.Float32()
	}
	c := losses.DefaultCoTAP()
	if name == "go" {
		wideP, wideQ := widen(p), widen(q)
		return way{run: func() {
			if _, _, err := c.Evaluate(wideP, wideQ); err != nil {
				b.Fatal(err)
			}
		}}
	}
	f := c.Tree
	if name == "brute" {
		f = c.BruteForce
	}
	exec := withGradient(b, testbackend.Fastest(b), f)
	tensorP, tensorQ := tensors.FromValue([][]float32{p}), tensors.FromValue([][]float32{q})
	w := way{run: func() {
		out, err := exec.Call(tensorP, tensorQ)
		if err != nil {
			b.Fatal(err)
		}
		if loss := out[0].Value().(float32); math.IsNaN(float64(loss)) {
			b.Fatal("the loss is NaN")
		}
		for _, x := range out {
			x.MustFinalizeAll()
		}
	}}
	seconds := func() float64 {
		began := time.Now()
		w.run()
		return time.Since(began).Seconds()
	}
	w.compile = seconds() - seconds()
	return w
}

// BenchmarkCoTAP times the loss with its gradient: on the host, by the tree and by brute force. MB-peak is the process's peak memory minus its memory
// before, with the backend open.
func BenchmarkCoTAP(b *testing.B) {
	for _, name := range []string{"go", "graph", "brute"} {
		for _, n := range benchmarkPairs {
			if name == "brute" && n > 38416 {
				continue
			}
			b.Run(fmt.Sprintf("%s/N=%d", name, n), func(b *testing.B) {
				var w way
				var cpus []float64
				peak := usage.PeakMemory(func() {
					w = newWay(b, name, n)
					for b.Loop() {
						began := cpuSeconds()
						w.run()
						cpus = append(cpus, cpuSeconds()-began)
					}
				})
				b.ReportMetric(1e3*median(cpus), "CPU-ms")
				b.ReportMetric(float64(peak)/1e6, "MB-peak")
				if w.compile > 0 {
					b.ReportMetric(w.compile, "s-to-compile")
				}
			})
		}
	}
}

// BenchmarkCoTAPAgainstBruteForce runs all three in turn at ViT/16's 38,416 pairs and reports how many times as much CPU time the brute force takes as each of
// the others, as medians over the turns.
func BenchmarkCoTAPAgainstBruteForce(b *testing.B) {
	names := []string{"brute", "go", "graph"}
	seconds := inTurn(b, names, func(name string) way { return newWay(b, name, 38416) })
	b.ReportMetric(1e3*seconds["brute"], "brute-CPU-ms")
	b.ReportMetric(seconds["brute"]/seconds["go"], "times-go")
	b.ReportMetric(seconds["brute"]/seconds["graph"], "times-graph")
}

// BenchmarkCoTAPGrowth runs 38,416 and 614,656 pairs in turn and reports the exponent of the growth of the CPU time.
func BenchmarkCoTAPGrowth(b *testing.B) {
	for _, name := range []string{"go", "graph"} {
		b.Run(name, func(b *testing.B) {
			seconds := inTurn(b, []string{"38416", "614656"}, func(pairs string) way {
				n, _ := strconv.Atoi(pairs)
				return newWay(b, name, n)
			})
			b.ReportMetric(math.Log(seconds["614656"]/seconds["38416"])/math.Log(614656./38416), "exponent")
		})
	}
}

// inTurn returns the median CPU time of each way over turns. A turn takes the minimum of up to five consecutive runs, a second in all: a single run
// would be measured with caches full of the other ways' data.
func inTurn(b *testing.B, names []string, make func(name string) way) map[string]float64 {
	ways := map[string]way{}
	for _, name := range names {
		ways[name] = make(name)
		ways[name].run()
	}
	cpus := map[string][]float64{}
	for b.Loop() {
		for _, name := range names {
			least, total := math.Inf(1), 0.0
			for run := 0; run < 5 && total < 1; run++ {
				began := cpuSeconds()
				ways[name].run()
				spent := cpuSeconds() - began
				least, total = min(least, spent), total+spent
			}
			cpus[name] = append(cpus[name], least)
		}
	}
	medians := map[string]float64{}
	for name, seconds := range cpus {
		medians[name] = median(seconds)
	}
	return medians
}

func cpuSeconds() float64 { return usage.CPU().Seconds() }

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
