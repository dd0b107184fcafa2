package sccore

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// smallStep is a step in float64 with a transformer of a few hundred weights, and inputs for it.
func smallStep(change func(c *Config)) (step, map[string]*tensors.Tensor) {
	const side = 16
	c := Default()
	c.Encoder, c.Prototypes, c.Batch, c.ImageSize = "vit-tiny", 2, 4, side
	c.ImageHead, c.PatchHead = heads.Projector{HiddenDim: 5, OutDim: 4}, heads.Projector{HiddenDim: 5, OutDim: 4}
	c.Views.GlobalCropSize, c.Views.Locals, c.Views.LocalCropSize = 12, 1, 8
	change(&c)
	s := newStep(c, true, true, true)
	s.dtype = dtypes.Float64
	s.vit = encoder.ViT{Name: "small", PatchSize: 4, Dim: 6, Depth: 1, NumHeads: 2, GridSize: 2, Positions: encoder.DINOPositions, Prototypes: c.Prototypes}

	objects, scenes := synthetic.Objects(4, side, 1), synthetic.Scenes(2, side, 2)
	pixels := append(append(append([]uint8{}, objects.Pixels[:2*side*side*3]...), scenes.Pixels...), objects.Pixels[2*side*side*3:]...)
	labels := append(append([]uint8{}, objects.ClassMask[:2*side*side]...), scenes.ClassMask...)
	var extents []datasets.Size
	for range 4 {
		extents = append(extents, datasets.Size{Height: side, Width: side})
	}
	globals, locals := c.Views.Draw(3, 0, []int32{0, 1, 4, 5}, extents)
	theirs := c.Views
	theirs.Globals, theirs.Locals = 1, 0
	positives, _ := theirs.Draw(4, 0, []int32{2, 3}, extents[:2])
	const images, references = 4, 6 // Networks that sort 49 take most of a minute of finite differences.
	return s, map[string]*tensors.Tensor{
		inPixels: tensors.FromFlatDataAndDimensions(pixels, 6, side, side, 3), inGlobals: globals, inLocals: locals, inPositives: positives,
		inPartners: tensors.FromValue([]int32{2, 0, 3, 1}), inLabels: tensors.FromFlatDataAndDimensions(labels, 4, side, side),
		inReferences: tensors.FromFlatDataAndDimensions(drawReferences(3, 0, images, 9)[:images*references], images, references),
		inNoiseKey:   tensors.FromScalar(uint32(5)),
		inScheduled:  tensors.FromValue([]float32{0.1, 0, 0.9, 1, 0.7, 3, 0.5, 2, 0.25}),
	}
}

// TestNoiseOfAPairIsThatOfItsCells: draws depend on the two cells of a pair alone, in either order and in whatever views and images they lie.
func TestNoiseOfAPairIsThatOfItsCells(t *testing.T) {
	values := func(cells [][]uint32) [][][]float32 {
		return MustExecOnce(testbackend.Go(t), func(cells, partners *Node) *Node {
			scores := MulScalar(Ones(cells.Graph(), shapes.Make(dtypes.Float32, 2, 3, 3)), -1)
			return noisyPairs(scores, cells, partners, Scalar(cells.Graph(), dtypes.Float32, 1))
		}, cells, []int32{1, 0}).Value().([][][]float32)
	}
	first := values([][]uint32{{1, 2, 3}, {4, 5, 6}})
	seen := map[float32]bool{}
	for i, row := range first[0] {
		for j, x := range row {
			if seen[x] = true; x != first[1][j][i] {
				t.Errorf("cells %d and %d: %g, and in the other order %g", i+1, j+4, x, first[1][j][i])
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("nine pairs have %d draws", len(seen))
	}
	moved := values([][]uint32{{3, 9, 1}, {6, 8, 4}}) // Other places of the same cells.
	if moved[0][0][0] != first[0][2][2] || moved[0][2][2] != first[0][0][0] || moved[0][0][2] != first[0][2][0] {
		t.Errorf("cells at other places have other draws: %v and %v", moved[0], first[0])
	}
}

// TestGradientOfTheWholeStep compares one entry of the gradient of every variable with finite differences of the total loss.
func TestGradientOfTheWholeStep(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) { checkGradient(t, b, func(*Config) {}) })
}

// TestGradientWithOtherCorrespondences does the same for other correspondences, on the Go engine alone, since XLA compiles for a minute.
func TestGradientWithOtherCorrespondences(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *Config){
		"BCE of the backbone's, from the same view": func(c *Config) {
			c.PatchConcentration, c.Correspondences = WithBCE, Correspondences{From: FromBackbone, SameView: true}
		},
		"CoTAP with noisy labels": func(c *Config) { c.Correspondences.From = FromLabels },
		"Gram anchoring":          func(c *Config) { c.PatchConcentration = WithGram },
		"PaKA":                    func(c *Config) { c.PatchConcentration = WithPaKA },
		"NeCo":                    func(c *Config) { c.PatchConcentration = WithNeCo },
		"FastAP":                  func(c *Config) { c.PatchConcentration = WithFastAP },
		"SmoothAP":                func(c *Config) { c.PatchConcentration = WithSmoothAP },
	} {
		t.Run(name, func(t *testing.T) { checkGradient(t, b, change) })
	}
}

