package datasets

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestAheadPreparesTheNextBatchMeanwhile(t *testing.T) {
	loader := Loader{Scenes: noise(8, 4, 1), BatchSize: 2, ImageSize: 4, Seed: 3}
	var want [][]int32
	for batch, err := range loader.Batches(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if want = append(want, batch.Images); len(want) == 6 {
			break
		}
	}
	steps := make(chan int, 100)
	prepare := func(b *Batch) ([]int32, error) { steps <- b.Step; return b.Images, nil }
	var ahead Ahead[[]int32]
	defer ahead.Stop()
	for _, number := range []int{0, 1, 2, 5, 1} { // In order, a jump ahead, and back.
		got, err := ahead.Batch(t.Context(), loader, number, prepare)
		if err != nil || !slices.Equal(got, want[number]) {
			t.Fatalf("batch %d: %v, %v, want %v", number, got, err, want[number])
		}
		for prepared := -1; prepared != number+1; {
			select {
			case prepared = <-steps:
			case <-time.After(time.Minute):
				t.Fatalf("batch %d is not prepared while the caller works on batch %d", number+1, number)
			}
		}
	}
	loader.Seed = 4
	if got, err := ahead.Batch(t.Context(), loader, 2, prepare); err != nil || slices.Equal(got, want[2]) {
		t.Errorf("another seed gives %v, %v", got, err)
	}
}

func TestAheadReturnsErrorsAndGoesOn(t *testing.T) {
	loader := Loader{Scenes: noise(8, 4, 1), BatchSize: 2, ImageSize: 4}
	damaged := errors.New("damaged")
	fail := true
	prepare := func(b *Batch) (int, error) {
		if fail && b.Step == 1 {
			return 0, damaged
		}
		return b.Step, nil
	}
	var ahead Ahead[int]
	if _, err := ahead.Batch(t.Context(), loader, 0, prepare); err != nil {
		t.Fatal(err)
	}
	if _, err := ahead.Batch(t.Context(), loader, 1, prepare); !errors.Is(err, damaged) {
		t.Errorf("error %v", err)
	}
	fail = false
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // Whether or not the batch is ready in time, it is the right one.
		if got, err := ahead.Batch(ended, loader, 1, prepare); err == nil && got != 1 || err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("%d, %v", got, err)
		} else if err == nil {
			break
		}
	}
	ahead.Stop()
	if got, err := ahead.Batch(t.Context(), loader, 7, prepare); err != nil || got != 7 {
		t.Errorf("%d, %v", got, err)
	}
	ahead.Stop()
	ahead.Stop()
}
