package ownimages

import (
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
)

// TestCostIsKnownAfterTwoBatches: images count one by one, after their batch. The first batch compiles, and the cost is said once.
func TestCostIsKnownAfterTwoBatches(t *testing.T) {
	var said []time.Duration
	bar := &estimating{Bar: progress.Discard, know: func(perImage time.Duration) { said = append(said, perImage) }}
	for image := range evaluation.EncodeBatch {
		bar.Set(image+1, "")
	}
	if len(said) > 0 {
		t.Errorf("said %v after the batch that compiles", said)
	}
	bar.since = time.Now().Add(-evaluation.EncodeBatch * 100 * time.Millisecond)
	for image := range evaluation.EncodeBatch {
		bar.Set(evaluation.EncodeBatch+image+1, "")
	}
	if len(said) != 1 || said[0] < 100*time.Millisecond || said[0] > 300*time.Millisecond {
		t.Errorf("said %v, want once 100ms and what the test takes", said)
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		11 * time.Minute: "11 minutes", 119 * time.Minute: "119 minutes", 5 * time.Hour: "5 hours", 60 * time.Hour: "2.5 days",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
