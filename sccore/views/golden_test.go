package views

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// golden is the content of testdata/golden.json, written by testdata/golden.py.
type golden struct {
	Images []struct {
		Height, Width int
		Pixels        []byte
	}
	Cases []goldenCase
}

type goldenCase struct {
	Name        string
	Image, Size int
	Box         [4]int
	Flip        bool
	Jitter      []struct {
		Kind   string
		Amount float64
	}
	Grayscale bool
	Kernel    int
	Sigma     float64
	Pixels    []byte
}

func (c goldenCase) transform() transform {
	t := transform{
		top: c.Box[0], left: c.Box[1], height: c.Box[2], width: c.Box[3],
		flip: c.Flip, grayscale: c.Grayscale, kernel: c.Kernel, sigma: c.Sigma,
	}
	kinds := map[string]adjustmentKind{"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}
	for _, a := range c.Jitter {
		t.jitter = append(t.jitter, adjustment{kinds[a.Kind], a.Amount})
	}
	return t
}

func readGolden(t testing.TB) golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestApplyAgreesWithTorchvision makes all views of one image and size in one call.
func TestApplyAgreesWithTorchvision(t *testing.T) {
	const tolerance = 2e-6
	g := readGolden(t)
	type group struct{ image, size int }
	cases := map[group][]goldenCase{}
	for _, c := range g.Cases {
		cases[group{c.Image, c.Size}] = append(cases[group{c.Image, c.Size}], c)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		worst := 0.0
		for at, cases := range cases {
			var rows []float32
			for _, c := range cases {
				rows = c.transform().appendTo(rows)
			}
			image := g.Images[at.image]
			images := tensors.FromFlatDataAndDimensions(image.Pixels, 1, image.Height, image.Width, 3)
			got := apply(t, b, images, tensors.FromFlatDataAndDimensions(rows, len(cases), NumParams), at.size)
			for i, c := range cases {
				want := make([]float32, at.size*at.size*3)
				if err := binary.Read(bytes.NewReader(c.Pixels), binary.LittleEndian, want); err != nil {
					t.Fatal(err)
				}
				mean, most := difference(got[i*len(want):][:len(want)], want)
				worst = max(worst, most)
				if !(most <= tolerance) {
					t.Errorf("%s: differs by %.2g in the mean, %.2g at most", c, mean, most)
				}
			}
		}
		t.Logf("%d cases, largest difference %.2g", len(g.Cases), worst)
	})
}

func (c goldenCase) String() string {
	return fmt.Sprintf("%s: image %d to %d pixels, %+v", c.Name, c.Image, c.Size, c.transform())
}

// apply makes views once.
func apply(t testing.TB, b compute.Backend, images, params *tensors.Tensor, size int) []float32 {
	t.Helper()
	return applier(t, b, size)(images, params)
}

// applier compiles Apply once for all arguments of one shape. It returns the flat result.
func applier(t testing.TB, b compute.Backend, size int) func(images, params *tensors.Tensor) []float32 {
	t.Helper()
	exec, err := graph.NewExec(b, func(images, params *graph.Node) *graph.Node { return Apply(images, params, size) })
	if err != nil {
		t.Fatal(err)
	}
	return func(images, params *tensors.Tensor) []float32 {
		t.Helper()
		views, err := exec.Call(images, params)
		if err != nil {
			t.Fatal(err)
		}
		return flat(t, views[0])
	}
}

// difference returns the mean and the largest absolute difference.
func difference(a, b []float32) (mean, most float64) {
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		mean += d / float64(len(a))
		most = max(most, d) // NaN stays.
	}
	return mean, most
}
