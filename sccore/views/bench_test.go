package views

import (
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// BenchmarkApply makes two views of each of 128 CIFAR-sized images at a time, with all transformations on.
func BenchmarkApply(b *testing.B) {
	const batch, views, size = 128, 2, 32
	backend := testbackend.Fastest(b)
	exec, err := graph.NewExec(backend, func(images, params *graph.Node) *graph.Node { return Apply(images, params, size) })
	if err != nil {
		b.Fatal(err)
	}
	images, params := drawn(batch, views, size)
	call := func() { // The views stay on the device, where training wants them.
		result, err := exec.Call(images, params)
		if err != nil {
			b.Fatal(err)
		}
		result[0].MustFinalizeAll()
	}
	start := time.Now()
	call()
	compile := time.Since(start)
	for b.Loop() {
		call()
	}
	b.ReportMetric(float64(batch*views*b.N)/b.Elapsed().Seconds(), "views/s")
	b.ReportMetric(compile.Seconds(), "s-to-compile")
}

// BenchmarkDraw draws the parameters of the same views.
func BenchmarkDraw(b *testing.B) {
	images := make([]int32, 128)
	for i := range images {
		images[i] = int32(i)
	}
	for b.Loop() {
		Default().Draw(1, 2, images, 2, 32, 32)
	}
	b.ReportMetric(float64(256*b.N)/b.Elapsed().Seconds(), "views/s")
}

// drawn returns artificial images and the parameters of their views.
func drawn(batch, views, size int) (images, params *tensors.Tensor) {
	pixels := make([]uint8, batch*size*size*3)
	indices := make([]int32, batch)
	for i := range pixels {
		pixels[i] = uint8(i * i / 7)
	}
	for i := range indices {
		indices[i] = int32(i)
	}
	return tensors.FromFlatDataAndDimensions(pixels, batch, size, size, 3), Default().Draw(1, 0, indices, views, size, size)
}
