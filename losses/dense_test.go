package losses_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/settings"
)

// The losses of dense features take two images, one below the other in a matrix.

func twoImages(x *graph.Node) *graph.Node {
	return graph.Reshape(x, 2, -1, x.Shape().Dim(1))
}

func patchesOf(rng *rand.Rand) (x, y matrix) { return randomMatrix(rng, 8, 3), randomMatrix(rng, 8, 3) }

// perImage is the mean of a reference over the two images.
func perImage(reference func(x, y matrix) float64) func(x, y matrix) float64 {
	return func(x, y matrix) float64 {
		n := len(x) / 2
		return (reference(x[:n], y[:n]) + reference(x[n:], y[n:])) / 2
	}
}

var gramTerm = term{
	graph:     func(x, y *graph.Node) *graph.Node { return losses.GramAnchoring(twoImages(x), twoImages(y)) },
	reference: perImage(gramReference),
	inputs:    patchesOf,
}

func gramReference(x, y matrix) float64 {
	total := 0.0
	for i := range x {
		for j := range x {
			difference := cosine(x[i], x[j]) - cosine(y[i], y[j])
			total += difference * difference
		}
	}
	return total / float64(len(x)*len(x))
}

var pakaTerm = term{
	graph:     func(x, y *graph.Node) *graph.Node { return losses.PaKA(twoImages(x), twoImages(y)) },
	reference: perImage(pakaReference),
	inputs:    patchesOf,
}

func pakaReference(x, y matrix) float64 {
	product := func(a, b matrix) matrix {
		c := make(matrix, len(a))
		for i := range a {
			c[i] = make([]float64, len(b[0]))
			for j := range c[i] {
				for k := range b {
					c[i][j] += a[i][k] * b[k][j]
				}
			}
		}
		return c
	}
	n := len(x)
	centering := make(matrix, n)
	for i := range centering {
		centering[i] = make([]float64, n)
		for j := range centering[i] {
			centering[i][j] = -1 / float64(n)
		}
		centering[i][i]++
	}
	kernel := func(z matrix) matrix {
		k := make(matrix, n)
		for i := range k {
			k[i] = make([]float64, n)
			for j := range k[i] {
				for d := range z[i] {
					k[i][j] += z[i][d] * z[j][d]
				}
			}
		}
		return product(product(centering, k), centering)
	}
	inner := func(a, b matrix) (sum float64) {
		for i := range a {
			for j := range a[i] {
				sum += a[i][j] * b[i][j]
			}
		}
		return sum
	}
	s, t := kernel(x), kernel(y)
	return 1 - inner(s, t)/math.Sqrt(inner(s, s)*inner(t, t))
}

// necoTerm sorts the other image's teacher patches and the first one of the same image, so that there is one more reference than there are patches.
func necoTerm(network losses.SortingNetwork) term {
	return term{
		graph: func(x, y *graph.Node) *graph.Node {
			neco := losses.NeCo{Network: network, StudentSteepness: 4, TeacherSteepness: 20}
			teacher := twoImages(y)
			own := graph.SliceAxis(teacher, 1, graph.AxisRange(0, 1))
			return neco.Loss(twoImages(x), teacher, graph.Concatenate([]*graph.Node{graph.Reverse(teacher, 0), own}, 1))
		},
		reference: func(x, y matrix) float64 { return necoReference(networksOf4[network], x, y) },
		inputs:    func(rng *rand.Rand) (x, y matrix) { return randomMatrix(rng, 6, 3), randomMatrix(rng, 6, 3) },
	}
}

// networksOf4 are the comparators for four values in order, the first of each pair getting the smaller value.
var networksOf4 = map[losses.SortingNetwork][][2]int{
	losses.OddEven: {{0, 1}, {2, 3}, {1, 2}, {0, 1}, {2, 3}, {1, 2}},
	losses.Bitonic: {{0, 1}, {3, 2}, {0, 2}, {1, 3}, {0, 1}, {2, 3}},
}

