package sccore

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/views"
)

// overlap is what pairs of an online and a target view of each image both see. RoI-Align pools it to a grid as fine as the online view's own,
// H×W places that lie as in the image: flips are undone.
type overlap struct {
	size                     int   // H = W.
	online, target           *Node // Parameters of the views, [pairs·images, NumParams].
	onlineBox, targetBox     *Node // The overlap within each, [pairs·images, 4].
	onlineFlips, targetFlips *Node
}

// overlapOf takes pairs of an online and a target view by their numbers.
func overlapOf(online, target outputs, pairs [][2]int) overlap {
	o := overlap{size: online.tokens.Shape().Dim(2)}
	o.online, o.target = ofViews(online.params, firsts(pairs)...), ofViews(target.params, seconds(pairs)...)
	o.onlineBox, o.targetBox = views.Overlap(o.online, o.target)
	_, o.onlineFlips = views.Boxes(o.online)
	_, o.targetFlips = views.Boxes(o.target)
	return o
}

// ofOnline and ofTarget pool maps of the pairs' views, [pairs·images, rows, columns, D], to [pairs·images, H·W, D].
func (o overlap) ofOnline(maps *Node) *Node { return o.pool(maps, o.onlineBox, o.onlineFlips) }
func (o overlap) ofTarget(maps *Node) *Node { return o.pool(maps, o.targetBox, o.targetFlips) }

func (o overlap) pool(maps, box, flips *Node) *Node {
	pooled := layers.RoIAlign{OutputSize: o.size}.Pool(maps, box, flips)
	return Reshape(pooled, pooled.Shape().Dim(0), o.size*o.size, pooled.Shape().Dim(-1))
}

// patchAlignment is L_align ("Cross-view alignment"), the mean over all pairs of an online and another, global view of the target branch, of
// which it aligns what both see. Sinkhorn–Knopp runs over all patches of all pairs of a size. It also returns the targets' mean entropy.
func (s step) patchAlignment(online []outputs, target outputs) (loss, targetEntropy *Node) {
	count := 0
	for i, group := range online {
		var pairs [][2]int
		for view := range group.patches.Shape().Dim(0) {
			for other := range target.patches.Shape().Dim(0) {
				if i > 0 || view != other { // The online branch's first group are the target's own views.
					pairs = append(pairs, [2]int{view, other})
				}
			}
		}
		o := overlapOf(group, target, pairs)
		rows := func(x *Node) *Node { return Reshape(x, -1, s.PatchHead.OutDim) }
		targets := s.Sinkhorn.Targets(rows(o.ofTarget(ofViews(target.patches, seconds(pairs)...))))
		mean := losses.Alignment(rows(o.ofOnline(ofViews(group.patches, firsts(pairs)...))), targets, s.Temperature)
		mean = MulScalar(mean, float64(len(pairs)))
		if count += len(pairs); loss == nil {
			loss, targetEntropy = mean, entropy(targets)
		} else {
			loss = Add(loss, mean)
		}
	}
	return DivScalar(loss, float64(count)), targetEntropy
}

// patchConcentration is L_sc(x, x') ("Patch correspondence distillation"): for each image x and its partner x', another one of the batch,
//
//	p̂ = S_o(v1(x), v1(x')),   q̂ = S_t(v2(x), v2(x'))
//
// over all (HW)² pairs of a place of x and a place of x'. Places are those that v1 and v2 of an image both see, so that p̂_k and q̂_k speak
// of the same two. partners, [images], are numbers of images; labels, [images, canvas, canvas], are for correspondences from labels.
func (s step) patchConcentration(online, target outputs, partners, labels, noise, noiseKey *Node) *Node {
	o := overlapOf(online, target, [][2]int{{0, 1}})
	p, q := s.correspondences(o, online, target, partners)
	if s.fromLabels() {
		q = noisy(sameLabel(o.labels(labels), partners, p.DType()), noise, noiseKey)
	}
	if s.PatchConcentration == WithBCE {
		return losses.BCE(p, q)
	}
	return s.CoTAP.Loss(p, StopGradient(q))
}

// correspondences are S_o and S_t for images and their partners, [images, (HW)²].
func (s step) correspondences(o overlap, online, target outputs, partners *Node) (p, q *Node) {
	maps := func(of outputs, number int) *Node {
		if s.Correspondences.From == FromBackbone {
			return ofViews(of.tokens, number)
		}
		return ofViews(of.patches, number)
	}
	correspondence := func(patches *Node) *Node {
		return losses.Correspondence(patches, Gather(patches, InsertAxes(partners, -1)))
	}
	p = correspondence(o.ofOnline(maps(online, 0)))
	if s.Correspondences.SameView {
		return p, correspondence(o.ofOnline(maps(target, 0)))
	}
	return p, correspondence(o.ofTarget(maps(target, 1)))
}

func firsts(pairs [][2]int) (numbers []int) {
	for _, pair := range pairs {
		numbers = append(numbers, pair[0])
	}
	return numbers
}

