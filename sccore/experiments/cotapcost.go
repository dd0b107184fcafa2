package experiments

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/losses"
)

// CoTAPCost is what the loss of one image pair costs with its gradient, in one of the ways to compute it.
type CoTAPCost struct {
	Way    string // "host", "graph" or "brute force"
	Pairs  int
	CPU    time.Duration // Of a run, the least of three.
	Memory int64         // Bytes, at the peak of compilation and runs.
}

// bruteForceLimit is the largest number of pairs that MeasureCoTAP compares each with each.
const bruteForceLimit = 38416

// MeasureCoTAP measures each way to the loss at each number of pairs, brute force up to 38,416 pairs. Not on the Go engine above a thousand:
// it has no fast sort and no loops.
func MeasureCoTAP(b compute.Backend, pairs []int) ([]CoTAPCost, error) {
	c := losses.DefaultCoTAP()
	var costs []CoTAPCost
	for _, n := range pairs {
		rng := rand.New(rand.NewPCG(7, 7))
		p, q := make([]float64, n), make([]float64, n)
		for i := range p {
			q[i] = rng.Float64()
			p[i] = 0.5*q[i] + 0.5*rng.Float64()
		}
		add := func(way string, run func() error) (err error) {
			least := time.Duration(0)
			memory := usage.PeakMemory(func() {
				for turn := 0; turn < 4 && err == nil; turn++ { // The first compiles.
					began := usage.CPU()
					err = run()
					if spent := usage.CPU() - began; turn > 0 && (least == 0 || spent < least) {
						least = spent
					}
				}
			})
			costs = append(costs, CoTAPCost{way, n, least, memory})
			return err
		}
		if err := add("host", func() error { _, _, err := c.Evaluate(p, q); return err }); err != nil {
			return nil, err
		}
		for _, way := range []string{"graph", "brute force"} {
			loss := c.Loss
			if way == "brute force" {
				loss = c.BruteForce
				if n > bruteForceLimit {
					continue
				}
			}
			exec := graph.MustNewExec(b, func(in []*graph.Node) []*graph.Node {
				narrow := func(x *graph.Node) *graph.Node { return graph.ConvertDType(x, dtypes.Float32) }
				value := loss(narrow(in[0]), narrow(in[1]))
				return append([]*graph.Node{value}, graph.Gradient(value, in[0])...)
			})
			tensorP, tensorQ := tensors.FromValue(p), tensors.FromValue(q)
			err := add(way, func() error {
				out, err := exec.Exec(tensorP, tensorQ)
				if err != nil {
					return fmt.Errorf("%s, %d pairs: %w", way, n, err)
				}
				for _, x := range out {
					x.MustFinalizeAll()
				}
				return nil
			})
			exec.Finalize()
			if err != nil {
				return nil, err
			}
		}
	}
	return costs, nil
}

// CoTAPCostCurves draws costs against the number of pairs: CPU time and memory.
func CoTAPCostCurves(costs []CoTAPCost) figures.CurvesRow {
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

// CoTAPCostPairs are the numbers of pairs that a profile measures: squares of 48, 98, 196 (ViT/16 at 224²), 392 and 784 (ViT/8) patches.
func CoTAPCostPairs(profile Profile) []int {
	switch profile {
	case Smoke:
		return []int{256, 1024}
	case Quick:
		return []int{2304, 9604, 38416}
	}
	return []int{2304, 9604, 38416, 153664, 614656}
}
