package finetune

import (
	"image"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/views"
)

// recipeTransform is the transform of mmsegmentation's recipes on ADE20k. UPerNet and semantic FPN share it.
func recipeTransform() SegmentationTransform {
	return SegmentationTransform{Scale: Scale{2048, 512}, MinRatio: 0.5, MaxRatio: 2, CropSize: 512, CatMaxRatio: 0.75, PhotometricDistortion: true}
}

// coordinates is an image whose labels number its pixels, and whose red and green grow along rows and columns.
func coordinates(height, width int) *datasets.SegmentedImage {
	a := &datasets.SegmentedImage{Name: "coordinates", Height: height, Width: width}
	for y := range height {
		for x := range width {
			a.Pixels = append(a.Pixels, uint8(8*x), uint8(8*y), 77)
			a.Mask = append(a.Mask, uint8(y*width+x))
		}
	}
	return a
}

// TestLabelsFollowTheImage computes where each pixel of a crop comes from, for its labels by their rule and for its colours by theirs.
func TestLabelsFollowTheImage(t *testing.T) {
	for _, size := range []datasets.Size{{Height: 10, Width: 24}, {Height: 24, Width: 10}, {Height: 15, Width: 15}, {Height: 1, Width: 30}} {
		a := coordinates(size.Height, size.Width)
		tr := SegmentationTransform{Scale: Scale{44, 16}, MinRatio: 0.5, MaxRatio: 2, CropSize: 20, CatMaxRatio: 0.75}
		padded, flipped := 0, 0
		for index := range 60 {
			g := tr.geometry(a, views.Stream(1, 2, int32(index), 0, "geometry"))
			crop := tr.Apply(a, 1, 2, index)
			if crop.Size != (datasets.Size{Height: min(20, g.size.Height), Width: min(20, g.size.Width)}) {
				t.Fatalf("%v of %v fills %v", g.box, g.size, crop.Size)
			}
			if g.flip {
				flipped++
			}
			for y := range 20 {
				for x := range 20 {
					label, pixel := crop.Labels[y*20+x], crop.Pixels[3*(y*20+x):][:3]
					if y >= crop.Size.Height || x >= crop.Size.Width {
						padded++
						if label != datasets.Ignore || [3]uint8(pixel) != [3]uint8{} {
							t.Fatalf("padding has label %d and colour %v", label, pixel)
						}
						continue
					}
					column, row := g.box.Min.X+x, g.box.Min.Y+y
					if g.flip {
						column = g.box.Max.X - 1 - x
					}
					from := func(i, from, to int) (label int, at float64) {
						at = (float64(i)+0.5)*float64(from)/float64(to) - 0.5
						return i * from / to, min(max(at, 0), float64(from-1))
					}
					labelColumn, atColumn := from(column, a.Width, g.size.Width)
					labelRow, atRow := from(row, a.Height, g.size.Height)
					// OpenCV takes the sample before the one that starts exactly here, where floating-point numbers fall short of it.
					if gotRow, gotColumn := int(label)/a.Width, int(label)%a.Width; gotRow != labelRow && (gotRow != labelRow-1 || row*a.Height%g.size.Height != 0) ||
						gotColumn != labelColumn && (gotColumn != labelColumn-1 || column*a.Width%g.size.Width != 0) {
						t.Fatalf("label %d at (%d, %d) of %+v, want row %d, column %d", label, x, y, g, labelRow, labelColumn)
					}
					if !(math.Abs(float64(pixel[0])-8*atColumn) <= 1) || !(math.Abs(float64(pixel[1])-8*atRow) <= 1) || pixel[2] != 77 {
						t.Fatalf("colour %v at (%d, %d) of %+v, want %g, %g, 77", pixel, x, y, g, 8*atColumn, 8*atRow)
					}
				}
			}
		}
		if padded == 0 || flipped < 15 || flipped > 45 {
			t.Errorf("%v: %d pixels of padding, %d of 60 crops flipped", size, padded, flipped)
		}
	}
}

