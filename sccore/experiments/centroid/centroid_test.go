package centroid

import (
	"context"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

func TestCentroidRecordsAndTable(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		options := study.Options{Profile: study.Smoke, Out: t.TempDir()}
		if err := Study.Run(context.Background(), b, options); err != nil {
			t.Fatal(err)
		}
		values := studytest.ValuesByCell(t, options.Out, Study.Name)
		for _, cell := range []string{"synthetic/random/seed0", "synthetic/random/seed1", "synthetic/random/seed2"} {
			if value := values[cell]; value <= 20 || value > 100 { // Chance is 14 % with seven classes.
				t.Errorf("%s: accuracy %g", cell, value)
			}
		}
		tables, err := Study.Experiment().Tables(studytest.Records(t, options.Out, Study.Name), study.Smoke)
		if err != nil || len(tables) != 1 || len(tables[0].Rows) != 1 || len(tables[0].Rows[0].Cells[0].Ours) != 3 {
			t.Errorf("%d tables, %+v, %v", len(tables), tables, err)
		}
	})
}

func TestCentroidOptions(t *testing.T) {
	for set, want := range map[string]string{
		"classifier.images=0": "images 0", "classifier.size=4": "size 4", "size=4": `"size"`, "encoder.row=first": "weights.ROW=FILE",
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
