package finetune

import (
	"context"
	"errors"
	"image"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/settings"
)

// recipeInference is what the recipes on ADE20k use for UPerNet. Semantic FPN takes the same with [Whole].
func recipeInference() SegmentationInference {
	return SegmentationInference{Scale: Scale{2048, 512}, Mode: Slide, CropSize: 512, Stride: 341}
}

// TestCornersOfCrops compares with the formulas of mmsegmentation for all small sizes.
func TestCornersOfCrops(t *testing.T) {
	for crop := 1; crop < 7; crop++ {
		for stride := 1; stride <= crop; stride++ {
			for height := 1; height < 20; height++ {
				const width = 11
				var want []image.Point
				for i := range max(height-crop+stride-1, 0)/stride + 1 {
					for j := range max(width-crop+stride-1, 0)/stride + 1 {
						want = append(want, image.Pt(max(min(j*stride+crop, width)-crop, 0), max(min(i*stride+crop, height)-crop, 0)))
					}
				}
				got, _ := SegmentationInference{Mode: Slide, CropSize: crop, Stride: stride}.crops(datasets.Size{Height: height, Width: width})
				if !slices.Equal(got, want) {
					t.Fatalf("crops of %d every %d of %d×%d: %v, want %v", crop, stride, width, height, got, want)
				}
			}
		}
	}
	if got, _ := (SegmentationInference{Mode: Whole}).crops(datasets.Size{Height: 3, Width: 4}); !slices.Equal(got, []image.Point{{}}) {
		t.Errorf("whole: %v", got)
	}
}

// TestPredictionsDoNotDependOnProcessors has images of one row and of many.
func TestPredictionsDoNotDependOnProcessors(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	for _, size := range []datasets.Size{{Height: 1, Width: 9}, {Height: 37, Width: 23}, {Height: 5, Width: 90}} {
		a := &datasets.SegmentedImage{Height: size.Height, Width: size.Width, Pixels: make([]uint8, 3*size.Height*size.Width)}
		for i := range a.Pixels {
			a.Pixels[i] = uint8(random.IntN(256))
		}
		p := SegmentationInference{Scale: Scale{64, 20}, Mode: Slide, CropSize: 16, Stride: 9}
		var first []uint8
		for processors := range 3 {
			was := runtime.GOMAXPROCS(1 + 3*processors)
			got, err := p.Predict(t.Context(), a, func(_ context.Context, crops Canvases) (Logits, error) {
				return Logits{crops.Height, crops.Width, 3, scaledPixels(crops)}, nil
			})
			runtime.GOMAXPROCS(was)
			if err != nil || len(got) != size.Height*size.Width {
				t.Fatalf("%v: %d classes, %v", size, len(got), err)
			}
			if first == nil {
				first = got
			}
			if !slices.Equal(got, first) {
				t.Errorf("%v: other classes on %d processors", size, 1+3*processors)
			}
		}
	}
}

// scaledPixels are logits: the brightest colour wins.
func scaledPixels(crops Canvases) (values []float32) {
	for _, x := range crops.Pixels {
		values = append(values, float32(x)/255)
	}
	return values
}

// painted has images whose colour is the class of each pixel, and part of which is not annotated.
func painted(count int) *datasets.Segmentation {
	return datasets.NewSegmentation("painted", []string{"red", "green", "blue"}, "", count, func(i int) (*datasets.SegmentedImage, error) {
		a := &datasets.SegmentedImage{Name: "painting", Height: 12, Width: 18, Pixels: make([]uint8, 12*18*3), Mask: make([]uint8, 12*18)}
		for p := range a.Mask {
			class := (p/18/3 + p%18/5 + i) % 3
			a.Pixels[3*p+class] = 255
			if a.Mask[p] = uint8(class); p%7 == 0 {
				a.Mask[p] = datasets.Ignore
			}
		}
		return a, nil
	})
}

func TestEvaluate(t *testing.T) {
	read := func(_ context.Context, crops Canvases) (Logits, error) {
		return Logits{crops.Height, crops.Width, 3, scaledPixels(crops)}, nil
	}
	for _, p := range []SegmentationInference{{Scale: Scale{18, 12}, Mode: Whole}, {Scale: Scale{18, 12}, Mode: Slide, CropSize: 8, Stride: 5}, {Scale: Scale{36, 24}, Mode: Slide, CropSize: 16, Stride: 16}} {
		result, err := p.Evaluate(t.Context(), painted(4), read)
		if err != nil || result.MIoU != 100 || result.Accuracy != 100 {
			t.Errorf("%+v: %+v, %v, want 100", p, result, err)
		}
	}
	p := SegmentationInference{Scale: Scale{18, 12}, Mode: Whole}
	// Always red: the IoU of red is its share of the annotated pixels.
	red, annotated := 0, 0
	for i := range 4 {
		a, _ := painted(4).Read(i)
		for _, class := range a.Mask {
			if class != datasets.Ignore {
				annotated++
			}
			if class == 0 {
				red++
			}
		}
	}
	result, err := p.Evaluate(t.Context(), painted(4), func(_ context.Context, crops Canvases) (Logits, error) {
		return Logits{1, 1, 3, []float32{1, 1, 1}}, nil // Of equal logits the first class wins.
	})
	if want := 100 * float64(red) / float64(annotated); err != nil || !(math.Abs(result.Accuracy-want) <= 1e-9) || !(math.Abs(result.MIoU-want/3) <= 1e-9) {
		t.Errorf("always red: %+v, %v, want accuracy %g", result, err, want)
	}
	if counts := stats.ByImage(result.ByImage); len(counts) != 4 || !(math.Abs(counts.Score(nil)-result.MIoU) <= 1e-9) {
		t.Errorf("always red: mIoU %g by %d images, %g of all", counts.Score(nil), len(counts), result.MIoU)
	}
}

