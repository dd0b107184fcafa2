package train_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/train"
)

// told is leastSquares that sends the number of each part before it is made.
func told(parts chan<- int) train.Task[float64] {
	return before(leastSquares(100, 1, 0.1), func(part int) error { parts <- part; return nil })
}

func TestTheNextBatchIsMadeWhileAStepRuns(t *testing.T) {
	parts := make(chan int, 100)
	trainer := newTrainer(t, testbackend.Fastest(t), told(parts))
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	made := func(want int) {
		t.Helper()
		for got := -1; got != want; {
			select {
			case got = <-parts:
			case <-time.After(time.Minute):
				t.Fatalf("batch %d is not made ahead", want)
			}
		}
	}
	steps(t, trainer, 2)
	made(2)
	path := filepath.Join(t.TempDir(), "two.safetensors")
	if err := trainer.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	want := steps(t, trainer, 1)
	made(3)
	if _, err := trainer.Resume(path); err != nil { // A jump back.
		t.Fatal(err)
	}
	if got := steps(t, trainer, 1); !slices.Equal(got, want) {
		t.Errorf("loss %v after a jump back, want %v", got, want)
	}
	made(2)
	made(3)
}

// TestReadMakesTheBatchesThatComeNext has nothing else make batches meanwhile, and nothing change for the steps.
func TestReadMakesTheBatchesThatComeNext(t *testing.T) {
	made := make(chan int, 100)
	task := before(leastSquares(100, 2, 0.1), func(part int) error { made <- part; return nil })
	undisturbed, trainer := newTrainer(t, testbackend.Go(t), leastSquares(100, 2, 0.1)), newTrainer(t, testbackend.Go(t), task)
	for _, trainer := range []*train.Trainer[float64]{undisturbed, trainer} {
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
	}
	want, got := steps(t, undisturbed, 4), steps(t, trainer, 3)
	for within, want := range map[time.Duration][]int{time.Hour: {6, 7, 8, 9}, 0: {6}} {
		if parts, err := trainer.Read(t.Context(), 4, within); parts != len(want) || err != nil {
			t.Errorf("%d parts, want %d, %v", parts, len(want), err)
		}
		var all []int
		for len(made) > 0 {
			all = append(all, <-made)
		}
		first := len(all) - 1
		for first > 0 && all[first] != want[0] {
			first--
		}
		if last := all[first:]; len(last) > len(want)+2 || !slices.Equal(last[:min(len(want), len(last))], want) { // Two are made ahead.
			t.Errorf("parts %v are made, want %v last", all, want)
		}
	}
	if got = append(got, steps(t, trainer, 1)...); !slices.Equal(got, want) {
		t.Errorf("losses %v, want %v", got, want)
	}
}

func TestErrorsOfBatchesAreReturnedAndTheRunGoesOn(t *testing.T) {
	damaged, fail := errors.New("damaged"), true
	for _, ahead := range []bool{false, true} {
		task := before(leastSquares(10, 1, 0.1), func(part int) error {
			if fail && part == 1 {
				return damaged
			}
			return nil
		})
		task.Ahead, fail = ahead, true
		trainer := newTrainer(t, testbackend.Fastest(t), task)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		steps(t, trainer, 1)
		if _, err := trainer.Step(t.Context()); !errors.Is(err, damaged) || trainer.Done() != 1 {
			t.Errorf("error %v after %d steps", err, trainer.Done())
		}
		trainer.Rewind()
		fail = false
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := trainer.Step(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		steps(t, trainer, 2)
		trainer.Rewind()
		trainer.Rewind()
		steps(t, trainer, 1)
	}
}

// A panic while a batch is made is an error of the step.
func TestPanicsOfBatchesAreErrors(t *testing.T) {
	trainer := newTrainer(t, testbackend.Fastest(t), before(leastSquares(10, 1, 0.1), func(int) error { panic("no such image") }))
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	if _, err := trainer.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "no such image") {
		t.Errorf("error %v", err)
	}
}

