package views

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
)

// sizes are the sizes of common photographs, of a narrow image and of a small one.
var sizes = []datasets.Size{
	{Height: 375, Width: 500}, {Height: 500, Width: 375}, {Height: 512, Width: 512}, {Height: 60, Width: 480}, {Height: 32, Width: 32},
}

func TestMultiCropKeepsScalesAndOverlaps(t *testing.T) {
	m := DefaultMultiCrop()
	if err := settings.Check(m); err != nil {
		t.Fatal(err)
	}
	var fallbacks, locals, flips int
	smallest, largest, smallestLocal, largestLocal := 1.0, 0.0, 1.0, 0.0
	for image := range int32(2000) {
		size := sizes[image%3]
		drawn := m.draw(3, 1, image, size)
		if len(drawn) != 6 {
			t.Fatalf("%d views, want 6", len(drawn))
		}
		for view, d := range drawn {
			if d.top < 0 || d.left < 0 || d.top+d.height > size.Height || d.left+d.width > size.Width || d.height < 1 || d.width < 1 {
				t.Fatalf("view %d of image %d lies outside: %+v", view, image, d)
			}
			for other, global := range drawn[:m.Globals] {
				if shared := d.shared(global); shared < m.MinOverlap {
					t.Errorf("views %d and %d of image %d share %v", view, other, image, shared)
				}
			}
			scale := float64(d.height*d.width) / float64(size.Height*size.Width)
			count(&flips, d.flip)
			if view < m.Globals {
				smallest, largest = min(smallest, scale), max(largest, scale)
				continue
			}
			locals++
			if d.box() == drawn[0].box() {
				fallbacks++
				continue
			}
			smallestLocal, largestLocal = min(smallestLocal, scale), max(largestLocal, scale)
		}
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"smallest global", smallest, 0.25}, {"largest global", largest, 1}, {"smallest local", smallestLocal, 0.05}, {"largest local", largestLocal, 0.25}} {
		if !(math.Abs(c.got-c.want) <= 0.01) {
			t.Errorf("%s view has %v of the area, want about %v", c.name, c.got, c.want)
		}
	}
	if fallbacks > locals/500 {
		t.Errorf("%d of %d local views fell back to a global one", fallbacks, locals)
	}
	if share := float64(flips) / 12000; !(math.Abs(share-0.5) <= 0.02) {
		t.Errorf("share of flips is %v", share)
	}
}

// TestMultiCropAlwaysOverlaps asks for more overlap than small crops of extreme images have by chance.
func TestMultiCropAlwaysOverlaps(t *testing.T) {
	m := DefaultMultiCrop()
	m.MinOverlap = 0.95
	for image := range int32(100) {
		drawn := m.draw(1, 0, image, sizes[int(image)%len(sizes)])
		for view, d := range drawn {
			for _, global := range drawn[:m.Globals] {
				if shared := d.shared(global); shared < m.MinOverlap {
					t.Errorf("view %d of image %d shares %v", view, image, shared)
				}
			}
		}
	}
}

func TestMultiCropDependsOnSeedEpochAndImageAlone(t *testing.T) {
	m := DefaultMultiCrop()
	draw := func(seed uint64, epoch int, images ...int32) (global, local []float32) {
		g, l := m.Draw(seed, epoch, images, sizes[:len(images)])
		return flat(t, g), flat(t, l)
	}
	global, local := draw(1, 0, 7, 8, 9)
	againGlobal, againLocal := draw(1, 0, 7, 8, 9)
	if fmt.Sprint(global, local) != fmt.Sprint(againGlobal, againLocal) {
		t.Error("the same seed draws something else")
	}
	aloneGlobal, aloneLocal := draw(1, 0, 7)
	row := func(rows []float32, i int) string { return fmt.Sprint(rows[i*NumParams:][:NumParams]) }
	if row(aloneGlobal, 1) != row(global, 3) || row(aloneLocal, 3) != row(local, 9) {
		t.Error("image 7 has other views alone than in a batch of three")
	}
	seen := map[string]bool{}
	for _, c := range []struct {
		seed  uint64
		epoch int
	}{{1, 0}, {2, 0}, {1, 1}} {
		global, local := draw(c.seed, c.epoch, 7, 8, 9)
		for i := range 6 {
			seen[row(global, i)] = true
		}
		for i := range 12 {
			seen[row(local, i)] = true
		}
	}
	if len(seen) != 3*18 {
		t.Errorf("%d different views, want %d", len(seen), 3*18)
	}
	m.Locals = 0
	if _, local := m.Draw(1, 0, []int32{7}, sizes[:1]); local != nil {
		t.Errorf("no local views have parameters %s", local.Shape())
	}
}

