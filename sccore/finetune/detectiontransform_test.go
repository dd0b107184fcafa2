package finetune

import (
	"math"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// recipeDetectionTransform is the recipe's transform.
func recipeDetectionTransform() DetectionTransform {
	return DetectionTransform{MinShort: 480, MaxShort: 800, Step: 32, Long: 1333, CropShort: [3]int{400, 500, 600}, MinCrop: 384, MaxCrop: 600}
}

// redObject is a green image with a red object, an ellipse.
func redObject(t *testing.T, height, width int) (*datasets.SegmentedImage, []Object) {
	t.Helper()
	a := &datasets.SegmentedImage{Height: height, Width: width}
	inside := make([]bool, 0, height*width)
	for y := range height {
		for x := range width {
			u, v := (float64(x)+0.5-0.6*float64(width))/(0.2*float64(width)), (float64(y)+0.5-0.4*float64(height))/(0.25*float64(height))
			in := u*u+v*v < 1
			inside = append(inside, in)
			if in {
				a.Pixels = append(a.Pixels, 255, 0, 0)
			} else {
				a.Pixels = append(a.Pixels, 0, 255, 0)
			}
		}
	}
	mask, err := rle.Encode(height, width, inside)
	if err != nil {
		t.Fatal(err)
	}
	b := mask.Box()
	return a, []Object{{Class: 4, Box: [4]float64{b[0], b[1], b[0] + b[2], b[1] + b[3]}, Mask: mask}}
}

// TestObjectsFollowTheImage: after every path, boxes and masks lie where the object's pixels are.
func TestObjectsFollowTheImage(t *testing.T) {
	transform := DetectionTransform{MinShort: 60, MaxShort: 100, Step: 10, Long: 160, CropShort: [3]int{70, 90, 110}, MinCrop: 50, MaxCrop: 90}
	const count, side = 2, 42
	cropped, flipped, left := 0, 0, 0
	for epoch := range 60 {
		height, width := 80, 120
		if epoch%2 == 1 {
			height, width = width, height
		}
		a, objects := redObject(t, height, width)
		canvas := transform.scale().canvasFor(datasets.Size{Height: height, Width: width}, 32)
		out := transform.Apply(a, objects, canvas, count, side, 5, epoch, 0)
		g := transform.geometry(datasets.Size{Height: height, Width: width}, canvas, views.Stream(5, epoch, 0, 0, "geometry"))
		if g.crop.Dx() < g.first.Width || g.crop.Dy() < g.first.Height {
			cropped++
		}
		if g.flip {
			flipped++
		}
		if out.Labels[1] != -1 || out.Size.Height > canvas.Height || out.Size.Width > canvas.Width {
			t.Fatalf("labels %v, size %v on %v", out.Labels, out.Size, canvas)
		}
		for y := range canvas.Height {
			for x := range canvas.Width {
				if outside := y >= out.Size.Height || x >= out.Size.Width; outside && out.Pixels[3*(y*canvas.Width+x)+1]|out.Pixels[3*(y*canvas.Width+x)] != 0 {
					t.Fatalf("epoch %d: pixel (%d, %d) is beyond the image and not black", epoch, x, y)
				}
			}
		}
		// Where the pixels are red.
		low, high := [2]int{math.MaxInt, math.MaxInt}, [2]int{-1, -1}
		for y := range out.Size.Height {
			for x := range out.Size.Width {
				if p := out.Pixels[3*(y*canvas.Width+x):]; p[0] > p[1] {
					low, high = [2]int{min(low[0], x), min(low[1], y)}, [2]int{max(high[0], x+1), max(high[1], y+1)}
				}
			}
		}
		if out.Labels[0] == -1 {
			if high[0] > 0 {
				t.Errorf("epoch %d: the object is in sight and left out", epoch)
			}
			left++
			continue
		}
		want := [4]int{low[0], low[1], high[0], high[1]}
		b := out.Boxes[:4]
		clipped := b[0] == 0 || b[1] == 0 || b[2] == float32(out.Size.Width) || b[3] == float32(out.Size.Height)
		for i, v := range b {
			off := float64(v) - float64(want[i])
			if clipped { // What is left of the box may be larger than what is left of the object.
				off = max(0, off*[4]float64{1, 1, -1, -1}[i])
			}
			if out.Labels[0] != 4 || !(math.Abs(off) <= 2.5) {
				t.Errorf("epoch %d: box %v of class %d, the pixels are in %v", epoch, out.Boxes[:4], out.Labels[0], want)
				break
			}
		}
		// Cells of the mask are red pixels, but for those on the outline.
		wrong, border := 0, 0
		for row := range side {
			for column := range side {
				f := out.Frames[:4]
				x := int(f[0] + (f[2]-f[0])*(float32(column)+0.5)/side)
				y := int(f[1] + (f[3]-f[1])*(float32(row)+0.5)/side)
				in := out.Masks[row*side+column] == 1
				if row == 0 || column == 0 || row == side-1 || column == side-1 {
					if in {
						border++
					}
					continue
				}
				x, y = min(max(x, 0), out.Size.Width-1), min(max(y, 0), out.Size.Height-1)
				if p := out.Pixels[3*(y*canvas.Width+x):]; (p[0] > p[1]) != in {
					wrong++
				}
			}
		}
		if border > 0 || wrong > side*side/20 {
			t.Errorf("epoch %d: %d cells of the border are inside, %d of %d cells are wrong", epoch, border, wrong, side*side)
		}
	}
	if cropped < 15 || flipped < 15 || left > 10 {
		t.Errorf("of 60 images %d are cropped, %d flipped and %d without their object", cropped, flipped, left)
	}
}

// TestDetectionTransformOfOneScale: without a choice the numbers are the image's own.
func TestDetectionTransformOfOneScale(t *testing.T) {
	transform := DetectionTransform{MinShort: 40, MaxShort: 40, Step: 1, Long: 80, CropShort: [3]int{20, 20, 20}, MinCrop: 60, MaxCrop: 60}
	a, objects := redObject(t, 20, 30)
	objects[0].Box = [4]float64{-3, 4, 10, 25}
	for epoch := range 8 {
		out := transform.Apply(a, objects, datasets.Size{Height: 48, Width: 80}, 1, 12, 1, epoch, 0)
		want := [4]float32{0, 8, 20, 40} // Twice as large, and clipped to the image.
		if out.Boxes[0] != 0 {
			want = [4]float32{40, 8, 60, 40} // Flipped.
		}
		if got := [4]float32(out.Boxes); got != want || out.Size != (datasets.Size{Height: 40, Width: 60}) {
			t.Errorf("box %v in %v, want %v", got, out.Size, want)
		}
	}
}

func TestDetectionTransformCheck(t *testing.T) {
	if err := settings.Check(recipeDetectionTransform()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*DetectionTransform){
		"long 0": func(t *DetectionTransform) { t.Long = 0 }, "max_short 1334": func(t *DetectionTransform) { t.MaxShort = 1334 },
		"min_short 801": func(t *DetectionTransform) { t.MinShort = 801 }, "step 0": func(t *DetectionTransform) { t.Step = 0 },
		"crop_short 0": func(t *DetectionTransform) { t.CropShort[1] = 0 }, "min_crop 700": func(t *DetectionTransform) { t.MinCrop = 700 },
	} {
		transform := recipeDetectionTransform()
		change(&transform)
		wantError(t, settings.Check(transform), want)
	}
}

func TestFullCanvases(t *testing.T) {
	scale := recipeDetectionTransform().scale()
	if across, up := scale.canvasFor(datasets.Size{Height: 3, Width: 3}, 32), scale.canvasFor(datasets.Size{Height: 4, Width: 3}, 32); across != (datasets.Size{Height: 800, Width: 1344}) ||
		up != (datasets.Size{Height: 1344, Width: 800}) {
		t.Errorf("%v and %v, want 800×1344 and its transpose", across, up)
	}
}
