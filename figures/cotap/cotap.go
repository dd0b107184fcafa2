// Package cotap draws what CoTAP costs, CPU time and memory of the loss of one image pair with its gradient for each way to compute it, and how it looks at a
// student's ranking. It keeps no records, so it is not an experiment.
package cotap

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/losses"
)

// Cost is the cost of the loss of one image pair with its gradient, for one way to compute it.
type Cost struct {
	Way    string // "brute force", "graph" or "host"
	Pairs  int
	CPU    time.Duration // The lowest CPU time of three runs.
	Memory int64         // Peak bytes of compilation and runs, above what the process has with backend and compiler loaded.
}

// ways are in the order of measurement. Those that need more memory come later, because the process keeps its memory.
var ways = []string{"host", "brute force", "graph"}

// bruteForceLimit is the largest number of pairs that Measure computes by brute force.
const bruteForceLimit = 38416

// Measure measures each way for each number of pairs, which should ascend. The Go engine handles about a thousand pairs at most.
func Measure(b compute.Backend, pairs []int) ([]Cost, error) {
	if _, err := measure(b, "graph", 64); err != nil { // Loads the compiler.
		return nil, err
	}
	var costs []Cost
	for _, way := range ways {
		kept := int64(0) // Memory that the process keeps from smaller numbers of pairs.
		for _, n := range pairs {
			if way == "brute force" && n > bruteForceLimit {
				continue
			}
			cost, err := measure(b, way, n)
			if err != nil {
				return nil, fmt.Errorf("%s, %d pairs: %w", way, n, err)
			}
			kept += cost.Memory
			cost.Memory = kept
			costs = append(costs, cost)
		}
	}
	return costs, nil
}

func measure(b compute.Backend, way string, n int) (cost Cost, err error) {
	defer try.Handle(&err)
	rng := rand.New(rand.NewPCG(7, 7))
	p, q := make([]float32, n), make([]float32, n)
	wideP, wideQ := make([]float64, n), make([]float64, n)
	for i := range p {
		q[i] = rng.Float32()
		p[i] = 0.5*q[i] + 0.5*rng.Float32()
		wideP[i], wideQ[i] = float64(p[i]), float64(q[i])
	}
	c := losses.DefaultCoTAP()
	run := func() error { _, _, err := c.Evaluate(wideP, wideQ); return err }
	if way != "host" {
		loss := lo.Ternary(way == "brute force", c.BruteForce, c.Loss)
		exec := try.E1(graph.NewExec(b, func(in []*graph.Node) []*graph.Node {
			value := loss(in[0], in[1])
			return append([]*graph.Node{value}, graph.Gradient(value, in[0])...)
		}))
		defer exec.Finalize()
		tensorP, tensorQ := tensors.FromValue(p), tensors.FromValue(q)
		run = func() error {
			out, err := exec.Call(tensorP, tensorQ)
			for _, x := range out {
				x.MustFinalizeAll()
			}
			return err
		}
	}
	cost = Cost{Way: way, Pairs: n, CPU: math.MaxInt64}
	cost.Memory = usage.PeakMemory(func() {
		for turn := 0; turn < 4 && err == nil; turn++ {
			began := usage.CPU()
			err = run()
			if turn > 0 { // The first compiles.
				cost.CPU = min(cost.CPU, usage.CPU()-began)
			}
		}
	})
	return cost, err
}

// Curves plots CPU time and memory against the number of pairs.
func Curves(costs []Cost) figures.CurvesRow {
	times := []figures.Series{{Name: "brute force"}, {Name: "graph"}, {Name: "host"}}
	memory := slices.Clone(times)
	for _, cost := range costs {
		figures.AddPoint(&times, cost.Way, float64(cost.Pairs), 1e3*cost.CPU.Seconds())
		if cost.Memory > 0 {
			figures.AddPoint(&memory, cost.Way, float64(cost.Pairs), float64(cost.Memory)/1e6)
		}
	}
	return figures.CurvesRow{
		{X: "patch pairs", Y: "CPU time (ms)", LogX: true, LogY: true, Series: times}, {X: "patch pairs", Y: "memory (MB)", LogX: true, LogY: true, Series: memory},
	}
}

