package methods

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/views"
)

// small is a configuration of a method that takes milliseconds per step.
func small(method string) Config {
	s := Config{Method: method, Encoder: "conv4-w4", Batch: 8, Epochs: 3, LearningRate: 0.1, Momentum: 0.9, WeightDecay: 5e-4,
		ProjectorHidden: 12, ProjectorDim: 6}
	switch method {
	case SimCLR:
		s.Temperature = 0.5
	case BarlowTwins:
		s.OffDiagonal, s.LossScale = 0.02, 0.1
	case MoCo:
		s.Temperature, s.Queue, s.TargetMomentum, s.NormGroups = 0.2, 16, 0.9, 2
	case SimSiam:
		s.PredictorHidden = 4
	}
	return s
}

func newTrainer(t *testing.T, b compute.Backend, images *datasets.Images, s Config) *Trainer {
	t.Helper()
	trainer, err := NewTrainer(b, images, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trainer.Close)
	return trainer
}

func begin(t *testing.T, trainer *Trainer, seed uint64) {
	t.Helper()
	if err := trainer.Begin(views.Default(), seed); err != nil {
		t.Fatal(err)
	}
}

func learn(t *testing.T, trainer *Trainer, steps int) (losses []float64) {
	t.Helper()
	for range steps {
		loss, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			t.Fatalf("loss %g", loss)
		}
		losses = append(losses, loss)
	}
	return losses
}

// state copies every variable.
func state(t *testing.T, trainer *Trainer) map[string]any {
	t.Helper()
	values := map[string]any{}
	for variable := range trainer.Store().IterVariables() {
		values[variable.Path()] = variable.MustValue().Value()
	}
	return values
}

// TestMain lets XLA optimise as it does for users: the trainings of this package take longer than their programs do to load from the cache.
func TestMain(m *testing.M) {
	testbackend.Trains = true
	m.Run()
}

func TestSameSeedSameBytesAndResumeEqualsNotStopping(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	images := synthetic.Images(20, 32, 1) // Two steps per epoch, and four images left over.
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, method := range Names {
			t.Run(method, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
				trainer := newTrainer(t, b, images, small(method))
				begin(t, trainer, 7)
				first := learn(t, trainer, 3)
				if err := trainer.Save(path, "a note"); err != nil {
					t.Fatal(err)
				}
				rest := learn(t, trainer, 3)
				whole, mean := state(t, trainer), trainer.EpochLoss()

				// The same trainer again, after a different run.
				begin(t, trainer, 8)
				other := learn(t, trainer, 3)
				if slices.Equal(other, first) {
					t.Error("another seed gave the same losses")
				}
				begin(t, trainer, 7)
				if again := learn(t, trainer, 3); !slices.Equal(again, first) {
					t.Errorf("the same seed gave losses %v, then %v", first, again)
				}

				resumed := trainer
				if b == testbackend.Go(t) {
					resumed = newTrainer(t, b, images, small(method)) // As after a kill. On XLA the step would compile for as long again.
				}
				begin(t, resumed, 7)
				note, err := resumed.Resume(path)
				if err != nil || note != "a note" || resumed.Done() != 3 {
					t.Fatalf("resumed with note %q at step %d: %v", note, resumed.Done(), err)
				}
				if got := learn(t, resumed, 3); !slices.Equal(got, rest) {
					t.Errorf("after resuming losses %v, without stopping %v", got, rest)
				}
				if resumed.EpochLoss() != mean {
					t.Errorf("epoch loss %g after resuming, %g without stopping", resumed.EpochLoss(), mean)
				}
				for path, value := range state(t, resumed) {
					if !tensors.MustFromAnyValue(value).Equal(tensors.MustFromAnyValue(whole[path])) {
						t.Errorf("%s differs after resuming", path)
					}
				}
			})
		}
	})
}

