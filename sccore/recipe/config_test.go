package recipe

import (
	"math"
	"testing"

	"github.com/semcon/semcon/sccore/study"
)

// The horizon of the target branch, 1/(1−β) steps, is the stated share of the second stage, unless --set sets β.
func TestMomentumFollowsTheSteps(t *testing.T) {
	for _, test := range []struct {
		profile study.Profile
		read    bool
		set     []string
		share   float64
	}{
		{study.Quick, false, nil, 1. / 6},
		{study.Quick, true, nil, 1. / 6},
		{study.Quick, false, []string{"second.steps=1200"}, 1. / 6},
		{study.Real, true, []string{"init=missing.safetensors", "second.steps=720"}, 0.139},
		{study.Full, true, []string{"init=missing.safetensors"}, 1. / 30},
		{study.Full, true, []string{"init=missing.safetensors", "second.steps=10000"}, 1. / 30},
		{study.Quick, false, []string{"second.steps=1000", "second.momentum=0.99"}, 1. / 10},
	} {
		c := ProfileConfig(test.profile, test.read)
		if err := c.Configure(study.Options{Profile: test.profile, Set: test.set}, &c, test.read); err != nil {
			t.Errorf("%s, %q: %v", test.profile, test.set, err)
		}
		if share := 1 / (1 - c.Second.TargetMomentum) / float64(c.Second.Steps); !(math.Abs(share-test.share) <= 0.01*test.share) {
			t.Errorf("%s, %q: the horizon of β=%g is %g of %d steps, want %g", test.profile, test.set, c.Second.TargetMomentum, share, c.Second.Steps, test.share)
		}
	}
}
