package sccore

import (
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// patches are features of images, by image and place.
type patches [][][]float64

// pairFeatures are the features that a loss compares of a pair of views.
type pairFeatures struct{ online, target patches }

// compared runs a small step in float64 whose loss of patches compares features. It returns the loss, what the loss should have compared, for each pair of
// views, and the names of the weights that it moves.
func compared(t *testing.T, loss string, references *tensors.Tensor) (value float64, pairs []pairFeatures, moved []string) {
	t.Helper()
	s, given := smallStep(func(c *Config) { c.PatchConcentration = loss })
	given[inReferences] = references
	args, store := callOf(t, s, given)
	exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, inputs []*Node) []*Node {
		in := train.ByName(s.inputs(), inputs)
		made := s.pass(scope, in)
		_, gradients := train.Gradients(scope, made.losses[patchConcentration], onlineScope)
		out := append(gradients, made.losses[patchConcentration])
		head := func(branch string, x *Node) *Node {
			of := lo.Ternary(loss == WithNeCo, s.PatchHead.Project, s.PatchHead.Outputs)
			return of(scope.At("%s", branch).At(ownHeadScope), x)
		}
		switch loss {
		case WithGram: // The same crop, and no head.
			for view := range 2 {
				for _, tokens := range []*Node{made.online[0].tokens, made.source.tokens} {
					out = append(out, Reshape(ofViews(tokens, view), 4, 9, 6))
				}
			}
		default: // Each view with each other global view.
			source := made.target[0]
			if loss == WithPaKA { // The target branch sees the same crops without distortions of colour.
				pixels := SliceAxis(in[inPixels], 0, AxisRange(0, s.images()))
				undistorted := s.show(pixels, views.Undistorted(in[inGlobals]), s.Views.GlobalCropSize, s.objects)
				source = s.branch(scope.At(targetScope), undistorted)[0]
			}
			for _, pair := range [][3]int{{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 0, 1}} {
				group := made.online[pair[0]]
				o := overlapOf(group, source, []int{pair[1]}, []int{pair[2]})
				online, target := ofViews(group.tokens, pair[1]), ofViews(source.tokens, pair[2])
				if loss == WithPaKA {
					out = append(out, head(onlineScope, o.ofOnline(online)), head(targetScope, o.ofTarget(target)))
					continue
				}
				o.size = 3
				out = append(out, o.ofOnline(head(onlineScope, online)), o.ofTarget(head(targetScope, target)))
			}
		}
		return out
	})
	defer exec.Finalize()
	out := exec.MustCall(args...)
	variables := train.Learnt(store.RootScope(), onlineScope)
	for i, variable := range variables {
		if slices.ContainsFunc(tensors.MustCopyFlatData[float64](out[i]), func(x float64) bool { return x != 0 }) {
			moved = append(moved, variable.Path())
		}
	}
	out = out[len(variables):]
	for i := 1; i < len(out); i += 2 {
		pairs = append(pairs, pairFeatures{out[i].Value().([][][]float64), out[i+1].Value().([][][]float64)})
	}
	return out[0].Value().(float64), pairs, moved
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func unit(x []float64) []float64 {
	length := math.Sqrt(dot(x, x))
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] / length
	}
	return out
}

// moves reports whether weights below a scope of the online branch are among those that move.
func moves(moved []string, scope string) bool {
	return slices.ContainsFunc(moved, func(path string) bool { return strings.HasPrefix(path, "/"+onlineScope+"/"+scope+"/") })
}

// TestGramComparesTokensOfOneCrop: DINOv3, eq. 2, in plain Go.
func TestGramComparesTokensOfOneCrop(t *testing.T) {
	value, pairs, moved := compared(t, WithGram, nil)
	want := 0.0
	for _, view := range pairs {
		for image := range view.online {
			for i := range 9 {
				for j := range 9 {
					difference := dot(unit(view.online[image][i]), unit(view.online[image][j])) - dot(unit(view.target[image][i]), unit(view.target[image][j]))
					want += difference * difference / (2 * 4 * 81)
				}
			}
		}
	}
	if !(math.Abs(value-want) <= 1e-12) || !(value > 0) {
		t.Errorf("%.15g, reference %.15g", value, want)
	}
	if !moves(moved, encoderScope) || moves(moved, patchHeadScope) || moves(moved, ownHeadScope) {
		t.Errorf("moves %v", moved)
	}
}