// callOf returns the arguments of a step's graph and a store without variables.
func callOf(t *testing.T, s step, given map[string]*tensors.Tensor) (args []any, store *model.Store) {
	t.Helper()
	for _, in := range s.inputs() {
		args = append(args, given[in.Name])
	}
	store = model.NewStore()
	if err := store.SetRNGStateFromSeed(11); err != nil {
		t.Fatal(err)
	}
	return args, store
}

// checkGradient compares the gradient of a small step in float64 with finite differences.
func checkGradient(t *testing.T, b compute.Backend, change func(c *Config)) {
	s, given := smallStep(change)
	args, store := callOf(t, s, given)
	backward := model.MustNewExec(b, store, func(scope *model.Scope, inputs []*Node) []*Node {
		total, _ := s.forward(scope, train.ByName(s.inputs(), inputs))
		_, gradients := train.Gradients(scope, total, onlineScope)
		return gradients
	})
	defer backward.Finalize()
	forward := model.MustNewExec(b, store, func(scope *model.Scope, inputs []*Node) *Node {
		total, _ := s.forward(scope, train.ByName(s.inputs(), inputs))
		return total
	})
	defer forward.Finalize()
	gradients := backward.MustCall(args...)
	random := rand.New(rand.NewPCG(1, 2))
	variables, zero := train.Learnt(store.RootScope(), onlineScope), 0
	if len(variables) != len(gradients) {
		t.Fatalf("%d gradients of %d variables", len(gradients), len(variables))
	}
	for i, variable := range variables {
		gradient := tensors.MustCopyFlatData[float64](gradients[i])
		values := tensors.MustCopyFlatData[float64](variable.MustValue())
		set := func(values []float64) {
			if err := variable.SetValue(tensors.FromFlatDataAndDimensions(values, variable.Shape().Dimensions...)); err != nil {
				t.Fatal(err)
			}
		}
		at := func(entry int, value float64) float64 {
			moved := append([]float64(nil), values...)
			moved[entry] = value
			set(moved)
			return forward.MustCall(args...)[0].Value().(float64)
		}
		entry := random.IntN(len(values))
		const width = 1e-7 // So small that hardly any pair of patches changes its rank, on which CoTAP's weights depend.
		numeric := (at(entry, values[entry]+width) - at(entry, values[entry]-width)) / (2 * width)
		if !(math.Abs(numeric-gradient[entry]) <= 1e-5*max(1, math.Abs(numeric))) {
			t.Errorf("%s, entry %d: gradient %g, finite differences %g", variable.Path(), entry, gradient[entry], numeric)
		}
		if numeric == 0 {
			zero++
		}
		set(append([]float64(nil), values...))
	}
	if zero > len(variables)/2 {
		t.Errorf("%d entries of %d change nothing", zero, len(variables))
	}
}

// TestLabelsAreThoseOfThePlaces reads a label map whose labels are its column numbers through pairs of views, flipped or not.
func TestLabelsAreThoseOfThePlaces(t *testing.T) {
	const side, size, images = 64, 4, 16
	m := views.DefaultMultiCrop()
	m.Locals, m.GlobalCropSize = 0, 32
	maps := make([]uint8, images*side*side)
	var names []int32
	var extents []datasets.Size
	for i := range maps {
		maps[i] = uint8(i % side)
	}
	for i := range int32(images) {
		names, extents = append(names, i), append(extents, datasets.Size{Height: side, Width: side})
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		params, _ := m.Draw(1, 0, names, extents)
		out := MustNewExec(b, func(params, maps *Node) []*Node {
			part := func(from int) *Node { return Slice(params, AxisRange(from, from+images)) }
			o := overlap{size: size, online: part(0), target: part(images)}
			first, _ := views.Boxes(o.online)
			second, _ := views.Boxes(o.target)
			return []*Node{o.labels(maps), first, second}
		}).MustCall(params, tensors.FromFlatDataAndDimensions(maps, images, side, side))
		labels := out[0].Value().([][]int32)
		first, second := out[1].Value().([][]float32), out[2].Value().([][]float32)
		for i := range labels {
			left := max(first[i][1], second[i][1])
			width := min(first[i][1]+first[i][3], second[i][1]+second[i][3]) - left
			for place, label := range labels[i] {
				want := math.Floor(float64(left + width*(float32(place%size)+0.5)/size))
				if !(math.Abs(float64(label)-want) <= 1) {
					t.Errorf("image %d, place %d: column %d, want %g", i, place, label, want)
				}
			}
		}
	})
}

