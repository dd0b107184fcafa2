package views

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/samber/lo"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
)

// MultiCrop makes a few global views from large crops of a scene, and more local views of lower resolution from small crops (SwAV, DINO).
// Start from [DefaultMultiCrop].
type MultiCrop struct {
	Globals        int    `range:"[1,16]"`                      // Number of global views.
	Locals         int    `range:"[0,64]"`                      // Number of local views, which are smaller; 0 for none.
	GlobalCropSize int    `json:"GlobalSize" range:"[3,2048]"`  // Height and width of a global view in pixels.
	LocalCropSize  int    `json:"LocalSize" range:"0|[3,2048]"` // Height and width of a local view in pixels.
	Global, Local  Recipe // Transformations of the views. Crop is IndependentCrop.

	// MinOverlap is the least overlap of each view with each global view, as a share of the smaller view's area. RoI-Align
	// needs some overlap.
	MinOverlap float64 `range:"[0,1]"`
	// Independent draws each view without regard to the others, as DINO, iBOT and Mugs do. MinOverlap is then 0.
	Independent bool `json:",omitzero"`
}

// DefaultMultiCrop returns the paper's views ("Optimization strategy"): 2 global ones of 224×224 pixels and 4 local ones of 96×96, with all
// transformations. Where the paper says nothing, the views follow Leopart, whose pipeline the paper adopts: crops of 0.25 to 1 and of 0.05
// to 0.25 of the image's area, with an overlap of at least 0.01. The other transformations are as in [Default]. Its blur has at most
// five taps, which is narrower than Leopart's on views of 224 pixels.
func DefaultMultiCrop() MultiCrop {
	global, local := Default(), Default()
	global.MinScale, global.MaxScale = 0.25, 1
	local.MinScale, local.MaxScale = 0.05, 0.25
	return MultiCrop{Globals: 2, Locals: 4, GlobalCropSize: 224, LocalCropSize: 96, Global: global, Local: local, MinOverlap: 0.01}
}

// Rules returns an error that names the first settings that contradict each other.
func (m MultiCrop) Rules() error {
	switch {
	case m.Locals > 0 && m.LocalCropSize == 0:
		return errors.New("local_size 0 of local views")
	case m.Independent && m.MinOverlap > 0:
		return fmt.Errorf("independent views with min_overlap %v", m.MinOverlap)
	case m.Global.Crop != IndependentCrop || m.Local.Crop != IndependentCrop:
		return errors.New("views of scenes have independent crops")
	}
	return nil
}

// Draw draws the parameters of all views for [Apply] and [Overlap]: global, [Globals*len(images), NumParams], and local,
// [Locals*len(images), NumParams], which is nil without local views. Both begin with the first views of all images. Image i has the index
// images[i] in the dataset and the size sizes[i]; padding beyond this size is never cropped.
//
// The parameters of a view depend only on the seed, the epoch, the image's index and size, and the number of the view, not on the other
// images of the batch.
func (m MultiCrop) Draw(seed uint64, epoch int, images []int32, sizes []datasets.Size) (global, local *tensors.Tensor) {
	views := m.Globals + m.Locals
	drawn := lo.Map(images, func(image int32, i int) []transform { return m.draw(seed, epoch, image, sizes[i]) })
	rows := func(from, to int) *tensors.Tensor {
		var rows []float32
		for view := from; view < to; view++ {
			for i := range images {
				rows = drawn[i][view].appendTo(rows)
			}
		}
		return tensors.FromFlatDataAndDimensions(rows, (to-from)*len(images), NumParams)
	}
	if m.Locals == 0 {
		return rows(0, views), nil
	}
	return rows(0, m.Globals), rows(m.Globals, views)
}

// draw draws all views of one image, global ones first.
func (m MultiCrop) draw(seed uint64, epoch int, image int32, size datasets.Size) []transform {
	var drawn []transform
	for view := range m.Globals + m.Locals {
		r := lo.Ternary(view < m.Globals, m.Global, m.Local)
		others := drawn[:min(view, m.Globals)]
		if m.Independent {
			others = nil
		}
		t := m.overlapping(r, Stream(seed, epoch, image, view, "crop"), size, others)
		r.drawAppearance(Stream(seed, epoch, image, view, "look"), &t)
		drawn = append(drawn, t)
	}
	return drawn
}

// overlapping draws crops until one overlaps enough with all the given views. After 100 tries it takes the crop of the first view, which
// always does.
func (m MultiCrop) overlapping(r Recipe, random *rand.Rand, size datasets.Size, globals []transform) transform {
tries:
	for range 100 {
		var t transform
		t.top, t.left, t.height, t.width = r.crop(random, size.Height, size.Width)
		for _, global := range globals {
			if overlap := t.shared(global); overlap == 0 || overlap < m.MinOverlap {
				continue tries
			}
		}
		return t
	}
	first := globals[0]
	return transform{top: first.top, left: first.left, height: first.height, width: first.width}
}

// shared returns the overlap of two crops as a share of the smaller one's area.
func (t transform) shared(other transform) float64 {
	height := min(t.top+t.height, other.top+other.height) - max(t.top, other.top)
	width := min(t.left+t.width, other.left+other.width) - max(t.left, other.left)
	smaller := min(t.height*t.width, other.height*other.width)
	return float64(max(height, 0)*max(width, 0)) / float64(smaller)
}

// Overlap returns the region that two views of one image share, in the coordinates of each view: two boxes [n, 4] with top, left, height and
// width as shares of the view. For a mirrored view, left is the left edge of the view as mirrored. The rows of first and second,
// parameters [n, NumParams] each, are pairs of views of one image. The boxes of disjoint views have height or width 0.
//
// RoI-Align takes these boxes, and undoes the flips that [Boxes] returns.
func Overlap(first, second *Node) (inFirst, inSecond *Node) {
	second.AssertDims(first.Shape().Dim(0), NumParams)
	side := func(params *Node, at int) *Node { return Slice(params, AxisRange(), AxisElem(boxAt+at)) }
	end := func(params *Node, at int) *Node { return Add(side(params, at), side(params, at+2)) }

	var starts, lengths [2]*Node // Along the height and the width, in pixels of the image.
	for axis := range 2 {
		starts[axis] = Max(side(first, axis), side(second, axis))
		lengths[axis] = MaxScalar(Sub(Min(end(first, axis), end(second, axis)), starts[axis]), 0)
	}
	within := func(params *Node) *Node {
		share := func(pixels *Node, axis int) *Node { return Div(pixels, side(params, axis+2)) }
		height, width := share(lengths[0], 0), share(lengths[1], 1)
		top := share(Sub(starts[0], side(params, 0)), 0)
		left := share(Sub(starts[1], side(params, 1)), 1)
		flip := Slice(params, AxisRange(), AxisElem(flipAt))
		left = Where(GreaterThan(flip, ZerosLike(flip)), Sub(OneMinus(left), width), left)
		box := Concatenate([]*Node{top, left, height, width}, 1)
		box.AssertDims(-1, 4)
		return StopGradient(box)
	}
	return within(first), within(second)
}
