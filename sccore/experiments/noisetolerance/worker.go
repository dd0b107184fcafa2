package noisetolerance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/study"
)

// run is a running cell. It takes seconds, so it writes no checkpoints.
type run = study.Run[Config, study.GeneratedData]

func newWorker(r *run) (study.Worker[Config, study.GeneratedData], error) {
	return newStudent(r.Backend(), r.Cell.Config), nil
}

// Run trains a student and records its average precision.
func (s *student) Run(r *run) error {
	precision, loss, err := s.train(r)
	if err != nil {
		return err
	}
	r.Step("AP %.1f %%", precision)
	return r.Record(study.Number{
		Row: r.Cell.Config.Loss, Column: flippedColumn(r.Cell.Config.Flipped), Metric: "average precision", Unit: "%", Value: precision,
		Protocol: "mean over image pairs of the average precision of the student's correspondences against the true ones, new images",
		Details:  map[string]float64{"loss": loss},
	})
}

// student is a compiled training step and a compiled evaluation.
type student struct {
	step, scores *graph.Exec
}

func newStudent(b compute.Backend, config Config) *student {
	correspondence := func(weights, u, v *graph.Node) *graph.Node {
		embed := func(x *graph.Node) *graph.Node { return graph.Einsum("bnd,de->bne", x, weights) }
		return losses.Correspondence(embed(u), embed(v))
	}
	return &student{
		step: graph.MustNewExec(b, func(in []*graph.Node) []*graph.Node {
			weights, velocity, u, v, labels := in[0], in[1], in[2], in[3], in[4]
			p := correspondence(weights, u, v)
			loss := losses.BCE(p, labels)
			if config.Loss == "cotap" {
				loss = config.CoTAP.Loss(p, labels)
			}
			velocity = graph.Add(graph.MulScalar(velocity, config.Momentum), graph.Gradient(loss, weights)[0])
			return []*graph.Node{graph.Sub(weights, graph.MulScalar(velocity, config.LearningRate)), velocity, loss}
		}),
		scores: graph.MustNewExec(b, func(in []*graph.Node) *graph.Node { return correspondence(in[0], in[1], in[2]) }),
	}
}

// Close frees the device's memory.
func (s *student) Close() {
	s.step.Finalize()
	s.scores.Finalize()
}

// train trains a student from random weights and returns its average precision on new images, in %, and its last loss.
func (s *student) train(r *run) (precision, loss float64, err error) {
	c := r.Cell.Config
	patches := c.patches(r.Cell.Seed)
	initial := make([]float32, 0, c.Dim*c.EmbeddingDim)
	for range c.Dim * c.EmbeddingDim {
		initial = append(initial, float32(patches.Rand.NormFloat64()/math.Sqrt(float64(c.Dim))))
	}
	weights := tensors.FromFlatDataAndDimensions(initial, c.Dim, c.EmbeddingDim)
	velocity := tensors.FromScalarAndDimensions(float32(0), c.Dim, c.EmbeddingDim)
	features := func(x []float32, n int) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(x, n, c.Patches, c.Dim)
	}
	for range c.Steps {
		if err := r.Context.Err(); err != nil {
			return 0, 0, err
		}
		pairs := patches.Draw(c.Batch)
		labels := tensors.FromFlatDataAndDimensions(pairs.Labels, c.Batch, c.Patches*c.Patches)
		out, err := s.step.Call(weights, velocity, features(pairs.U, c.Batch), features(pairs.V, c.Batch), labels)
		if err != nil {
			return 0, 0, err
		}
		weights, velocity = out[0], out[1]
		loss = float64(out[2].Value().(float32))
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, 0, fmt.Errorf("the loss is %v at the end", loss)
	}

	// All runs with a seed are evaluated on the same images, however many were drawn for training.
	patches.Rand = rand.New(rand.NewPCG(uint64(r.Cell.Seed), 26))
	test := patches.Draw(c.TestSize)
	out, err := s.scores.Call(weights, features(test.U, c.TestSize), features(test.V, c.TestSize))
	if err != nil {
		return 0, 0, err
	}
	scores := tensors.MustCopyFlatData[float32](out[0])
	counted, size := 0, c.Patches*c.Patches
	for image := range test.N {
		p, truth := make([]float64, size), make([]float64, size)
		for i := range p {
			p[i] = float64(scores[image*size+i])
			if test.SameClasses[image*size+i] {
				truth[i] = 1
			}
		}
		if !slices.Contains(truth, 1) {
			continue // Precision is not defined without a pair of one class.
		}
		ap, err := losses.AP(p, truth, 1)
		if err != nil {
			return 0, 0, err
		}
		precision += 100 * (1 - ap)
		counted++
	}
	return precision / float64(counted), loss, nil
}