func necoReference(network [][2]int, x, y matrix) float64 {
	ranks := func(patch []float64, references matrix, steepness float64) matrix {
		values, weights := make([]float64, 4), make(matrix, 4) // By rank.
		for i := range weights {
			values[i] = cosine(patch, references[i])
			weights[i] = make([]float64, 4)
			weights[i][i] = 1
		}
		for _, c := range network {
			low, high := c[0], c[1]
			keep := 0.5 + math.Atan(steepness*(values[high]-values[low]))/math.Pi
			mix := func(a, b *float64) { *a, *b = keep**a+(1-keep)**b, (1-keep)**a+keep**b }
			mix(&values[low], &values[high])
			for i := range 4 {
				mix(&weights[low][i], &weights[high][i])
			}
		}
		return weights
	}
	total := 0.0
	for i := range x {
		references := matrix{y[3], y[4], y[5], y[0]}
		if i >= 3 {
			references = matrix{y[0], y[1], y[2], y[3]}
		}
		p, q := ranks(x[i], references, 4), ranks(y[i], references, 20)
		for rank := range p {
			for reference := range p {
				total -= q[rank][reference] * math.Log(p[rank][reference])
			}
		}
	}
	return total / float64(6*4)
}

func TestDenseHandCases(t *testing.T) {
	right, up, left := []float64{1, 0}, []float64{0, 2}, []float64{-3, 0}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []struct {
			loss string
			x, y matrix
			want float64
		}{
			{"GramAnchoring", matrix{right, up, right, up}, matrix{up, right, left, up}, 0},
			{"GramAnchoring", matrix{right, up, right, up}, matrix{right, right, right, up}, 0.25}, // Two cosines of the first image are off by 1.
			{"GramAnchoring", matrix{right, left, right, up}, matrix{right, right, right, up}, 1},  // They are off by 2.
			{"PaKA", matrix{right, up, right, up}, matrix{left, up, up, left}, 0},                  // Two patches always have the same kernel, up to a factor.
			{"PaKA", matrix{right, right, right, up}, matrix{left, up, up, left}, 0.5},             // The first image's patches are all the same.
			// The squared norm of the first student's kernel, 4·10⁻⁸, is below the floor of 10⁻⁶: its cosine shrinks from 1 to a fifth.
			{"PaKA", matrix{{0, 0}, {0.02, 0}, right, up}, matrix{left, up, up, left}, 0.4},
		} {
			got := graph.MustExecOnce(b, terms[c.loss].graph, [][]float64(c.x), [][]float64(c.y)).Value().(float64)
			if !(math.Abs(got-c.want) <= 1e-12) {
				t.Errorf("%s of %v, %v: %g, want %g", c.loss, c.x, c.y, got, c.want)
			}
		}
	})
}

// moved are the rows of x rotated by an angle in their first plane, shifted and scaled. The scales of rows differ by row times perRow.
func moved(x matrix, angle, shift, scale, perRow float64) matrix {
	sin, cos := math.Sincos(angle)
	out := make(matrix, len(x))
	for i, row := range x {
		out[i] = append([]float64{}, row...)
		out[i][0], out[i][1] = cos*row[0]-sin*row[1], sin*row[0]+cos*row[1]
		for d := range row {
			out[i][d] = (out[i][d] + shift) * (scale + perRow*float64(i))
		}
	}
	return out
}

// TestDenseProperties: what the losses of dense features do not see, and their least values.
func TestDenseProperties(t *testing.T) {
	b := testbackend.Go(t)
	for seed := range uint64(3) {
		x, y := patchesOf(rand.New(rand.NewPCG(seed, 41)))
		value := func(loss string, x, y matrix) float64 {
			return graph.MustExecOnce(b, terms[loss].graph, [][]float64(x), [][]float64(y)).Value().(float64)
		}
		same := func(what, loss string, got, want float64) {
			if !(math.Abs(got-want) <= 1e-12) {
				t.Errorf("seed %d, %s: %g, %s %g", seed, loss, want, what, got)
			}
		}
		for loss := range map[string]bool{"GramAnchoring": true, "PaKA": true} {
			same("of itself", loss, value(loss, x, x), 0)
			same("of a rotation", loss, value(loss, x, moved(x, 1, 0, 3, 0)), 0)
			if got := value(loss, x, y); !(got > 1e-3 && got <= 4) {
				t.Errorf("seed %d, %s: %g", seed, loss, got)
			}
		}
		same("with other norms", "GramAnchoring", value("GramAnchoring", moved(x, 2, 0, 1, 0.5), y), value("GramAnchoring", x, y))
		same("shifted", "PaKA", value("PaKA", moved(x, 2, 5, 0.25, 0), y), value("PaKA", x, y))
		for _, loss := range []string{"NeCo odd-even", "NeCo bitonic"} {
			same("with other norms", loss, value(loss, moved(x, 0, 0, 1, 0.5), y), value(loss, x, y))
		}
		// NeCo has its least value where the student ranks as the teacher.
		neco := losses.NeCo{Network: losses.OddEven, StudentSteepness: 10, TeacherSteepness: 10}
		f := func(x, y *graph.Node) *graph.Node {
			return neco.Loss(twoImages(x), twoImages(y), graph.Reverse(twoImages(y), 0))
		}
		least := graph.MustExecOnce(b, f, [][]float64(y), [][]float64(y)).Value().(float64)
		if got := graph.MustExecOnce(b, f, [][]float64(x), [][]float64(y)).Value().(float64); got <= least || least <= 0 {
			t.Errorf("seed %d, NeCo: %g, of the teacher itself %g", seed, got, least)
		}
	}
}

