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
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
)

// objective is one loss under test: its graph form and its reference take the same matrices.
type objective struct {
	graph     func(inputs []*graph.Node) *graph.Node
	reference func(inputs []matrix) float64
	inputs    func(rng *rand.Rand) []matrix
	// constants counts the trailing inputs that take no gradient.
	constants int
}

var objectives = map[string]objective{
	"NTXent": {
		graph:     func(in []*graph.Node) *graph.Node { return losses.NTXent(in[0], in[1], 0.5) },
		reference: func(in []matrix) float64 { return ntxentReference(in[0], in[1], 0.5) },
		inputs:    func(rng *rand.Rand) []matrix { return []matrix{randomMatrix(rng, 5, 4), randomMatrix(rng, 5, 4)} },
	},
	"InfoNCE": {
		graph:     func(in []*graph.Node) *graph.Node { return losses.InfoNCE(in[0], in[1], in[2], 0.2) },
		reference: func(in []matrix) float64 { return infonceReference(in[0], in[1], in[2], 0.2) },
		inputs: func(rng *rand.Rand) []matrix {
			return []matrix{randomMatrix(rng, 4, 6), randomMatrix(rng, 4, 6), randomMatrix(rng, 9, 6)}
		},
		constants: 2,
	},
	"BarlowTwins": {
		graph:     func(in []*graph.Node) *graph.Node { return losses.BarlowTwins(in[0], in[1], 0.005) },
		reference: func(in []matrix) float64 { return barlowReference(in[0], in[1], 0.005) },
		inputs:    func(rng *rand.Rand) []matrix { return []matrix{randomMatrix(rng, 7, 5), randomMatrix(rng, 7, 5)} },
	},
	"NegativeCosine": {
		graph:     func(in []*graph.Node) *graph.Node { return losses.NegativeCosine(in[0], in[1]) },
		reference: func(in []matrix) float64 { return negativeCosineReference(in[0], in[1]) },
		inputs:    func(rng *rand.Rand) []matrix { return []matrix{randomMatrix(rng, 6, 5), randomMatrix(rng, 6, 5)} },
		constants: 1,
	},
}

func tensorsOf(inputs []matrix) []*tensors.Tensor {
	all := make([]*tensors.Tensor, len(inputs))
	for i, m := range inputs {
		all[i] = tensors.FromValue([][]float64(m))
	}
	return all
}

func evaluate(t *testing.T, b compute.Backend, f func([]*graph.Node) *graph.Node, inputs []matrix) float64 {
	t.Helper()
	args := []any{}
	for _, input := range tensorsOf(inputs) {
		args = append(args, input)
	}
	out, err := graph.CallOnce(b, f, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out.Value().(float64)
}

func TestAgainstReference(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, o := range objectives {
			for seed := range uint64(3) {
				inputs := o.inputs(rand.New(rand.NewPCG(seed, 1)))
				got, want := evaluate(t, b, o.graph, inputs), o.reference(inputs)
				if !(math.Abs(got-want) <= 1e-10*math.Max(1, math.Abs(want))) {
					t.Errorf("%s, seed %d: %.14g, reference %.14g", name, seed, got, want)
				}
			}
		}
	})
}

func TestGradients(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, o := range objectives {
			t.Run(name, func(t *testing.T) {
				inputs := tensorsOf(o.inputs(rand.New(rand.NewPCG(5, 2))))
				free := len(inputs) - o.constants
				// Constants are not varied: finite differences would ignore the stop-gradient.
				f := func(nodes []*graph.Node) *graph.Node {
					all := append([]*graph.Node{}, nodes...)
					for _, constant := range inputs[free:] {
						all = append(all, graph.ConstTensor(nodes[0].Graph(), constant))
					}
					return o.graph(all)
				}
				testbackend.CheckGradient(t, b, f, 1e-6, inputs[:free]...)
			})
		}
	})
}

func TestConstantsTakeNoGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for name, o := range objectives {
			if o.constants == 0 {
				continue
			}
			args := []any{}
			for _, input := range tensorsOf(o.inputs(rand.New(rand.NewPCG(6, 2)))) {
				args = append(args, input)
			}
			gradients := graph.MustExecOnceN(b, func(in []*graph.Node) []*graph.Node {
				return graph.Gradient(o.graph(in), in[len(in)-o.constants:]...)
			}, args...)
			for _, gradient := range gradients {
				for _, entry := range tensors.MustCopyFlatData[float64](gradient) {
					if entry != 0 {
						t.Fatalf("%s: a constant input has gradient %g", name, entry)
					}
				}
			}
		}
	})
}