// TestCategoryLimit draws the boxes of a crop again and takes the first that the definition accepts.
func TestCategoryLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	accepted, exhausted := map[int]int{}, 0
	for index := range 200 {
		a := &datasets.SegmentedImage{Height: 20 + random.IntN(30), Width: 20 + random.IntN(30)}
		a.Pixels = make([]uint8, 3*a.Height*a.Width)
		spread := random.Float64()
		for y := range a.Height {
			for x := range a.Width {
				label := uint8(0)
				if float64(x+y) > spread*float64(a.Height+a.Width) {
					label = uint8(1 + (x/8+y/8)%3)
				}
				if x%7 == 0 {
					label = datasets.Ignore
				}
				a.Mask = append(a.Mask, label)
			}
		}
		tr := SegmentationTransform{Scale: Scale{100, 30}, MinRatio: 0.5, MaxRatio: 2, CropSize: 16, CatMaxRatio: 0.75}
		g := tr.geometry(a, views.Stream(5, 0, int32(index), 0, "geometry"))
		rows, columns := nearest(a.Height, g.size.Height), nearest(a.Width, g.size.Width)
		again := views.Stream(5, 0, int32(index), 0, "geometry")
		again.Float64()
		again.IntN(2)
		for try := 0; ; try++ {
			top, left := again.IntN(max(g.size.Height-16, 0)+1), again.IntN(max(g.size.Width-16, 0)+1)
			if try == 10 {
				exhausted++
				if g.box.Min != image.Pt(left, top) {
					t.Errorf("image %d: the crop is at %v, the last try at (%d, %d)", index, g.box.Min, left, top)
				}
				break
			}
			counts, all, most := map[uint8]int{}, 0, 0
			for y := top; y < min(top+16, g.size.Height); y++ {
				for x := left; x < min(left+16, g.size.Width); x++ {
					if label := a.Mask[rows[y]*a.Width+columns[x]]; label != datasets.Ignore {
						counts[label]++
						all++
						most = max(most, counts[label])
					}
				}
			}
			if len(counts) > 1 && float64(most) < 0.75*float64(all) {
				accepted[try]++
				if g.box.Min != image.Pt(left, top) {
					t.Errorf("image %d: the crop is at %v, try %d at (%d, %d)", index, g.box.Min, try, left, top)
				}
				break
			}
		}
	}
	if accepted[0] == 0 || accepted[1] == 0 || exhausted == 0 {
		t.Errorf("accepted at each try %v, exhausted %d", accepted, exhausted)
	}
}

// TestDrawsOfDistortion counts what is drawn.
func TestDrawsOfDistortion(t *testing.T) {
	const n = 4000
	var brightened, contrasted, first, saturated, shifted, untouched float64
	hues := map[int]bool{}
	for i := range n {
		d := drawDistortion(views.Stream(3, 0, int32(i), 0, "colours"))
		count := func(x *float64, is bool) {
			if is {
				*x++
			}
		}
		count(&brightened, d.brightness != 0)
		count(&contrasted, d.contrast != 1)
		count(&first, d.contrastFirst)
		count(&saturated, d.saturates)
		count(&shifted, d.shiftsHue)
		count(&untouched, d.brightness == 0 && d.contrast == 1 && !d.saturates && !d.shiftsHue)
		if d.brightness < -32 || d.brightness > 32 || d.contrast < 0.5 || d.contrast > 1.5 || d.saturation < 0.5 || d.saturation > 1.5 || d.hue < -18 || d.hue > 17 {
			t.Errorf("%+v", d)
		}
		hues[d.hue] = true
	}
	for name, c := range map[string]struct{ got, want float64 }{
		"brightness": {brightened, 0.5}, "contrast": {contrasted, 0.5}, "contrast first": {first, 0.5}, "saturation": {saturated, 0.5}, "hue": {shifted, 0.5}, "none": {untouched, 1. / 16},
	} {
		if !(math.Abs(c.got/n-c.want) <= 0.03) {
			t.Errorf("%s: a share of %g, want %g", name, c.got/n, c.want)
		}
	}
	if len(hues) != 36 {
		t.Errorf("%d shifts of the hue, want 36", len(hues))
	}
}

