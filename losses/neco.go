package losses

import (
	"math"
	"math/bits"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/settings"
)

// NeCo is patch neighbour consistency (Pariza et al. 2025, arXiv 2408.11054; vpariza/NeCo): each patch sorts reference patches by their cosine with it,
// once with the student's feature and once with the teacher's. Sorting is relaxed, so that a patch has a doubly stochastic matrix of references and
// ranks, and not a permutation. The loss is the mean over patches and references of the cross-entropy −Σ_r Q_r log P_r of the ranks, P the student's
// and Q the teacher's.
//
// A sorting network compares fixed pairs of wires and swaps those in the wrong order. Its relaxation (Petersen et al. 2022, arXiv 2203.09630) leaves a
// pair (a, b) as it is with weight 1/2 + arctan(β(b − a))/π, β being the steepness: the Cauchy distribution, the default of diffsort 0.2.0, with which
// the code sorts.
type NeCo struct {
	Network          SortingNetwork `json:"network" oneof:"odd_even|bitonic"`
	StudentSteepness float64        `json:"student_steepness" range:"(0,1e4]"` // Positive: the sorting is exact in the limit of large values.
	TeacherSteepness float64        `json:"teacher_steepness" range:"(0,1e4]"`
}

// DefaultNeCo has the settings of the authors' configurations. An ablation of theirs has the odd-even network.
func DefaultNeCo() NeCo { return NeCo{Network: Bitonic, StudentSteepness: 100, TeacherSteepness: 100} }

// necoFloor keeps the logarithm finite where a product of many weights underflows.
const necoFloor = 1e-30

// Loss is the loss of student and teacher, [B, N, D], the patch features of B images at the same places, which sort the same references, [B, M, D]. Features
// are of any norm. Differentiable in student only. The loss is at least the entropy of Q, and at most that if the student's features are the teacher's and both
// have one steepness.
//
// The code draws the references at random from the teacher's patches of the batch, or from a queue of 8192, 49 for each image; that is the caller's, as is a
// mask of the foreground. The code sorts by ascending cosine, and so does this. Time and memory are O(B·N·M²) per layer, with M layers of the odd-even
// network and about log₂²(M)/2 of the bitonic one.
func (c NeCo) Loss(student, teacher, references *Node) *Node {
	settings.Require(c)
	teacher.AssertDims(student.Shape().Dimensions...)
	references.AssertDims(student.Shape().Dim(0), -1, student.Shape().Dim(2))
	ranks := func(patches *Node, steepness float64) *Node {
		similarity := cosines(patches, StopGradient(references))
		return softRanks(Reshape(similarity, -1, similarity.Shape().Dim(2)), c.Network, steepness)
	}
	p, q := ranks(student, c.StudentSteepness), ranks(StopGradient(teacher), c.TeacherSteepness)
	return Neg(ReduceAllMean(ReduceSum(Mul(q, Log(MaxScalar(p, necoFloor))), 0)))
}

// softRanks sorts each row of x, [R, M], in ascending order by a relaxed network. The result, [M, M, R], holds for each rank, value and row the weight
// of the value at that rank. Its sums over ranks and over values are 1.
func softRanks(x *Node, network SortingNetwork, steepness float64) *Node {
	g, dtype, m := x.Graph(), x.DType(), x.Shape().Dim(1)
	x = Transpose(x, 0, 1) // Wires come first, where gathering is cheapest.
	rows := x.Shape().Dim(1)
	weights := BroadcastToDims(InsertAxes(ConvertDType(Diagonal(g, m), dtype), -1), m, m, rows)
	for _, layer := range lo.Ternary(network == OddEven, oddEven, bitonic)(m) {
		partners, signs := make([][]int32, m), make([][]float64, m)
		for wire := range m {
			partners[wire], signs[wire] = []int32{int32(wire)}, []float64{0}
		}
		for _, c := range layer {
			partners[c.low][0], partners[c.high][0] = int32(c.high), int32(c.low)
			signs[c.low][0], signs[c.high][0] = 1, -1
		}
		partner := Const(g, partners)
		swapped := Gather(x, partner)
		order := Mul(ConvertDType(Const(g, signs), dtype), Sub(swapped, x))
		keep := AddScalar(DivScalar(arctan(MulScalar(order, steepness)), math.Pi), 0.5)
		mix := func(kept, swapped, keep *Node) *Node { return Add(swapped, Mul(keep, Sub(kept, swapped))) }
		x, weights = mix(x, swapped, keep), mix(weights, Gather(weights, partner), InsertAxes(keep, 1))
	}
	return weights
}

// arctan is differentiable, as GoMLX's Atan2 is not.
func arctan(x *Node) *Node {
	fixed := StopGradient(x)
	value := Atan2(fixed, OnesLike(fixed))
	carrier := IdentityWithCustomGradient(x, func(x, adjoint *Node) *Node { return Div(adjoint, AddScalar(Square(x), 1)) })
	return Add(value, Sub(carrier, fixed)) // The difference is zero; it carries the gradient.
}

// SortingNetwork names the comparisons by which [NeCo] sorts, as diffsort does.
type SortingNetwork string

const (
	OddEven SortingNetwork = "odd_even" // Compares neighbours, in as many layers as there are values.
	// Bitonic merges sequences of doubling length, in k(k+1)/2 layers for at most 2ᵏ values. For other numbers than powers of two, it leaves wires out as
	// diffsort does. It then sorts the 49 values of NeCo's configurations, but not all numbers of values: not 22, for one.
	Bitonic SortingNetwork = "bitonic"
)

// comparator puts the smaller of two wires' values on low.
type comparator struct{ low, high int }

// oddEven are the comparisons for n values in layers. Comparisons of one layer share no wire.
func oddEven(n int) (layers [][]comparator) {
	for at := range n {
		var layer []comparator
		for wire := at % 2; wire+1 < n; wire += 2 {
			layer = append(layer, comparator{wire, wire + 1})
		}
		layers = append(layers, layer)
	}
	return layers
}

func bitonic(n int) (layers [][]comparator) {
	blocks := bits.Len(uint(n - 1))
	unused := 1<<blocks - n // The first wires.
	for block := range blocks {
		for distance := 1 << block; distance > 0; distance /= 2 {
			var layer []comparator
			for wire := unused; wire < 1<<blocks; wire++ {
				if wire&distance != 0 {
					continue
				}
				pair := comparator{wire - unused, wire + distance - unused}
				if wire>>(block+1)%2 == 1 {
					pair.low, pair.high = pair.high, pair.low
				}
				layer = append(layer, pair)
			}
			layers = append(layers, layer)
		}
	}
	return layers
}
