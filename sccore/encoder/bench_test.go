package encoder_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	_ "github.com/semcon/semcon/sccore/backend/buffers" // As in the program that trains.
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/optim"
)

// The benchmarks' PyTorch counterpart is bench/step.py; bench/alternate.sh runs both in turn.

func BenchmarkResNet18Step(b *testing.B) { benchmarkStep(b, "resnet18", 64) }

func BenchmarkConv4Step(b *testing.B) { benchmarkStep(b, "conv4", 512) }

// benchmarkStep measures a training step: features, ten logits, cross-entropy, gradients, and SGD with momentum and weight decay.
func benchmarkStep(b *testing.B, name string, batch int) {
	backbone := byName(b, name)
	step := model.MustNewExec(testbackend.Fastest(b), seeded(b, 1), func(scope *model.Scope, images *Node) *Node {
		x := backbone.Features(scope.At("backbone"), images, layers.Norm{Train: true})
		logits := layers.Dense(scope.At("head"), x, 10, true)
		labels := ModScalar(Iota(images.Graph(), shapes.Make(dtypes.Int32, batch), 0), 10)
		loss := Neg(ReduceAllMean(ReduceSum(Mul(OneHot(labels, 10, dtypes.Float32), LogSoftmax(logits)), -1)))
		var variables []*model.Variable
		var values []*Node
		for v := range scope.IterVariables() {
			if v.Trainable {
				variables, values = append(variables, v), append(values, v.NodeValue(images))
			}
		}
		sgd := optim.SGD{Momentum: 0.9, WeightDecay: 5e-4}
		sgd.Update(scope.At("optimizer"), variables, Gradient(loss, values...), Scalar(images.Graph(), dtypes.Float32, 0.03))
		return loss
	})
	defer step.Finalize()
	images := normal(batch, 32, 32, 3)

	began := time.Now()
	step.MustCall(images)
	first := time.Since(began).Seconds()
	step.MustCall(images)
	var walls, cpus []float64
	for b.Loop() {
		wall, cpu := time.Now(), cpuSeconds(b)
		loss := step.MustCall(images)[0]
		if value := loss.Value().(float32); value != value {
			b.Fatal("the loss is not a number")
		}
		walls = append(walls, time.Since(wall).Seconds())
		cpus = append(cpus, cpuSeconds(b)-cpu)
	}
	b.ReportMetric(first, "first-step-s")
	b.ReportMetric(float64(batch)/median(walls), "images/s")
	b.ReportMetric(float64(batch)/median(cpus), "images/CPU-s")
}

func cpuSeconds(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
