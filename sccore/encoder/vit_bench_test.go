package encoder_test

import (
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/layers"
)

// The PyTorch counterpart is bench/vit.py; bench/alternate.sh runs both in turn.

func BenchmarkViTS16Forward(b *testing.B) { benchmarkViT(b, "vit-s16", 8, false) }

func BenchmarkViTS16Step(b *testing.B) { benchmarkViT(b, "vit-s16", 8, true) }

// benchmarkViT measures the forward pass to ten logits of the [CLS] token at 224². With backward, it also measures the gradients of their
// cross-entropy and of the patches' mean square by every weight.
func benchmarkViT(b *testing.B, name string, batch int, backward bool) {
	v := vit(b, name)
	step := model.MustNewExec(testbackend.Fastest(b), seeded(b, 1), func(scope *model.Scope, images *Node) []*Node {
		tokens := v.Tokens(scope, images)
		logits := layers.Dense(scope.At("head"), tokens.Class, 10, true)
		labels := ModScalar(Iota(images.Graph(), shapes.Make(dtypes.Int32, batch), 0), 10)
		loss := Neg(ReduceAllMean(ReduceSum(Mul(OneHot(labels, 10, dtypes.Float32), LogSoftmax(logits)), -1)))
		loss = Add(loss, ReduceAllMean(Square(tokens.Patches)))
		if !backward {
			return []*Node{loss}
		}
		var values []*Node
		for variable := range scope.IterVariables() {
			if variable.Trainable {
				values = append(values, variable.NodeValue(images))
			}
		}
		return append([]*Node{loss}, Gradient(loss, values...)...)
	})
	defer step.Finalize()
	images := normal(batch, 224, 224, 3)

	run := func() {
		for i, out := range step.MustCall(images) {
			if i == 0 {
				if value := out.Value().(float32); value != value {
					b.Fatal("the loss is not a number")
				}
			}
			if err := out.FinalizeAll(); err != nil {
				b.Fatal(err)
			}
		}
	}
	began := time.Now()
	run()
	first := time.Since(began).Seconds()
	run()
	var walls, cpus []float64
	for b.Loop() {
		wall, cpu := time.Now(), cpuSeconds(b)
		run()
		walls = append(walls, time.Since(wall).Seconds())
		cpus = append(cpus, cpuSeconds(b)-cpu)
	}
	b.ReportMetric(first, "first-step-s")
	b.ReportMetric(float64(batch)/median(walls), "images/s")
	b.ReportMetric(float64(batch)/median(cpus), "images/CPU-s")
}