// TestPaKAComparesOverlapsByItsOwnHead: 1 − CKA in plain Go, over all pairs of views.
func TestPaKAComparesOverlapsByItsOwnHead(t *testing.T) {
	value, pairs, moved := compared(t, WithPaKA, nil)
	kernel := func(x [][]float64) [][]float64 {
		mean := make([]float64, len(x[0]))
		for _, row := range x {
			for d := range row {
				mean[d] += row[d] / float64(len(x))
			}
		}
		k := make([][]float64, len(x))
		for i := range x {
			for j := range x {
				k[i] = append(k[i], dot(x[i], x[j])-dot(x[i], mean)-dot(mean, x[j])+dot(mean, mean))
			}
		}
		return k
	}
	inner := func(a, b [][]float64) (sum float64) {
		for i := range a {
			sum += dot(a[i], b[i])
		}
		return sum
	}
	want := 0.0
	for _, pair := range pairs {
		for image := range pair.online {
			a, b := kernel(pair.online[image]), kernel(pair.target[image])
			want += (1 - inner(a, b)/math.Sqrt(max(inner(a, a), 1e-6)*max(inner(b, b), 1e-6))) / float64(len(pairs)*4)
		}
	}
	if len(pairs) != 4 || !(math.Abs(value-want) <= 1e-9) || !(value > 0) {
		t.Errorf("%.15g, reference %.15g of %d pairs", value, want, len(pairs))
	}
	if !moves(moved, encoderScope) || moves(moved, patchHeadScope) || !moves(moved, ownHeadScope) {
		t.Errorf("moves %v", moved)
	}
}

// TestNeCoSortsPatchesOfOtherImages compares with the loss of features that plain Go gathers, and with references of one image alone, as before.
func TestNeCoSortsPatchesOfOtherImages(t *testing.T) {
	const images, places = 4, 9
	drawn := drawReferences(3, 0, images, places)
	value, pairs, moved := compared(t, WithNeCo, tensors.FromFlatDataAndDimensions(drawn, images, necoReferences))
	sorted := func(references []int32) (mean float64) {
		for _, pair := range pairs {
			gathered := make(patches, images)
			for i, at := range references {
				image := i / necoReferences
				gathered[image] = append(gathered[image], pair.target[at/places][at%places])
			}
			loss := MustExecOnce(testbackend.Go(t), losses.DefaultNeCo().Loss, [][][]float64(pair.online), [][][]float64(pair.target), [][][]float64(gathered))
			mean += loss.Value().(float64) / float64(len(pairs))
		}
		return mean
	}
	if want := sorted(drawn); len(pairs) != 4 || !(math.Abs(value-want) <= 1e-12) {
		t.Errorf("%.15g, reference %.15g of %d pairs", value, want, len(pairs))
	}
	partners := make([]int32, len(drawn))
	for i := range partners {
		partners[i] = int32((i/necoReferences+1)%images*places + i%places)
	}
	if former := sorted(partners); math.Abs(value-former) < 1e-6 {
		t.Errorf("%g with references of the partner, too", former)
	}
	if !moves(moved, encoderScope) || moves(moved, patchHeadScope) || !moves(moved, ownHeadScope) {
		t.Errorf("moves %v", moved)
	}
}

func TestReferencesAreOfOtherImages(t *testing.T) {
	for _, n := range []int{2, 3, 16} {
		const places = 49
		drawn := drawReferences(1, 5, n, places)
		if len(drawn) != n*necoReferences {
			t.Fatalf("%d references of %d images", len(drawn), n)
		}
		for image := range n {
			seen, from := map[int32]bool{}, map[int32]bool{}
			for _, at := range drawn[image*necoReferences:][:necoReferences] {
				if at < 0 || at >= int32(n*places) || at/places == int32(image) || seen[at] {
					t.Errorf("of %d images, image %d has the reference %d", n, image, at)
				}
				seen[at], from[at/places] = true, true
			}
			if n == 16 && len(from) < 8 {
				t.Errorf("image %d has references of %d other images", image, len(from))
			}
		}
		same := func(seed uint64, step int) bool { return slices.Equal(drawn, drawReferences(seed, step, n, places)) }
		if !same(1, 5) || same(1, 6) || same(2, 5) {
			t.Errorf("references of %d images do not follow seed and step alone", n)
		}
	}
}
