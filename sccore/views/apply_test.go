package views

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestARecipeOfNothingReturnsTheImages(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		pixels := generate(2*8*8*3, func(i int) float32 { return float32(i*i%256) / 255 })
		images := tensors.FromFlatDataAndDimensions(pixels, 2, 8, 8, 3)
		got := apply(t, b, images, Recipe{Crop: NoCrop}.Draw(1, 0, []int32{0, 1}, 2, 8, 8), 8)
		if want := slices.Concat(pixels, pixels); !slices.Equal(got, want) {
			_, most := difference(got, want)
			t.Errorf("differs by up to %v", most)
		}
	})
}

func TestBytesAndFloatsGiveTheSameViews(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		pixels := generate(4*10*12*3, func(i int) uint8 { return uint8(i * i) })
		floats := generate(len(pixels), func(i int) float32 { return float32(pixels[i]) / 255 })
		params := Default().Draw(1, 0, []int32{0, 1, 2, 3}, 2, 10, 12)
		fromBytes := apply(t, b, tensors.FromFlatDataAndDimensions(pixels, 4, 10, 12, 3), params, 9)
		fromFloats := apply(t, b, tensors.FromFlatDataAndDimensions(floats, 4, 10, 12, 3), params, 9)
		if _, most := difference(fromBytes, fromFloats); !(most <= 2e-6) {
			t.Errorf("they differ by up to %v", most)
		}
	})
}

// Views in bfloat16 are off by about as much as rounding to bytes, for every augmentation.
func TestViewsInBFloat16FollowFloat32(t *testing.T) {
	const batch, views, size = 4, 8, 16
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		pixels := generate(batch*size*size*3, func(i int) uint8 { return uint8(128 + 120*math.Sin(float64(i)/40)*math.Cos(float64(i*i%97))) })
		params := Default().Draw(5, 0, []int32{0, 1, 2, 3}, views, size, size)
		both, err := graph.CallOnceN(b, func(images, params *graph.Node) []*graph.Node {
			return []*graph.Node{Apply(images, params, size), graph.ConvertDType(ApplyIn(dtypes.BFloat16, images, params, size), dtypes.Float32)}
		}, tensors.FromFlatDataAndDimensions(pixels, batch, size, size, 3), params)
		if err != nil {
			t.Fatal(err)
		}
		mean, most := difference(flat(t, both[1]), flat(t, both[0]))
		if t.Logf("off by %.2g on average, at most by %.2g", mean, most); !(mean <= 2.0/255 && most <= 10.0/255) || mean == 0 {
			t.Errorf("off by %g on average, at most by %g", mean, most)
		}
	})
}

// TestViewsComeInTheOrderOfTheirParameters also makes each view of a batch alone.
func TestViewsComeInTheOrderOfTheirParameters(t *testing.T) {
	const batch, views, size = 3, 2, 8
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		pixels := generate(batch*size*size*3, func(i int) uint8 { return uint8(i * i) })
		params := Default().Draw(5, 0, []int32{0, 1, 2}, views, size, size)
		rows := flat(t, params)
		together := apply(t, b, tensors.FromFlatDataAndDimensions(pixels, batch, size, size, 3), params, size)
		const numbers = size * size * 3
		one := applier(t, b, size)
		for i := range views * batch {
			image := tensors.FromFlatDataAndDimensions(pixels[i%batch*numbers:][:numbers], 1, size, size, 3)
			alone := one(image, tensors.FromFlatDataAndDimensions(rows[i*NumParams:][:NumParams], 1, NumParams))
			if _, most := difference(together[i*numbers:][:numbers], alone); !(most <= 2e-6) {
				t.Errorf("view %d of image %d differs by up to %v", i/batch, i%batch, most)
			}
		}
	})
}

func TestViewsStayBetweenZeroAndOne(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		pixels := generate(32*8*8*3, func(i int) uint8 { return uint8(255 * (i / 7 % 2)) })
		indices := generate(32, func(i int) int32 { return int32(i) })
		got := apply(t, b, tensors.FromFlatDataAndDimensions(pixels, 32, 8, 8, 3), Default().Draw(1, 0, indices, 2, 8, 8), 8)
		if low, high := slices.Min(got), slices.Max(got); !(low >= 0 && high <= 1) {
			t.Errorf("from %v to %v", low, high)
		}
	})
}

func TestBoxesRememberWhereViewsCameFrom(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		r := Default()
		out, err := graph.CallOnceN(b, func(params *graph.Node) (boxes, flips *graph.Node) { return Boxes(params) },
			r.Draw(1, 0, []int32{3, 4}, 2, 40, 56))
		if err != nil {
			t.Fatal(err)
		}
		boxes, flips := flat(t, out[0]), flat(t, out[1])
		for i := range 4 {
			d := r.draw(1, 0, int32(3+i%2), i/2, 40, 56)
			want := fmt.Sprint(d.box(), d.flip)
			if got := fmt.Sprint(boxes[4*i:][:4], flips[i] == 1); got != want {
				t.Errorf("row %d: %s, not %s", i, got, want)
			}
		}
	})
}

func TestApplySaysWhatDoesNotFit(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		images := tensors.FromFlatDataAndDimensions(make([]uint8, 2*8*8*3), 2, 8, 8, 3)
		for want, call := range map[string]struct {
			rows, size int
		}{
			"3 rows of parameters are not a multiple of 2 images": {3, 8},
			"views of 2 pixels are too small for the blur":        {4, 2},
		} {
			params := tensors.FromFlatDataAndDimensions(make([]float32, call.rows*NumParams), call.rows, NumParams)
			_, err := graph.CallOnce(b, func(images, params *graph.Node) *graph.Node { return Apply(images, params, call.size) }, images, params)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d rows, views of %d pixels: error %v", call.rows, call.size, err)
			}
		}
	})
}

// generate returns n values of a function of the index.
func generate[T any](n int, value func(i int) T) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = value(i)
	}
	return values
}