func seconds(pairs [][2]int) (numbers []int) {
	for _, pair := range pairs {
		numbers = append(numbers, pair[1])
	}
	return numbers
}

// labels reads label maps, [images, canvas, canvas], at the middle of each place of the overlap: [images, H·W] of int32.
func (o overlap) labels(maps *Node) *Node {
	first, _ := views.Boxes(o.online)
	second, _ := views.Boxes(o.target)
	start := Max(topLeft(first), topLeft(second))
	end := Min(Add(topLeft(first), extent(first)), Add(topLeft(second), extent(second)))
	return labelsAt(maps, start, Sub(end, start), o.size)
}

// labelsOfPatches reads label maps, [images, canvas, canvas], at the middle of each patch of views that params, [images, NumParams], describe,
// size patches along each axis: [images, size²] of int32.
func labelsOfPatches(maps, params *Node, size int) *Node {
	box, flips := views.Boxes(params)
	start, length := topLeft(box), extent(box)
	// A mirrored view's columns run from its right end.
	width := Mul(flips, Squeeze(SliceAxis(length, 1, AxisElem(1)), 1))
	toEnd := Stack([]*Node{ZerosLike(width), width}, 1)
	toward := OneMinus(Stack([]*Node{ZerosLike(flips), MulScalar(flips, 2)}, 1))
	return labelsAt(maps, Add(start, toEnd), Mul(length, toward), size)
}

// topLeft and extent are the corner of boxes, [images, 4], and their height and width: [images, 2].
func topLeft(boxes *Node) *Node { return SliceAxis(boxes, 1, AxisRange(0, 2)) }
func extent(boxes *Node) *Node  { return SliceAxis(boxes, 1, AxisRange(2, 4)) }

// labelsAt reads label maps, [images, canvas, canvas], in the middle of size×size equal parts of a box, which begins at start, [images, 2] in
// pixels along height and width, and reaches as far as length, below 0 to run backward: [images, size²] of int32.
func labelsAt(maps, start, length *Node, size int) *Node {
	g, images, canvas := maps.Graph(), maps.Shape().Dim(0), maps.Shape().Dim(1)
	middles := func(axis int) *Node {
		at := func(x *Node) *Node { return SliceAxis(x, 1, AxisElem(axis)) }
		share := DivScalar(AddScalar(Iota(g, shapes.Make(start.DType(), 1, size), 1), 0.5), float64(size))
		pixel := ConvertDType(Floor(Add(at(start), Mul(at(length), share))), dtypes.Int32)
		return MinScalar(MaxScalar(pixel, 0), canvas-1)
	}
	grid := []int{images, size, size}
	row := BroadcastToDims(InsertAxes(middles(0), -1), grid...)
	column := BroadcastToDims(InsertAxes(middles(1), 1), grid...)
	image := Iota(g, shapes.Make(dtypes.Int32, grid...), 0)
	pixel := Add(MulScalar(Add(MulScalar(image, canvas), row), canvas), column)
	flat := Reshape(ConvertDType(maps, dtypes.Int32), -1)
	return Reshape(Gather(flat, Reshape(pixel, -1, 1)), images, size*size)
}

// sameLabel is 1 for a place of an image and one of its partner that have the same label, and it is not 0, else 0: [images, (HW)²].
func sameLabel(labels, partners *Node, dtype dtypes.DType) *Node {
	images, places := labels.Shape().Dim(0), labels.Shape().Dim(1)
	theirs := InsertAxes(Gather(labels, InsertAxes(partners, -1)), 1)
	same := LogicalAnd(Equal(InsertAxes(labels, -1), theirs), NotEqual(theirs, ZerosLike(theirs)))
	return Reshape(ConvertDType(same, dtype), images, places*places)
}

// noisy replaces a share of scores, given as a scalar, by numbers drawn evenly from [0, 1]. Which and by what depends on the key, a uint32
// scalar, alone, on every backend.
func noisy(scores, share, key *Node) *Node {
	g := scores.Graph()
	bits := func(x uint32) *Node { return Const(g, x) }
	mix := func(x *Node, shift, factor uint32) *Node {
		return Mul(BitwiseXor(x, BitwiseShiftRightLogical(x, bits(shift))), bits(factor))
	}
	// A counter, scrambled with the finalizer of MurmurHash3.
	x := Iota(g, shapes.Make(dtypes.Uint32, scores.Shape().Size()), 0)
	x = BitwiseXor(Mul(x, bits(0x9e3779b9)), key)
	x = mix(mix(x, 16, 0x85ebca6b), 13, 0xc2b2ae35)
	x = BitwiseXor(x, BitwiseShiftRightLogical(x, bits(16)))
	x = BitwiseShiftRightLogical(x, bits(8)) // Float32 holds 24 bits.
	drawn := DivScalar(ConvertDType(x, scores.DType()), 1<<24)
	drawn = Reshape(drawn, scores.Shape().Dimensions...)
	share = ConvertDType(share, scores.DType())
	// What is below the share is even in [0, share), so it serves as the number, too.
	return Where(LessThan(drawn, share), Div(drawn, MaxScalar(share, 1e-6)), scores)
}
