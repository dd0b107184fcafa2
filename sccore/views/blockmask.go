package views

import (
	"errors"
	"math"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/settings"
)

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

// Rules returns an error if there are no shares.
func (m BlockMask) Rules() error {
	if len(m.Shares) == 0 {
		return errors.New("shares: there are none")
	}
	return nil
}

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
