package selfdistillation

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
)

// tiny is a configuration of a method whose step takes a fraction of a second on the Go engine.
func tiny(method string) Config {
	c := Default(method)
	c.Encoder = "vit-tiny"
	c.Head = heads.DINOHead{HiddenDim: 16, BottleneckDim: 8, OutDim: 12}
	c.Views.GlobalCropSize, c.Views.LocalCropSize, c.Views.Locals, c.ImageSize = 24, 16, 1, 32
	c.Batch, c.Steps, c.EpochSteps, c.WarmupSteps, c.TemperatureWarmupEpochs = 4, 6, 2, 1, 2
	c.LearningRate, c.FinalLearningRate, c.TargetMomentum = 1e-3, 1e-4, 0.9
	if method == Mugs {
		c.Discrimination, c.Queue, c.Neighbours = heads.DiscriminationHead{HiddenDim: 16, OutDim: 8, PredictorDim: 12}, 16, 3
	}
	return c
}

func tinyData() sccore.Data {
	return sccore.Data{Objects: synthetic.Objects(6, 32, 1), Scenes: synthetic.Scenes(6, 32, 2)}
}

// onGo opens the Go engine, which compiles a tiny step in no time.
func onGo(t *testing.T) compute.Backend {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newTrainer(t *testing.T, b compute.Backend, config Config) *Trainer {
	t.Helper()
	trainer, err := NewTrainer(b, tinyData(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trainer.Close)
	return trainer
}

// long is a run of 20 steps that are small: larger ones scale up a rounding at the kink of a ReLU.
func long(method string) Config {
	config := tiny(method)
	config.Steps, config.LearningRate = 20, 1e-4
	return config
}

var trainersOnXLA = map[string]*Trainer{}

// onXLA is long's trainer on XLA, which tests share, since compiling it takes most of their time. It is nil where XLA is not installed.
func onXLA(t *testing.T, method string) *Trainer {
	t.Helper()
	if trainersOnXLA[method] == nil && testbackend.HasXLA() {
		trainer, err := NewTrainer(testbackend.Devices(t, 1), tinyData(), long(method))
		if err != nil {
			t.Fatal(err)
		}
		trainersOnXLA[method] = trainer
	}
	return trainersOnXLA[method]
}

func learn(t *testing.T, trainer *Trainer, steps int) (all []StepMetrics) {
	t.Helper()
	for range steps {
		m, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// state copies every variable.
func state(trainer *Trainer) map[string][]float32 {
	values := map[string][]float32{}
	for variable := range trainer.Store().IterVariables() {
		if value, err := tensors.CopyFlatData[float32](variable.MustValue()); err == nil {
			values[variable.Path()] = value
		}
	}
	return values
}

func same(t *testing.T, what string, got, want map[string][]float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d variables, want %d", what, len(got), len(want))
	}
	for path, value := range want {
		if !slices.Equal(got[path], value) {
			t.Errorf("%s: %s differs", what, path)
			return
		}
	}
}

func TestSameSeedSameBytesAndResumeEqualsNotStopping(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, method := range Names {
			t.Run(method, func(t *testing.T) {
				thin := tiny(method)
				thin.Encoder = "vit-16x2x2p8-grid3"
				path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
				var trainer *Trainer
				if b == testbackend.Go(t) {
					trainer = newTrainer(t, b, thin)
				} else {
					trainer = onXLA(t, method)
				}
				if err := trainer.Begin(7); err != nil {
					t.Fatal(err)
				}
				learn(t, trainer, 3)
				if err := trainer.Save(path, "a note"); err != nil {
					t.Fatal(err)
				}
				rest := learn(t, trainer, 3)
				whole := state(trainer)

				resumed := trainer
				if b == testbackend.Go(t) {
					resumed = newTrainer(t, b, thin) // As after a kill. On XLA the step would compile for as long again.
				} else if err := resumed.Begin(9); err != nil {
					t.Fatal(err)
				}
				if note, err := resumed.Resume(path); err != nil || note != "a note" || resumed.Done() != 3 {
					t.Fatalf("resumed with note %q at step %d: %v", note, resumed.Done(), err)
				}
				if got := learn(t, resumed, 3); !reflect.DeepEqual(got, rest) {
					t.Errorf("after resuming %v, without stopping %v", got, rest)
				}
				same(t, "after resuming", state(resumed), whole)
				if err := resumed.Begin(8); err != nil {
					t.Fatal(err)
				}
				if other := learn(t, resumed, 6); reflect.DeepEqual(other[3:], rest) {
					t.Error("another seed gave the same metrics")
				}
			})
		}
	})
}

// TestFirstStep checks what the official code does in the first epoch: the head's last layer stays, everything else of the student learns, and the teacher
// follows it.
func TestFirstStep(t *testing.T) {
	b := onGo(t)
	for _, method := range Names {
		t.Run(method, func(t *testing.T) {
			config := tiny(method)
			config.DropPath, config.WarmupSteps = 0, 0
			config.Masked.Spread = 0
			trainer := newTrainer(t, b, config)
			if err := trainer.Begin(1); err != nil {
				t.Fatal(err)
			}
			before := state(trainer)
			for i := range 3 {
				m := learn(t, trainer, 1)[0]
				if !(m.Total > 0) || !(m.GradientNorm > 0) || m.Step != i+1 {
					t.Errorf("step %d reports %+v", i, m)
				}
				want := map[string]float64{DINO: m.Class, IBOT: m.Class + m.Patches, Mugs: (m.Instance + m.LocalGroup + m.Group) / 3}[method]
				if !(math.Abs(m.Total-want) <= 1e-5*want) {
					t.Errorf("step %d: the loss is %g, its parts make %g", i, m.Total, want)
				}
				after := state(trainer)
				for path, value := range after {
					moved := !slices.Equal(value, before[path])
					frozen := strings.Contains(path, heads.DINOLastLayer) && i < config.EpochSteps
					unused := strings.HasPrefix(path, "/state/") && config.Targets == Sinkhorn
					switch {
					case !strings.HasPrefix(path, "/online/") && !strings.HasPrefix(path, "/state/") || unused:
					case moved && frozen && strings.HasPrefix(path, "/online/"):
						t.Errorf("step %d changes %s", i, path)
					case !moved && !frozen && !strings.HasSuffix(path, "pos_embed") && !strings.Contains(path, "masked_embed"):
						t.Errorf("step %d does not change %s", i, path)
					}
					follower := "/target" + strings.TrimPrefix(path, "/online")
					if !strings.HasPrefix(path, "/online/") {
						continue
					}
					momentum := config.scheduled(i)[2]
					for j := range value {
						want := momentum*before[follower][j] + (1-momentum)*value[j]
						if !(math.Abs(float64(after[follower][j]-want)) <= 1e-6) {
							t.Fatalf("step %d: %s is %g, want %g", i, follower, after[follower][j], want)
						}
					}
				}
				before = after
			}
		})
	}
}

// TestBeginFrom continues a checkpoint of the method, starts another method from it, and starts from the encoder alone.
func TestBeginFrom(t *testing.T) {
	b, dir := onGo(t), t.TempDir()
	for _, method := range Names {
		t.Run(method, func(t *testing.T) {
			checkpoint, encoder := filepath.Join(dir, method+".safetensors"), filepath.Join(dir, method+"-encoder.safetensors")
			trainer := newTrainer(t, b, tiny(method))
			if err := trainer.Begin(1); err != nil {
				t.Fatal(err)
			}
			learn(t, trainer, 3)
			before := state(trainer)
			if err := errors.Join(trainer.Save(checkpoint, ""), trainer.SaveEncoder(encoder, sccore.Target, nil)); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name, file, method string
				heads              bool
			}{{"its own checkpoint", checkpoint, method, true}, {"the encoder", encoder, method, false}, {"another method's", checkpoint, Names[(slices.Index(Names, method)+1)%3], false}} {
				t.Run(c.name, func(t *testing.T) {
					other := trainer
					if c.method != method {
						other = newTrainer(t, b, tiny(c.method))
					}
					if err := other.BeginFrom(c.file, 5); err != nil {
						t.Fatal(err)
					}
					got := state(other)
					for path := range got {
						var from string
						switch below, online := strings.CutPrefix(path, "/online"); {
						case online && strings.Contains(path, "/blocks/"), online && c.heads && strings.Contains(path, "/"+heads.DINOLastLayer+"/"):
							from = "/target" + below
						case c.heads && (strings.HasPrefix(path, "/state/") || strings.HasPrefix(path, "/online/instance/predictor/")):
							from = path
						case strings.HasPrefix(path, "/optimizer") && slices.ContainsFunc(got[path], func(x float32) bool { return x != 0 }):
							t.Errorf("%s does not start at 0", path)
							continue
						default:
							continue
						}
						if !slices.Equal(got[path], before[from]) {
							t.Errorf("%s is not the file's %s", path, from)
						}
						if online := strings.TrimPrefix(path, "/online"); online != path && !slices.Equal(got["/target"+online], got[path]) {
							t.Errorf("the teacher does not begin as the student at %s", path)
						}
					}
				})
			}
			// The method of the paper begins from the encoder, too.
			if vit, err := sccore.EncoderOf(checkpoint); err != nil || vit.Name != "vit-tiny" {
				t.Errorf("the checkpoint's encoder is %q: %v", vit.Name, err)
			}
		})
	}
	trainer := newTrainer(t, b, tiny(DINO))
	if err := trainer.BeginFrom(filepath.Join(dir, "missing.safetensors"), 1); err == nil || !strings.Contains(err.Error(), "missing.safetensors") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestConfigure(t *testing.T) {
	trainer, data := newTrainer(t, onGo(t), tiny(DINO)), tinyData()
	data.Scenes = nil
	longer := tiny(DINO)
	longer.Steps, longer.LearningRate, longer.FrozenEpochs = 8, 1e-2, 0
	if err := errors.Join(trainer.Configure(data, longer), trainer.Begin(1)); err != nil {
		t.Fatal(err)
	}
	if m := learn(t, trainer, 1)[0]; trainer.Steps() != 8 || !(math.Abs(m.LearningRate-1e-2) <= 1e-6) {
		t.Errorf("%d steps, rate %g", trainer.Steps(), m.LearningRate)
	}
	wider := tiny(DINO)
	wider.Head.OutDim++
	if err := trainer.Configure(data, wider); err == nil {
		t.Error("a wider head needs another compiled step")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trainer.Step(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a step after the end of its context: %v", err)
	}
}

func TestSinkhornTargets(t *testing.T) {
	for _, method := range []string{DINO, IBOT} {
		config := tiny(method)
		config.Targets = Sinkhorn
		trainer := newTrainer(t, onGo(t), config)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		for _, m := range learn(t, trainer, 3) {
			if limit := math.Log(float64(config.Head.OutDim)); !(math.Abs(m.MeanEntropy-limit) <= 0.1) {
				t.Errorf("%s: the mean of targets has entropy %g, want about %g", method, m.MeanEntropy, limit)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	for _, method := range Names {
		if err := settings.Check(Default(method)); err != nil && !strings.Contains(err.Error(), "attention") { // Eight of the authors' machines share a batch.
			t.Errorf("%s: %v", method, err)
		}
		if err := settings.Check(tiny(method)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	for want, change := range map[string]func(*Config){
		"method":                 func(c *Config) { c.Method = "byol" },
		"head.out":               func(c *Config) { c.Head.OutDim = 1 },
		"warmup":                 func(c *Config) { c.WarmupSteps = c.Steps },
		"targets":                func(c *Config) { c.Targets = "mean" },
		"queue":                  func(c *Config) { c.Queue = 7 },
		"neighbours":             func(c *Config) { c.Neighbours = 17 },
		"views.global_size":      func(c *Config) { c.Views.GlobalCropSize = 25 },
		"views.local_size":       func(c *Config) { c.Views.LocalCropSize = 4 },
		"views.globals":          func(c *Config) { c.Views.Globals, c.Views.Locals = 1, 0 },
		"temperature NaN":        func(c *Config) { c.Temperature = math.NaN() },
		"class_temperature":      func(c *Config) { c.ClassTemperature.Start = 0 },
		"contrast_temperature":   func(c *Config) { c.ContrastTemperature = 0 },
		"independent views":      func(c *Config) { c.Views.MinOverlap = 0.1 },
		"drop_path":              func(c *Config) { c.DropPath = 1 },
		"targets sinkhorn: mugs": func(c *Config) { c.Targets = Sinkhorn },
	} {
		c := tiny(Mugs)
		change(&c)
		if err := settings.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error of %q", err, want)
		}
	}
	masked := tiny(IBOT)
	masked.Masked.Spread = 0.4
	if err := settings.Check(masked); err == nil || !strings.Contains(err.Error(), "masked.spread 0.4") {
		t.Errorf("masks: %v", err)
	}
}
