package sccore_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

// tiny is a configuration with everything on that the Go engine trains in a fraction of a second a step.
func tiny() sccore.Config {
	c := sccore.Default()
	c.Encoder, c.Prototypes = "vit-tiny", 4
	c.ImageHead, c.PatchHead = sccore.Projector{Hidden: 16, Out: 8}, sccore.Projector{Hidden: 16, Out: 8}
	c.Views.GlobalSize, c.Views.Locals, c.Views.LocalSize, c.Canvas = 24, 1, 16, 32
	c.Batch, c.Steps, c.GaugeEvery, c.Neighbours = 4, 6, 2, 2
	c.Rate, c.FinalRate, c.Momentum = 1e-3, 1e-4, 0.9
	return c
}

// tinyData are synthetic images of the size of tiny's canvas.
func tinyData() sccore.Data {
	objects, scenes := datasets.SyntheticObjects(6, 32, 1), datasets.SyntheticScenes(6, 32, 2)
	return sccore.Data{
		Objects: objects, Scenes: scenes,
		Neighbours: &sccore.Neighbours{K: 2, Indices: []int32{1, 2, 0, 2, 0, 1, 4, 5, 3, 5, 3, 4}},
		Labels: func(image int32, canvas []uint8, side int) error {
			masks, i := objects.ClassMask, int(image)
			if i >= objects.Len() {
				masks, i = scenes.ClassMask, i-objects.Len()
			}
			copy(canvas, masks[i*side*side:(i+1)*side*side])
			return nil
		},
	}
}

// onGo opens the Go engine, which compiles a tiny step at once.
func onGo(t *testing.T) compute.Backend {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newTrainer(t testing.TB, b compute.Backend, data sccore.Data, config sccore.Config) *sccore.Trainer {
	t.Helper()
	trainer, err := sccore.NewTrainer(b, data, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trainer.Close)
	return trainer
}

// train begins a run of the seed, takes steps and returns their gauges.
func train(t *testing.T, trainer *sccore.Trainer, seed uint64, steps int) []sccore.Gauges {
	t.Helper()
	if err := trainer.Begin(seed); err != nil {
		t.Fatal(err)
	}
	return more(t, trainer, steps)
}

func more(t *testing.T, trainer *sccore.Trainer, steps int) (all []sccore.Gauges) {
	t.Helper()
	for range steps {
		gauges, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, gauges)
	}
	return all
}

// state is the bytes of a run's checkpoint.
func state(t *testing.T, trainer *sccore.Trainer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.safetensors")
	if err := trainer.Save(path, "note"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestResumedRunEqualsOneThatNeverStopped(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		whole := newTrainer(t, b, tinyData(), tiny())
		train(t, whole, 7, 3)
		middle := filepath.Join(t.TempDir(), "middle.safetensors")
		if err := whole.Save(middle, "a note"); err != nil {
			t.Fatal(err)
		}
		more(t, whole, 3)
		want := state(t, whole)

		// In another process, with other workers, and after another run.
		data := tinyData()
		data.Workers = 3
		resumed := newTrainer(t, b, data, tiny())
		train(t, resumed, 8, 1)
		note, err := resumed.Resume(middle)
		if err != nil || note != "a note" || resumed.Done() != 3 {
			t.Fatalf("resumed at step %d with note %q, %v", resumed.Done(), note, err)
		}
		gauges := more(t, resumed, 3)
		if state(t, resumed) != want {
			t.Error("the resumed run ended with other bytes")
		}
		if gauges[0].Step != 4 || gauges[0].Class == nil || gauges[1].Class != nil {
			t.Errorf("gauges %+v", gauges)
		}
		train(t, resumed, 7, 6)
		if state(t, resumed) != want {
			t.Error("the same seed ended with other bytes")
		}
		train(t, resumed, 9, 6)
		if state(t, resumed) == want {
			t.Error("another seed ended with the same bytes")
		}
	})
}

