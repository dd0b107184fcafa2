package detection

import (
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestBoxesAgreeWithTorchvision(t *testing.T) {
	var golden struct {
		A, B, IoU, Codes, Clipped [][]float64
		GIoU                      []float64
		Coders                    []struct {
			Deviations       [4]float64
			Encoded, Decoded [][]float64
		}
	}
	readGolden(t, "ops.json", &golden)
	if len(golden.Coders) != 4 {
		t.Fatalf("%d coders, want 4", len(golden.Coders))
	}
	one := func(boxes [][]float64) [][][]float64 { return [][][]float64{boxes} }
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := MustExecOnceN(b, func(a, b *Node) []*Node { return []*Node{IoU(a, b), GIoU(a, b)} }, one(golden.A), one(golden.B))
		agree(t, "IoU", out[0], golden.IoU, 1e-12)
		agree(t, "GIoU", out[1], golden.GIoU, 1e-12)

		clipped := MustExecOnce(b, func(boxes, sizes *Node) *Node {
			return ClipBoxes(AddScalar(MulScalar(boxes, 2), -9), sizes)
		}, one(golden.A), [][]int32{{13, 21}})
		agree(t, "clipped", clipped, golden.Clipped, 0)

		for _, c := range golden.Coders {
			coder := Coder(c.Deviations)
			out := MustExecOnceN(b, func(a, b, codes *Node) []*Node {
				return []*Node{coder.Encode(a, b), coder.Decode(a, codes), coder.Decode(a, coder.Encode(a, b))}
			}, golden.A, golden.B, golden.Codes)
			agree(t, "encoded", out[0], c.Encoded, 1e-12)
			agree(t, "decoded", out[1], c.Decoded, 1e-12)
			agree(t, "decoded again", out[2], golden.B, 1e-12)
		}

		empty := [][][]float64{{{3, 3, 3, 3}, {0, 0, 0, 0}}}
		none := MustExecOnce(b, func(x *Node) *Node {
			return Add(ReduceAllSum(IoU(x, x)), ReduceAllSum(MulScalar(Coder{1, 1, 1, 1}.Encode(x, x), 0)))
		}, empty)
		agree(t, "boxes without area", none, []float64{0}, 0)
	})
}

func TestGradientsOfBoxes(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, backend compute.Backend) {
		a := tensors.FromValue([][]float64{{1, 2, 5, 7.5}, {0, 0, 3, 2}, {6, 1, 9, 4}})
		b := tensors.FromValue([][]float64{{2, 1, 6, 7}, {4, 5, 7, 9}, {7, 2, 8, 3}})
		codes := tensors.FromValue([][]float64{{0.3, -0.2, 0.5, 1}, {2, 1, -1, 0.1}, {0, 0.4, 0.2, -3}})
		testbackend.CheckGradient(t, backend, func(in []*Node) *Node {
			decoded := Coder{0.1, 0.1, 0.2, 0.2}.Decode(in[0], in[2])
			giou := GIoU(decoded, in[1])
			return ReduceAllSum(Mul(giou, AddScalar(Sin(IotaFull(giou.Graph(), giou.Shape())), 1.5)))
		}, 1e-6, a, b, codes)
	})
}
