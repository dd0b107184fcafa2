// Package noisetolerance is the study behind claim C25. It measures how much worse a student ranks patch correspondences if a share of its pseudo labels
// is flipped, trained with CoTAP or with binary cross-entropy.
//
// The paper has no table of it, so the setting is ours, and small. A patch belongs to one of a few classes; its features are the direction of its class plus
// noise. The student maps features linearly. It trains on pairs of images to give patch pairs of one class a higher correspondence than other pairs. Its pseudo
// labels imitate a teacher's scores: high for pairs of one class, low for others, with noise. A flipped label is a score drawn for the wrong kind of pair.
package noisetolerance

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"gonum.org/v1/gonum/stat"
)

// Name is the experiment's name.
const Name = "noise-tolerance"

// Config is the configuration of a cell.
type Config struct {
	Loss    string  `json:"loss"`    // The loss of the pairs: bce or cotap. Both run; --only chooses.
	Flipped float64 `json:"flipped"` // Share of flipped pseudo labels, from 0 to 1.

	Classes  int     `json:"classes" range:"[2,2^16]"`   // Number of classes of patches.
	Dim      int     `json:"dim" range:"[1,2^14]"`       // Length of a patch feature.
	Noise    float64 `json:"noise" range:"[0,1e3]"`      // Standard deviation of a feature; a class's direction has length 1.
	Patches  int     `json:"patches" range:"[1,2^12]"`   // Patches per image.
	TestSize int     `json:"test_size" range:"[1,2^20]"` // Image pairs for evaluation.

	High       float64 `json:"high" range:"[0,1]"`         // Mean pseudo label of pairs with the same class.
	Low        float64 `json:"low" range:"[0,1]"`          // Mean pseudo label of other pairs.
	LabelNoise float64 `json:"label_noise" range:"[0,10]"` // Standard deviation of the pseudo labels around their mean.

	EmbeddingDim int          `json:"embedding" range:"[1,2^14]"` // Dimension of the student's output.
	Batch        int          `json:"batch" range:"[1,2^20]"`     // Image pairs per step.
	Steps        int          `json:"steps" range:"[1,2^24]"`
	LearningRate float64      `json:"rate" range:"[0,1e4]"`   // Learning rate of the student.
	Momentum     float64      `json:"momentum" range:"[0,1]"` // Momentum of the optimizer.
	CoTAP        losses.CoTAP `json:"cotap"`
}

// lossNames are the losses that are compared, and flippedShares the shares of flipped labels.
var (
	lossNames     = []string{"bce", "cotap"}
	flippedShares = []float64{0, 0.1, 0.2, 0.3, 0.4}
)

// profileConfig returns the configuration of a loss in a profile, before the share of flipped labels and --set.
func profileConfig(profile study.Profile, loss string) Config {
	return study.Configured(Name, Config{CoTAP: losses.DefaultCoTAP()}, string(profile), loss)
}

// flippedColumn is the table's column for a share of flipped labels.
func flippedColumn(share float64) string { return fmt.Sprintf("%.0f %% flipped", 100*share) }

// cells lists the cells of a profile, all cells of one seed before the next seed, so that the results of an interrupted study are comparable.
func cells(o study.Options, _ string) (_ []study.Cell[Config], err error) {
	defer try.Handle(&err)
	shares := lo.Ternary(o.Profile == study.Smoke, []float64{0, 0.2}, flippedShares)
	var cells []study.Cell[Config]
	for seed := range study.Seeds(Name, o) {
		for _, loss := range lossNames {
			config := profileConfig(o.Profile, loss)
			// "bce.rate=2" is for one loss, "rate=2" for both.
			try.E(settings.Apply(&config, settings.For(o.Set, loss, lossNames, "cotap.tau1", "cotap.tau2")...))
			if config.Loss != loss || config.Flipped != 0 {
				return nil, errors.New("--set loss or flipped: choose runs with --only 'cotap/flipped0.2'")
			}
			try.E(settings.Check(config))
			for _, share := range shares {
				config.Flipped = share
				cells = append(cells, study.Cell[Config]{Path: []string{loss, fmt.Sprintf("flipped%g", share)}, Seed: seed, Config: config})
			}
		}
	}
	return cells, nil
}

