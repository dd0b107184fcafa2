package sccore

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/views"
)

// overlap is the region that an online view and a target view of an image share, for several pairs of views. RoI-Align pools it to a grid as fine as
// the online view's own, H×W places in the orientation of the image: flips are undone.
type overlap struct {
	size                     int   // H = W.
	online, target           *Node // Parameters of the views, [pairs·images, NumParams].
	onlineBox, targetBox     *Node // The overlap within each, [pairs·images, 4].
	onlineFlips, targetFlips *Node
}

// overlapOf returns the overlaps of pairs of an online and a target view. numbers and others are the numbers of the views.
func overlapOf(online, target outputs, numbers, others []int) overlap {
	o := overlap{size: online.tokens.Shape().Dim(2)}
	o.online, o.target = ofViews(online.params, numbers...), ofViews(target.params, others...)
	o.onlineBox, o.targetBox = views.Overlap(o.online, o.target)
	_, o.onlineFlips = views.Boxes(o.online)
	_, o.targetFlips = views.Boxes(o.target)
	return o
}

// ofOnline and ofTarget pool feature maps of the pairs' views, [pairs·images, rows, columns, D], to [pairs·images, H·W, D].
func (o overlap) ofOnline(maps *Node) *Node { return o.pool(maps, o.onlineBox, o.onlineFlips) }
func (o overlap) ofTarget(maps *Node) *Node { return o.pool(maps, o.targetBox, o.targetFlips) }

func (o overlap) pool(maps, box, flips *Node) *Node {
	pooled := layers.RoIAlign{OutputSize: o.size}.Pool(maps, box, flips)
	return Reshape(pooled, pooled.Shape().Dim(0), o.size*o.size, pooled.Shape().Dim(-1))
}

// patchAlignment is L_align ("Cross-view alignment"): the mean over all pairs of a view of the online branch and another, global view of the target
// branch, each restricted to their overlap. Sinkhorn–Knopp runs over all patches of all pairs of one size. It also returns the mean entropy of the targets of global views.
func (s step) patchAlignment(online []outputs, target outputs) (loss, targetEntropy *Node) {
	count := 0
	for i, group := range online {
		numbers, others := viewPairs(i, group, target)
		o := overlapOf(group, target, numbers, others)
		rows := func(x *Node) *Node { return Reshape(x, -1, s.PatchHead.OutDim) }
		targets := s.Sinkhorn.Targets(rows(o.ofTarget(ofViews(target.patches, others...))))
		mean := losses.Alignment(rows(o.ofOnline(ofViews(group.patches, numbers...))), targets, s.Temperature)
		mean = MulScalar(mean, float64(len(numbers)))
		if count += len(numbers); loss == nil {
			loss, targetEntropy = mean, entropy(targets)
		} else {
			loss = Add(loss, mean)
		}
	}
	return DivScalar(loss, float64(count)), targetEntropy
}

// viewPairs lists the pairs of a view of a group of the online branch, counted from 0, and another, global view of the target branch: the numbers of both.
func viewPairs(i int, group, target outputs) (numbers, others []int) {
	for view := range group.params.Shape().Dim(0) {
		for other := range target.params.Shape().Dim(0) {
			if i > 0 || view != other { // The online branch's first group is the target's own views.
				numbers, others = append(numbers, view), append(others, other)
			}
		}
	}
	return numbers, others
}

// pairs are the scores that L_sc(x, x') compares ("Patch correspondence distillation"). For each image x and its partner x', another image of the batch,
//
//	p̂ = S_o(v1(x), v1(x')),   q̂ = S_t(v2(x), v2(x'))
//
// over all (HW)² pairs of a place of x and a place of x'. Places lie in the overlap of v1 and v2, so that p̂_k and q̂_k are about the same pair of
// places. Correspondences from labels get noise.
func (s step) pairs(online, target outputs, in map[string]*Node, noise *Node) (p, q *Node) {
	o := overlapOf(online, target, []int{0}, []int{1})
	p, q = s.correspondences(o, online, target, in[inPartners])
	if s.learnsFrom(FromLabels) {
		labels := lo.Ternary(s.taught, in[inTeacherLabels], in[inLabels])
		q = sameLabel(o.labels(labels), in[inPartners], p.DType())
		if s.Correspondences.Fixed {
			q = noisyPairs(q, o.cells(in[inImages], s.ImageSize), in[inPartners], noise)
		} else {
			q = noisy(q, noise, in[inNoiseKey])
		}
	}
	return p, q
}

