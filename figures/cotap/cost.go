package cotap

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/losses"
)

// Cost is the cost of the loss of one image pair with its gradient, for one way to compute it.
type Cost struct {
	Way    string // "brute force", "graph" or "host"
	Pairs  int
	CPU    time.Duration // The lowest CPU time of three runs.
	Memory int64         // Peak bytes of compilation and runs, beyond those of the process with backend and compiler loaded.
}

// ways are in the order of measurement. Those that need more memory come later, because the process keeps its memory.
var ways = []string{"host", "brute force", "graph"}

// bruteForceLimit is the largest number of pairs that Measure computes by brute force.
const bruteForceLimit = 38416

// Measure measures each way to compute the loss for each number of pairs, brute force up to 38,416. pairs should ascend. The Go engine has neither a fast
// sort nor loops, so it handles about a thousand pairs at most.
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
	cost = Cost{Way: way, Pairs: n}
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
		loss := c.Loss
		if way == "brute force" {
			loss = c.BruteForce
		}
		exec, err := graph.NewExec(b, func(in []*graph.Node) []*graph.Node {
			value := loss(in[0], in[1])
			return append([]*graph.Node{value}, graph.Gradient(value, in[0])...)
		})
		if err != nil {
			return cost, err
		}
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
	cost.Memory = usage.PeakMemory(func() {
		for turn := 0; turn < 4 && err == nil; turn++ { // The first compiles.
			began := usage.CPU()
			err = run()
			if spent := usage.CPU() - began; turn > 0 && (cost.CPU == 0 || spent < cost.CPU) {
				cost.CPU = spent
			}
		}
	})
	return cost, err
}

// Curves plots CPU time and memory against the number of pairs.
func Curves(costs []Cost) figures.CurvesRow {
	seconds := figures.Curves{X: "patch pairs", Y: "CPU time (ms)", LogX: true, LogY: true}
	memory := figures.Curves{X: "patch pairs", Y: "memory (MB)", LogX: true, LogY: true}
	for _, way := range []string{"brute force", "graph", "host"} {
		time, space := figures.Series{Name: way}, figures.Series{Name: way}
		for _, cost := range costs {
			if cost.Way != way {
				continue
			}
			time.X, time.Y = append(time.X, float64(cost.Pairs)), append(time.Y, 1e3*cost.CPU.Seconds())
			if cost.Memory > 0 {
				space.X, space.Y = append(space.X, float64(cost.Pairs)), append(space.Y, float64(cost.Memory)/1e6)
			}
		}
		seconds.Series, memory.Series = append(seconds.Series, time), append(memory.Series, space)
	}
	return figures.CurvesRow{seconds, memory}
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