// TestBeginDoesNotDependOnWhatWasBuiltOnTheEncoder begins again after someone else's graph has used the target branch.
func TestBeginDoesNotDependOnWhatWasBuiltOnTheEncoder(t *testing.T) {
	b := onGo(t)
	trainer := newTrainer(t, b, tinyData(), tiny())
	train(t, trainer, 3, 0)
	want := state(t, trainer)
	for _, branch := range []sccore.Branch{sccore.Target, sccore.Online} {
		vit, store, scope := trainer.Encoder(branch)
		features := model.MustNewExec(b, store, func(root *model.Scope, images *graph.Node) *graph.Node {
			return vit.Tokens(root.Store().Scope(scope), images).Class
		})
		features.MustExec(tensors.FromShape(shapes.Make(dtypes.Float32, 1, 24, 24, 3)))
		features.Finalize()
		train(t, trainer, 3, 0)
		if state(t, trainer) != want {
			t.Errorf("the %s branch's features change the initial weights", branch)
		}
	}
}

func TestGaugesShowEveryLoss(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		config := tiny()
		trainer := newTrainer(t, b, tinyData(), config)
		g := train(t, trainer, 1, 2)[1]
		sum := g.PatchAlignment + g.ImageAlignment + g.PatchConcentration + g.ImageConcentration + g.Prototypes
		if math.Abs(sum-g.Total) > 1e-4 {
			t.Errorf("losses %+v add up to %g", g, sum)
		}
		for name, x := range map[string]float64{"patch alignment": g.PatchAlignment, "image alignment": g.ImageAlignment, "patch concentration": g.PatchConcentration,
			"image concentration": g.ImageConcentration, "prototypes": g.Prototypes, "image entropy": g.ImageEntropy, "patch entropy": g.PatchEntropy,
			"gradient": g.GradientNorm} {
			if !(x > 0) {
				t.Errorf("%s is %g", name, x)
			}
		}
		if most := math.Log(8); g.ImageEntropy > most || g.PatchEntropy > most {
			t.Errorf("entropies %g and %g above ln 8", g.ImageEntropy, g.PatchEntropy)
		}
		for _, spread := range []*sccore.Spread{g.Class, g.Patches} {
			if spread == nil || !(spread.Std > 0 && spread.Std < 1.5 && spread.Rank >= 1 && spread.Rank <= 64) {
				t.Errorf("spread %+v", spread)
			}
		}

		// Weights are inputs of the step; weights of 0 are another step.
		config.Lambdas = losses.Lambdas{PatchAlignment: 1, ImageAlignment: 2, PatchConcentration: 3, ImageConcentration: 4, Prototypes: 5}
		if err := trainer.Configure(config); err != nil {
			t.Fatal(err)
		}
		g = train(t, trainer, 1, 1)[0]
		sum = g.PatchAlignment + 2*g.ImageAlignment + 3*g.PatchConcentration + 4*g.ImageConcentration + 5*g.Prototypes
		if math.Abs(sum-g.Total) > 1e-3 {
			t.Errorf("weighted losses %+v add up to %g", g, sum)
		}
		config.Lambdas.Prototypes = 0
		if err := trainer.Configure(config); err == nil {
			t.Error("a compiled step serves another set of losses")
		}
	})
}

// TestAblations trains a step of each line and looks at which losses it has.
func TestAblations(t *testing.T) {
	b := onGo(t)
	for _, line := range sccore.Ablations {
		trainer := newTrainer(t, b, tinyData(), line.Config(tiny()))
		g := train(t, trainer, 1, 1)[0]
		for name, on := range map[string][2]bool{
			"image alignment":     {line.ImageAlignment, g.ImageAlignment > 0},
			"patch alignment":     {line.PatchAlignment, g.PatchAlignment > 0},
			"image concentration": {line.ImageConcentration, g.ImageConcentration > 0},
			"patch concentration": {line.PatchConcentration, g.PatchConcentration > 0},
			"prototypes":          {line.Filter, g.Prototypes > 0},
		} {
			if on[0] != on[1] {
				t.Errorf("line %d: %s is %v, want %v", line.Line, name, on[1], on[0])
			}
		}
		if !(g.GradientNorm > 0) {
			t.Errorf("line %d has no gradient", line.Line)
		}
	}
	if len(sccore.Ablations) != 7 {
		t.Errorf("%d lines, the paper has 7", len(sccore.Ablations))
	}
}

