package evaluation

import (
	"context"
	"fmt"
	"math"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
)

// Keypoints transfers annotated points from one image to another by the nearest feature, as SPair-71k measures correspondence (Min et al. 2019).
type Keypoints struct {
	Size  int     `json:"size" range:"[1,8192]"` // Side in pixels that images are squashed to.
	Alpha float64 `json:"alpha" range:"(0,1]"`   // A point is right within alpha times the longer side of the target's box.
}

// Protocol describes the evaluation in one line.
func (k Keypoints) Protocol() string {
	return fmt.Sprintf("keypoints by the nearest patch, images squashed to %d² px, PCK at %g of the longer side of the box", k.Size, k.Alpha)
}

// Open opens the test pairs of SPair-71k.
func (Keypoints) Open(s Source) (Data, error) {
	pairs, err := datasets.SPair(s.Dir, datasets.Test)
	pairs = spread(pairs, s.Images)
	return Data{Name: "SPair-71k", ID: fmt.Sprintf("SPair-71k test: %d pairs", len(pairs)), Pairs: pairs}, err
}

// Measure measures the share of points that are transferred correctly, with a report of [PCK].
func (k Keypoints) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	try.E(e.fits(k.Size))
	known := map[string]FeatureMap{} // Images occur in many pairs.
	features := func(path string) FeatureMap {
		if _, ok := known[path]; !ok {
			if len(known) >= 256 {
				clear(known)
			}
			known[path] = try.E1(k.squashed(e, path))
		}
		return known[path]
	}
	var pck PCK
	for done, p := range d.Pairs {
		try.E(ctx.Err())
		source, target := features(p.Source), features(p.Target)
		if err := k.Add(&pck, k.Transfer(source, target, p.SourcePoints), p.TargetPoints, p.TargetBox); err != nil {
			return r, fmt.Errorf("%s: %w", p.Name, err)
		}
		e.progress(done+1, len(d.Pairs), "pairs", "")
	}
	metric := fmt.Sprintf("PCK@%g", k.Alpha)
	return Result{Report: pck, Numbers: []Number{
		{Name: "per_image", Metric: metric, Unit: "%", Value: pck.PerImage}, {Name: "per_point", Metric: metric, Unit: "%", Value: pck.PerPoint},
	}}, nil
}

// squashed returns the patch features of an image that is resized to a square.
func (k Keypoints) squashed(e *Encoder, path string) (m FeatureMap, err error) {
	defer try.Handle(&err)
	photo := try.E1(datasets.ReadStored(path))
	by := e.Preprocessing
	by.CropMode, by.CropPct, by.Resize = datasets.Squash, 1, 0
	pixels, size, err := by.Apply(photo.Image(), k.Size, e.ViT.PatchSize)
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	im := NewImage(pixels, size, by)
	im.Name = path
	all := try.E1(e.ExtractAll([]Image{im}, Outputs{Patches: true}))
	f := all[0][0]
	return FeatureMap{Features: f.Patches, Rows: f.Rows, Columns: f.Columns, Dim: e.ViT.Dim, Height: float64(photo.Height), Width: float64(photo.Width)}, nil
}

// PCK is the share of keypoints that are transferred correctly, in percent.
type PCK struct {
	PerImage float64 `json:"per_image"` // Mean over pairs of the share of the pair's points.
	PerPoint float64 `json:"per_point"` // Share of all points.
	Pairs    int     `json:"pairs"`
	Points   int     `json:"points"`

	right int
	sum   float64
}

// String has a line for people about each share.
func (p PCK) String() string {
	return fmt.Sprintf("PCK per image: %6.2f %%\nPCK per point: %6.2f %%", p.PerImage, p.PerPoint)
}

// Point is a place in an image, in pixels from the left and from the top.
type Point = [2]float64

// FeatureMap is the features of an image, [Rows, Columns, Dim], squashed into a grid of patches, and the size of the image in pixels.
type FeatureMap struct {
	Features           []float32
	Rows, Columns, Dim int
	Height, Width      float64
}

// at is the feature at a point, interpolated bilinearly between the middles of patches.
func (m FeatureMap) at(p Point) []float64 {
	y := min(max(p[1]*float64(m.Rows)/m.Height-0.5, 0), float64(m.Rows-1))
	x := min(max(p[0]*float64(m.Columns)/m.Width-0.5, 0), float64(m.Columns-1))
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
	return Point{(float64(place%m.Columns) + 0.5) * m.Width / float64(m.Columns), (float64(place/m.Columns) + 0.5) * m.Height / float64(m.Rows)}
}

// Transfer returns where points of the source are in the target.
func (Keypoints) Transfer(source, target FeatureMap, points []Point) (found []Point) {
	return lo.Map(points, func(p Point, _ int) Point { return target.nearest(source.at(p)) })
}

// Add counts the points of a pair: where they were found and where they are in the target, whose object has a box.
func (k Keypoints) Add(to *PCK, found, truth []Point, box Box) error {
	if len(found) != len(truth) || len(truth) == 0 {
		return fmt.Errorf("%d points found of %d", len(found), len(truth))
	}
	reach := k.Alpha * max(box[2]-box[0], box[3]-box[1])
	right := lo.CountBy(lo.Range(len(found)), func(i int) bool { return math.Hypot(found[i][0]-truth[i][0], found[i][1]-truth[i][1]) <= reach })
	to.right, to.Points, to.Pairs = to.right+right, to.Points+len(truth), to.Pairs+1
	to.sum += float64(right) / float64(len(truth))
	to.PerImage, to.PerPoint = 100*to.sum/float64(to.Pairs), 100*float64(to.right)/float64(to.Points)
	return nil
}
