package views

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
)

// MultiCrop makes a few global views from large crops of a scene, and more local views of lower resolution from small crops (SwAV, DINO).
// Start from [DefaultMultiCrop].
type MultiCrop struct {
	Globals        int    `range:"[1,16]"`                      // Number of global views.
	Locals         int    `range:"[0,64]"`                      // Number of local views, which are smaller; 0 for none.
	GlobalCropSize int    `json:"GlobalSize" range:"[3,2048]"`  // Height and width of a global view in pixels.
	LocalCropSize  int    `json:"LocalSize" range:"0|[3,2048]"` // Height and width of a local view in pixels.
	Global, Local  Recipe // Transformations of the views. Crop is IndependentCrop.

	// MinOverlap is the least overlap of each view with each global view, as a share of the smaller view's area. RoI-Align needs some overlap.
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
// The parameters of a view depend only on the seed, the epoch, the image's index and size, and the number of the view, not on the other images of the batch.
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
		others := lo.Ternary(m.Independent, nil, drawn[:min(view, m.Globals)])
		t := m.overlapping(r, Stream(seed, epoch, image, view, "crop"), size, others)
		r.drawAppearance(Stream(seed, epoch, image, view, "look"), &t)
		drawn = append(drawn, t)
	}
	return drawn
}

// overlapping draws crops until one overlaps enough with all the given views. After 100 tries it takes the crop of the first view, which always does.
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
		return StopGradient(Concatenate([]*Node{top, left, height, width}, 1))
	}
	return within(first), within(second)
}

// BlockMask draws which patches of a view the student of iBOT must guess: overlapping rectangles, until they cover a share of the view (Zhou et al.
// 2022; Bao et al. 2022, "BEiT", algorithm 1). It draws as iBOT's code does.
type BlockMask struct {
	// Shares are the possible shares of masked patches. Each view takes one of them with equal probability.
	Shares []MaskShare `json:"shares"`
}

// MaskShare is a share of masked patches, drawn uniformly from Mean − Spread to Mean + Spread.
type MaskShare struct {
	Mean   float64 `json:"mean" range:"[0,1]"` // Mean share of masked patches.
	Spread float64 `json:"spread"`             // Largest difference of a share from the mean.
}

// A rectangle has a ratio of height to width between leastAspect and its inverse. After blockTries rectangles that do not fit a mask stays as it is.
const (
	leastAspect = 0.3
	blockTries  = 10
)

// Rules returns an error if shares can be below 0 or above 1.
func (s MaskShare) Rules() error {
	return settings.Between("spread", s.Spread, 0, min(s.Mean, 1-s.Mean))
}

// Draw draws the masks of views of each image, [views, len(images), rows·columns] of bool, true where the student must guess. A view has rows×columns
// patches, and images are given by their index in the dataset.
//
// The mask of a view depends only on the seed, the epoch, the image's index and the number of the view, not on the batch.
func (m BlockMask) Draw(seed uint64, epoch int, images []int32, views, rows, columns int) *tensors.Tensor {
	masks := make([]bool, 0, views*len(images)*rows*columns)
	for view := range views {
		for _, image := range images {
			masks = append(masks, m.draw(Stream(seed, epoch, image, view, "mask").Float64, rows, columns)...)
		}
	}
	return tensors.FromFlatDataAndDimensions(masks, views, len(images), rows*columns)
}

// draw draws the mask of one view from numbers in [0, 1).
func (m BlockMask) draw(random func() float64, rows, columns int) []bool {
	between := func(low, high float64) float64 { return low + (high-low)*random() }
	integer := func(most int) int { return int(random() * float64(most+1)) }

	shares := make([]float64, len(m.Shares))
	for i, share := range m.Shares { // All are drawn before one is chosen, as in iBOT's code.
		shares[i] = share.Mean
		if share.Spread > 0 {
			shares[i] = between(share.Mean-share.Spread, share.Mean+share.Spread)
		}
	}
	share := shares[0]
	if len(shares) > 1 {
		share = shares[integer(len(shares)-1)]
	}
	wanted := share * float64(rows) * float64(columns)

	mask, masked := make([]bool, rows*columns), 0
	least := float64((min(rows, columns) / 3) * (min(rows, columns) / 3)) // Patches of the smallest rectangle.
	for float64(masked) < wanted {
		left, added := wanted-float64(masked), 0
		for try := 0; try < blockTries && added == 0; try++ {
			area := between(least, left)
			aspect := math.Exp(between(math.Log(leastAspect), -math.Log(leastAspect)))
			height, width := int(math.RoundToEven(math.Sqrt(area*aspect))), int(math.RoundToEven(math.Sqrt(area/aspect)))
			if width >= columns || height >= rows {
				continue
			}
			top := integer(rows - height)
			added = cover(mask, columns, top, integer(columns-width), height, width, left)
		}
		if added == 0 {
			break
		}
		masked += added
	}
	return mask
}

// cover masks a rectangle if that adds at least one patch and at most as many as are left. It returns the number of patches added.
func cover(mask []bool, columns, top, left, height, width int, most float64) (added int) {
	visit := func(patch func(at int)) {
		for row := top; row < top+height; row++ {
			for column := left; column < left+width; column++ {
				patch(row*columns + column)
			}
		}
	}
	visit(func(at int) {
		if !mask[at] {
			added++
		}
	})
	if float64(added) > most {
		return 0
	}
	visit(func(at int) { mask[at] = true })
	return added
}