// A step's inputs are freed when it ends, on the device too, whose memory Go's garbage collector does not see. Placed inputs stay.
func TestBatchesAreFreed(t *testing.T) {
	b := testbackend.Fastest(t)
	for _, ahead := range []bool{false, true} {
		task := leastSquares(10, 1, 0.1)
		batches, task2 := task.Batches, task
		placed, err := train.Place(b, tensors.FromFlatDataAndDimensions(make([]float32, 8), 8))
		if err != nil {
			t.Fatal(err)
		}
		var given []*tensors.Tensor
		task2.Ahead = ahead
		task2.Batches = func(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
			return train.Prepared(batches(ctx, seed, from), func(batch train.Batch) (train.Batch, error) {
				given = append(given, batch.Inputs[0].(*tensors.Tensor))
				batch.Inputs[1] = placed
				return batch, nil
			})
		}
		trainer := newTrainer(t, b, task2)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		steps(t, trainer, 3)
		trainer.Rewind()
		for i, tensor := range given {
			if tensor.Ok() {
				t.Errorf("tensor %d is kept", i)
			}
		}
		if len(given) < 3 {
			t.Errorf("%d tensors", len(given))
		}
		if err := placed.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestInputsOfAFailedUploadAreFreed has an input that cannot be moved to the device behind one that can.
func TestInputsOfAFailedUploadAreFreed(t *testing.T) {
	task := leastSquares(10, 1, 0.1)
	batches := task.Batches
	var given *tensors.Tensor
	task.Batches = func(ctx context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
		return train.Prepared(batches(ctx, seed, from), func(batch train.Batch) (train.Batch, error) {
			lost := tensors.FromFlatDataAndDimensions(make([]float32, 8), 8)
			given, batch.Inputs[1] = batch.Inputs[0].(*tensors.Tensor), lost
			return batch, lost.FinalizeAll()
		})
	}
	trainer := newTrainer(t, testbackend.Fastest(t), task)
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	_, err := trainer.Step(t.Context())
	if trainer.Rewind(); err == nil || given.Ok() {
		t.Errorf("error %v, and the other input is kept: %t", err, given.Ok())
	}
}

// pair is a report of two values of one step.
type pair struct{ part, update float64 }

// TestReports checks means over parts, what is read once, and that a value that is not finite stops the run.
func TestReports(t *testing.T) {
	plain := leastSquares(10, 2, 0.1)
	infinite := false
	task := train.Task[pair]{
		Steps: plain.Steps, Inputs: plain.Inputs, Batches: plain.Batches, Parts: 2, Schedule: plain.Schedule, Initialize: nil,
		Loss: func(scope *model.Scope, inputs []*Node) (*Node, []train.Report[pair]) {
			loss, _ := plain.Loss(scope, inputs)
			return loss, []train.Report[pair]{train.Mean("half", Scalar(loss.Graph(), dtypes.Float32, 0.5), func(p *pair) *float64 { return &p.part })}
		},
		Update: func(scope *model.Scope, variables []*model.Variable, gradients []*Node, rate *Node) []train.Report[pair] {
			plain.Update(scope, variables, gradients, rate)
			return []train.Report[pair]{{Node: Reshape(rate), Read: func(p *pair, at train.At, value *tensors.Tensor) string {
				p.update += float64(at.Parts)
				if infinite {
					return fmt.Sprintf("it is %g", math.Inf(1))
				}
				return ""
			}}}
		},
	}
	trainer, err := train.New(testbackend.Go(t), task)
	if err != nil {
		t.Fatal(err)
	}
	defer trainer.Close()
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	if got, err := trainer.Step(t.Context()); err != nil || got != (pair{0.5, 1}) {
		t.Errorf("reports %+v, %v", got, err)
	}
	infinite = true
	if _, err := trainer.Step(t.Context()); !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), "it is +Inf at step 2") {
		t.Errorf("error %v", err)
	}
}