// correspondences are S_o and S_t of images and their partners, [images, (HW)²].
func (s step) correspondences(o overlap, online, target outputs, partners *Node) (p, q *Node) {
	maps := func(of outputs, number int) *Node {
		if of.patches == nil || s.Correspondences.From == FromBackbone || s.uses(WithGram) {
			return ofViews(of.tokens, number)
		}
		return ofViews(of.patches, number)
	}
	correspondence := func(patches *Node) *Node {
		return losses.Correspondence(patches, permuted(patches, partners))
	}
	p = correspondence(o.ofOnline(maps(online, 0)))
	if s.Correspondences.SameView {
		return p, correspondence(o.ofOnline(maps(target, 0)))
	}
	return p, correspondence(o.ofTarget(maps(target, 1)))
}

// permuted is x[order] for a permutation of the rows of x. Its gradient reads rows, where the gradient of Gather adds them in an order that a GPU does not fix.
func permuted(x, order *Node) *Node {
	back := ScatterSum(ZerosLike(order), InsertAxes(order, -1), Iota(x.Graph(), order.Shape(), 0), false, true)
	carrier := IdentityWithCustomGradient(x, func(_, adjoint *Node) *Node { return Gather(adjoint, InsertAxes(back, -1)) })
	// The difference is zero; it carries the gradient.
	return Add(StopGradient(Gather(x, InsertAxes(order, -1))), Sub(carrier, StopGradient(x)))
}

// labels reads label maps, [images, size, size], at the centre of each place of the overlap: [images, H·W] of int32.
func (o overlap) labels(maps *Node) *Node {
	start, length := o.box()
	return labelsAt(maps, start, length, o.size)
}

// box is the overlap in pixels of the images: the corner, and the height and width.
func (o overlap) box() (start, length *Node) {
	first, _ := views.Boxes(o.online)
	second, _ := views.Boxes(o.target)
	start = Max(topLeft(first), topLeft(second))
	end := Min(Add(topLeft(first), extent(first)), Add(topLeft(second), extent(second)))
	return start, Sub(end, start)
}

// cells numbers the cells of 8 pixels in which the centres of the places of the overlap lie, alike in all steps: [images, H·W] of uint32. images are
// numbers of the images, [images].
func (o overlap) cells(images *Node, imageSize int) *Node {
	const cell = 8
	start, length := o.box()
	row, column := pixelsAt(start, length, imageSize, o.size)
	perSide := (imageSize + cell - 1) / cell
	byCell := func(pixel *Node) *Node { return DivScalar(pixel, cell) }
	number := Add(MulScalar(Add(MulScalar(InsertAxes(images, -1, -1), perSide), byCell(row)), perSide), byCell(column))
	return ConvertDType(Reshape(number, number.Shape().Dim(0), o.size*o.size), dtypes.Uint32)
}

// labelsOfPatches reads label maps, [images, imageSize, imageSize], at the centre of each patch of the views that params, [images, NumParams],
// describe. A view has size×size patches: [images, size²] of int32.
func labelsOfPatches(maps, params *Node, size int) *Node {
	box, flips := views.Boxes(params)
	start, length := topLeft(box), extent(box)
	// The columns of a flipped view run from its right end.
	width := Mul(flips, Squeeze(SliceAxis(length, 1, AxisElem(1)), 1))
	toEnd := Stack([]*Node{ZerosLike(width), width}, 1)
	toward := OneMinus(Stack([]*Node{ZerosLike(flips), MulScalar(flips, 2)}, 1))
	return labelsAt(maps, Add(start, toEnd), Mul(length, toward), size)
}

// topLeft and extent are the corner of boxes, [images, 4], and their height and width: [images, 2].
func topLeft(boxes *Node) *Node { return SliceAxis(boxes, 1, AxisRange(0, 2)) }
func extent(boxes *Node) *Node  { return SliceAxis(boxes, 1, AxisRange(2, 4)) }

