package losses_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
)

// term is a term of the total loss in its two forms; only its first input takes a gradient.
type term struct {
	graph     func(x, y *graph.Node) *graph.Node
	reference func(x, y matrix) float64
	inputs    func(rng *rand.Rand) (x, y matrix)
}

func distributions(rng *rand.Rand, rows, columns int) matrix {
	m := make(matrix, rows)
	for i := range m {
		m[i] = make([]float64, columns)
		total := 0.0
		for j := range m[i] {
			m[i][j] = rng.ExpFloat64()
			total += m[i][j]
		}
		for j := range m[i] {
			m[i][j] /= total
		}
	}
	return m
}

func alignmentReference(logits, targets matrix, temperature float64) float64 {
	total := 0.0
	for i := range logits {
		for d := range logits[i] {
			scores := []float64{logits[i][d] / temperature}
			for k := range logits[i] {
				if k != d {
					scores = append(scores, logits[i][k]/temperature)
				}
			}
			total += targets[i][d] * crossEntropy(scores) / float64(len(logits))
		}
	}
	return total
}

func prototypeReference(prototypes, features matrix, temperature float64) float64 {
	total := 0.0
	for _, u := range prototypes {
		norm := 0.0
		for _, f := range features {
			norm += math.Exp(cosine(u, f) / temperature)
		}
		for _, f := range features {
			phi := math.Exp(cosine(u, f)/temperature) / norm
			total -= phi * math.Log(phi)
		}
	}
	return total / float64(len(prototypes)*len(features))
}

func bceReference(p, q matrix) float64 {
	total := 0.0
	for i := range p {
		for j := range p[i] {
			total -= q[i][j]*math.Log(p[i][j]) + (1-q[i][j])*math.Log(1-p[i][j])
		}
	}
	return total / float64(len(p)*len(p[0]))
}

var terms = map[string]term{
	"Alignment": {
		graph:     func(x, y *graph.Node) *graph.Node { return losses.Alignment(x, y, 0.3) },
		reference: func(x, y matrix) float64 { return alignmentReference(x, y, 0.3) },
		inputs:    func(rng *rand.Rand) (x, y matrix) { return randomMatrix(rng, 5, 7), distributions(rng, 5, 7) },
	},
	"PrototypeEntropy": {
		graph:     func(x, y *graph.Node) *graph.Node { return losses.PrototypeEntropy(x, y, 0.1) },
		reference: func(x, y matrix) float64 { return prototypeReference(x, y, 0.1) },
		inputs:    func(rng *rand.Rand) (x, y matrix) { return randomMatrix(rng, 3, 8), randomMatrix(rng, 6, 8) },
	},
	"BCE": {
		graph:     losses.BCE,
		reference: bceReference,
		inputs: func(rng *rand.Rand) (x, y matrix) {
			return distributions(rng, 4, 3), distributions(rng, 4, 3)
		},
	},
	"GramAnchoring": gramTerm,
	"PaKA":          pakaTerm,
	"NeCo odd-even": necoTerm(losses.OddEven),
	"NeCo bitonic":  necoTerm(losses.Bitonic),
	"FastAP":        fastAPTerm,
	"SmoothAP":      smoothAPTerm,
}

func TestTermsAgainstReference(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, term := range lo.Assign(terms, topShareTerms) {
			exec := graph.MustNewExec(b, func(x, y *graph.Node) []*graph.Node {
				loss := term.graph(x, y)
				return append([]*graph.Node{loss}, graph.Gradient(loss, y)...)
			})
			for seed := range uint64(3) {
				x, y := term.inputs(rand.New(rand.NewPCG(seed, 21)))
				out := exec.MustCall([][]float64(x), [][]float64(y))
				if got, want := out[0].Value().(float64), term.reference(x, y); !(math.Abs(got-want) <= 1e-12*math.Max(1, want)) {
					t.Errorf("%s: %.14g, reference %.14g", name, got, want)
				}
				for _, entry := range tensors.MustCopyFlatData[float64](out[1]) {
					if entry != 0 {
						t.Fatalf("%s: the targets have gradient %g", name, entry)
					}
				}
			}
			exec.Finalize()
			t.Run(name, func(t *testing.T) {
				x, y := term.inputs(rand.New(rand.NewPCG(9, 22)))
				testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
					return term.graph(in[0], graph.Const(in[0].Graph(), [][]float64(y)))
				}, 1e-6, tensors.FromValue([][]float64(x)))
			})
		}
	})
}

