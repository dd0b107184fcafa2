package evaluation_test

import (
	"syscall"
	"testing"
	"time"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
)

// BenchmarkFrozenViTS16 measures the patch features of images of 224² as heads take them, 8 at a time, from normalised pixels on the host to tokens
// on the host. bench/alternate.sh compares it with timm.
func BenchmarkFrozenViTS16(b *testing.B) {
	const batch, side = 8, 224
	backend := testbackend.Fastest(b)
	vit, err := encoder.ViTByName("vit-s16")
	if err != nil {
		b.Fatal(err)
	}
	store := model.NewStore()
	image := tensors.FromFlatDataAndDimensions(make([]float32, 16*16*3), 1, 16, 16, 3)
	model.MustCallOnce(backend, store, func(scope *model.Scope, x *Node) *Node { return vit.Tokens(scope, x).Class }, image)
	frozen, err := evaluation.NewFeatureExtractor(backend, vit, store, "/", batch)
	if err != nil {
		b.Fatal(err)
	}
	defer frozen.Close()
	pixels := make([]uint8, side*side*3)
	for i := range pixels {
		pixels[i] = uint8(i * 31)
	}
	im := evaluation.NewImage(pixels, datasets.Size{Height: side, Width: side}, datasets.DefaultPreprocessing())
	extract := func(n int) {
		images := func(yield func(evaluation.Image, error) bool) {
			for range n {
				if !yield(im, nil) {
					return
				}
			}
		}
		for _, err := range frozen.Extract(images, evaluation.Outputs{Patches: true}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	extract(2 * batch) // This compiles.
	b.ResetTimer()
	wall, cpu := time.Now(), cpuSeconds(b)
	extract(b.N * batch)
	b.ReportMetric(float64(b.N*batch)/time.Since(wall).Seconds(), "images/s")
	b.ReportMetric(float64(b.N*batch)/(cpuSeconds(b)-cpu), "images/CPU-s")
}

// cpuSeconds is the processor time of the process so far, over all cores.
func cpuSeconds(b *testing.B) float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
