package detection

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestNMSAgreesWithTorchvision(t *testing.T) {
	var golden struct {
		NMS []struct {
			Boxes     [][]float64
			Scores    []float64
			Groups    []int32
			Threshold float64
			Keep      []bool
		}
	}
	readGolden(t, "ops.json", &golden)
	if len(golden.NMS) != 205 {
		t.Fatalf("%d cases, want 205", len(golden.NMS))
	}
	const most = 40
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, threshold := range []float64{0.1, 0.3, 0.5, 0.7} {
			var boxes [][][]float64 // Of all cases of the threshold, padded.
			var scores [][]float64
			var groups [][]int32
			var present, want [][]bool
			for _, c := range golden.NMS {
				if c.Threshold != threshold {
					continue
				}
				there := slices.Repeat([]bool{true}, len(c.Boxes))
				for range most - len(c.Boxes) {
					c.Boxes, c.Scores, c.Groups = append(c.Boxes, []float64{0, 0, 9, 9}), append(c.Scores, 1), append(c.Groups, 0)
					c.Keep, there = append(c.Keep, false), append(there, false)
				}
				boxes, scores, groups = append(boxes, c.Boxes), append(scores, c.Scores), append(groups, c.Groups)
				present, want = append(present, there), append(want, c.Keep)
			}
			keep := MustExecOnce(b, func(boxes, scores, groups, present *Node) *Node {
				return NMS(boxes, scores, groups, present, threshold)
			}, boxes, scores, groups, present)
			got := tensors.MustCopyFlatData[bool](keep)
			for i, want := range want {
				if got := got[i*most : (i+1)*most]; !slices.Equal(got, want) {
					t.Errorf("threshold %g, case %d keeps %v, want %v", threshold, i, got, want)
				}
			}
		}
	})
}

// greedy is the textbook algorithm: boxes in the order of falling scores, the lower index first among equals.
func greedy(boxes [][4]float32, scores []float32, groups []int32, present []bool, threshold float32) []bool {
	var order []int
	for i := range scores {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return int(scores[j]*1000) - int(scores[i]*1000)
	})
	keep := make([]bool, len(boxes))
	for _, i := range order {
		keep[i] = present[i] && !slices.ContainsFunc(order, func(j int) bool {
			if !keep[j] || groups[i] != groups[j] {
				return false
			}
			a, b := boxes[i], boxes[j]
			both := max(min(a[2], b[2])-max(a[0], b[0]), 0) * max(min(a[3], b[3])-max(a[1], b[1]), 0)
			either := (a[2]-a[0])*(a[3]-a[1]) + (b[2]-b[0])*(b[3]-b[1]) - both
			return both/max(either, smallest) > threshold
		})
	}
	return keep
}

func TestNMSIsGreedy(t *testing.T) {
	const batch, n = 3, 60
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, groups := range []int32{1, 4} {
			threshold := 0.3 + 0.1*float32(groups)
			exec := MustNewExec(b, func(boxes, scores, groups, present *Node) *Node {
				return NMS(boxes, scores, groups, present, float64(threshold))
			})
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, uint64(groups)))
				boxes, scores := make([][4]float32, batch*n), make([]float32, batch*n)
				ids, present := make([]int32, batch*n), make([]bool, batch*n)
				var corners []float32
				for i := range boxes {
					x, y := float32(rng.IntN(10)), float32(rng.IntN(10))
					boxes[i] = [4]float32{x, y, x + float32(rng.IntN(8)), y + float32(rng.IntN(8))} // Some have no area.
					corners = append(corners, boxes[i][:]...)
					scores[i] = float32(rng.IntN(8)) / 1000
					ids[i] = rng.Int32N(groups)
					present[i] = rng.IntN(10) > 0
				}
				got := tensors.MustCopyFlatData[bool](exec.MustCall(tensors.FromFlatDataAndDimensions(corners, batch, n, 4),
					tensors.FromFlatDataAndDimensions(scores, batch, n), tensors.FromFlatDataAndDimensions(ids, batch, n),
					tensors.FromFlatDataAndDimensions(present, batch, n))[0])
				for i := range batch {
					from, to := i*n, (i+1)*n
					want := greedy(boxes[from:to], scores[from:to], ids[from:to], present[from:to], threshold)
					if !slices.Equal(got[from:to], want) {
						t.Fatalf("seed %d, image %d: kept %v, want %v", seed, i, got[from:to], want)
					}
				}
			}
			exec.Finalize()
		}
	})
}

func TestBest(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := MustExecOnceN(b, func(scores, chosen *Node) []*Node {
			indices, mask := Best(scores, chosen, 3)
			return []*Node{indices, mask, take(InsertAxes(scores, -1), indices)}
		}, [][]float32{{1, 5, 5, 2}, {1, 2, 3, 4}}, [][]bool{{true, true, true, true}, {false, true, false, false}})
		if got := fmt.Sprint(out[0].Value(), out[1].Value(), out[2].Value()); got[:8] != "[[1 2 3]" ||
			fmt.Sprint(out[1].Value()) != "[[true true true] [true false false]]" || fmt.Sprint(out[2].Value())[:15] != "[[[5] [5] [2]] " {
			t.Error(got)
		}
	})
}