// TestDistortionSparesThePadding and leaves the geometry as it is.
func TestDistortionSparesThePadding(t *testing.T) {
	a := coordinates(12, 20)
	plain := SegmentationTransform{Scale: Scale{20, 12}, MinRatio: 0.5, MaxRatio: 2, CropSize: 24, CatMaxRatio: 1}
	colourful := plain
	colourful.PhotometricDistortion = true
	changed := 0
	for index := range 30 {
		x, y := plain.Apply(a, 0, 0, index), colourful.Apply(a, 0, 0, index)
		if !reflect.DeepEqual(x.Labels, y.Labels) || x.Size != y.Size {
			t.Errorf("crop %d has other labels", index)
		}
		for p := range x.Labels {
			if inside := p/24 < x.Size.Height && p%24 < x.Size.Width; !inside && y.Pixels[3*p] != 0 {
				t.Errorf("crop %d: padding of colour %d", index, y.Pixels[3*p])
			} else if x.Pixels[3*p] != y.Pixels[3*p] {
				changed++
			}
		}
	}
	if changed == 0 {
		t.Error("no colour is changed")
	}
}

func TestTransformChecks(t *testing.T) {
	if err := settings.Check(recipeTransform()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*SegmentationTransform){
		"scale.short 20 is not between 1 and 10":   func(t *SegmentationTransform) { t.Scale = Scale{10, 20} },
		"scale.short 0 is not between":             func(t *SegmentationTransform) { t.Scale = Scale{10, 0} },
		"min_ratio 0 is not above 0":               func(t *SegmentationTransform) { t.MinRatio = 0 },
		"min_ratio 3 and max_ratio 2":              func(t *SegmentationTransform) { t.MinRatio = 3 },
		"max_ratio NaN":                            func(t *SegmentationTransform) { t.MaxRatio = math.NaN() },
		"max_ratio 100: want":                      func(t *SegmentationTransform) { t.MaxRatio = 100 },
		"crop_size 0 is not between 1 and":         func(t *SegmentationTransform) { t.CropSize = 0 },
		"cat_max_ratio 1.5 is not above 0":         func(t *SegmentationTransform) { t.CatMaxRatio = 1.5 },
		"cat_max_ratio NaN is not above 0 and at ": func(t *SegmentationTransform) { t.CatMaxRatio = math.NaN() },
	} {
		tr := recipeTransform()
		change(&tr)
		if err := settings.Check(tr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestPacks makes crops of real images, if they are there: they keep the image's colours and classes, and few exceed the limit.
func TestPacks(t *testing.T) {
	dir := os.Getenv("SEMCON_DATA")
	for name, key := range map[string]string{"voc-dense128": "voc2012", "camvid128": "camvid"} {
		s, err := datasets.OpenSegmentation(key, filepath.Join(dir, name), datasets.Train)
		if dir == "" || err != nil {
			t.Logf("SEMCON_DATA has no %s", name)
			continue
		}
		c := training(100, 1)
		c.Transform = SegmentationTransform{Scale{512, 128}, 0.5, 2, 128, 0.75, true}
		for batch, err := range c.Batches(t.Context(), s, 0, 0) {
			if err != nil {
				t.Fatal(err)
			}
			annotated := 0
			for _, crop := range batch.Made {
				for _, label := range crop.Labels {
					if label != datasets.Ignore {
						annotated++
					}
				}
			}
			if share := float64(annotated) / float64(100*128*128); share < 0.5 {
				t.Errorf("%s: a share of %g of the pixels is annotated", name, share)
			}
			break
		}
	}
}

func BenchmarkTransform(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	a := &datasets.SegmentedImage{Height: 512, Width: 683, Pixels: make([]uint8, 512*683*3), Mask: make([]uint8, 512*683)}
	for i := range a.Pixels {
		a.Pixels[i] = uint8(random.IntN(256))
	}
	for i := range a.Mask {
		a.Mask[i] = uint8(i / 8 % 7)
	}
	tr := recipeTransform()
	for i := 0; b.Loop(); i++ {
		tr.Apply(a, 0, 0, i)
	}
}
