package noisetolerance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
)

func runNoise(t *testing.T, b compute.Backend, options Options) map[string]float64 {
	t.Helper()
	if options.Profile == "" {
		options.Profile = Smoke
	}
	if err := noiseTolerance.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	return valuesByCell(t, options.Out, NoiseTolerance)
}

// TestNoiseToleranceLearns compares with students that keep their random weights.
func TestNoiseToleranceLearns(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trained := runNoise(t, b, Options{Out: t.TempDir()})
		untrained := runNoise(t, b, Options{Out: t.TempDir(), Set: []string{"rate=0"}})
		if len(trained) != 4 {
			t.Fatalf("%d runs", len(trained))
		}
		for _, loss := range noiseLosses {
			cell := loss + "/flipped0/seed0"
			if trained[cell] < untrained[cell]+5 {
				t.Errorf("%s: average precision %.1f %%, of random weights %.1f %%", cell, trained[cell], untrained[cell])
			}
		}
	})
}

func TestNoiseToleranceIsTheSameWithAnyNumberOfWorkersAndGoesOn(t *testing.T) {
	b := testbackend.Fastest(t)
	out := t.TempDir()
	alone := runNoise(t, b, Options{Out: t.TempDir(), Seeds: 2, Parallel: 1})
	part := runNoise(t, b, Options{Out: out, Seeds: 2, Only: []string{"cotap/*/seed1"}})
	if len(part) != 2 || len(alone) != 8 {
		t.Fatalf("%d runs of a part, %d of all", len(part), len(alone))
	}
	together := runNoise(t, b, Options{Out: out, Seeds: 2, Parallel: 4})
	if fmt.Sprint(together) != fmt.Sprint(alone) {
		t.Errorf("with one worker %v, with four %v", alone, together)
	}
}

func TestNoiseToleranceOptions(t *testing.T) {
	for _, c := range []struct{ set, only, want string }{
		{set: "speed=1", want: `"speed"`},
		{set: "classes=1", want: "classes 1"},
		{set: "steps=0", want: "steps 0"},
		{set: "flipped=0.1", want: "--only"},
		{set: "cotap.tau2=0", want: "tau2 0"},
		{only: "bce/flipped0.9", want: `no flipped "flipped0.9"`},
	} {
		options := Options{Profile: Smoke, Out: t.TempDir()}
		if c.set != "" {
			options.Set = []string{c.set}
		}
		if c.only != "" {
			options.Only = []string{c.only}
		}
		err := noiseTolerance.Run(context.Background(), nil, options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
	cells, err := noiseCells(Options{Profile: Quick, Set: []string{"bce.rate=2", "cotap.tau1=0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range cells {
		if bce := cell.config.Loss == "bce"; (cell.config.Rate == 2) != bce || cell.config.CoTAP.Tau1 != 0.1 {
			t.Errorf("%s has %+v", cell.name(), cell.config)
		}
	}
}

// TestNoiseToleranceJudgesItsClaim: made-up records in which cross-entropy loses 10 points more a tenth, but for one missing run.
func TestNoiseToleranceJudgesItsClaim(t *testing.T) {
	var records []Record
	for seed := range 3 {
		for _, share := range flippedShares {
			for loss, value := range map[string]float64{"bce": 90 - 100*share, "cotap": 80 + float64(seed)} {
				config := noiseToleranceConfig(Quick, loss)
				config.Flipped = share
				records = append(records, Record{Profile: Quick, Row: loss, Column: flippedColumn(share), Seed: seed, Value: value, Config: configJSON(config)})
			}
		}
	}
	whole := slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		return r.Row == "cotap" && r.Seed == 2 && r.Column == flippedColumn(flippedShares[len(flippedShares)-1])
	})
	results, err := newNoiseToleranceResults(whole, Quick)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%.1f", results.Tolerance()); got != "[25.0 25.0 20.0]" {
		t.Errorf("tolerance %s", got)
	}
	if text := results.table().Markdown(); !strings.Contains(text, "| CoTAP | **81.0 ± 1.0**") {
		t.Errorf("table:\n%s", text)
	}
	claim := figures.Claims()[len(figures.Claims())-1]
	if _, verdict := claim.Judge(results.Tolerance()); claim.ID != "C25" || verdict != figures.Holds {
		t.Errorf("%s: %s", claim.ID, verdict)
	}
	if _, _, err := results.Curves().Render(); err != nil {
		t.Error(err)
	}
	out := t.TempDir()
	for _, r := range records {
		if err := r.Append(folderOf(out, NoiseTolerance)); err != nil {
			t.Fatal(err)
		}
	}
	board, err := Claims(out, Quick)
	if err != nil || board.Verdicts()["C25"] != figures.Holds {
		t.Errorf("scoreboard: %v, %v", board.Verdicts()["C25"], err)
	}
}
