package sccore_test

import (
	"math"
	"strings"
	"testing"

	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
)

// TestIntermediatesAreOfTheNextStep: the losses are those that the step then reports, and looking changes nothing.
func TestIntermediatesAreOfTheNextStep(t *testing.T) {
	config := tiny()
	config.Lambdas = losses.Lambdas{PatchAlignment: 1, ImageAlignment: 1, PatchConcentration: 0.5}
	trainer := newTrainer(t, onGo(t), tinyData(), config)
	want := trained(t, trainer, 3, 2)[1]
	if err := trainer.Begin(3); err != nil {
		t.Fatal(err)
	}
	more(t, trainer, 1)
	g, err := trainer.Intermediates(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, loss := range sccore.Losses {
		if got, want := loss.Lambda(g.Losses), loss.Value(want); !(math.Abs(got-want) <= 1e-5) {
			t.Errorf("%s is %g, in the step %g", loss.Name, got, want)
		}
	}
	if after := more(t, trainer, 1)[0]; after.Total != want.Total {
		t.Errorf("loss %v after looking, %v without", after.Total, want.Total)
	}
	places, pixels := g.Grid*g.Grid, g.ViewSize*g.ViewSize*3
	for name, c := range map[string]struct {
		values []float32
		want   int
	}{
		"online view": {g.Online, pixels}, "target view": {g.Target, pixels}, "partner": {g.Partner, pixels},
		"online tokens": {g.OnlineTokens, places * g.Dim}, "target tokens": {g.TargetTokens, places * g.Dim},
		"online assignments": {g.OnlineAssignments, places * g.Outputs}, "target assignments": {g.TargetAssignments, places * g.Outputs},
		"p": {g.P, places * places}, "q": {g.Q, places * places},
	} {
		if len(c.values) != c.want || c.want == 0 {
			t.Errorf("%s: %d numbers, want %d", name, len(c.values), c.want)
		}
		if strings.HasSuffix(name, "assignments") {
			for p := range places {
				sum := 0.0
				for _, a := range c.values[p*g.Outputs : (p+1)*g.Outputs] {
					sum += float64(a)
				}
				if !(math.Abs(sum-1) <= 1e-3) {
					t.Fatalf("%s of place %d sum to %g", name, p, sum)
				}
			}
		}
	}
	if g.Lambdas != config.Lambdas {
		t.Errorf("lambdas %+v", g.Lambdas)
	}
	config.Lambdas.PatchConcentration = 0
	without := newTrainer(t, onGo(t), tinyData(), config)
	if err := without.Begin(1); err != nil {
		t.Fatal(err)
	}
	if _, err := without.Intermediates(t.Context()); err == nil || !strings.Contains(err.Error(), "without both losses of patches") {
		t.Error(err)
	}
}
