// Package studytest has what the tests of experiments share: runs of smoke profiles, the records that a run has left, and claims.
package studytest

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Smoke runs what is left of an experiment in the smoke profile and returns all its records.
func Smoke(t testing.TB, experiment study.Experiment, b compute.Backend, options study.Options) []study.Record {
	t.Helper()
	options.Profile = study.Smoke
	if err := experiment.Run(t.Context(), b, options); err != nil {
		t.Fatal(err)
	}
	return Records(t, options.Out, experiment.Name)
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

// Claim returns the part of a claim; an unknown one is a panic.
func Claim(id, part string) figures.Claim {
	claims := figures.Claims()
	return claims[slices.IndexFunc(claims, func(c figures.Claim) bool { return c.ID == id && c.Part == part })]
}
