package sccore

import (
	"math"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/views"
)

// TestOverlapsOfViewsPoolToTheSame takes an image whose colours are its coordinates through crops and flips, the overlap of a global and a local
// view, and RoI-Align of both. Both must pool the same places in the same order.
func TestOverlapsOfViewsPoolToTheSame(t *testing.T) {
	const side, size, images = 64, 4, 24
	m := views.DefaultMultiCrop()
	m.Globals, m.Locals, m.GlobalCropSize, m.LocalCropSize, m.MinOverlap = 1, 1, 40, 24, 0.3
	for _, r := range []*views.Recipe{&m.Global, &m.Local} {
		r.Blur, r.Grayscale, r.Jitter = false, false, false
	}
	pixels := make([]float32, side*side*3)
	for i := range side * side {
		pixels[3*i], pixels[3*i+1] = (float32(i%side)+0.5)/side, (float32(i/side)+0.5)/side
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		run := MustNewExec(b, func(image, global, local *Node) []*Node {
			all := BroadcastToDims(image, images, side, side, 3)
			inGlobal, inLocal := views.Overlap(global, local)
			pool := func(params, box *Node, viewSize int) *Node {
				_, flips := views.Boxes(params)
				return layers.RoIAlign{OutputSize: size}.Pool(views.Apply(all, params, viewSize), box, flips)
			}
			_, flips := views.Boxes(global)
			return []*Node{pool(global, inGlobal, m.GlobalCropSize), pool(local, inLocal, m.LocalCropSize), flips}
		})
		var names []int32
		var extents []datasets.Size
		for i := range int32(images) {
			names, extents = append(names, i), append(extents, datasets.Size{Height: side, Width: side})
		}
		global, local := m.Draw(2, 0, names, extents)
		out := run.MustCall(tensors.FromFlatDataAndDimensions(pixels, 1, side, side, 3), global, local)
		fromGlobal, fromLocal := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
		worst := 0.0
		for i := range fromGlobal {
			worst = max(worst, math.Abs(float64(fromGlobal[i]-fromLocal[i])))
		}
		if worst > 0.03 { // Two pixels of the image: resizing flattens the border of a view.
			t.Errorf("pooled coordinates differ by up to %.3f of the image", worst)
		}
		row := fromGlobal[:size*3]
		if row[0] >= row[3*(size-1)] {
			t.Errorf("columns are reversed: %v", row)
		}
		flipped := 0
		for _, flip := range tensors.MustCopyFlatData[float32](out[2]) {
			flipped += int(flip)
		}
		if flipped == 0 || flipped == images {
			t.Errorf("%d of %d global views are flipped, which tests only one case", flipped, images)
		}
	})
}
