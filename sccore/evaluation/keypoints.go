package evaluation

import (
	"fmt"
	"math"
)

// Keypoints transfers annotated points from one image to another by the nearest feature, as SPair-71k measures correspondence (Min et al. 2019).
type Keypoints struct {
	Alpha float64 // A point is right within Alpha times the longer side of the target's box: 0.1.
}

// PCK is the share of keypoints that are transferred right, in percent.
type PCK struct {
	PerImage float64 `json:"per_image"` // Mean over pairs of the share of the pair's points.
	PerPoint float64 `json:"per_point"` // Share of all points.
	Pairs    int     `json:"pairs"`
	Points   int     `json:"points"`

	right int
	sum   float64
}

// Point is a place in an image, from its top left corner, in pixels.
type Point struct{ X, Y float64 }

// FeatureMap is the features of an image, [Rows, Columns, Dim], squashed into a grid of patches, and the size of the image in pixels.
type FeatureMap struct {
	Features           []float32
	Rows, Columns, Dim int
	Height, Width      float64
}

// at is the feature at a point, interpolated bilinearly between the middles of patches.
func (m FeatureMap) at(p Point) []float64 {
	y := min(max(p.Y*float64(m.Rows)/m.Height-0.5, 0), float64(m.Rows-1))
	x := min(max(p.X*float64(m.Columns)/m.Width-0.5, 0), float64(m.Columns-1))
	top, left := int(y), int(x)
	down, right := y-float64(top), x-float64(left)
	feature := make([]float64, m.Dim)
	for _, corner := range []struct {
		row, column int
		weight      float64
	}{
		{top, left, (1 - down) * (1 - right)}, {top, min(left+1, m.Columns-1), (1 - down) * right},
		{min(top+1, m.Rows-1), left, down * (1 - right)}, {min(top+1, m.Rows-1), min(left+1, m.Columns-1), down * right},
	} {
		for d, v := range m.Features[(corner.row*m.Columns+corner.column)*m.Dim:][:m.Dim] {
			feature[d] += corner.weight * float64(v)
		}
	}
	return feature
}

// nearest is the middle of the patch whose feature has the largest cosine with a feature, the first of equal ones.
func (m FeatureMap) nearest(feature []float64) Point {
	best, place := math.Inf(-1), 0
	for p := range m.Rows * m.Columns {
		dot, norm := 0.0, 0.0
		for d, v := range m.Features[p*m.Dim : (p+1)*m.Dim] {
			dot, norm = dot+float64(v)*feature[d], norm+float64(v)*float64(v)
		}
		if cosine := dot / math.Sqrt(max(norm, 1e-30)); cosine > best {
			best, place = cosine, p
		}
	}
	return Point{
		X: (float64(place%m.Columns) + 0.5) * m.Width / float64(m.Columns),
		Y: (float64(place/m.Columns) + 0.5) * m.Height / float64(m.Rows),
	}
}

// Transfer returns where points of the source are in the target.
func (Keypoints) Transfer(source, target FeatureMap, points []Point) (found []Point) {
	for _, p := range points {
		found = append(found, target.nearest(source.at(p)))
	}
	return found
}

// Add counts the points of a pair: where they were found and where they are in the target, whose object has a box.
func (k Keypoints) Add(to *PCK, found, truth []Point, box Box) error {
	if len(found) != len(truth) || len(truth) == 0 {
		return fmt.Errorf("%d points found of %d", len(found), len(truth))
	}
	right := 0
	for i := range found {
		if math.Hypot(found[i].X-truth[i].X, found[i].Y-truth[i].Y) <= k.Alpha*max(box[2]-box[0], box[3]-box[1]) {
			right++
		}
	}
	to.right, to.Points, to.Pairs = to.right+right, to.Points+len(truth), to.Pairs+1
	to.sum += float64(right) / float64(len(truth))
	to.PerImage, to.PerPoint = 100*to.sum/float64(to.Pairs), 100*float64(to.right)/float64(to.Points)
	return nil
}