// TestAccumulatedStep trains a batch in one part and in two, without what is counted over a batch.
func TestAccumulatedStep(t *testing.T) {
	b := onGo(t)
	config := tiny()
	config.Accumulate, config.Batch = 2, 8
	trainer := newTrainer(t, b, tinyData(), config)
	gauges := train(t, trainer, 3, 2)
	if g := gauges[1]; !(g.GradientNorm > 0 && g.Total > 0) || g.Class == nil {
		t.Errorf("gauges %+v", g)
	}
	sum := gauges[1].PatchAlignment + gauges[1].ImageAlignment + gauges[1].PatchConcentration + gauges[1].ImageConcentration + gauges[1].Prototypes
	if math.Abs(sum-gauges[1].Total) > 1e-4 {
		t.Errorf("losses of two parts add up to %g, not to %g", sum, gauges[1].Total)
	}
}

// TestTrainingLearns aligns patches for some steps. Chance is an even prediction, whose cross-entropy is ln K.
func TestTrainingLearns(t *testing.T) {
	config := sccore.Ablations[1].Config(tiny())
	config.Steps, config.Rate, config.Views.Locals = 160, 5e-3, 0
	config.Views.Global.Jitter, config.Views.Global.Grayscale = false, false
	gauges := train(t, newTrainer(t, onGo(t), tinyData(), config), 1, config.Steps)
	mean := func(gauges []sccore.Gauges) (sum float64) {
		for _, g := range gauges {
			sum += g.PatchAlignment / float64(len(gauges))
		}
		return sum
	}
	chance, before, after := math.Log(8), mean(gauges[:5]), mean(gauges[150:])
	t.Logf("patch alignment %.2f at first, %.2f at last, %.2f by chance", before, after, chance)
	if before < chance || after > 0.95*chance {
		t.Errorf("patch alignment %.2f at first, %.2f at last, %.2f by chance", before, after, chance)
	}
}

func TestRunsFromFiles(t *testing.T) {
	b := onGo(t)
	dir := t.TempDir()
	first := newTrainer(t, b, tinyData(), sccore.Ablations[2].Config(tiny())) // Without filter.
	train(t, first, 1, 2)
	checkpoint, target, online := filepath.Join(dir, "run.safetensors"), filepath.Join(dir, "target.safetensors"), filepath.Join(dir, "online.safetensors")
	if err := first.Save(checkpoint, ""); err != nil {
		t.Fatal(err)
	}
	if err := first.SaveEncoder(target, sccore.Target, map[string]string{"run": "first"}); err != nil {
		t.Fatal(err)
	}
	if err := first.SaveEncoder(online, sccore.Online, nil); err != nil {
		t.Fatal(err)
	}
	read := func(path string, prototypes int) string {
		want, err := encoder.ViTByName("vit-tiny")
		if err != nil {
			t.Fatal(err)
		}
		want.Prototypes = prototypes
		im, err := weights.ReadViT(path, want, "")
		if err != nil {
			t.Fatal(err)
		}
		return im.String()
	}
	if report := read(target, 0); !strings.Contains(report, "missing          0") {
		t.Errorf("exported encoder: %s", report)
	}

	// The filter is new and keeps its initial values; the rest is the target branch's, whichever file it is from.
	second := newTrainer(t, b, tinyData(), tiny())
	var ends []string
	for _, from := range []string{checkpoint, target, online} {
		if err := second.BeginFrom(from, 5); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "second.safetensors")
		if err := second.SaveEncoder(out, sccore.Online, nil); err != nil {
			t.Fatal(err)
		}
		read(out, 4)
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, string(content))
		more(t, second, 1)
	}
	if ends[0] != ends[1] || ends[0] == ends[2] {
		t.Errorf("checkpoint and target's file begin alike: %v, target's and online's: %v", ends[0] == ends[1], ends[0] == ends[2])
	}

	if _, err := second.Resume(checkpoint); err == nil || !strings.Contains(err.Error(), checkpoint) {
		t.Errorf("resuming another configuration's run: %v", err)
	}
	named, metadata, err := weights.ReadSafetensors(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	bias := "/target/encoder/norm/bias"
	values := make([]float32, named[bias].Size())
	values[7] = float32(math.NaN())
	named[bias] = tensors.FromValue(values)
	diverged := filepath.Join(dir, "diverged.safetensors")
	if err := weights.WriteSafetensors(diverged, named, metadata); err != nil {
		t.Fatal(err)
	}
	if err := second.BeginFrom(diverged, 1); err == nil || !strings.Contains(err.Error(), diverged) || !strings.Contains(err.Error(), "norm/bias: entry 7 is NaN") {
		t.Errorf("beginning from a checkpoint of no numbers: %v", err)
	}
	if err := second.BeginFrom(filepath.Join(dir, "none.pth"), 1); err == nil || !strings.Contains(err.Error(), "none.pth") {
		t.Errorf("beginning from no file: %v", err)
	}
}

