package losses_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/gradcheck"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
)

// The terms of the paper's OP1, from its formulas, pair by pair.

func squaredDistance(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i] - b[i]) * (a[i] - b[i])
	}
	return sum
}

func viewAlignmentReference(z matrix, views int) float64 {
	sum := 0.0
	for i := range z {
		for j := range z {
			if i/views == j/views {
				sum += squaredDistance(z[i], z[j])
			}
		}
	}
	return sum / float64(2*len(z)*len(z))
}

func diversityReference(z matrix, radius float64) float64 {
	sum, n, dim := 0.0, float64(len(z)), len(z[0])
	for a := range dim {
		for b := range dim {
			c := 0.0
			for _, row := range z {
				c += row[a] * row[b] / n
			}
			if a == b {
				c -= radius * radius / float64(dim)
			}
			sum += c * c / 2
		}
	}
	return sum
}

func lipschitzReference(z, x matrix, constant float64) float64 {
	sum, n := 0.0, float64(len(z))
	for i := range z {
		for j := range z {
			if excess := (squaredDistance(z[i], z[j]) - constant*constant*squaredDistance(x[i], x[j])) / 2; excess > 0 {
				sum += excess * excess / (n * n)
			}
		}
	}
	return sum
}

func TestTermsOfOP1(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 20))
			z, x := randomMatrix(rng, 12, 5), randomMatrix(rng, 12, 3)
			for _, c := range []struct {
				name   string
				graph  func(in []*graph.Node) *graph.Node
				inputs []matrix
				want   float64
			}{
				{"ViewAlignment", func(in []*graph.Node) *graph.Node { return losses.ViewAlignment(in[0], 3) }, []matrix{z}, viewAlignmentReference(z, 3)},
				{"Diversity", func(in []*graph.Node) *graph.Node { return losses.Diversity(in[0], 2) }, []matrix{z}, diversityReference(z, 2)},
				{"Lipschitz", func(in []*graph.Node) *graph.Node { return losses.Lipschitz(in[0], in[1], 1) }, []matrix{z, x}, lipschitzReference(z, x, 1)},
			} {
				if got := evaluate(t, b, c.graph, c.inputs); math.Abs(got-c.want) > 1e-12*math.Max(1, c.want) || c.want == 0 {
					t.Errorf("%s, seed %d: %.14g, reference %.14g", c.name, seed, got, c.want)
				}
				free := func(in []*graph.Node) *graph.Node {
					if len(c.inputs) > 1 { // The inputs x take no gradient.
						in = append(in, graph.ConstTensor(in[0].Graph(), tensors.FromValue([][]float64(x))))
					}
					return c.graph(in)
				}
				gradcheck.Scalar(t, b, free, 1e-6, tensorsOf(c.inputs[:1])...)
			}
		}
	})
}

func TestOP1VanishesWhereItShould(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		pairs := matrix{{2, 0}, {2, 0}, {0, 2}, {0, 2}} // Aligned views, two dimensions filled evenly.
		for name, f := range map[string]func(in []*graph.Node) *graph.Node{
			"ViewAlignment": func(in []*graph.Node) *graph.Node { return losses.ViewAlignment(in[0], 2) },
			"Diversity":     func(in []*graph.Node) *graph.Node { return losses.Diversity(in[0], 2) },
			"Lipschitz":     func(in []*graph.Node) *graph.Node { return losses.Lipschitz(in[0], in[0], 1) },
		} {
			if got := evaluate(t, b, f, []matrix{pairs}); math.Abs(got) > 1e-14 {
				t.Errorf("%s is %g", name, got)
			}
		}
		gradient := graph.MustExecOnce(b, func(z, x *graph.Node) *graph.Node { return graph.Gradient(losses.Lipschitz(z, x, 0.5), x)[0] }, [][]float64(pairs), [][]float64(pairs))
		for _, entry := range tensors.MustCopyFlatData[float64](gradient) {
			if entry != 0 {
				t.Errorf("inputs have gradient %g", entry)
			}
		}
	})
}