// TestLearns trains each method briefly. k-NN classification of new images must be two standard errors above that of the first weights
// and six above chance, 12.5 ± 1.0 % for 1,024 images of eight classes, and the loss must fall.
func TestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Fastest(t)
	images, test := synthetic.Images(256, 32, 3), synthetic.Images(1024, 32, 4)
	for _, method := range Names {
		s := small(method)
		s.Encoder, s.Batch, s.Epochs, s.LearningRate, s.ProjectorDim, s.ProjectorHidden = "conv4-w8", 32, 8, 0.2, 16, 32
		if method == MoCo {
			s.Queue = 64
		}
		trainer := newTrainer(t, b, images, s)
		begin(t, trainer, 1)
		untrained := accuracyOf(t, trainer, images, test)
		losses := learn(t, trainer, trainer.Steps())
		third := len(losses) / 3
		early, late := mean(losses[:third]), mean(losses[len(losses)-third:])
		if method != MoCo && !(late < early) { // MoCo's queue starts with random keys, which are easy negatives.
			t.Errorf("%s: mean loss %.4f at first, %.4f at last", method, early, late)
		}
		accuracy := accuracyOf(t, trainer, images, test)
		if !(accuracy >= 12.5+6*1.0 && accuracy-untrained >= 2*1.3) {
			t.Errorf("%s: k-NN accuracy %.1f %%, before training %.1f %%, chance is 12.5 ± 1.0", method, accuracy, untrained)
		}
		bank, dim, err := trainer.Features(images)
		if err != nil {
			t.Fatal(err)
		}
		spread, err := metrics.MeasureSpread(bank, dim)
		if err != nil {
			t.Fatal(err)
		}
		if !(spread.Rank >= 1.5) {
			t.Errorf("%s: features collapsed, %+v", method, spread)
		}
		t.Logf("%s: loss %.3f to %.3f, k-NN %.1f to %.1f %%, %+v", method, early, late, untrained, accuracy, spread)
	}
}

func mean(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v / float64(len(values))
	}
	return total
}

func TestMoCoTarget(t *testing.T) {
	images := synthetic.Images(16, 32, 1)
	b := testbackend.Fastest(t)
	s := small(MoCo)
	trainer := newTrainer(t, b, images, s)
	begin(t, trainer, 1)
	before := state(t, trainer)
	learn(t, trainer, 1)
	after := state(t, trainer)
	const weight = "backbone/conv1/weight"
	online, target := "/online/"+weight, "/target/"+weight
	if !tensors.MustFromAnyValue(after[target]).Equal(tensors.MustFromAnyValue(before[online])) {
		t.Error("the first step's target is not the online encoder's initial weights")
	}
	learn(t, trainer, 1)
	later := state(t, trainer)
	flat := func(values map[string]any, path string) []float32 {
		return tensors.MustCopyFlatData[float32](tensors.MustFromAnyValue(values[path]))
	}
	for i, got := range flat(later, target) {
		want := s.TargetMomentum*float64(flat(after, target)[i]) + (1-s.TargetMomentum)*float64(flat(after, online)[i])
		if !(math.Abs(float64(got)-want) <= 1e-6) {
			t.Fatalf("target weight %d is %g, the moving average %g", i, got, want)
		}
	}
	// The queue has the second step's keys, then the first step's.
	queue := func(values map[string]any) []float32 { return flat(values, "/queue") }
	keys := s.Batch * s.ProjectorDim
	if !slices.Equal(queue(later)[keys:], queue(after)[:keys]) {
		t.Error("the older keys did not move back in the queue")
	}
	for row := range s.Batch {
		length := 0.0
		for _, x := range queue(later)[row*s.ProjectorDim : (row+1)*s.ProjectorDim] {
			length += float64(x) * float64(x)
		}
		if !(math.Abs(length-1) <= 1e-5) {
			t.Errorf("key %d has squared length %g", row, length)
		}
	}
}

func TestUnshuffled(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		shuffle := shuffledOrder(3, "keys", 5, 9)
		rows := make([][]float32, len(shuffle))
		for i, from := range shuffle { // Row i of the shuffled batch is row shuffle[i] of the batch.
			rows[i] = []float32{float32(from), 10}
		}
		got := MustExecOnce(b, unshuffled, rows, shuffle).Value().([][]float32)
		for i, row := range got {
			if row[0] != float32(i) || row[1] != 10 {
				t.Fatalf("row %d is %v after unshuffling %v", i, row, shuffle)
			}
		}
	})
}

func TestStandardizedHasCIFARStatistics(t *testing.T) {
	b := testbackend.Fastest(t)
	got := MustExecOnce(b, standardized, [][][][]float32{{{{0.4914, 0.4822 + 0.2435, 0}}}}).Value().([][][][]float32)[0][0][0]
	for i, want := range []float32{0, 1, -0.4465 / 0.2616} {
		if !(math.Abs(float64(got[i]-want)) <= 1e-5) {
			t.Errorf("channel %d is %g, want %g", i, got[i], want)
		}
	}
}