// labelsAt divides a box into size×size equal cells and reads label maps, [images, imageSize, imageSize], at the cells' centres: [images, size²] of
// int32. The box begins at start and ends at start + length, [images, 2] in pixels along height and width; a negative length runs backwards.
func labelsAt(maps, start, length *Node, size int) *Node {
	g, images, imageSize := maps.Graph(), maps.Shape().Dim(0), maps.Shape().Dim(1)
	row, column := pixelsAt(start, length, imageSize, size)
	grid := []int{images, size, size}
	image := Iota(g, shapes.Make(dtypes.Int32, grid...), 0)
	pixel := Add(MulScalar(Add(MulScalar(image, imageSize), row), imageSize), column)
	flat := Reshape(ConvertDType(maps, dtypes.Int32), -1)
	return Reshape(Gather(flat, Reshape(pixel, -1, 1)), images, size*size)
}

// pixelsAt are the pixels at the centres of the cells of [labelsAt]: rows and columns, [images, size, size] of int32.
func pixelsAt(start, length *Node, imageSize, size int) (row, column *Node) {
	g, images := start.Graph(), start.Shape().Dim(0)
	middles := func(axis int) *Node {
		at := func(x *Node) *Node { return SliceAxis(x, 1, AxisElem(axis)) }
		share := DivScalar(AddScalar(Iota(g, shapes.Make(start.DType(), 1, size), 1), 0.5), float64(size))
		pixel := ConvertDType(Floor(Add(at(start), Mul(at(length), share))), dtypes.Int32)
		return MinScalar(MaxScalar(pixel, 0), imageSize-1)
	}
	grid := []int{images, size, size}
	row = BroadcastToDims(InsertAxes(middles(0), -1), grid...)
	return row, BroadcastToDims(InsertAxes(middles(1), 1), grid...)
}

// sameLabel is 1 for a place of an image and a place of its partner with the same label other than 0, else 0: [images, (HW)²].
func sameLabel(labels, partners *Node, dtype dtypes.DType) *Node {
	images, places := labels.Shape().Dim(0), labels.Shape().Dim(1)
	theirs := InsertAxes(Gather(labels, InsertAxes(partners, -1)), 1)
	same := LogicalAnd(Equal(InsertAxes(labels, -1), theirs), NotEqual(theirs, ZerosLike(theirs)))
	return Reshape(ConvertDType(same, dtype), images, places*places)
}

// noisy replaces a share of scores, given as a scalar, by numbers drawn uniformly from [0, 1]. The draws depend on the key alone, a uint32 scalar,
// and are the same on every backend.
func noisy(scores, share, key *Node) *Node {
	g := scores.Graph()
	x := Iota(g, shapes.Make(dtypes.Uint32, scores.Shape().Size()), 0)
	return replaced(scores, share, scramble(BitwiseXor(Mul(x, Const(g, uint32(0x9e3779b9))), key)))
}

// noisyPairs is [noisy] with draws that depend on the cells of the two places of a pair alone, in either order. cells are [images, H·W].
func noisyPairs(scores, cells, partners, share *Node) *Node {
	theirs := InsertAxes(scramble(Gather(cells, InsertAxes(partners, -1))), 1)
	return replaced(scores, share, scramble(Add(InsertAxes(scramble(cells), -1), theirs)))
}

// scramble is the finalizer of MurmurHash3, of uint32.
func scramble(x *Node) *Node {
	bits := func(b uint32) *Node { return Const(x.Graph(), b) }
	mix := func(x *Node, shift, factor uint32) *Node {
		return Mul(BitwiseXor(x, BitwiseShiftRightLogical(x, bits(shift))), bits(factor))
	}
	x = mix(mix(x, 16, 0x85ebca6b), 13, 0xc2b2ae35)
	return BitwiseXor(x, BitwiseShiftRightLogical(x, bits(16)))
}

// replaced replaces a share of scores by numbers in [0, 1] that random bits give, a uint32 for each score.
func replaced(scores, share, x *Node) *Node {
	x = BitwiseShiftRightLogical(x, Const(x.Graph(), uint32(8))) // Float32 holds 24 bits.
	drawn := DivScalar(ConvertDType(x, scores.DType()), 1<<24)
	drawn = Reshape(drawn, scores.Shape().Dimensions...)
	share = ConvertDType(share, scores.DType())
	// A draw below share is uniform in [0, share), so it also gives the replacement.
	return Where(LessThan(drawn, share), Div(drawn, MaxScalar(share, 1e-6)), scores)
}
