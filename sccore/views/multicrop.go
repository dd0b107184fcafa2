package views

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
)

// MultiCrop makes a few global views from large crops of a scene, and more local views of lower resolution from small crops (SwAV, DINO).
// Start from [DefaultMultiCrop].
type MultiCrop struct {
	Globals        int    // Number of global views, at least 1.
	Locals         int    // Number of local views, which are smaller; 0 for none.
	GlobalCropSize int    `json:"GlobalSize"` // Height and width of a global view in pixels, at least 3.
	LocalCropSize  int    `json:"LocalSize"`  // Height and width of a local view in pixels, at least 3.
	Global, Local  Recipe // Transformations of the views. Crop is IndependentCrop.

	// MinOverlap in [0, 1] is the least overlap of each view with each global view, as a share of the smaller view's area. RoI-Align
	// needs some overlap.
	MinOverlap float64
	// Independent draws each view without regard to the others, as DINO, iBOT and Mugs do. MinOverlap is then 0.
	Independent bool `json:",omitzero"`
}

// DefaultMultiCrop returns the paper's views ("Optimization strategy"): 2 global ones of 224×224 pixels and 4 local ones of 96×96, with all
// transformations. Where the paper says nothing, the views follow Leopart, whose pipeline the paper adopts: crops of 0.25 to 1 and of 0.05
// to 0.25 of the image's area, with an overlap of at least 0.01. The other transformations are those of [Default]. Its blur has at most
// five taps, which is narrower than Leopart's on views of 224 pixels.
func DefaultMultiCrop() MultiCrop {
	global, local := Default(), Default()
	global.MinScale, global.MaxScale = 0.25, 1
	local.MinScale, local.MaxScale = 0.05, 0.25
	return MultiCrop{Globals: 2, Locals: 4, GlobalCropSize: 224, LocalCropSize: 96, Global: global, Local: local, MinOverlap: 0.01}
}

// Check returns an error that names the first setting out of range.
func (m MultiCrop) Check() error {
	if err := cmp.Or(
		settings.Between("Globals", m.Globals, 1, 16), settings.Between("Locals", m.Locals, 0, 64),
		settings.Between("GlobalSize", m.GlobalCropSize, numTaps, settings.MaxImageSize),
		settings.Between("LocalSize", m.LocalCropSize, min(m.Locals, 1)*numTaps, settings.MaxImageSize),
	); err != nil {
		return fmt.Errorf("views: %w", err)
	}
	switch {
	case !(0 <= m.MinOverlap && m.MinOverlap <= 1):
		return fmt.Errorf("MinOverlap %v is not between 0 and 1", m.MinOverlap)
	case m.Independent && m.MinOverlap > 0:
		return fmt.Errorf("views: Independent views with MinOverlap %v", m.MinOverlap)
	case m.Global.Crop != IndependentCrop || m.Local.Crop != IndependentCrop:
		return errors.New("views of scenes have independent crops")
	}
	if err := m.Global.Check(); err != nil {
		return fmt.Errorf("global views: %w", err)
	}
	if err := m.Local.Check(); err != nil {
		return fmt.Errorf("local views: %w", err)
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
	drawn := make([][]transform, len(images))
	for i, image := range images {
		drawn[i] = m.draw(seed, epoch, image, sizes[i])
	}
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
		r := m.Local
		if view < m.Globals {
			r = m.Global
		}
		others := drawn[:min(view, m.Globals)]
		if m.Independent {
			others = nil
		}
		t := m.overlapping(r, stream(seed, epoch, image, view, "crop"), size, others)
		r.drawAppearance(stream(seed, epoch, image, view, "look"), &t)
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
