package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/mat"
)

// Box is a rectangle in pixels: the left, top, right and bottom edge.
type Box [4]float64

// IoU is the area of the intersection of two boxes over the area of their union, 0 for boxes without area.
func (b Box) IoU(other Box) float64 {
	area := func(b Box) float64 { return max(b[2]-b[0], 0) * max(b[3]-b[1], 0) }
	both := area(Box{max(b[0], other[0]), max(b[1], other[1]), min(b[2], other[2]), min(b[3], other[3])})
	if either := area(b) + area(other) - both; either > 0 {
		return both / either
	}
	return 0
}

// ObjectDiscovery finds the main object of an image in the features of its patches, [rows, columns, dim], without labels. The result says which patches are
// of the object.
type ObjectDiscovery func(features []float32, rows, columns, dim int) (object []bool, err error)

// LOST is the evaluation of objects that are discovered as Siméoni et al. 2021 do, by CorLoc.
type LOST struct {
	boxed
	Expansion int `json:"expansion" range:"[1,2^31)"` // Number of patches of the seed's expansion; the paper's is 100.
}

// Measure measures CorLoc.
func (l LOST) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return discover(ctx, e, d, l.find)
}

// TokenCut is the evaluation of objects that are discovered as Wang et al. 2022 do, by CorLoc.
type TokenCut struct {
	boxed
	Threshold float64 `json:"threshold"` // The cosine above which patches are joined; the paper's is 0.2.
}

// Measure measures CorLoc.
func (t TokenCut) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return discover(ctx, e, d, t.find)
}

// boxed are evaluations on the images of PASCAL VOC with the boxes of their objects.
type boxed struct{}

// Protocol describes the evaluation in one line.
func (boxed) Protocol() string {
	return "keys of the last block, images at their own size, padded to whole patches; an IoU of 0.5 or more with any object"
}

// Open opens the images of PASCAL VOC with their boxes.
func (boxed) Open(s Source) (Data, error) {
	name, images, err := datasets.VOCObjects(s.Dir)
	images = spread(images, s.Images)
	return Data{Name: "PASCAL " + name, ID: fmt.Sprintf("PASCAL %s trainval: %d images, all objects", name, len(images)), Boxed: images}, err
}

// corLoc is the share of images in which a discovered object is one of the true ones.
type corLoc struct {
	CorLoc float64 `json:"corloc"`
	Images int     `json:"images"`
}

// String is a line for people.
func (c corLoc) String() string { return fmt.Sprintf("CorLoc %6.2f %%", c.CorLoc) }

// discover measures how often the box of a discovered object is one of the true ones.
func discover(ctx context.Context, e *Encoder, d Data, find ObjectDiscovery) (r Result, err error) {
	defer try.Handle(&err)
	found := 0
	for done, image := range d.Boxed {
		try.E(ctx.Err())
		if Localized(try.E1(objectIn(e, image.Path, find)), image.Boxes) {
			found++
		}
		e.progress(done+1, len(d.Boxed), "images", "")
	}
	report := corLoc{100 * float64(found) / float64(len(d.Boxed)), len(d.Boxed)}
	return Result{Report: report, Numbers: []Number{{Name: "corloc", Metric: "CorLoc", Unit: "%", Value: report.CorLoc}}}, nil
}

// objectIn returns the box of the object that is discovered in an image.
func objectIn(e *Encoder, path string, find ObjectDiscovery) (box Box, err error) {
	defer try.Handle(&err)
	photo, patch := try.E1(datasets.ReadStored(path)), e.ViT.PatchSize
	size := datasets.Size{Height: (photo.Height + patch - 1) / patch * patch, Width: (photo.Width + patch - 1) / patch * patch}
	places := size.Height / patch * size.Width / patch
	try.E(settings.Fit(settings.MaxBytes, fmt.Sprintf("%s: the similarities of %d patches", path, places), places, places, 8))
	im := Image{Name: path, Height: size.Height, Width: size.Width, Pixels: make([]float32, size.Height*size.Width*3)} // Padded with 0, as in the official code.
	for y, normal := 0, e.Preprocessing.Normalize(photo.Pixels); y < photo.Height; y++ {
		copy(im.Pixels[y*size.Width*3:], normal[y*photo.Width*3:(y+1)*photo.Width*3])
	}
	all := try.E1(e.ExtractAll([]Image{im}, Outputs{Patches: true, Keys: true}))
	f := all[0][0]
	object, err := find(f.Patches, f.Rows, f.Columns, e.ViT.Dim)
	if err != nil {
		return box, fmt.Errorf("%s: %w", path, err)
	}
	return BoxOf(object, f.Columns, patch, photo.Height, photo.Width), nil
}

