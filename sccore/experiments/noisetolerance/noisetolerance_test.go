package noisetolerance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/janpfeifer/must"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

func runNoise(t *testing.T, b compute.Backend, options study.Options) map[string]float64 {
	t.Helper()
	if options.Profile == "" {
		options.Profile = study.Smoke
	}
	if err := Study.Run(context.Background(), b, options); err != nil {
		t.Fatal(err)
	}
	return studytest.ValuesByCell(t, options.Out, Name)
}

// TestNoiseToleranceLearns compares with students that keep their random weights.
func TestNoiseToleranceLearns(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trained := runNoise(t, b, study.Options{Out: t.TempDir()})
		untrained := runNoise(t, b, study.Options{Out: t.TempDir(), Set: []string{"rate=0"}})
		if len(trained) != 4 {
			t.Fatalf("%d runs", len(trained))
		}
		for _, loss := range lossNames {
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
	alone := runNoise(t, b, study.Options{Out: t.TempDir(), Seeds: 2, Parallel: 1})
	part := runNoise(t, b, study.Options{Out: out, Seeds: 2, Only: []string{"cotap/*/seed1"}})
	if len(part) != 2 || len(alone) != 8 {
		t.Fatalf("%d runs of a part, %d of all", len(part), len(alone))
	}
	together := runNoise(t, b, study.Options{Out: out, Seeds: 2, Parallel: 4})
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
		options := study.Options{Profile: study.Smoke, Out: t.TempDir()}
		if c.set != "" {
			options.Set = []string{c.set}
		}
		if c.only != "" {
			options.Only = []string{c.only}
		}
		err := Study.Run(context.Background(), nil, options)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
	all, err := cells(study.Options{Profile: study.Quick, Set: []string{"bce.rate=2", "cotap.tau1=0.1"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, cell := range all {
		if bce := cell.Config.Loss == "bce"; (cell.Config.LearningRate == 2) != bce || cell.Config.CoTAP.Threshold != 0.1 {
			t.Errorf("%s has %+v", cell.Name(), cell.Config)
		}
	}
}

// TestNoiseToleranceJudgesItsClaim: made-up records in which cross-entropy loses 10 points more a tenth, but for one missing run.
func TestNoiseToleranceJudgesItsClaim(t *testing.T) {
	var records []study.Record
	for seed := range 4 {
		for _, share := range flippedShares {
			for loss, value := range map[string]float64{"bce": 90 - 100*share, "cotap": 80 + float64(seed)} {
				config := profileConfig(study.Quick, loss)
				config.Flipped = share
				records = append(records, study.Record{Profile: study.Quick, Row: loss, Column: flippedColumn(share), Seed: seed, Value: value, Config: study.EncodeConfig(config)})
			}
		}
	}
	whole := slices.DeleteFunc(slices.Clone(records), func(r study.Record) bool {
		return r.Row == "cotap" && r.Seed == 2 && r.Column == flippedColumn(flippedShares[len(flippedShares)-1])
	})
	grouped, err := Study.Results(whole, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	results := grouped
	claim := studytest.Claim("C25", "")
	tolerance := grouped.Evidence("", claim)[0].Values
	if got := fmt.Sprintf("%.1f", tolerance); got != "[25.0 25.0 25.0]" { // Without seed 2, whose mean would be of other shares.
		t.Errorf("tolerance %s", got)
	}
	if text := Study.Tables(results)[0].Markdown(); !strings.Contains(text, "| CoTAP | **81.5 ± 1.3**") {
		t.Errorf("table:\n%s", text)
	}
	if _, verdict := claim.Evaluate(tolerance); verdict != figures.HoldsAlone {
		t.Errorf("%s: %s", claim.ID, verdict)
	}
	if _, _, err := figures.Render(Curves(results)); err != nil {
		t.Error(err)
	}
}

// TestRatesAreComparedByWhatWasAskedFor: a rate for both losses is one setting, though it is another multiple of each loss's own rate. A rate of one loss alone stands beside the other
// loss only where it was asked for.
func TestRatesAreComparedByWhatWasAskedFor(t *testing.T) {
	records := func(set ...string) (all []study.Record) {
		o := study.Options{Profile: study.Smoke, Set: set}
		for _, c := range must.M1(cells(o, "")) {
			all = append(all, study.Record{
				Profile: study.Smoke, Cell: c.Name(), Row: c.Config.Loss, Column: flippedColumn(c.Config.Flipped), Config: study.EncodeConfig(c.Config), ConfigHash: c.Hash(),
			})
		}
		return all
	}
	for _, c := range []struct {
		recorded, asked []string
		want            string
	}{
		{nil, nil, "bce cotap"}, {[]string{"rate=0.02"}, nil, "bce cotap"}, {[]string{"bce.rate=2"}, nil, "cotap"},
		{[]string{"rate=0.02"}, []string{"rate=0.02"}, "bce cotap rate=0.02"}, {[]string{"rate=1"}, []string{"rate=1"}, "bce cotap bce: rate=1"},
		{[]string{"bce.rate=2"}, []string{"bce.rate=2"}, "bce cotap bce: rate=2"}, {[]string{"rate=0.02"}, []string{"rate=3"}, ""},
	} {
		selected := must.M1(Study.Selected(records(c.recorded...), study.Options{Profile: study.Smoke, Set: c.asked}))
		results := must.M1(Study.Results(selected, study.Smoke))
		shown := lo.Filter(lossNames, func(loss string, _ int) bool { return results.Recorded(loss, flippedColumn(0), flippedColumn(0.2)) })
		if _, changed, ok := strings.Cut(Study.Tables(results)[0].Caption, "differ from the profile's: "); ok && c.asked != nil {
			changed, _, _ = strings.Cut(changed, ". ")
			shown = append(shown, strings.TrimSuffix(changed, "."))
		}
		if got := strings.Join(shown, " "); got != c.want {
			t.Errorf("recorded with %v, asked for %v: shows %q, want %q", c.recorded, c.asked, got, c.want)
		}
	}
}