// TestLabelsOfPatchesAreThoseThatAViewShows has label maps of column and row numbers, and an image with the same numbers as colours.
func TestLabelsOfPatchesAreThoseThatAViewShows(t *testing.T) {
	const side, size, images = 64, 4, 16
	m := views.DefaultMultiCrop()
	m.Locals, m.GlobalCropSize = 0, 32
	m.Global.Blur, m.Global.Grayscale, m.Global.Jitter = false, false, false
	pixels := make([]float32, side*side*3)
	labels := [2][]uint8{make([]uint8, images*side*side), make([]uint8, images*side*side)}
	for i := range side * side {
		row, column := i/side, i%side
		pixels[3*i], pixels[3*i+1] = float32(row)/side, float32(column)/side
		for image := range images {
			labels[0][image*side*side+i], labels[1][image*side*side+i] = uint8(row), uint8(column)
		}
	}
	var names []int32
	var extents []datasets.Size
	for i := range int32(images) {
		names, extents = append(names, i), append(extents, datasets.Size{Height: side, Width: side})
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		params, _ := m.Draw(1, 0, names, extents)
		out := MustNewExec(b, func(image, params, rows, columns *Node) []*Node {
			params = Slice(params, AxisRange(0, images))
			shown := views.Apply(BroadcastToDims(image, images, side, side, 3), params, size*2)
			shown = ReduceMean(Reshape(shown, images, size, 2, size, 2, 3), 2, 4)
			_, flips := views.Boxes(params)
			return []*Node{Reshape(shown, images, size*size, 3), labelsOfPatches(rows, params, size), labelsOfPatches(columns, params, size), flips}
		}).MustCall(tensors.FromFlatDataAndDimensions(pixels, 1, side, side, 3), params,
			tensors.FromFlatDataAndDimensions(labels[0], images, side, side), tensors.FromFlatDataAndDimensions(labels[1], images, side, side))
		shown := out[0].Value().([][][]float32)
		for axis := range 2 {
			for i, places := range out[1+axis].Value().([][]int32) {
				for place, label := range places {
					if want := side * shown[i][place][axis]; !(math.Abs(float64(label)-float64(want)) <= 2) {
						t.Errorf("image %d, patch %d, axis %d: pixel %d, the view shows %.1f", i, place, axis, label, want)
					}
				}
			}
		}
		flipped := 0
		for _, flip := range out[3].Value().([]float32) {
			flipped += int(flip)
		}
		if flipped == 0 || flipped == images {
			t.Errorf("%d of %d views are flipped, which tests only one case", flipped, images)
		}
	})
}

func TestSameLabelsWithNoise(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		labels, partners := [][]int32{{1, 0, 2}, {2, 1, 0}}, []int32{1, 0}
		same := MustNewExec(b, func(labels, partners *Node) *Node { return sameLabel(labels, partners, dtypes.Float32) })
		got := same.MustCall(labels, partners)[0].Value().([][]float32)
		want := [][]float32{{0, 1, 0, 0, 0, 0, 1, 0, 0}, {0, 0, 1, 1, 0, 0, 0, 0, 0}}
		for i := range want {
			for j := range want[i] {
				if got[i][j] != want[i][j] {
					t.Errorf("pair %d of image %d: %g, want %g", j, i, got[i][j], want[i][j])
				}
			}
		}

		const n = 40000
		exec := MustNewExec(b, func(share, key *Node) *Node {
			x := Iota(share.Graph(), shapes.Make(dtypes.Float32, 2, n), 0)
			return noisy(x, share, key)
		})
		draw := func(share float32, key uint32) [][]float32 { return exec.MustCall(share, key)[0].Value().([][]float32) }
		for _, share := range []float32{0, 0.3, 1} {
			replaced, sum := 0, 0.0
			for i, row := range draw(share, 7) {
				for _, x := range row {
					if x != float32(i) {
						replaced++
						sum += float64(x)
					}
					if !(x >= 0 && x <= 1) {
						t.Fatalf("score %g", x)
					}
				}
			}
			if got := float64(replaced) / (2 * n); !(math.Abs(got-float64(share)) <= 0.01) {
				t.Errorf("%g of the scores are replaced, want %g", got, share)
			}
			if share > 0 && math.Abs(sum/float64(replaced)-0.5) > 0.01 {
				t.Errorf("the replaced scores have the mean %g", sum/float64(replaced))
			}
		}
		one, again, other := draw(0.5, 1), draw(0.5, 1), draw(0.5, 2)
		differ := 0
		for i := range one[0] {
			if one[0][i] != again[0][i] {
				t.Fatal("one key gives different draws")
			}
			if (one[0][i] == 0) != (other[0][i] == 0) {
				differ++
			}
		}
		if !(math.Abs(float64(differ)/n-0.5) <= 0.02) {
			t.Errorf("two keys differ in %d of %d", differ, n)
		}
	})
}

func TestPartnersAreOthers(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		seen := map[int32]bool{}
		for image, partner := range partners(1, 5, n) {
			if seen[partner] || n > 1 && int(partner) == image {
				t.Errorf("with %d images, %d has the partner %d", n, image, partner)
			}
			seen[partner] = true
		}
	}
}
