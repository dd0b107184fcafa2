package finetune

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestNormalize(t *testing.T) {
	mean, std := [3]float64{0.5, 0.25, 0.1}, [3]float64{0.5, 0.2, 1}
	pixels := make([]uint8, 2*3*4*3)
	for i := range pixels {
		pixels[i] = uint8(3*i + 1)
	}
	sizes := []int32{2, 4, 3, 1}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := MustExecOnce(b, func(pixels, sizes *Node) *Node { return Normalize(pixels, sizes, mean, std) },
			tensors.FromFlatDataAndDimensions(pixels, 2, 3, 4, 3), tensors.FromFlatDataAndDimensions(sizes, 2, 2))
		for i, got := range tensors.MustCopyFlatData[float32](out) {
			image, row, column, c := i/36, i/12%3, i/3%4, i%3
			want := (float64(pixels[i])/255 - mean[c]) / std[c]
			if row >= int(sizes[2*image]) || column >= int(sizes[2*image+1]) {
				want = 0
			}
			if !(math.Abs(float64(got)-want) <= 1e-6) {
				t.Errorf("channel %d at (%d, %d) of image %d is %g, want %g", c, column, row, image, got, want)
			}
		}
	})
}
