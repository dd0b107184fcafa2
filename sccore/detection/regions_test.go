package detection

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestAnchorsAgreeWithMMDetection(t *testing.T) {
	var golden struct {
		Anchors []struct {
			Rows, Columns, Stride int
			Boxes                 [][]float64
		}
	}
	readGolden(t, "regions.json", &golden)
	if len(golden.Anchors) != 2 {
		t.Fatalf("%d levels, want 2", len(golden.Anchors))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range golden.Anchors {
			got := MustExecOnce(b, func(g *Graph) *Node { return Anchors(g, dtypes.Float64, c.Rows, c.Columns, c.Stride) })
			agree(t, "anchors", got, c.Boxes, 1e-12)
		}
		within := MustExecOnce(b, func(anchors, sizes *Node) *Node { return inside(anchors, sizes) },
			[][]float32{{0, 0, 5, 5}, {-1, 0, 5, 5}, {0, -1, 5, 5}, {2, 2, 6, 8}, {2, 2, 8, 6}}, [][]int32{{9, 7}, {7, 9}})
		if got := tensors.MustCopyFlatData[bool](within); !slices.Equal(got, []bool{true, false, false, true, false, true, false, false, false, true}) {
			t.Errorf("inside: %v", got)
		}
	})
}

func TestMatchesAgreeWithMMDetection(t *testing.T) {
	var golden struct {
		Matches []struct {
			Boxes, Objects [][]float64
			Count          int
			Rule           [3]float64
			Assigned       []int
		}
	}
	readGolden(t, "regions.json", &golden)
	if len(golden.Matches) != 12 {
		t.Fatalf("%d cases, want 12", len(golden.Matches))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for i, c := range golden.Matches {
			present := make([]bool, len(c.Objects))
			for j := range c.Count {
				present[j] = true
			}
			matcher := Matcher{Positive: c.Rule[0], Negative: c.Rule[1], LowQuality: c.Rule[2]}
			out := MustExecOnceN(b, func(boxes, objects, present *Node) []*Node {
				m := matcher.Match(boxes, objects, present, nil)
				return []*Node{m.Object, m.Positive, m.Negative}
			}, [][][]float64{c.Boxes}, [][][]float64{c.Objects}, [][]bool{present})
			objects := tensors.MustCopyFlatData[int32](out[0])
			positive, negative := tensors.MustCopyFlatData[bool](out[1]), tensors.MustCopyFlatData[bool](out[2])
			for j, want := range c.Assigned {
				got := -1
				if negative[j] {
					got = 0
				}
				if positive[j] {
					got = int(objects[j]) + 1
				}
				if got != want || positive[j] && negative[j] {
					t.Errorf("case %d, box %d: assigned %d, want %d", i, j, got, want)
				}
			}
		}
	})
}

func TestSamples(t *testing.T) {
	const batch, n = 4, 30
	sampler := Sampler{Count: 12, Positives: 3}
	uniform, positive, negative := make([]float32, batch*n), make([]bool, batch*n), make([]bool, batch*n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uniform {
		uniform[i] = float32(rng.IntN(10)) / 10 // With ties.
		switch i / n {
		case 0: // Enough of both.
			positive[i], negative[i] = i%3 == 0, i%3 == 1
		case 1: // Few positive.
			positive[i], negative[i] = i == n+7, i%2 == 0
		case 2: // Few in all.
			positive[i], negative[i] = i%7 == 0, i%7 == 1
		} // None in the last image.
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		tensor := func(values []bool) *tensors.Tensor { return tensors.FromFlatDataAndDimensions(values, batch, n) }
		out := MustExecOnceN(b, func(positive, negative, uniform *Node) []*Node {
			s := sampler.Sample(positive, negative, uniform)
			return []*Node{s.Index, s.Positive, s.Valid}
		}, tensor(positive), tensor(negative), tensors.FromFlatDataAndDimensions(uniform, batch, n))
		index := tensors.MustCopyFlatData[int32](out[0])
		isPositive, valid := tensors.MustCopyFlatData[bool](out[1]), tensors.MustCopyFlatData[bool](out[2])
		for i := range batch {
			best := func(marked []bool, most int) (best []int32) {
				for j := range int32(n) {
					if marked[i*n+int(j)] {
						best = append(best, j)
					}
				}
				slices.SortStableFunc(best, func(a, b int32) int { return int(10*uniform[i*n+int(b)]) - int(10*uniform[i*n+int(a)]) })
				return best[:min(len(best), most)]
			}
			want := best(positive, sampler.Positives)
			positives := len(want)
			want = append(want, best(negative, sampler.Count-positives)...)
			for j := range sampler.Count {
				at := i*sampler.Count + j
				if valid[at] != (j < len(want)) || isPositive[at] != (j < positives) || valid[at] && index[at] != want[j] {
					t.Errorf("image %d, place %d: box %d, positive %v, valid %v; want the boxes %v, %d positive", i, j, index[at],
						isPositive[at], valid[at], want, positives)
				}
			}
		}
	})
}

// roiAlignCase is a result of torchvision's RoI-Align over the levels of a pyramid.
type roiAlignCase struct {
	Levels [][][][][]float64
	Boxes  [][][]float64
	Level  []int
	Pooled []struct {
		Size   int
		Values []float64
	}
}

func TestPoolLevelsAgreesWithTorchvision(t *testing.T) {
	var golden struct{ RoIAlign roiAlignCase }
	readGolden(t, "regions.json", &golden)
	c := golden.RoIAlign
	if len(c.Levels) != 5 || len(c.Pooled) != 2 {
		t.Fatalf("%d levels, %d sizes", len(c.Levels), len(c.Pooled))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, p := range c.Pooled {
			args := []any{c.Boxes}
			for _, level := range c.Levels {
				args = append(args, level)
			}
			for dtype, tolerance := range map[dtypes.DType]float64{dtypes.Float64: 1e-11, dtypes.Float32: 1e-5} {
				got := MustExecOnce(b, func(in []*Node) *Node {
					for i := range in {
						in[i] = ConvertDType(in[i], dtype)
					}
					return PoolLevels(in[1:], in[0], p.Size)
				}, args...)
				agree(t, "pooled", got, p.Values, tolerance)
			}
		}
	})
}

func TestPoolLevelsGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		testbackend.CheckGradient(t, b, func(in []*Node) *Node {
			boxes := Const(in[0].Graph(), [][][]float64{{{2, 3, 14, 11}, {-9, -3, 120, 130}}, {{0, 0, 300, 200}, {5, 5, 5, 9}}})
			y := PoolLevels(in, boxes, 2)
			return ReduceAllSum(Mul(Square(y), Sin(IotaFull(y.Graph(), y.Shape()))))
		}, 1e-6, sines(1, 3, 4, 2, 2), sines(2, 2, 3, 2, 2))
	})
}
