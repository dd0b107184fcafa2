package noiserate

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

func TestNoiseRateRecordsTableAndFigure(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir()}
		if err := Study.Run(context.Background(), b, options); err != nil {
			t.Fatal(err)
		}
		records := studytest.Records(t, options.Out, Name)
		if len(records) != 6 {
			t.Errorf("%d records, want those of tokens and of projected features of 3 seeds", len(records))
		}
		for _, r := range records {
			if r.Value <= 0 || r.Value > 100 || !strings.Contains(r.Protocol, "its projector has random weights") {
				t.Errorf("%s, %s: positive rate %g, %s", r.Cell, r.Column, r.Value, r.Protocol)
			}
			// Most patches of scenes are background, whose pairs are not among those that count.
			if all, with := r.Details["all pairs"], r.Details["with background all pairs"]; !(all > 0 && all < with) || r.Value == r.Details["with background top decile"] {
				t.Errorf("%s, %s: %g %% of all pairs share a class, with background %g %%; the top decile %v", r.Cell, r.Column, all, with, r)
			}
		}
		tables, err := Study.Experiment().Tables(records, study.Smoke)
		if err != nil || len(tables) != 2 || len(tables[0].Rows) != 1 || len(tables[1].Rows[0].Cells[1].Ours) != 3 {
			t.Errorf("%d tables, %+v, %v", len(tables), tables, err)
		}
		results, err := Study.Load(study.Options{Out: options.Out, Profile: study.Smoke})
		if err != nil {
			t.Fatal(err)
		}
		figure, err := Figure(results, "synthetic scenes")
		if err != nil || len(figure) != 2 || len(figure[0].Series) != 1 || len(figure[1].Series[0].X) != evaluation.Deciles {
			t.Fatal(figure, err)
		}
		dir := os.Getenv("SEMCON_TEST_FIGURES")
		if dir == "" {
			dir = t.TempDir()
		}
		if err := figures.SaveFigure(dir, "noise-rate", figure); err != nil {
			t.Error(err)
		}
		if _, err := Figure(results, "COCOStuff-27"); err == nil {
			t.Error("a figure without records")
		}
	})
}

// TestMeasure: C20 is the trend, and the slope beside the slope with random weights; C21 is the gain of the top decile. All are of projected features.
func TestMeasure(t *testing.T) {
	var records []study.Record
	for seed := range 3 {
		for i, row := range []string{"random", "first", "second"} {
			for k, column := range []string{"synthetic scenes", "synthetic scenes/projected"} {
				records = append(records, study.Record{
					Cell: "synthetic/" + row, Row: row, Column: column, Seed: seed, Profile: study.Quick, Value: 60 + float64(5*i*(k+1)+seed),
					Config: study.EncodeConfig(Config{}), Details: map[string]float64{evaluation.DetailSlope: 0.5 + float64(i+k*i), evaluation.DetailTrend: float64(i) / 4},
				})
			}
		}
	}
	results, err := Study.Results(records, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	if got := results.Evidence("", studytest.Claim("C20", "slope"))[0].Values; len(got) != 3 || got[0] != 2 {
		t.Errorf("C20, slope: %v", got)
	}
	if got := results.Evidence("", studytest.Claim("C20", "trend"))[0].Values; len(got) != 3 || got[0] != 0.25 {
		t.Errorf("C20, trend: %v", got)
	}
	if got := results.Evidence("", studytest.Claim("C21", ""))[0].Values; len(got) != 3 || got[2] != 10 {
		t.Errorf("C21: %v", got)
	}
}

func TestNoiseRateOptions(t *testing.T) {
	for set, want := range map[string]string{
		"sample.images=1": "sample.images 1", "sample.per_image=0": "sample.per_image 0", "sample.size=4": "size 4", "bins=1": "bins 1", "encoder.row=first": "weights.ROW=FILE",
		"sample.per_image=4000": "sample.per_image 4000",
	} {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir(), Set: []string{set}}
		if err := Study.Run(context.Background(), nil, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	if err := Study.Run(context.Background(), nil, study.Options{Profile: study.Full, Out: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("full without data: %v", err)
	}
}