// find finds an object as Siméoni et al. 2021 do. It starts from the patch that is like the fewest others, and adds, of as many least connected patches as
// the expansion says, the ones that are like the first. The object is all patches that are like the sum of these, as far as they touch the first. Features are
// keys of the last block, compared by inner products.
func (l LOST) find(features []float32, rows, columns, dim int) ([]bool, error) {
	n := rows * columns
	like := products(features, n, dim)
	degree, order := make([]int, n), lo.Range(n)
	for i := range n {
		for j := range n {
			if i != j && like.At(i, j) > 0 {
				degree[i]++
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(degree[a], degree[b]) })
	seed := order[0]
	sum := make([]float64, n)
	for _, i := range order[:min(l.Expansion, n)] {
		if like.At(seed, i) > 0 {
			for j := range n {
				sum[j] += like.At(i, j)
			}
		}
	}
	return connected(func(p int) bool { return sum[p] > 0 }, seed, rows, columns), nil
}

// find finds an object as Wang et al. 2022 do: by the normalised cut of the graph of patches whose cosine exceeds the threshold. Features are keys of the
// last block, and edges below the threshold have weight 10⁻⁵. It takes time cubic in the number of patches.
func (t TokenCut) find(features []float32, rows, columns, dim int) ([]bool, error) {
	const weak = 1e-5
	n := rows * columns
	if n == 1 {
		return []bool{true}, nil
	}
	unit := slices.Clone(features)
	unitLength(unit, dim)
	like := products(unit, n, dim)
	like.Apply(func(_, _ int, cosine float64) float64 { return lo.Ternary(cosine > t.Threshold, 1, weak) }, like)
	degree := lo.Times(n, func(i int) float64 { return lo.Sum(like.RawRowView(i)) })
	// (D − W) y = λ D y has the eigenvectors D^(−1/2) z of D^(−1/2) W D^(−1/2), in reverse order.
	normal := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			normal.SetSym(i, j, like.At(i, j)/math.Sqrt(degree[i]*degree[j]))
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(normal, true) {
		return nil, errors.New("the eigenvectors of the graph of patches cannot be found")
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	second, mean, seed := make([]float64, n), 0.0, 0
	for i := range n {
		second[i] = vectors.At(i, n-2) / math.Sqrt(degree[i])
		mean += second[i] / float64(n)
		if math.Abs(second[i]) > math.Abs(second[seed]) {
			seed = i
		}
	}
	return connected(func(p int) bool { return second[p] > mean == (second[seed] > mean) }, seed, rows, columns), nil
}

// products returns the inner products of n features, [n, n], in float64.
func products(features []float32, n, dim int) *mat.Dense {
	all := mat.NewDense(n, dim, float64s(features[:n*dim]))
	var like mat.Dense
	like.Mul(all, all.T())
	return &like
}

// connected returns the patches of the foreground that touch the seed through others, side by side or one above the other. A seed outside the foreground
// gives none.
func connected(foreground func(p int) bool, seed, rows, columns int) []bool {
	of := make([]bool, rows*columns)
	var visit func(y, x int)
	visit = func(y, x int) {
		if p := y*columns + x; y >= 0 && y < rows && x >= 0 && x < columns && foreground(p) && !of[p] {
			of[p] = true
			for _, next := range [][2]int{{y - 1, x}, {y + 1, x}, {y, x - 1}, {y, x + 1}} {
				visit(next[0], next[1])
			}
		}
	}
	visit(seed/columns, seed%columns)
	return of
}

// BoxOf returns the box around the patches of an object, clipped to an image of height×width pixels that starts at the first patch.
func BoxOf(object []bool, columns, patch, height, width int) Box {
	if !slices.Contains(object, true) {
		return Box{}
	}
	box := Box{math.Inf(1), math.Inf(1), 0, 0}
	for p, of := range object {
		if of {
			x, y := float64(p%columns*patch), float64(p/columns*patch)
			box = Box{min(box[0], x), min(box[1], y), max(box[2], x+float64(patch)), max(box[3], y+float64(patch))}
		}
	}
	box[2], box[3] = min(box[2], float64(width)), min(box[3], float64(height))
	return box
}

// Localized reports whether a box has an IoU of a half or more with one of the true ones: an image of CorLoc.
func Localized(box Box, truth [][4]float64) bool {
	return slices.ContainsFunc(truth, func(t [4]float64) bool { return box.IoU(t) >= 0.5 })
}