// Pairs are the numbers of pairs that a profile measures: squares of 48, 98, 196 (ViT/16 at 224²), 392 and 784 (ViT/8) patches.
func Pairs(profile string) []int {
	switch profile {
	case "smoke":
		return []int{256, 1024}
	case "quick":
		return []int{2304, 9604, 38416}
	}
	return []int{2304, 9604, 38416, 153664, 614656}
}

// Numbers of points in figures of a ranking.
const (
	thresholds = 80
	rankBins   = 10
)

// Ranking draws how CoTAP looks at the scores p of a student, given the scores q of a teacher: one score in [0, 1] of each pair of patches. Left, the AP loss
// against the labels q ≥ t, by the threshold t. In the middle, these losses summed over the pairs as thresholds, from the lowest on, over the number of pairs:
// the sum ends at the definition of CoTAP with γ = 1. Right, how hard a step of gradient descent moves a pair, by the place that the student gives it: the mean
// in each tenth of the ranking, over the mean size of all, for the third of the pairs that the teacher holds most alike and for the other thirds. The errors
// are as for [losses.AP].
func Ranking(p, q []float64) (_ figures.CurvesRow, err error) {
	defer try.Handle(&err)
	if len(p) < 10 {
		return nil, errors.New("a ranking of fewer than ten pairs")
	}
	var byThreshold []figures.Series
	low, high := slices.Min(q), slices.Max(q)
	for i := range thresholds {
		t := low + (high-low)*float64(i)/thresholds
		loss := try.E1(losses.AP(p, q, t))
		figures.AddPoint(&byThreshold, "AP loss", t, loss)
	}
	_, gradient := try.E2(losses.DefaultCoTAP().Evaluate(p, q))
	summed := try.E1(summed(p, q))
	return figures.CurvesRow{
		{Title: "AP loss under each threshold", X: "threshold t", Y: "AP loss", Series: byThreshold},
		{Title: "summed over thresholds", X: "up to threshold t", Y: "sum / pairs", Series: []figures.Series{summed}},
		{Title: "pull on the ranking", X: "place in the student's ranking (%)", Y: "pull / mean pull (up > 0)", Series: pulls(p, q, gradient)},
	}, nil
}

// summed is the sum of the AP losses over the thresholds, in as many parts as there are points.
func summed(p, q []float64) (series figures.Series, err error) {
	defer try.Handle(&err)
	series.Name = "CoTAP so far"
	sorted, sum, loss, last := slices.Sorted(slices.Values(q)), 0.0, 0.0, math.NaN()
	for i, t := range sorted {
		if t != last {
			loss, last = try.E1(losses.AP(p, q, t)), t
		}
		sum += loss
		if (i+1)*thresholds/len(sorted) > i*thresholds/len(sorted) {
			series.X, series.Y = append(series.X, t), append(series.Y, sum/float64(len(q)))
		}
	}
	return series, nil
}

// pulls are the means of the gradient against the place in the student's ranking.
func pulls(p, q, gradient []float64) []figures.Series {
	order, size := lo.Range(len(p)), lo.SumBy(gradient, math.Abs)/float64(len(p))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[b], p[a]) })
	sorted := slices.Sorted(slices.Values(q))
	var groups []figures.Series
	names := []string{"teacher: most alike", "between", "least alike"}
	for bin := range rankBins {
		sums, counts := make([]float64, len(names)), make([]float64, len(names))
		for _, i := range order[bin*len(order)/rankBins : (bin+1)*len(order)/rankBins] {
			above := len(sorted) - sort.SearchFloat64s(sorted, q[i]) - 1
			group := min(max(above, 0)*len(names)/len(sorted), len(names)-1)
			sums[group] -= gradient[i] / max(size, math.SmallestNonzeroFloat64)
			counts[group]++
		}
		for g, name := range names { // 0/0 is NaN: no such pair.
			figures.AddPoint(&groups, name, (float64(bin)+0.5)*100/rankBins, sums[g]/counts[g])
		}
	}
	return groups
}
