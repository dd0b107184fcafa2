package finetune

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"image"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
)

// golden is testdata/golden.json. JSON decodes base64 into bytes.
type golden struct {
	Resize []struct {
		From, To        [2]int
		Pixels, Resized []byte
	}
	Nearest []struct {
		From, To int
		Taken    []int
	}
	Sizes []struct {
		From, To    [2]int
		Long, Short int
	}
	Distortion struct {
		Height, Width int
		Pixels        []byte
		Cases         []struct {
			Brightness, Contrast float32
			ContrastFirst        bool `json:"contrast_first"`
			Saturation           *float32
			Hue                  *int
			Distorted            []byte
		}
	}
	Colours struct {
		RGB   []byte `json:"rgb"`
		ToHSV []byte `json:"to_hsv"`
		HSV   []byte `json:"hsv"`
		ToRGB []byte `json:"to_rgb"`
	}
	Inference struct {
		Weights []float32 // [classes, 3]
		Cases   []struct {
			Height, Width, Long, Short int
			Mode                       InferenceMode
			Crop, Stride               int
			Pixels, Middle, Classes    []byte
			Resized                    [2]int
			Sum                        []float64
		}
	}
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	file, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&g); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestResizeIsOpenCVs(t *testing.T) {
	g := readGolden(t)
	for _, c := range g.Resize {
		from, to := datasets.Size{Height: c.From[0], Width: c.From[1]}, datasets.Size{Height: c.To[0], Width: c.To[1]}
		got := make([]uint8, 3*to.Height*to.Width)
		resize(got, to.Width, c.Pixels, from, to, image.Rect(0, 0, to.Width, to.Height))
		if !bytes.Equal(got, c.Resized) {
			t.Errorf("%v to %v: other bytes than cv2.resize", from, to)
		}
		// A part of the result is that part of the whole.
		part := image.Rect(to.Width/3, to.Height/4, to.Width, max(to.Height-1, to.Height/4+1))
		const stride = 60
		cut := make([]uint8, 3*stride*part.Dy())
		resize(cut, stride, c.Pixels, from, to, part)
		for y := range part.Dy() {
			want := c.Resized[3*((part.Min.Y+y)*to.Width+part.Min.X):][:3*part.Dx()]
			if got := cut[3*stride*y:][:3*part.Dx()]; !bytes.Equal(got, want) {
				t.Errorf("%v to %v, row %d of %v: %v, want %v", from, to, y, part, got, want)
			}
		}
	}
	for _, c := range g.Nearest {
		if got := nearest(c.From, c.To); !slices.Equal(got, c.Taken) {
			t.Errorf("%d to %d: takes %v, cv2.resize %v", c.From, c.To, got, c.Taken)
		}
	}
}

func TestScaleIsMMCVs(t *testing.T) {
	for _, c := range readGolden(t).Sizes {
		got := Scale{c.Long, c.Short}.Of(datasets.Size{Height: c.From[0], Width: c.From[1]})
		if want := (datasets.Size{Height: c.To[0], Width: c.To[1]}); got != want {
			t.Errorf("%v at %d×%d becomes %v, want %v", c.From, c.Long, c.Short, got, want)
		}
	}
}

func TestHSVIsOpenCVs(t *testing.T) {
	c := readGolden(t).Colours
	for at := 0; at < len(c.RGB); at += 3 {
		h, s, v := toHSV([3]uint8(c.RGB[at:]))
		if got, want := [3]uint8{h, s, v}, [3]uint8(c.ToHSV[at:]); got != want {
			t.Errorf("RGB %v: HSV %v, want %v", c.RGB[at:at+3], got, want)
		}
		if got, want := fromHSV(c.HSV[at], c.HSV[at+1], c.HSV[at+2]), [3]uint8(c.ToRGB[at:]); got != want {
			t.Errorf("HSV %v: RGB %v, want %v", c.HSV[at:at+3], got, want)
		}
	}
}

func TestDistortionIsMMSegmentations(t *testing.T) {
	g := readGolden(t).Distortion
	size := datasets.Size{Height: g.Height, Width: g.Width}
	for i, c := range g.Cases {
		d := distortion{brightness: c.Brightness, contrast: c.Contrast, contrastFirst: c.ContrastFirst}
		if c.Saturation != nil {
			d.saturates, d.saturation = true, *c.Saturation
		}
		if c.Hue != nil {
			d.shiftsHue, d.hue = true, *c.Hue
		}
		got := bytes.Clone(g.Pixels)
		d.apply(got, g.Width, size)
		if !bytes.Equal(got, c.Distorted) {
			t.Errorf("case %d: %+v: other bytes", i, d)
		}
	}
}

// averaging is the network of golden.py: the mean colours of cells of 4×4 pixels times weights.
func averaging(weights []float32) Segment {
	return func(_ context.Context, crops Canvases) (Logits, error) {
		l := Logits{Rows: crops.Height / 4, Columns: crops.Width / 4, Classes: len(weights) / 3}
		for i := range crops.Count {
			for row := range l.Rows {
				for column := range l.Columns {
					var mean [3]float32
					for cell := range 16 {
						y, x := 4*row+cell/4, 4*column+cell%4
						for c := range mean {
							mean[c] += float32(crops.Pixels[3*((i*crops.Height+y)*crops.Width+x)+c]) / 255 / 16
						}
					}
					for class := range l.Classes {
						w := weights[3*class:]
						l.Values = append(l.Values, w[0]*mean[0]+w[1]*mean[1]+w[2]*mean[2])
					}
				}
			}
		}
		return l, nil
	}
}

func TestInferenceIsMMSegmentations(t *testing.T) {
	g := readGolden(t).Inference
	for _, c := range g.Cases {
		p := SegmentationInference{Scale: Scale{c.Long, c.Short}, Mode: c.Mode, CropSize: c.Crop, Stride: c.Stride}
		a := &datasets.SegmentedImage{Height: c.Height, Width: c.Width, Pixels: c.Pixels}
		size, classes := datasets.Size{Height: c.Resized[0], Width: c.Resized[1]}, 0
		var stitched []float32
		segment := func(ctx context.Context, crops Canvases) (l Logits, err error) {
			l, err = averaging(g.Weights)(ctx, crops)
			corners, crop := p.crops(size)
			classes, stitched = l.Classes, l.stitched(corners, crop, size)
			return l, err
		}
		got, err := p.Predict(t.Context(), a, segment)
		if err != nil {
			t.Fatal(err)
		}
		if p.Scale.Of(datasets.Size{Height: c.Height, Width: c.Width}) != size {
			t.Errorf("%+v: resized to %v, want %v", p, p.Scale.Of(datasets.Size{Height: c.Height, Width: c.Width}), size)
		}
		if !bytes.Equal(got, c.Classes) {
			t.Errorf("%+v: other classes", p)
		}
		sums := make([]float64, classes)
		for y := range size.Height {
			for i, x := range stitched[y*size.Width*classes:][:size.Width*classes] {
				sums[i%classes] += float64(x)
				if want := math.Float32frombits(binary.LittleEndian.Uint32(c.Middle[4*i:])); y == size.Height/2+1 && math.Abs(float64(x-want)) > 2e-6 {
					t.Errorf("%+v: logit %d of row %d is %g, want %g", p, i, y, x, want)
				}
			}
		}
		for class, want := range c.Sum {
			if !(math.Abs(sums[class]-want) <= 1e-3) {
				t.Errorf("%+v: the logits of class %d add up to %g, want %g", p, class, sums[class], want)
			}
		}
	}
}
