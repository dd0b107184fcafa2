package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/samber/lo"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/losses"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// Spread says how much of their space features use.
type Spread struct {
	// Std is √D times the mean over the D dimensions of the standard deviation of unit-length features: near 1 if they are spread evenly over the
	// sphere, 0 if they have collapsed to a point (Chen & He 2021, fig. 2, times √D).
	Std float64 `json:"std"`
	// Rank is the effective rank of their covariance, in [1, D], or 0 if they do not vary; see [EffectiveRank].
	Rank float64 `json:"rank"`
}

// MeasureSpread returns the spread of features, [N, dim] row by row with N ≥ 2, computed in float64 on the host.
func MeasureSpread(features []float32, dim int) (Spread, error) {
	n := len(features) / max(dim, 1)
	if n < 2 {
		return Spread{}, fmt.Errorf("spread: %d numbers, want at least two vectors of %d", len(features), dim)
	}
	unit := rowsOf(features[:n*dim], dim)
	for i := range n {
		row := unit.RawRowView(i)
		norm := floats.Norm(row, 2)
		if math.IsNaN(norm) || math.IsInf(norm, 0) {
			return Spread{}, fmt.Errorf("spread: feature vector %d has NaN or Inf", i)
		}
		floats.Scale(1/cmp.Or(norm, 1), row)
	}
	var covariance mat.SymDense
	covariance.SymOuterK(1/float64(n), centre(unit).T())
	return spreadOf(&covariance), nil
}

// SpreadOf returns the spread of features with this covariance, [D, D] of float32.
func SpreadOf(covariance *tensors.Tensor) *Spread {
	values := lo.Map(tensors.MustCopyFlatData[float32](covariance), func(x float32, _ int) float64 { return float64(x) })
	return new(spreadOf(mat.NewSymDense(covariance.Shape().Dim(0), values)))
}

// spreadOf returns the spread of features with this covariance.
func spreadOf(covariance *mat.SymDense) Spread {
	dim, std := float64(covariance.SymmetricDim()), 0.0
	for i := range covariance.SymmetricDim() {
		std += math.Sqrt(max(covariance.At(i, i), 0)) / dim
	}
	return Spread{Std: math.Sqrt(dim) * std, Rank: EffectiveRank(covariance)}
}

// Covariance is the covariance, [D, D], of features, [..., D], scaled to length 1.
func Covariance(features *Node) *Node {
	dim := features.Shape().Dim(-1)
	unit := losses.Unit(Reshape(StopGradient(features), -1, dim))
	centred := Sub(unit, ReduceAndKeep(unit, ReduceMean, 0))
	return DivScalar(MatMul(Transpose(centred, 0, 1), centred), float64(unit.Shape().Dim(0)))
}

// ClassSpread splits the variance of labelled, unit-length features into two parts that add up to the whole.
type ClassSpread struct {
	Within  float64 `json:"within"`  // Mean squared distance between a feature and its class mean, in [0, 1].
	Between float64 `json:"between"` // Mean squared distance between a feature's class mean and the overall mean, in [0, 1].
}

// Share is Between's share of the whole, in [0, 1]: near 0 if classes look alike, 1 if the features of a class are equal, and 0 for features that do not vary.
func (s ClassSpread) Share() float64 {
	return lo.Ternary(s.Between <= 0, 0, s.Between/(s.Within+s.Between))
}

// SpreadOfClasses is the variance within and between classes, [2], of features, [N, D], scaled to length 1. labels, [N], are in [0, 256); features
// with label 0 are left out.
func SpreadOfClasses(features, labels *Node) *Node {
	unit := losses.Unit(StopGradient(features))
	of := Slice(OneHot(labels, 256, unit.DType()), AxisRange(), AxisRange(1)) // Class membership; a row of zeros without a label.
	labelled := ReduceAndKeep(of, ReduceSum, 1)
	unit = Mul(unit, labelled)
	all := MaxScalar(ReduceAllSum(labelled), 1)
	means := Div(MatMul(Transpose(of, 0, 1), unit), MaxScalar(Reshape(ReduceSum(of, 0), -1, 1), 1))
	classMeans, centre := MatMul(of, means), Div(ReduceAndKeep(unit, ReduceSum, 0), all)
	within := ReduceAllSum(Square(Sub(unit, classMeans)))
	between := ReduceAllSum(Square(Sub(classMeans, Mul(labelled, centre))))
	return Div(Stack([]*Node{within, between}, 0), all)
}

// EffectiveRank is the exponential of the entropy of a covariance's spectrum (Roy & Vetterli 2007), in [1, D], and 0 for features that do not vary.
// It is NaN if the covariance is not finite.
func EffectiveRank(covariance *mat.SymDense) float64 {
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, false) {
		return math.NaN()
	}
	shares := lo.Map(eigen.Values(nil), func(value float64, _ int) float64 { return max(value, 0) })
	total := lo.Sum(shares)
	if total < 1e-24 {
		return 0
	}
	for i := range shares {
		shares[i] /= total
	}
	return math.Exp(stat.Entropy(shares))
}

