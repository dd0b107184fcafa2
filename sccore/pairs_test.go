package sccore_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
)

// TestPairsAreThoseOfTheStep checks that both branches, which begin with the same weights, give equal scores from one view, and that Pairs changes
// nothing.
func TestPairsAreThoseOfTheStep(t *testing.T) {
	config := tiny()
	config.Lambdas = losses.Lambdas{PatchAlignment: 1}
	config.Correspondences.SameView = true
	const pairs = 2 * 4 * (3 * 3) * (3 * 3) // Batches × images × places².
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, tinyData(), config)
		want := trained(t, trainer, 3, 2)
		if err := trainer.Begin(3); err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{sccore.FromHead, sccore.FromBackbone} {
			got, err := trainer.Pairs(t.Context(), from, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Online) != pairs || len(got.Target) != pairs || len(got.Same) != pairs {
				t.Fatalf("%d, %d and %d pairs, want %d", len(got.Online), len(got.Target), len(got.Same), pairs)
			}
			for i := range got.Online {
				if math.Abs(got.Online[i]-got.Target[i]) > 1e-5 {
					t.Fatalf("pair %d: %g online, %g in the target branch", i, got.Online[i], got.Target[i])
				}
			}
			if !slices.Contains(got.Same, true) || !slices.Contains(got.Same, false) {
				t.Error("all pairs are alike")
			}
		}
		if got := more(t, trainer, 2); got[1].Total != want[1].Total {
			t.Errorf("loss %v after Pairs, %v without", got[1].Total, want[1].Total)
		}
	})
}

func TestPairsRefuse(t *testing.T) {
	b := onGo(t)
	images, patches, noLabels := tiny(), tiny(), tinyData()
	images.Lambdas = losses.Lambdas{ImageAlignment: 1}
	patches.Lambdas = losses.Lambdas{PatchAlignment: 1}
	noLabels.Labels = nil
	for _, c := range []struct {
		data       sccore.Data
		config     sccore.Config
		from, want string
	}{{tinyData(), patches, "nowhere", `"nowhere"`}, {tinyData(), images, sccore.FromHead, "without a loss of patches"}, {noLabels, patches, sccore.FromHead, "without labels"}} {
		trainer := newTrainer(t, b, c.data, c.config)
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		if _, err := trainer.Pairs(t.Context(), c.from, 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v does not contain %q", err, c.want)
		}
	}
}