// TestTermsGolden compares with PyTorch; testdata/framework.py and testdata/rivals.py write the files.
func TestTermsGolden(t *testing.T) {
	type golden struct {
		Loss  string
		X, Y  matrix
		Value float64
	}
	var cases []golden
	for _, file := range []string{"testdata/framework.json", "testdata/rivals.json"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var some []golden
		if err := json.Unmarshal(raw, &some); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, some...)
	}
	covered := map[string]bool{}
	for _, c := range cases {
		covered[c.Loss] = true
	}
	if len(covered) != len(terms) {
		t.Fatalf("golden cases for %d of %d losses", len(covered), len(terms))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range cases {
			got := graph.MustExecOnce(b, terms[c.Loss].graph, [][]float64(c.X), [][]float64(c.Y)).Value().(float64)
			if !(math.Abs(got-c.Value) <= 1e-12*math.Max(1, c.Value)) {
				t.Errorf("%s: %.14g, PyTorch %.14g", c.Loss, got, c.Value)
			}
		}
	})
}

func TestTermsHandCases(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []struct {
			loss string
			x, y matrix
			want float64
		}{
			{"Alignment", matrix{{0, 0, 0, 0}}, matrix{{1, 0, 0, 0}}, math.Log(4)},
			{"Alignment", matrix{{50, 0}}, matrix{{1, 0}}, 0},
			{"PrototypeEntropy", matrix{{1, 0}}, matrix{{2, 0}, {3, 0}}, math.Log(2) / 2}, // Both images are equally near.
			{"PrototypeEntropy", matrix{{1, 0}}, matrix{{1, 0}, {-1, 0}}, prototypeReference(matrix{{1, 0}}, matrix{{1, 0}, {-1, 0}}, 0.1)},
			{"BCE", matrix{{0.5, 0.5}}, matrix{{0, 1}}, math.Log(2)},
			{"BCE", matrix{{0, 1}}, matrix{{0, 1}}, 0},
			{"BCE", matrix{{0}}, matrix{{1}}, -math.Log(1e-7)}, // Finite.
		} {
			got := graph.MustExecOnce(b, terms[c.loss].graph, [][]float64(c.x), [][]float64(c.y)).Value().(float64)
			if !(math.Abs(got-c.want) <= 1e-6) {
				t.Errorf("%s of %v, %v: %g, want %g", c.loss, c.x, c.y, got, c.want)
			}
		}
	})
}

func TestCorrespondence(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 31))
	u, v := [][][]float64{randomMatrix(rng, 3, 5), randomMatrix(rng, 3, 5)}, [][][]float64{randomMatrix(rng, 4, 5), randomMatrix(rng, 4, 5)}
	u[1][2] = []float64{2 * v[1][3][0], 2 * v[1][3][1], 2 * v[1][3][2], 2 * v[1][3][3], 2 * v[1][3][4]}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		got := graph.MustExecOnce(b, losses.Correspondence, u, v).Value().([][]float64)
		for image := range u {
			for i := range u[image] {
				for j := range v[image] {
					want := cosine(u[image][i], v[image][j])/2 + 0.5
					if s := got[image][i*4+j]; !(math.Abs(s-want) <= 1e-12) || s > 1 || s < 0 {
						t.Errorf("pair %d, patches %d, %d: %v, want %v", image, i, j, s, want)
					}
				}
			}
		}
		testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
			return losses.BCE(losses.Correspondence(in[0], in[1]), graph.Const(in[0].Graph(), [][]float64{scoresOf(rand.New(rand.NewPCG(1, 1)), 12, 0)}))
		}, 1e-6, tensors.FromValue(u[:1]), tensors.FromValue(v[:1]))
	})
}