// Similarity compares two encoders by their features of the same places.
type Similarity struct {
	// CKA is the linear centred kernel alignment (Kornblith et al. 2019, eq. 3), in [0, 1]: 1 if the features agree up to rotation, scale and shift, near 0 if
	// distances between places have nothing in common. It is 0 if the features of one encoder do not vary.
	CKA float64
	// Cosine is the mean cosine of the two features of a place, in [−1, 1]. A rotation of all features lowers it too.
	Cosine float64
	// Kept is the share of a place's ten nearest others, by cosine, that are the same under both encoders, in [0, 1]; about 10/N if they have nothing in
	// common. It sees fine differences that vanish in CKA beside a few directions of large variance.
	Kept float64
}

// nearestKept is the number of neighbours that Kept compares, and mostCompared the number of places; it takes time quadratic in them.
const (
	nearestKept  = 10
	mostCompared = 1024
)

// MeasureSimilarity compares features, [N, dim] row by row each, with N ≥ 2, in float64.
func MeasureSimilarity(a, b []float32, dim int) (Similarity, error) {
	if dim < 1 || len(a) != len(b) || len(a)%dim != 0 || len(a) < 2*dim {
		return Similarity{}, fmt.Errorf("similarity: %d and %d values of features of %d, want as many of each, and two features at least", len(a), len(b), dim)
	}
	n := len(a) / dim
	cosine := 0.0
	for i := range n {
		var ab, aa, bb float64
		for j := range dim {
			x, y := float64(a[i*dim+j]), float64(b[i*dim+j])
			ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
		}
		if aa*bb > 0 {
			cosine += ab / math.Sqrt(aa) / math.Sqrt(bb) / float64(n)
		}
	}
	x, y := centre(rowsOf(a, dim)), centre(rowsOf(b, dim))
	var xy, xx, yy mat.Dense
	xy.Mul(y.T(), x)
	xx.Mul(x.T(), x)
	yy.Mul(y.T(), y)
	s := Similarity{Cosine: cosine}
	between, within := mat.Norm(&xy, 2), mat.Norm(&xx, 2)*mat.Norm(&yy, 2)
	if math.IsNaN(between+within) || math.IsInf(between+within, 0) || math.IsNaN(cosine) {
		return Similarity{}, fmt.Errorf("similarity: the features are not finite")
	}
	if within > 0 {
		s.CKA = between * between / within
	}
	s.Kept = keptNeighbours(a, b, n, dim)
	return s, nil
}

// keptNeighbours compares the nearest neighbours of places that are evenly spread.
func keptNeighbours(a, b []float32, n, dim int) float64 {
	count := min(n, mostCompared)
	k := min(nearestKept, count-1)
	var nearest [2][][]int
	for side, values := range [][]float32{a, b} {
		all, unit := rowsOf(values, dim), mat.NewDense(count, dim, nil)
		for i := range count {
			row := all.RowView(i * n / count)
			unit.RowView(i).(*mat.VecDense).ScaleVec(1/max(mat.Norm(row, 2), 1e-150), row)
		}
		var cosines mat.Dense
		cosines.Mul(unit, unit.T())
		for i := range count {
			order := lo.Without(lo.Range(count), i)
			slices.SortFunc(order, func(x, y int) int { return cmp.Or(cmp.Compare(cosines.At(i, y), cosines.At(i, x)), x-y) })
			nearest[side] = append(nearest[side], order[:k])
		}
	}
	same := lo.SumBy(lo.Range(count), func(i int) int { return len(lo.Intersect(nearest[0][i], nearest[1][i])) })
	return float64(same) / float64(count*k)
}

// rowsOf are features, [N, dim].
func rowsOf(values []float32, dim int) *mat.Dense {
	return mat.NewDense(len(values)/dim, dim, lo.Map(values, func(x float32, _ int) float64 { return float64(x) }))
}

// centre subtracts the mean of each dimension from features, [N, D].
func centre(features *mat.Dense) *mat.Dense {
	n, dim := features.Dims()
	for j := range dim {
		mean := 0.0
		for i := range n {
			mean += features.At(i, j) / float64(n)
		}
		for i := range n {
			features.Set(i, j, features.At(i, j)-mean)
		}
	}
	return features
}

// TopKAccuracy is the percentage of samples whose label is among the first k classes of their ranking; 0 without samples.
func TopKAccuracy(ranked [][]int32, labels []int32, k int) float64 {
	if len(ranked) != len(labels) || len(labels) == 0 {
		return 0
	}
	right := lo.Filter(ranked, func(classes []int32, i int) bool { return slices.Contains(classes[:min(k, len(classes))], labels[i]) })
	return 100 * float64(len(right)) / float64(len(labels))
}

// PrecisionAtTop is the share of positives, in percent, among the given shares of highest scores: 0.01 takes the top percent, but at least one score.
// Equal scores at the border count by the share of positives among them, so that the order of the input means nothing. It is NaN without scores.
func PrecisionAtTop(scores []float64, positive []bool, shares ...float64) (precisions []float64) {
	order := lo.Range(len(scores))
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	for _, share := range shares {
		top := max(1, int(math.Round(share*float64(len(order)))))
		found := 0.0
		for begin := 0; begin < min(top, len(order)); {
			end, positives := begin, 0
			for ; end < len(order) && scores[order[end]] == scores[order[begin]]; end++ {
				if positive[order[end]] {
					positives++
				}
			}
			end = max(end, begin+1) // NaN equals nothing.
			found += float64(positives) * float64(min(end, top)-begin) / float64(end-begin)
			begin = end
		}
		if len(order) == 0 {
			found = math.NaN()
		}
		precisions = append(precisions, 100*found/float64(top))
	}
	return precisions
}
