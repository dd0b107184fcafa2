package train_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/train"
)

// before calls f before each part of a batch is made.
func before(task train.Task[float64], f func(part int) error) train.Task[float64] {
	batches := task.Batches
	task.Batches = func(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
		return func(yield func(train.Batch, error) bool) {
			number := from
			for batch, err := range batches(ctx, seed, from) {
				if err == nil {
					err = f(number)
				}
				if number++; !yield(batch, err) || err != nil {
					return
				}
			}
		}
	}
	return task
}

func newTrainer(t *testing.T, b compute.Backend, task train.Task[float64]) *train.Trainer[float64] {
	t.Helper()
	trainer, err := train.New(b, task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trainer.Close)
	return trainer
}

// steps takes some steps and returns their losses.
func steps(t *testing.T, trainer *train.Trainer[float64], count int) (losses []float64) {
	t.Helper()
	for range count {
		loss, err := trainer.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, loss)
	}
	return losses
}

// state is the bytes of a trainer's checkpoint.
func state(t *testing.T, trainer *train.Trainer[float64]) string {
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
	inStep := leastSquares(6, 1, 0.1)
	inStep.Ahead = false
	for name, task := range map[string]train.Task[float64]{
		"whole": leastSquares(6, 1, 0.1), "in parts": leastSquares(6, 2, 0.1), "not ahead": inStep,
	} {
		t.Run(name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b compute.Backend) {
				trainer := newTrainer(t, b, task)
				if err := trainer.Begin(3); err != nil {
					t.Fatal(err)
				}
				steps(t, trainer, 2)
				path := filepath.Join(t.TempDir(), "middle.safetensors")
				if err := trainer.Save(path, "a note"); err != nil {
					t.Fatal(err)
				}
				rest := steps(t, trainer, 4)
				want := state(t, trainer)

				resumed := newTrainer(t, b, task) // It has not begun.
				note, err := resumed.Resume(path)
				if err != nil || note != "a note" || resumed.Done() != 2 || resumed.Seed() != 3 {
					t.Fatalf("resumed at step %d of seed %d with note %q: %v", resumed.Done(), resumed.Seed(), note, err)
				}
				if got := steps(t, resumed, 4); !slices.Equal(got, rest) || state(t, resumed) != want {
					t.Errorf("losses %v after resuming, %v without stopping, or different bytes", got, rest)
				}
				if err := resumed.Begin(4); err != nil {
					t.Fatal(err)
				}
				if got := steps(t, resumed, 6); slices.Equal(got[2:], rest) {
					t.Error("another seed gave the same losses")
				}
			})
		})
	}
}

// TestPartsAreTheWholeBatch compares a batch in two parts with the same batch at once.
func TestPartsAreTheWholeBatch(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		whole := newTrainer(t, b, leastSquares(5, 1, 0.1))
		parts := newTrainer(t, b, leastSquares(5, 2, 0.1))
		for _, trainer := range []*train.Trainer[float64]{whole, parts} {
			if err := trainer.Begin(1); err != nil {
				t.Fatal(err)
			}
		}
		want := steps(t, whole, 5)
		for i, got := range steps(t, parts, 5) {
			if !(math.Abs(got-want[i]) <= 1e-5) {
				t.Errorf("step %d: loss %g in parts, %g at once", i, got, want[i])
			}
		}
	})
}

// TestStoppedStep checks that a step is not taken if ctx ends before it, and runs to its end if ctx ends between its parts.
func TestStoppedStep(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	task := before(leastSquares(5, 2, 0.1), func(part int) error {
		if part == 1 {
			stop()
		}
		return nil
	})
	task.Ahead = false
	trainer := newTrainer(t, testbackend.Fastest(t), task)
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.Step(ctx); err != nil || trainer.Done() != 1 {
		t.Errorf("step %d, %v", trainer.Done(), err)
	}
	before := state(t, trainer)
	if _, err := trainer.Step(ctx); !errors.Is(err, context.Canceled) || trainer.Done() != 1 || state(t, trainer) != before {
		t.Errorf("step %d, %v, or different bytes", trainer.Done(), err)
	}
}

// TestDivergedRunNamesItsCheckpoint has a report before the report of the loss. The error names the first.
func TestDivergedRunNamesItsCheckpoint(t *testing.T) {
	task := leastSquares(20, 1, 1e30)
	plain := task.Loss
	task.Loss = func(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
		loss, reports := plain(scope, inputs)
		another := train.Mean("another", MulScalar(loss, 2), func(*float64) *float64 { return new(float64) })
		return loss, append([]train.Report[float64]{another}, reports...)
	}
	trainer := newTrainer(t, testbackend.Fastest(t), task)
	path := filepath.Join(t.TempDir(), "good.safetensors")
	for _, want := range []string{"no checkpoint yet", "the last good checkpoint is " + path} {
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(want, path) {
			if err := trainer.Save(path, ""); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for err == nil && trainer.Done() < 20 {
			_, err = trainer.Step(t.Context())
		}
		if !errors.Is(err, train.ErrDiverged) || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), ": it is ") {
			t.Errorf("error %v, want one line that ends with %q", err, want)
		}
	}
}

