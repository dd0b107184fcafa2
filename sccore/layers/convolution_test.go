package layers

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/internal/testbackend"
)

func TestToomCookConvolves(t *testing.T) {
	for _, b := range []bilinear{f43} {
		d := make([]float64, len(b.input[0]))
		g := make([]float64, len(b.filter.RawRowView(0)))
		for i := range d {
			d[i] = math.Sin(float64(3 * i))
		}
		for i := range g {
			g[i] = math.Cos(float64(2 * i))
		}
		dot := func(x, y []float64) (sum float64) {
			for i := range x {
				sum += x[i] * y[i]
			}
			return sum
		}
		products := make([]float64, len(b.input))
		for a := range products {
			products[a] = dot(b.filter.RawRowView(a), g) * dot(b.input[a], d)
		}
		for o, row := range b.output {
			if got, want := dot(row, products), dot(d[o:o+len(g)], g); !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("output %d of %d by %d products: %v, want %v", o, b.m, len(products), got, want)
			}
		}
	}
}

// The three implementations of a convolution and their gradients must agree, also for sizes that are not multiples of a tile.
func TestFormsOfConvolutionAgree(t *testing.T) {
	type form func(x, weight *Node) *Node
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		compare := func(name string, dims, kernel []int, stride int, f form) {
			t.Run(name, func(t *testing.T) {
				far := MustNewExec(b, func(x, weight *Node) []*Node {
					run := func(f form) []*Node {
						y := f(x, weight)
						toward := Sin(IotaFull(x.Graph(), y.Shape()))
						return append(Gradient(ReduceAllSum(Mul(y, toward)), x, weight), y)
					}
					var all []*Node
					want := run(func(x, weight *Node) *Node { return libraryConvolution(x, weight, stride) })
					for i, got := range run(f) {
						got.AssertDims(want[i].Shape().Dimensions...)
						all = append(all, Div(ReduceAllMax(Abs(Sub(got, want[i]))), ReduceAllMax(Abs(want[i]))))
					}
					return all
				})
				defer far.Finalize()
				for i, d := range far.MustCall(sines[float32](1, dims...), sines[float32](2, kernel...)) {
					if d := d.Value().(float32); !(d <= 1e-5) {
						t.Errorf("%s is off by %.2g", []string{"gradient of x", "gradient of weight", "value"}[i], d)
					}
				}
			})
		}
		for _, size := range [][2]int{{8, 8}, {5, 7}, {1, 4}} {
			dims := []int{size[0], size[1], 3, 5}
			compare(fmt.Sprintf("winograd %d×%d", size[0], size[1]), dims, []int{3, 3, 5, 6}, 1, winograd)
			for _, stride := range []int{1, 2} {
				patches := func(x, weight *Node) *Node { return patchConvolution(x, weight, stride) }
				compare(fmt.Sprintf("patches %d×%d by %d", size[0], size[1], stride), dims, []int{3, 3, 5, 6}, stride, patches)
				compare(fmt.Sprintf("points %d×%d by %d", size[0], size[1], stride), dims, []int{1, 1, 5, 6}, stride, patches)
			}
		}
	})
}