func TestHeadsHaveTheMethodsLayers(t *testing.T) {
	b := testbackend.Fastest(t)
	images := synthetic.Images(8, 32, 1)
	for method, want := range map[string]int{ // Parameters of the heads on 16 features, hidden 12, out 6, predictor 4.
		SimCLR:      16*12 + 2*12 + 12*6,
		BarlowTwins: 16*12 + 2*12 + 12*12 + 2*12 + 12*6,
		MoCo:        16*12 + 12 + 12*6 + 6,
		SimSiam:     16*12 + 2*12 + 12*6 + (6*4 + 2*4 + 4*6 + 6),
	} {
		trainer := newTrainer(t, b, images, small(method))
		begin(t, trainer, 1)
		got := 0
		for variable := range trainer.Store().Scope("/" + onlineScope).IterVariables() {
			if variable.Trainable && !strings.Contains(variable.Path(), "/backbone/") {
				got += variable.Shape().Size()
			}
		}
		if got != want {
			t.Errorf("%s: %d head parameters, want %d", method, got, want)
		}
	}
}

func TestBadSettings(t *testing.T) {
	images := synthetic.Images(16, 32, 1)
	b := testbackend.Fastest(t)
	for want, change := range map[string]func(*Config){
		`"byol"`:                 func(s *Config) { s.Method = "byol" },
		`"vgg"`:                  func(s *Config) { s.Encoder = "vgg" },
		"batch":                  func(s *Config) { s.Batch = 1 },
		"larger than":            func(s *Config) { s.Batch = 500; s.Queue = 500 },
		"epochs":                 func(s *Config) { s.Epochs = 0 },
		"rate":                   func(s *Config) { s.LearningRate = -1 },
		"momentum 1":             func(s *Config) { s.Momentum = 1 },
		"weight_decay":           func(s *Config) { s.WeightDecay = math.NaN() },
		"warmup_epochs":          func(s *Config) { s.WarmupEpochs = 3 },
		"temperature":            func(s *Config) { s.Temperature = 0 },
		"queue 4 is smaller":     func(s *Config) { s.Queue = 4 },
		"norm_groups 3":          func(s *Config) { s.NormGroups = 3 },
		"projector_dim 0 is not": func(s *Config) { s.ProjectorDim = 0 },
	} {
		s := small(MoCo)
		change(&s)
		trainer, err := NewTrainer(b, images, s)
		if err == nil {
			trainer.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v is not one line with %q", err, want)
		}
	}
	trainer := newTrainer(t, b, images, small(SimCLR))
	recipe := views.Default()
	recipe.FlipProbability = 2
	if err := trainer.Begin(recipe, 0); err == nil || !strings.Contains(err.Error(), "flip_probability") {
		t.Errorf("error %v does not name the strength", err)
	}
}

func TestResumeRejectsAnotherModel(t *testing.T) {
	images := synthetic.Images(16, 32, 1)
	b := testbackend.Fastest(t)
	path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
	saved := newTrainer(t, b, images, small(SimCLR))
	begin(t, saved, 1)
	if err := saved.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	other := newTrainer(t, b, images, small(SimSiam))
	begin(t, other, 1)
	if _, err := other.Resume(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v does not name the file", err)
	}
}

// TestSetImages trains on other images with the same compiled step, which must be as if it had been compiled for them.
func TestSetImages(t *testing.T) {
	b := testbackend.Go(t)
	images, other := synthetic.Images(20, 32, 1), synthetic.Images(20, 32, 5)
	fresh := newTrainer(t, b, other, small(SimCLR))
	begin(t, fresh, 7)
	want := learn(t, fresh, 3)
	reused := newTrainer(t, b, images, small(SimCLR))
	begin(t, reused, 7)
	if slices.Equal(learn(t, reused, 3), want) {
		t.Fatal("other images train alike")
	}
	if err := reused.SetImages(other); err != nil {
		t.Fatal(err)
	}
	begin(t, reused, 7)
	if got := learn(t, reused, 3); !slices.Equal(got, want) {
		t.Errorf("losses %v, of a step compiled for the images %v", got, want)
	}
	if err := reused.SetImages(synthetic.Images(21, 32, 5)); err == nil {
		t.Error("the step took more images than it is compiled for")
	}
}

// accuracyOf is the k-NN accuracy in percent of new images among those of the training.
func accuracyOf(t *testing.T, trainer *Trainer, images, test *datasets.Images) float64 {
	t.Helper()
	bank, dim, err := trainer.Features(images)
	if err != nil {
		t.Fatal(err)
	}
	queries, _, err := trainer.Features(test)
	if err != nil {
		t.Fatal(err)
	}
	known := knn.Labelled{Features: bank, Dim: dim, Labels: images.Labels, Classes: len(images.Classes)}
	ranked, err := knn.Classifier{K: 20, Temperature: 0.1}.Rank(testbackend.Fastest(t), known, queries, 1)
	if err != nil {
		t.Fatal(err)
	}
	return metrics.TopKAccuracy(ranked, test.Labels, 1)
}