func TestDivergedRunNamesItsCheckpoint(t *testing.T) {
	b := onGo(t)
	config := tiny()
	config.Rate, config.FinalRate, config.Clip = 1e30, 1e30, 0
	trainer := newTrainer(t, b, tinyData(), config)
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "good.safetensors")
	if err := trainer.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		_, err := trainer.Step(t.Context())
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") || trainer.Done() == 4 {
			t.Errorf("error %v", err)
		}
		return
	}
	t.Error("a learning rate of 1e30 did not diverge")
}

func TestConfigCheckNamesTheField(t *testing.T) {
	if err := sccore.Default().Check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(c *sccore.Config){
		"vit-huge":                func(c *sccore.Config) { c.Encoder = "vit-huge" },
		"positions":               func(c *sccore.Config) { c.Positions = "linear" },
		"prototypes -1":           func(c *sccore.Config) { c.Prototypes = -1 },
		"patch_head.out 1":        func(c *sccore.Config) { c.PatchHead.Out = 1 },
		"views.Globals 1":         func(c *sccore.Config) { c.Views.Globals = 1 },
		"views.GlobalSize 30":     func(c *sccore.Config) { c.Views.GlobalSize = 30 },
		"views.LocalSize 20":      func(c *sccore.Config) { c.Views.LocalSize = 20 },
		"accumulate 3":            func(c *sccore.Config) { c.Accumulate = 3 },
		"warmup 6":                func(c *sccore.Config) { c.Warmup = 6 },
		"rate NaN":                func(c *sccore.Config) { c.Rate = math.NaN() },
		"momentum 1.5":            func(c *sccore.Config) { c.Momentum = 1.5 },
		"patch_concentration \"x": func(c *sccore.Config) { c.PatchConcentration = "x" },
		"correspondences.from \"": func(c *sccore.Config) { c.Correspondences.From = "x" },
		"correspondences.noise 2": func(c *sccore.Config) { c.Correspondences.Noise = 2 },
		"without prototypes":      func(c *sccore.Config) { c.Prototypes = 0 },
		"no loss":                 func(c *sccore.Config) { c.Lambdas = losses.Lambdas{Prototypes: 1} },
		"tau2":                    func(c *sccore.Config) { c.CoTAP.Tau2 = 0 },
		"epsilon":                 func(c *sccore.Config) { c.Sinkhorn.Epsilon = 0 },
		"MinOverlap":              func(c *sccore.Config) { c.Views.MinOverlap = 2 },
	} {
		c := tiny()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	b := onGo(t)
	noObjects, noNeighbours, noLabels := tinyData(), tinyData(), tinyData()
	for want, neighbours := range map[string]*sccore.Neighbours{"no neighbours": nil, "neighbours of 2 images": {K: 1, Indices: []int32{1, 0}}} {
		noNeighbours.Neighbours = neighbours
		if err := newTrainer(t, b, noNeighbours, tiny()).Begin(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	noObjects.Objects, noObjects.Neighbours = nil, nil
	noLabels.Labels = nil
	fromLabels := tiny()
	fromLabels.Correspondences.From = sccore.FromLabels
	for want, c := range map[string]struct {
		data   sccore.Data
		config sccore.Config
	}{
		"object-centric":        {noObjects, tiny()},
		"labels":                {noLabels, fromLabels},
		"a mixture of no image": {sccore.Data{}, tiny()},
	} {
		if _, err := sccore.NewTrainer(b, c.data, c.config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