// TestOverlapBoxesSeeTheSameThing makes views of an image whose colours are its coordinates: at the corners of the overlap, both views have
// the same colours.
func TestOverlapBoxesSeeTheSameThing(t *testing.T) {
	const extent, size = 64, 48
	m := DefaultMultiCrop()
	m.Global.Blur, m.Global.Grayscale, m.Global.Jitter = false, false, false
	pixels := generate(extent*extent*3, func(i int) float32 {
		x, y := i/3%extent, i/3/extent
		return []float32{float32(x) / extent, float32(y) / extent, 0}[i%3]
	})
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		run := MustNewExec(b, func(images, params *Node) []*Node {
			first, second := Slice(params, AxisElem(0)), Slice(params, AxisElem(1))
			inFirst, inSecond := Overlap(first, second)
			_, flips := Boxes(params)
			return []*Node{Apply(images, params, size), Concatenate([]*Node{inFirst, inSecond}, 0), flips}
		})
		for image := range int32(12) {
			params, _ := m.Draw(4, 0, []int32{image}, []datasets.Size{{Height: extent, Width: extent}})
			out := run.MustCall(tensors.FromFlatDataAndDimensions(pixels, 1, extent, extent, 3), params)
			views, boxes, flips := flat(t, out[0]), out[1].Value().([][]float32), flat(t, out[2])
			// The colour at a share of the overlap, in a view that may be mirrored.
			at := func(view int, down, right float32) [2]float32 {
				if flips[view] == 1 {
					right = 1 - right
				}
				box := boxes[view]
				y, x := int((box[0]+down*box[2])*size), int((box[1]+right*box[3])*size)
				p := ((view*size+min(max(y, 0), size-1))*size + min(max(x, 0), size-1)) * 3
				return [2]float32{views[p], views[p+1]}
			}
			for _, place := range [][2]float32{{0.1, 0.1}, {0.1, 0.9}, {0.5, 0.5}, {0.9, 0.3}} {
				a, b := at(0, place[0], place[1]), at(1, place[0], place[1])
				for k := range a {
					if math.Abs(float64(a[k]-b[k])) > 0.05 { // A pixel of a view is up to 0.02 of the image.
						t.Errorf("image %d at %v of the overlap: first view shows %v, second %v (boxes %v, flips %v)", image, place, a, b, boxes, flips)
					}
				}
			}
		}
	})
}

func TestOverlapOfGivenBoxes(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		rows := func(ts ...transform) *tensors.Tensor {
			var flat []float32
			for _, t := range ts {
				flat = t.appendTo(flat)
			}
			return tensors.FromFlatDataAndDimensions(flat, len(ts), NumParams)
		}
		a := transform{top: 10, left: 20, height: 40, width: 80}
		out := MustExecOnceN(b, func(first, second *Node) (x, y *Node) { return Overlap(first, second) },
			rows(a, a, a),
			rows(transform{top: 30, left: 0, height: 40, width: 40}, transform{top: 30, left: 0, height: 40, width: 40, flip: true},
				transform{top: 60, left: 0, height: 5, width: 200}))
		want := [2]string{"[[0.5 0 0.5 0.25] [0.5 0 0.5 0.25] [1.25 0 0 1]]", "[[0 0.5 0.5 0.5] [0 0 0.5 0.5] [0 0.1 0 0.4]]"}
		for i := range want {
			if got := fmt.Sprint(out[i].Value()); got != want[i] {
				t.Errorf("boxes in view %d are %s, want %s", i, got, want[i])
			}
		}
	})
}

func TestMultiCropCheckNamesTheSetting(t *testing.T) {
	for want, spoil := range map[string]func(*MultiCrop){
		"globals 0":         func(m *MultiCrop) { m.Globals = 0 },
		"locals -1":         func(m *MultiCrop) { m.Locals = -1 },
		"global_size 2":     func(m *MultiCrop) { m.GlobalCropSize = 2 },
		"local_size 0":      func(m *MultiCrop) { m.LocalCropSize = 0 },
		"min_overlap 1.5":   func(m *MultiCrop) { m.MinOverlap = 1.5 },
		"min_overlap NaN":   func(m *MultiCrop) { m.MinOverlap = math.NaN() },
		"independent crops": func(m *MultiCrop) { m.Local.Crop = SameCrop },
		"global.max_scale":  func(m *MultiCrop) { m.Global.MaxScale = 2 },
		"local.min_scale":   func(m *MultiCrop) { m.Local.MinScale = 0.5 },
	} {
		m := DefaultMultiCrop()
		spoil(&m)
		if err := settings.Check(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one on %q", err, want)
		}
	}
}