func TestResumeNamesTheFile(t *testing.T) {
	b := testbackend.Fastest(t)
	trainer := newTrainer(t, b, leastSquares(3, 1, 0.1))
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name+".safetensors") }
	for name, position := range map[string]string{"none": "", "broken": `{"done":`, "beyond": `{"seed": 1, "done": 4}`, "before": `{"done": -1}`} {
		metadata := map[string]string{"note": ""}
		if position != "" {
			metadata["position"] = position
		}
		if err := safetensors.SaveCheckpoint(path(name), trainer.Store(), metadata); err != nil {
			t.Fatal(err)
		}
	}
	other := newTrainer(t, b, leastSquares(3, 2, 0.1))
	if err := other.Begin(1); err != nil {
		t.Fatal(err)
	}
	if err := other.Save(path("foreign"), ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("torn"), []byte("half a"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"none": "position in the run", "broken": "position in the run", "beyond": "stands at step 4 of 3", "before": "stands at step -1 of 3",
		"foreign": "the model does not have these variables", "torn": "torn", "missing": "missing",
	} {
		if _, err := trainer.Resume(path(name)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path(name)) {
			t.Errorf("%s: error %v, want one with %q and the file", name, err, want)
		}
	}
}

// TestInitializeIsTheSameOnEveryBackend initializes for all backends; copies stay 0.
func TestInitializeIsTheSameOnEveryBackend(t *testing.T) {
	var want []float32
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		exec := model.MustNewExec(b, store, func(scope *model.Scope, x *Node) *Node {
			for _, branch := range []string{"target", "online"} {
				drawn := scope.In("%s", branch).WithInitializer(initializer.RandomNormalFn(scope, 1))
				x = Add(x, drawn.VariableWithShape("weight", shapes.Make(dtypes.Float32, 5)).NodeValue(x))
			}
			return x
		})
		defer exec.Finalize()
		exec.MustCall(make([]float32, 5))
		values := func(path string) []float32 {
			return tensors.MustCopyFlatData[float32](store.GetVariable(path).MustValue())
		}
		for range 2 {
			if err := train.Initialize(store, 7, "/target"); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = values("/online/weight")
			}
			if got := values("/online/weight"); !slices.Equal(got, want) || slices.Contains(got, 0) {
				t.Errorf("initial values %v, want %v", got, want)
			}
			if got := values("/target/weight"); slices.ContainsFunc(got, func(x float32) bool { return x != 0 }) {
				t.Errorf("the copy begins with %v", got)
			}
			if err := train.CopyScope(store, "/online", "/target"); err != nil {
				t.Fatal(err)
			}
			if got := values("/target/weight"); !slices.Equal(got, want) {
				t.Errorf("copied %v, want %v", got, want)
			}
			exec.MustCall(make([]float32, 5))
		}
	})
}

func TestAGraphThatCannotBeBuiltIsAnError(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		task := leastSquares(3, 1, 0.1)
		task.Loss = func(*model.Scope, []*Node) (*Node, []train.Report[float64]) { panic(errors.New("no such layer")) }
		if _, err := train.New(b, task); err == nil || !strings.Contains(err.Error(), "no such layer") {
			t.Errorf("got %v", err)
		}
	})
}

func TestUsageSeparatesWaitingFromStepping(t *testing.T) {
	const delay = 20 * time.Millisecond
	slow := before(leastSquares(4, 2, 0.1), func(int) error { time.Sleep(delay); return nil })
	slow.Ahead = false
	trainer, err := train.New(testbackend.Go(t), slow)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	var before train.Usage
	for range 4 {
		if _, err := trainer.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if trainer.Done() == 2 {
			before = trainer.Usage()
		}
	}
	used := trainer.Usage()
	if used.Steps != 3 || used.Compiling <= 0 || used.Waiting < 6*delay || used.Stepping < used.Waiting {
		t.Errorf("%+v: want three steps after the first, each of which waits for two parts", used)
	}
	if since := used.Since(before); since.Steps != 2 || since.Waiting < 4*delay || since.Compiling != used.Compiling {
		t.Errorf("%+v since the second step", since)
	}
}
