package evaluation

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
)

// colourEncoder is a transformer of one block with patches of 8 pixels, whose features can be worked out by hand. A patch's token and key are its mean colour,
// standardised and scaled to length 1: the numbers r, −r, g, −g, b, −b times √(Dim/2), and then zeros. [CLS] is the mean of the patch tokens, scaled alike. Opposite
// colours, such as black and white, have opposite features.
func colourEncoder(b compute.Backend, name string) (_ *Encoder, err error) {
	defer try.Handle(&err)
	v, store, err := RandomViT(name, 0)
	try.E(err)
	for _, weight := range v.Weights() {
		values := make([]float32, weight.Size())
		switch weight.Path {
		case "patch_embed/proj/weight": // [8, 8, 3, Dim]: the mean over the pixels.
			for i := range 8 * 8 * 3 {
				at := i*v.Dim + 2*(i%3)
				values[at], values[at+1] = 1./64, -1./64
			}
		case "blocks/0/norm1/weight", "norm/weight":
			values = slices.Repeat([]float32{1}, v.Dim)
		case "blocks/0/attn/qkv/weight": // [Dim, 3·Dim]: queries are 0, keys and values are what comes in.
			for d := range v.Dim {
				values[3*v.Dim*d+v.Dim+d], values[3*v.Dim*d+2*v.Dim+d] = 1, 1
			}
		case "blocks/0/attn/proj/weight": // [Dim, Dim]: enough for [CLS], which is 0 before, and too little to move the patches.
			for d := range v.Dim {
				values[(v.Dim+1)*d] = 0.03
			}
		}
		try.E(store.GetVariable("/" + weight.Path).SetValue(tensors.FromFlatDataAndDimensions(values, weight.Shape...)))
	}
	return NewEncoder(b, v, store, 4, 0)
}

// colours returns the encoder for a test.
func colours(t *testing.T, b compute.Backend) *Encoder {
	t.Helper()
	e, err := colourEncoder(b, "vit-6x1x2p8")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// paints are the colours of layouts.
var paints = map[byte]color.RGBA{
	'#': {0, 0, 0, 255}, '.': {255, 255, 255, 255},
	'r': {255, 0, 0, 255}, 'g': {0, 255, 0, 255}, 'b': {0, 0, 255, 255}, 'y': {255, 255, 0, 255}, 'm': {255, 0, 255, 255}, 'c': {0, 255, 255, 255}, 'o': {255, 110, 110, 255},
}

// painted draws a picture from rows of cells, each with the colour of its letter.
func painted(width, height int, rows ...string) *image.RGBA {
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			row := rows[y*len(rows)/height]
			picture.SetRGBA(x, y, paints[row[x*len(row)/width]])
		}
	}
	return picture
}

// writeFile creates a file and its folders.
func writeFile(t *testing.T, content []byte, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// pngOf encodes a picture.
func pngOf(t *testing.T, picture image.Image) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// layout is an image of 48×24 pixels, dark where its rows have #, and the same of its classes.
type layout struct{ seen, truth []string }

// darkAndLight is a dataset of layouts with the classes dark and light.
func darkAndLight(layouts ...layout) *datasets.Segmentation {
	return datasets.NewSegmentation("layouts", []string{"dark", "light"}, "layouts", len(layouts), func(i int) (*datasets.SegmentedImage, error) {
		a := &datasets.SegmentedImage{Height: 24, Width: 48, Pixels: datasets.RGB(painted(48, 24, layouts[i].seen...)), Mask: make([]uint8, 24*48)}
		for p, red := range datasets.RGB(painted(48, 24, layouts[i].truth...)) {
			a.Mask[p/3] = min(red, 1)
		}
		return a, nil
	})
}

// as is a layout that looks as it is annotated.
func as(rows ...string) layout { return layout{rows, rows} }

// values are the numbers of a result by name.
func values(r Result) map[string]float64 {
	all := map[string]float64{}
	for _, n := range r.Numbers {
		all[n.Name] = n.Value
	}
	return all
}

func TestColourEncoder(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		e := colours(t, b)
		im := NewImage(datasets.RGB(painted(16, 8, "r.")), datasets.Size{Height: 8, Width: 16}, e.Preprocessing)
		for _, keys := range []bool{false, true} {
			all, err := e.ExtractAll([]Image{im}, Outputs{Patches: true, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			f, sum := all[0][0], make([]float64, 6)
			for p := range 2 {
				length := math.Sqrt(dot(im.Pixels[24*p:][:3], im.Pixels[24*p:][:3]) / 3)
				for d, got := range f.Patches[6*p:][:6] {
					want := float64(im.Pixels[24*p+d/2]) / length * float64(1-d%2*2)
					if sum[d] += want; !(math.Abs(float64(got)-want) <= 0.05) {
						t.Errorf("keys %v, patch %d: feature %d is %g, want %g", keys, p, d, got, want)
					}
				}
			}
			variance := 0.0
			for _, x := range sum {
				variance += x * x / 6
			}
			for d, got := range f.Class {
				if want := sum[d] / math.Sqrt(variance); !(math.Abs(float64(got)-want) <= 0.05) {
					t.Errorf("[CLS]: feature %d is %g, want %g", d, got, want)
				}
			}
		}
	})
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
