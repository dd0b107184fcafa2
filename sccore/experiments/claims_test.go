package experiments

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/experiments/noisetolerance"
	"github.com/semcon/semcon/sccore/study"
)

// TestClaimsTakeTheProfilesOwnSettings records made-up numbers of noise-tolerance, once with the profile's settings and once with others.
func TestClaimsTakeTheProfilesOwnSettings(t *testing.T) {
	for _, set := range [][]string{nil, {"steps=7"}} {
		out := t.TempDir()
		e, _, err := Find(noisetolerance.Name)
		if err != nil {
			t.Fatal(err)
		}
		cells, err := e.Cells(study.Options{Profile: study.Quick, Set: set}, "")
		if err != nil {
			t.Fatal(err)
		}
		for seed, name := range []string{"seed0", "seed1", "seed2"} {
			for _, c := range cells {
				if !strings.HasSuffix(c.Name, name) {
					continue
				}
				parts := strings.Split(c.Name, "/")
				share, err := strconv.ParseFloat(strings.TrimPrefix(parts[1], "flipped"), 64)
				if err != nil {
					t.Fatal(err)
				}
				value := 80.0
				if parts[0] == "bce" && share > 0 {
					value = 60 - float64(seed)
				}
				r := study.Record{
					Experiment: e.Name, Cell: c.Name, Row: parts[0], Column: fmt.Sprintf("%.0f %% flipped", 100*share), Value: value, Seed: seed, Profile: study.Quick,
					Config: study.EncodeConfig(c.Config), Data: "patches of synthetic classes",
				}
				if err := r.Append(study.Folder(out, e.Name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		board, err := Claims(out, study.Quick)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(board.Rows, func(row figures.ScoreboardRow) bool { return row.Claim.ID == "C25" })
		noted := slices.ContainsFunc(board.Notes, func(note string) bool {
			return strings.Contains(note, "count for no claim") && strings.Contains(note, "steps=7")
		})
		if set == nil && (i < 0 || board.Rows[i].Verdict != figures.HoldsCorrected || board.Rows[i].Kind != figures.Synthetic || noted) {
			t.Errorf("the profile's settings: row %d, %v", i, board.Notes)
		}
		if set != nil && (i >= 0 && board.Rows[i].Verdict != figures.NoRuns || !noted) {
			t.Errorf("changed settings: row %d, %v", i, board.Notes)
		}
	}
}
