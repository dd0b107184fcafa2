package evaluation

import (
	"fmt"
	"image"
	"math"
	"math/rand/v2"

	"github.com/semcon/semcon/sccore/datasets"
	"golang.org/x/image/draw"
)

// Crop draws training crops of annotated images: a part of random size and shape, resized to Side×Side and mirrored half of the time. The paper
// says no more than "randomly cropped"; a part is drawn as torchvision's RandomResizedCrop does, of which a share of the image's area from MinArea
// to 1 and sides in a ratio from 3:4 to 4:3 are known.
type Crop struct {
	Side    int     // In pixels.
	MinArea float64 // In (0, 1].
}

// Check returns an error that names the setting out of range.
func (c Crop) Check() error {
	if c.Side < 1 {
		return fmt.Errorf("crops of %d pixels, want at least 1", c.Side)
	}
	if !(c.MinArea > 0 && c.MinArea <= 1) {
		return fmt.Errorf("crops of at least %g of an image's area, want above 0 and at most 1", c.MinArea)
	}
	return nil
}

// Cut draws a crop of an image: its pixels, [Side, Side, 3], and its labels at the middles of a grid, [grid, grid].
func (c Crop) Cut(a *datasets.SegmentedImage, grid int, rng *rand.Rand) (pixels, labels []uint8) {
	box, mirrored := c.box(a.Height, a.Width, rng), rng.IntN(2) == 1
	pixels = part(a, box, c.Side, c.Side)
	labels = make([]uint8, 0, grid*grid)
	for row := range grid {
		for column := range grid {
			y := box.Min.Y + (2*row+1)*box.Dy()/(2*grid)
			x := box.Min.X + (2*column+1)*box.Dx()/(2*grid)
			labels = append(labels, a.Mask[y*a.Width+x])
		}
	}
	if mirrored {
		mirror(pixels, c.Side, 3)
		mirror(labels, grid, 1)
	}
	return pixels, labels
}

// box draws a part of an image; where ten draws do not fit into it, the largest one of a ratio in range, about the centre.
func (c Crop) box(height, width int, rng *rand.Rand) image.Rectangle {
	const most = 4.0 / 3
	for range 10 {
		area := float64(height*width) * (c.MinArea + (1-c.MinArea)*rng.Float64())
		ratio := math.Exp(math.Log(most) * (2*rng.Float64() - 1))
		w, h := int(math.Round(math.Sqrt(area*ratio))), int(math.Round(math.Sqrt(area/ratio)))
		if 0 < w && w <= width && 0 < h && h <= height {
			corner := image.Pt(rng.IntN(width-w+1), rng.IntN(height-h+1))
			return image.Rectangle{corner, corner.Add(image.Pt(w, h))}
		}
	}
	w := max(1, min(width, int(math.Round(float64(height)*most))))
	h := max(1, min(height, int(math.Round(float64(width)*most))))
	corner := image.Pt((width-w)/2, (height-h)/2)
	return image.Rectangle{corner, corner.Add(image.Pt(w, h))}
}

// part resizes a part of an image to [height, width, 3], bilinearly, with a kernel widened where it shrinks.
func part(a *datasets.SegmentedImage, box image.Rectangle, height, width int) []uint8 {
	picture := a.Image()
	small := image.NewRGBA(image.Rect(0, 0, width, height))
	if box.Size() == small.Rect.Size() {
		draw.Draw(small, small.Rect, picture, box.Min, draw.Src)
	} else {
		draw.BiLinear.Scale(small, small.Rect, picture, box, draw.Src, nil)
	}
	pixels := make([]uint8, 0, height*width*3)
	for at := 0; at < len(small.Pix); at += 4 {
		pixels = append(pixels, small.Pix[at:at+3]...)
	}
	return pixels
}

// mirror turns each row of a square of the given side around.
func mirror(values []uint8, side, channels int) {
	for row := range side {
		line := values[row*side*channels : (row+1)*side*channels]
		for i, j := 0, side-1; i < j; i, j = i+1, j-1 {
			for k := range channels {
				line[i*channels+k], line[j*channels+k] = line[j*channels+k], line[i*channels+k]
			}
		}
	}
}