// TestNetworkSeesWholePatches has images that are resized to sides which are not whole patches.
func TestNetworkSeesWholePatches(t *testing.T) {
	s := Segmenter{ViT: encoder.ViT{Name: "coarse", PatchSize: 16}}
	for _, c := range []struct {
		p    SegmentationInference
		from datasets.Size
		want datasets.Size // Of what the network sees.
	}{
		{SegmentationInference{Scale: Scale{512, 128}, Mode: Whole, Divisor: 8}, datasets.Size{Height: 128, Width: 193}, datasets.Size{Height: 128, Width: 208}},
		{SegmentationInference{Scale: Scale{512, 128}, Mode: Whole, Divisor: 32}, datasets.Size{Height: 128, Width: 193}, datasets.Size{Height: 128, Width: 224}},
		{SegmentationInference{Scale: Scale{2048, 512}, Mode: Slide, CropSize: 512, Stride: 341}, datasets.Size{Height: 200, Width: 1000}, datasets.Size{Height: 416, Width: 512}},
		{SegmentationInference{Scale: Scale{512, 128}, Mode: Slide, CropSize: 96, Stride: 64}, datasets.Size{Height: 128, Width: 193}, datasets.Size{Height: 96, Width: 96}},
		{SegmentationInference{Scale: Scale{512, 128}, Mode: Whole, CropSize: 100}, datasets.Size{Height: 128, Width: 193}, datasets.Size{Height: 128, Width: 208}},
	} {
		p, err := s.Inference(c.p)
		if err != nil {
			t.Fatal(err)
		}
		a := &datasets.SegmentedImage{Height: c.from.Height, Width: c.from.Width, Pixels: make([]uint8, 3*c.from.Height*c.from.Width)}
		classes, err := p.Predict(t.Context(), a, func(_ context.Context, crops Canvases) (Logits, error) {
			if crops.Size != c.want {
				t.Errorf("%+v of %v: the network sees %v, want %v", c.p, c.from, crops.Size, c.want)
			}
			return Logits{1, 1, 2, make([]float32, 2*crops.Count)}, nil
		})
		if err != nil || len(classes) != c.from.Height*c.from.Width {
			t.Errorf("%+v of %v: %d classes, %v", c.p, c.from, len(classes), err)
		}
	}
	_, err := s.Inference(SegmentationInference{Mode: Slide, CropSize: 100, Stride: 50})
	wantError(t, err, "inference.crop_size 100 is not a multiple of coarse's patch size 16")
}

func TestInferenceSaysWhatIsWrong(t *testing.T) {
	p := SegmentationInference{Scale: Scale{18, 12}, Mode: Slide, CropSize: 8, Stride: 5}
	fixed := func(l Logits, err error) Segment {
		return func(context.Context, Canvases) (Logits, error) { return l, err }
	}
	corners, _ := p.crops(datasets.Size{Height: 12, Width: 18})
	crops := len(corners)
	for name, c := range map[string]struct {
		images  *datasets.Segmentation
		segment Segment
		want    string
	}{
		"NaN":           {painted(1), fixed(Logits{1, 1, 3, slices.Repeat([]float32{0, 1, float32(math.NaN())}, crops)}, nil), "painting: logits: entry 2 is NaN"},
		"Inf":           {painted(1), fixed(Logits{1, 1, 3, slices.Repeat([]float32{0, 1, float32(math.Inf(-1))}, crops)}, nil), "painting: logits: entry 2 is -Inf"},
		"other classes": {painted(1), fixed(Logits{1, 1, 4, slices.Repeat([]float32{0, 0, 0, 1}, crops)}, nil), "pixel 1 has class 0, predicted as 3"},
		"device":        {painted(1), fixed(Logits{}, errors.New("out of memory")), "out of memory"},
		"file":          {broken(map[int]*datasets.SegmentedImage{0: nil}), fixed(Logits{}, nil), "image0.jpg: damaged"},
		"not annotated": {datasets.NewSegmentation("x", []string{"a"}, "", 1, func(int) (*datasets.SegmentedImage, error) {
			return &datasets.SegmentedImage{Height: 1, Width: 1, Pixels: make([]uint8, 3), Mask: []uint8{255}}, nil
		}), func(_ context.Context, crops Canvases) (Logits, error) {
			return Logits{1, 1, 1, make([]float32, crops.Count)}, nil
		}, "no pixel of the images is annotated"},
	} {
		if _, err := p.Evaluate(t.Context(), c.images, c.segment); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := p.Evaluate(stopped, painted(2), fixed(Logits{}, context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the context ended", err)
	}
	if err := settings.Check(recipeInference()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*SegmentationInference){
		"scale.short 2 is not 1":                        func(p *SegmentationInference) { p.Scale = Scale{1, 2} },
		`mode "crop": want slide or whole`:              func(p *SegmentationInference) { p.Mode = "crop" },
		"crop_size 0 is not between 1":                  func(p *SegmentationInference) { p.CropSize = 0 },
		"stride 9 is not between 1 and the crop_size 8": func(p *SegmentationInference) { p.Stride = 9 },
	} {
		p := p
		change(&p)
		if err := settings.Check(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	a := &datasets.SegmentedImage{Height: 512, Width: 683, Pixels: make([]uint8, 512*683*3)}
	p := recipeInference()
	l := Logits{Rows: 128, Columns: 128, Classes: 150, Values: make([]float32, 2*128*128*150)}
	for b.Loop() {
		if _, err := p.Predict(b.Context(), a, func(context.Context, Canvases) (Logits, error) { return l, nil }); err != nil {
			b.Fatal(err)
		}
	}
}