// TestGolden compares with losses of an independent PyTorch library; testdata/golden.py writes the file.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Loss   string
		Inputs []matrix
		Value  float64
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	covered := map[string]bool{}
	for _, c := range cases {
		covered[c.Loss] = true
	}
	if len(covered) != len(objectives) {
		t.Fatalf("golden cases of %d losses, want %d", len(covered), len(objectives))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, c := range cases {
			got := evaluate(t, b, objectives[c.Loss].graph, c.Inputs)
			if !(math.Abs(got-c.Value) <= 1e-6*math.Max(1, math.Abs(c.Value))) {
				t.Errorf("%s: %.12g, PyTorch %.12g", c.Loss, got, c.Value)
			}
		}
	})
}

func TestHandCases(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		same := matrix{{1, 2}, {1, 2}, {1, 2}}
		zero := matrix{{0, 0}, {0, 0}, {0, 0}}
		left, right := matrix{{3, 0}, {0, 2}}, matrix{{5, 0}, {0, 1}}
		for _, c := range []struct {
			loss   string
			inputs []matrix
			want   float64
		}{
			{"NTXent", []matrix{same, same}, math.Log(5)},           // Collapse: 2B − 1 equal candidates.
			{"NTXent", []matrix{zero, zero}, math.Log(5)},           // Zero vectors have similarity 0 to all.
			{"InfoNCE", []matrix{same, same, same}, math.Log(4)},    // Key and queue are all equal.
			{"NegativeCosine", []matrix{left, right}, -1},           // Parallel, whatever the length.
			{"NegativeCosine", []matrix{left, {{0, 1}, {1, 0}}}, 0}, // Orthogonal.
			{"BarlowTwins", []matrix{same, same}, 2},                // Constant features correlate with nothing: Σ (1 − 0)².
		} {
			if got := evaluate(t, b, objectives[c.loss].graph, c.inputs); !(math.Abs(got-c.want) <= 1e-9) {
				t.Errorf("%s of %v: %g, want %g", c.loss, c.inputs, got, c.want)
			}
		}
	})
}

// TestInvariances: no loss depends on the order of the images, nor the cosine losses on the length of a vector.
func TestInvariances(t *testing.T) {
	b := testbackend.Fastest(t)
	for name, o := range objectives {
		inputs := o.inputs(rand.New(rand.NewPCG(9, 9)))
		want := evaluate(t, b, o.graph, inputs)
		permuted := append([]matrix{}, inputs...)
		for i := range 2 { // A queue, the third input, keeps its order.
			permuted[i] = append(append(matrix{}, inputs[i][2:]...), inputs[i][:2]...)
		}
		if got := evaluate(t, b, o.graph, permuted); !(math.Abs(got-want) <= 1e-10*math.Max(1, math.Abs(want))) {
			t.Errorf("%s changes with the order of the images: %g, %g", name, got, want)
		}
		if name == "BarlowTwins" {
			continue
		}
		scaled := append([]matrix{}, inputs...)
		scaled[0] = matrix{}
		for i, row := range inputs[0] {
			longer := append([]float64{}, row...)
			for j := range longer {
				longer[j] *= float64(i + 2)
			}
			scaled[0] = append(scaled[0], longer)
		}
		if got := evaluate(t, b, o.graph, scaled); !(math.Abs(got-want) <= 1e-10*math.Max(1, math.Abs(want))) {
			t.Errorf("%s changes with the length of its vectors: %g, %g", name, got, want)
		}
	}
}

// TestZeroVectorsHaveFiniteGradient: an encoder that outputs zeros at its first step must not turn the weights into NaN.
func TestZeroVectorsHaveFiniteGradient(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		zeros := tensors.FromScalarAndDimensions(float32(0), 4, 3)
		for name, o := range objectives {
			if name == "InfoNCE" {
				o.graph = func(in []*graph.Node) *graph.Node { return losses.InfoNCE(in[0], in[1], in[1], 0.2) }
			}
			gradient := graph.MustExecOnce(b, func(x, y *graph.Node) *graph.Node {
				return graph.Gradient(o.graph([]*graph.Node{x, y}), x)[0]
			}, zeros, zeros)
			for _, entry := range tensors.MustCopyFlatData[float32](gradient) {
				if math.IsNaN(float64(entry)) || math.IsInf(float64(entry), 0) {
					t.Fatalf("%s: gradient %v at zero", name, entry)
				}
			}
		}
	})
}