// Study is the experiment.
var Study = study.Spec[Config, study.Described]{
	Name:  Name,
	Parts: []string{"loss", "flipped", "seed"},
	Cells: cells,
	Open: func(study.Options, string, []study.Cell[Config]) (study.Described, error) {
		const data = "patches of synthetic classes"
		return study.Described{ID: data, Name: data}, nil
	},
	Numbers: func(_ study.Described, c study.Cell[Config]) []study.Number {
		return []study.Number{{Row: c.Config.Loss, Column: flippedColumn(c.Config.Flipped)}}
	},
	Steps: func(study.Described, study.Cell[Config]) int { return 1 },
	NewWorker: func(r *run) (study.Worker[Config, study.Described], error) {
		return newStudent(r.Backend(), r.Cell.Config), nil
	},
	Shares: func(c study.Cell[Config]) string { return c.Config.Loss },
	ProfileConfig: func(r study.Record, config Config) Config {
		c := profileConfig(r.Profile, config.Loss)
		c.Flipped = config.Flipped
		return c
	},
	Common: func(config, profileConfig Config) Config {
		config.Loss, config.Flipped = "", 0
		if config.LearningRate == profileConfig.LearningRate { // Each loss has its own.
			config.LearningRate = 0
		}
		return config
	},
	Tables: func(r study.Results) []figures.Table { return []figures.Table{study.TableOf(Name, "flipped").Of(r)} },
	Figures: func(results study.Results, _ study.FigureSources, all *study.Drawn) {
		all.Add(Curves(results), nil, "Average precision of the student by the share of flipped pseudo labels, means over seeds.", "noise-tolerance")
	},
	AcrossColumns: true,
}

// Rules returns an error unless pairs of one class have the higher pseudo labels and everything fits in memory.
func (c Config) Rules() error {
	if c.Low > c.High {
		return fmt.Errorf("low %v is above high %v", c.Low, c.High)
	}
	const bytesOfPair = 64 // Scores, labels and what CoTAP sorts.
	fits := func(name string, images int) error {
		what := fmt.Sprintf("%s %d of patches %d", name, images, c.Patches)
		return cmp.Or(settings.Fit(settings.MaxBytes, what+": all pairs of patches", images, c.Patches, c.Patches, bytesOfPair),
			settings.Fit(settings.MaxBytes, fmt.Sprintf("%s of dim %d", what, c.Dim), images, c.Patches, max(c.Dim, c.EmbeddingDim), 8))
	}
	return cmp.Or(settings.Fit(settings.MaxBytes, fmt.Sprintf("classes %d of dim %d", c.Classes, c.Dim), c.Classes, c.Dim, 8), fits("batch", c.Batch), fits("test_size", c.TestSize))
}

// run is a running cell. It takes seconds, so it writes no checkpoints.
type run = study.Run[Config, study.Described]

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
	defer try.Handle(&err)
	c := r.Cell.Config
	// Images do not depend on the loss: runs with the same seed see the same images and, for one share of flipped labels, the same labels.
	patches := synthetic.NewPatches(synthetic.PatchPairs{
		Classes: c.Classes, Dim: c.Dim, Noise: c.Noise, Patches: c.Patches, High: c.High, Low: c.Low, LabelNoise: c.LabelNoise, Flipped: c.Flipped,
	}, uint64(r.Cell.Seed))
	initial := lo.Times(c.Dim*c.EmbeddingDim, func(int) float32 { return float32(patches.Rand.NormFloat64() / math.Sqrt(float64(c.Dim))) })
	weights := tensors.FromFlatDataAndDimensions(initial, c.Dim, c.EmbeddingDim)
	velocity := tensors.FromScalarAndDimensions(float32(0), c.Dim, c.EmbeddingDim)
	features := func(x []float32, n int) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(x, n, c.Patches, c.Dim)
	}
	for range c.Steps {
		try.E(r.Context.Err())
		pairs := patches.Draw(c.Batch)
		labels := tensors.FromFlatDataAndDimensions(pairs.Labels, c.Batch, c.Patches*c.Patches)
		out := try.E1(s.step.Call(weights, velocity, features(pairs.U, c.Batch), features(pairs.V, c.Batch), labels))
		weights, velocity = out[0], out[1]
		loss = float64(out[2].Value().(float32))
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, 0, fmt.Errorf("the loss is %v at the end", loss)
	}

	// All runs with a seed are evaluated on the same images, however many were drawn for training.
	patches.Rand = rand.New(rand.NewPCG(uint64(r.Cell.Seed), 26))
	test := patches.Draw(c.TestSize)
	out := try.E1(s.scores.Call(weights, features(test.U, c.TestSize), features(test.V, c.TestSize)))
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
		ap := try.E1(losses.AP(p, truth, 1))
		precision += 100 * (1 - ap)
		counted++
	}
	return precision / float64(counted), loss, nil
}

// Curves plots average precision against the share of flipped labels, averaged over seeds.
func Curves(r study.Results) figures.Curves {
	f := figures.Curves{Title: fmt.Sprintf("Flipped pseudo labels of synthetic patches, %s profile", r.Profile), X: "flipped labels (%)", Y: "average precision (%)"}
	for _, loss := range study.TableOf(Name, "flipped").Rows {
		series := figures.Series{Name: loss.Heads[0]}
		for _, share := range flippedShares {
			if values := r.Values(loss.Key, flippedColumn(share)); len(values) > 0 {
				series.X, series.Y = append(series.X, 100*share), append(series.Y, stat.Mean(values, nil))
			}
		}
		f.Series = append(f.Series, series)
	}
	return f
}
