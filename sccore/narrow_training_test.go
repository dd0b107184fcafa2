package sccore_test

import (
	"flag"
	"math"
	"testing"
)

var narrowSteps = flag.Int("narrow-steps", 15, "`STEPS` of the trainings that bfloat16 is compared in")

// Training in bfloat16 ends where training in float32 does: nearer than the same training with another seed.
func TestTrainingInBFloat16EndsWithinTheSeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	const last = 10
	steps := *narrowSteps
	end := func(bf16 bool, seed uint64) (mean float64) {
		config := tiny()
		config.BF16, config.Steps = bf16, steps
		for _, m := range trained(t, newTrainer(t, onGo(t), tinyData(), config), seed, steps)[steps-last:] {
			mean += m.Total / last
		}
		return mean
	}
	one, two, three, narrow := end(false, 1), end(false, 2), end(false, 3), end(true, 1)
	mean := (one + two + three) / 3
	spread := math.Sqrt((math.Pow(one-mean, 2) + math.Pow(two-mean, 2) + math.Pow(three-mean, 2)) / 2)
	t.Logf("float32 %.4f, %.4f and %.4f, bfloat16 %.4f", one, two, three, narrow)
	if !(math.Abs(narrow-one) < spread) || narrow == one {
		t.Errorf("bfloat16 ends at %g, float32 at %g, with %g from other seeds", narrow, one, spread)
	}
}
