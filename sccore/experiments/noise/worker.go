package noise

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/backend"
	"golang.org/x/sync/errgroup"
)

// runNoiseTolerance runs the cells of the study that are not recorded yet, several at a time. A run takes seconds, so it has no checkpoints.
func runNoiseTolerance(ctx context.Context, b compute.Backend, options Options) error {
	cells, err := noiseCells(options)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, noiseParts, options.Only); err != nil {
		return BadOption{err}
	}
	dir := folderOf(options.Out, NoiseTolerance)
	records, err := Records(dir)
	if err != nil {
		return err
	}
	recorded := map[string]bool{}
	for _, r := range records {
		recorded[r.Cell+" "+r.ConfigHash] = true
	}
	todo := slices.DeleteFunc(slices.Clone(cells), func(c noiseCell) bool { return recorded[c.key()] })
	bar := options.bar(fmt.Sprintf("%s (%s)", NoiseTolerance, options.Profile), len(cells))
	defer bar.Close()
	done := len(cells) - len(todo)
	bar.Set(done, fmt.Sprintf("%d of %d runs to go", len(todo), len(cells)))

	var mu sync.Mutex // Held while recording.
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(options.Parallel, 1))
	students := sync.Map{} // Compiled, by what they are compiled for.
	defer students.Range(func(_, student any) bool {
		student.(func() *noiseStudent)().finalize()
		return true
	})
	for _, c := range todo {
		group.Go(func() error {
			begun := time.Now()
			compiled := c.config
			compiled.Flipped = 0
			student, _ := students.LoadOrStore(string(configJSON(compiled)), sync.OnceValue(func() *noiseStudent { return newNoiseStudent(b, compiled) }))
			precision, loss, err := student.(func() *noiseStudent)().train(ctx, c)
			if err != nil {
				return err
			}
			config := configJSON(c.config)
			mu.Lock()
			defer mu.Unlock()
			done++
			bar.Set(done, fmt.Sprintf("%s  AP %.1f %%", c.name(), precision))
			return Record{
				Experiment: NoiseTolerance, Cell: c.name(), Row: c.config.Loss, Column: flippedColumn(c.config.Flipped),
				Metric: "average precision", Unit: "%", Value: precision,
				Seed: c.seed, Profile: options.Profile, Config: config, ConfigHash: hashOf(config),
				Protocol: "mean over image pairs of the average precision of the student's correspondences against the true ones, new images",
				Data:     noiseData, Details: map[string]float64{"loss": loss},
				Backend: backend.Name(), Versions: versions(), Seconds: time.Since(begun).Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
			}.Append(dir)
		})
	}
	return group.Wait()
}

const noiseData = "patches of synthetic classes"

// noiseStudent is a compiled step and a compiled evaluation.
type noiseStudent struct {
	step, scores *graph.Exec
}

func newNoiseStudent(b compute.Backend, config NoiseToleranceConfig) *noiseStudent {
	correspondence := func(weights, u, v *graph.Node) *graph.Node {
		embed := func(x *graph.Node) *graph.Node { return graph.Einsum("bnd,de->bne", x, weights) }
		return losses.Correspondence(embed(u), embed(v))
	}
	return &noiseStudent{
		step: graph.MustNewExec(b, func(in []*graph.Node) []*graph.Node {
			weights, velocity, u, v, labels := in[0], in[1], in[2], in[3], in[4]
			p := correspondence(weights, u, v)
			loss := losses.BCE(p, labels)
			if config.Loss == "cotap" {
				loss = config.CoTAP.Loss(p, labels)
			}
			velocity = graph.Add(graph.MulScalar(velocity, config.Momentum), graph.Gradient(loss, weights)[0])
			return []*graph.Node{graph.Sub(weights, graph.MulScalar(velocity, config.Rate)), velocity, loss}
		}),
		scores: graph.MustNewExec(b, func(in []*graph.Node) *graph.Node { return correspondence(in[0], in[1], in[2]) }),
	}
}

func (s *noiseStudent) finalize() {
	s.step.Finalize()
	s.scores.Finalize()
}

// train trains a student from random weights and returns its average precision on new images, in %, and its last loss.
func (s *noiseStudent) train(ctx context.Context, cell noiseCell) (precision, loss float64, err error) {
	c := cell.config
	world := newNoiseWorld(c, cell.seed)
	initial := make([]float32, 0, c.Dim*c.Embedding)
	for range c.Dim * c.Embedding {
		initial = append(initial, float32(world.rng.NormFloat64()/math.Sqrt(float64(c.Dim))))
	}
	weights := tensors.FromFlatDataAndDimensions(initial, c.Dim, c.Embedding)
	velocity := tensors.FromScalarAndDimensions(float32(0), c.Dim, c.Embedding)
	features := func(x []float32, n int) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(x, n, c.Patches, c.Dim)
	}
	for range c.Steps {
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		pairs := world.draw(c.Batch)
		labels := tensors.FromFlatDataAndDimensions(pairs.labels, c.Batch, c.Patches*c.Patches)
		out, err := s.step.Exec(weights, velocity, features(pairs.u, c.Batch), features(pairs.v, c.Batch), labels)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", cell.name(), err)
		}
		weights, velocity = out[0], out[1]
		loss = float64(out[2].Value().(float32))
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, 0, fmt.Errorf("%s: the loss is %v at the end", cell.name(), loss)
	}

	// The evaluation is of the same images, whatever has been drawn for training.
	world.rng = rand.New(rand.NewPCG(uint64(cell.seed), 26))
	test := world.draw(c.TestSize)
	out, err := s.scores.Exec(weights, features(test.u, c.TestSize), features(test.v, c.TestSize))
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", cell.name(), err)
	}
	scores := tensors.MustCopyFlatData[float32](out[0])
	counted, size := 0, c.Patches*c.Patches
	for image := range test.n {
		p, truth := make([]float64, size), make([]float64, size)
		for i := range p {
			p[i] = float64(scores[image*size+i])
			if test.sameClasses[image*size+i] {
				truth[i] = 1
			}
		}
		if !slices.Contains(truth, 1) {
			continue // No pair of one class: precision has no meaning.
		}
		ap, err := losses.AP(p, truth, 1)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", cell.name(), err)
		}
		precision += 100 * (1 - ap)
		counted++
	}
	return precision / float64(counted), loss, nil
}

// randomUnit is a random direction.
func randomUnit(rng *rand.Rand, dim int) []float64 {
	direction, square := make([]float64, dim), 0.0
	for d := range direction {
		direction[d] = rng.NormFloat64()
		square += direction[d] * direction[d]
	}
	for d := range direction {
		direction[d] /= math.Sqrt(square)
	}
	return direction
}
