package studytest

import (
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/study"
)

// GoBackend opens the pure-Go backend, which needs no compilation: studies of seconds would spend their time on it.
func GoBackend(t testing.TB) compute.Backend {
	t.Helper()
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// Records reads an experiment's records.
func Records(t testing.TB, out, experiment string) []study.Record {
	t.Helper()
	records, err := study.Records(study.Folder(out, experiment))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// RecordsByCell reads an experiment's records, one a cell.
func RecordsByCell(t testing.TB, out, experiment string) map[string]study.Record {
	t.Helper()
	cells := map[string]study.Record{}
	for _, r := range Records(t, out, experiment) {
		if _, twice := cells[r.Cell]; twice {
			t.Errorf("%s is recorded twice", r.Cell)
		}
		cells[r.Cell] = r
	}
	return cells
}

// ValuesByCell are the values of an experiment's records, one a cell.
func ValuesByCell(t testing.TB, out, experiment string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for cell, r := range RecordsByCell(t, out, experiment) {
		values[cell] = r.Value
	}
	return values
}