// TestDegenerateFeatures: patches that are all zero, or all the same, have a finite loss and a finite gradient.
func TestDegenerateFeatures(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, loss := range []string{"GramAnchoring", "PaKA", "NeCo odd-even", "NeCo bitonic"} {
			exec := graph.MustNewExec(b, func(x, y *graph.Node) []*graph.Node {
				value := terms[loss].graph(x, y)
				return append([]*graph.Node{value}, graph.Gradient(value, x)...)
			})
			for _, entry := range []float32{0, 1e-20, 1, 1e4} {
				x := tensors.FromScalarAndDimensions(entry, 8, 3)
				for _, out := range exec.MustCall(x, x) {
					for _, got := range tensors.MustCopyFlatData[float32](out) {
						if math.IsNaN(float64(got)) || math.IsInf(float64(got), 0) {
							t.Errorf("%s of features %g: %v", loss, entry, out)
						}
					}
				}
			}
			exec.Finalize()
		}
	})
}

// TestSoftRanks: the weights are doubly stochastic, and a steep network sorts.
func TestSoftRanks(t *testing.T) {
	b := testbackend.Go(t)
	for _, c := range []struct {
		network losses.SortingNetwork
		values  int
	}{{losses.OddEven, 1}, {losses.OddEven, 2}, {losses.OddEven, 7}, {losses.OddEven, 8}, {losses.Bitonic, 1}, {losses.Bitonic, 2}, {losses.Bitonic, 16}, {losses.Bitonic, 49}} {
		rng := rand.New(rand.NewPCG(uint64(c.values), 42))
		row := make([]float64, c.values)
		for rank, value := range rng.Perm(c.values) {
			row[value] = float64(rank)
		}
		for _, steepness := range []float64{0.5, 1e9} {
			weights := graph.MustExecOnce(b, func(x *graph.Node) *graph.Node {
				return losses.SoftRanks(x, c.network, steepness)
			}, [][]float64{row}).Value().([][][]float64)
			for rank := range weights {
				ofRank, ofValue := 0.0, 0.0
				for value := range weights {
					ofRank += weights[rank][value][0]
					ofValue += weights[value][rank][0]
					if steepness > 1 && row[value] == float64(rank) && weights[rank][value][0] < 0.999 {
						t.Errorf("%s of %d values: the value of rank %d has weight %g", c.network, c.values, rank, weights[rank][value][0])
					}
				}
				if !(math.Abs(ofRank-1) <= 1e-12) || !(math.Abs(ofValue-1) <= 1e-12) {
					t.Errorf("%s of %d values, steepness %g: the sums of %d are %g, %g", c.network, c.values, steepness, rank, ofRank, ofValue)
				}
			}
		}
	}
}

func TestArctan(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		x := tensors.FromValue([]float64{-200, -1, -1e-3, 0, 0.5, 30})
		for i, got := range graph.MustExecOnce(b, losses.Arctan, x).Value().([]float64) {
			if want := math.Atan(x.Value().([]float64)[i]); !(math.Abs(got-want) <= 1e-14) {
				t.Errorf("arctan %g: %g, want %g", x.Value().([]float64)[i], got, want)
			}
		}
		testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
			return graph.ReduceAllSum(losses.Arctan(in[0]))
		}, 1e-8, x)
	})
}

func TestNeCoSettings(t *testing.T) {
	if err := settings.Check(losses.DefaultNeCo()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*losses.NeCo){
		`network "quick": want odd_even or bitonic`:              func(c *losses.NeCo) { c.Network = "quick" },
		"student_steepness 0 is not above 0 and at most 10000":   func(c *losses.NeCo) { c.StudentSteepness = 0 },
		"teacher_steepness NaN is not above 0 and at most 10000": func(c *losses.NeCo) { c.TeacherSteepness = math.NaN() },
	} {
		c := losses.DefaultNeCo()
		change(&c)
		if err := settings.Check(c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
