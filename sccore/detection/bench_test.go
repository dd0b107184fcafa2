package detection

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// The recipe's sizes: one image of 800×1344 with 100 objects.
const (
	benchRows, benchColumns, benchDim = 50, 84, 384
	benchObjects                      = 100
)

// processorTime returns the CPU time of the process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// benchBoxes draws boxes on the canvas with sides like COCO's.
func benchBoxes(rng *rand.Rand, n int) *tensors.Tensor {
	var values []float32
	for range n {
		side := func(extent float32) (low, high float32) {
			length := min(10*float32(1+rng.ExpFloat64()*8), extent)
			low = rng.Float32() * (extent - length)
			return low, low + length
		}
		x1, x2 := side(1344)
		y1, y2 := side(800)
		values = append(values, x1, y1, x2, y2)
	}
	return tensors.FromFlatDataAndDimensions(values, 1, n, 4)
}

func random(rng *rand.Rand, dims ...int) *tensors.Tensor {
	values := make([]float32, shapes.Make(dtypes.Float32, dims...).Size())
	for i := range values {
		values[i] = rng.Float32()
	}
	return tensors.FromFlatDataAndDimensions(values, dims...)
}

// BenchmarkStep measures the parts of a training step on one image at the recipe's sizes, and the whole without the encoder. Share is what RoI-Align, NMS and
// matching take of it together, in percent of the CPU time: three stages match and sample boxes, cut the masks' targets and align boxes and masks, NMS
// thins five levels, of which none has more boxes than here, and anchors are matched once. With the encoder the share is smaller.
//
//	go test ./sccore/detection -run '^$' -bench Step -benchtime 3x
func BenchmarkStep(b *testing.B) {
	backend := testbackend.Fastest(b)
	rng := rand.New(rand.NewPCG(1, 2))
	c := recipe(80)
	var levels []any
	for i := range headLevels {
		levels = append(levels, random(rng, benchRows*4>>i, benchColumns*4>>i, 1, c.Channels))
	}
	objects, proposals := benchBoxes(rng, benchObjects), benchBoxes(rng, c.TrainProposals)
	parts := 0.0 // CPU-ms.
	measure := func(name string, times int, call func() []*tensors.Tensor) {
		b.Run(name, func(b *testing.B) {
			call() // Compiles.
			start := processorTime()
			for b.Loop() {
				tensors.MustCopyFlatData[float32](call()[0])
			}
			cost := float64((processorTime() - start).Microseconds()) / 1000 / float64(b.N)
			b.ReportMetric(cost, "CPU-ms")
			if parts += float64(times) * cost; times == 0 {
				b.ReportMetric(100*parts/cost, "share")
			}
		})
	}
	pool := func(n, size int) func() []*tensors.Tensor {
		exec := MustNewExec(backend, func(in []*Node) []*Node {
			sum := ReduceAllSum(Square(PoolLevels(in[1:], in[0], size)))
			return append([]*Node{sum}, Gradient(sum, in[1:]...)...)
		})
		args := append([]any{benchBoxes(rng, n)}, levels...)
		return func() []*tensors.Tensor { return exec.MustCall(args...) }
	}
	measure("RoIAlign/boxes", 3, pool(c.BoxSamples, boxSize))
	measure("RoIAlign/masks", 3, pool(c.positives(), MaskSize/2))

	scores := random(rng, 1, c.TrainProposals)
	nms := MustNewExec(backend, func(boxes, scores *Node) *Node {
		return asNumbers(NMS(boxes, scores, nil, GreaterOrEqual(scores, ZerosLike(scores)), proposalNMS), dtypes.Float32)
	})
	measure("NMS", 5, func() []*tensors.Tensor { return nms.MustCall(proposals, scores) })

	sizes := tensors.FromValue([][]int32{{800, 1344}})
	uniform := Uniform(1, 0, 1, c.UniformNumbers(benchRows, benchColumns, benchObjects))
	match := MustNewExec(backend, func(objects, uniform *Node) *Node {
		var all []*Node
		for i := range headLevels + 1 {
			all = append(all, Anchors(objects.Graph(), dtypes.Float32, benchRows*4>>i, benchColumns*4>>i, finestStride<<i))
		}
		anchors := Concatenate(all, 0)
		present := GreaterOrEqual(Squeeze(Slice(objects, AxisRange(), AxisRange(), AxisElem(0)), -1), ScalarZero(objects.Graph(), dtypes.Float32))
		m := anchorMatcher.Match(InsertAxes(anchors, 0), objects, present, nil)
		s := Sampler{c.AnchorSamples, c.AnchorSamples / 2}.Sample(m.Positive, m.Negative, Slice(uniform, AxisRange(), AxisRange(0, anchors.Shape().Dim(0))))
		return ConvertDType(s.Index, dtypes.Float32)
	})
	measure("Match/anchors", 1, func() []*tensors.Tensor { return match.MustCall(objects, uniform) })

	labels := make([]int32, benchObjects)
	for i := range labels {
		labels[i] = int32(i % c.Classes)
	}
	features, masks := random(rng, 1, benchRows, benchColumns, benchDim), random(rng, 1, benchObjects, 112, 112)
	stage := MustNewExec(backend, func(boxes, masks, proposals, uniform *Node) *Node {
		g := boxes.Graph()
		all := Objects{boxes, Const(g, [][]int32{labels}), masks, boxes}
		everywhere := ConvertDType(OnesLike(Squeeze(Slice(proposals, AxisRange(), AxisRange(), AxisElem(0)), -1)), dtypes.Bool)
		_, sampled, object := c.sample(stages[0].matcher, proposals, everywhere, all, Slice(uniform, AxisRange(), AxisRange(0, benchObjects+c.TrainProposals)))
		first := func(x *Node) *Node { return SliceAxis(x, 1, AxisRange(0, c.positives())) }
		return ConvertDType(maskTargets(first(sampled), first(object), all), dtypes.Float32)
	})
	measure("Match/stage", 3, func() []*tensors.Tensor { return stage.MustCall(objects, masks, proposals, uniform) })

	step := model.MustNewExec(backend, model.NewStore(), func(scope *model.Scope, features, boxes, masks, uniform *Node) []*Node {
		g := features.Graph()
		loss := c.Losses(scope, features, ConstTensor(g, sizes), Objects{boxes, Const(g, [][]int32{labels}), masks, boxes}, uniform).Total()
		variables := []*Node{features}
		for v := range scope.IterVariables() {
			if v.Trainable {
				variables = append(variables, v.NodeValue(features))
			}
		}
		return append([]*Node{loss}, Gradient(loss, variables...)...)
	})
	measure("Whole", 0, func() []*tensors.Tensor { return step.MustCall(features, objects, masks, uniform) })
}
