package figures

import (
	"encoding/csv"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
)

// Claim is the sign of a quantity that the paper claims. A claim with several parts has one Claim per part, all with the same ID.
type Claim struct {
	// ID is C1 to C26.
	ID string
	// Part tells the parts of one ID apart, or names the method in C1 to C12; it may be empty.
	Part string
	// Text is the claim in words.
	Text string
	// Measure is the quantity whose sign is claimed, one value per seed.
	Measure string
	// Sign is +1 if the quantity should be above 0, and −1 if below.
	Sign int
	// Paper is the quantity computed from the paper's own tables, NaN if it prints none.
	Paper float64
	// Unit is "points" for percentages, empty for correlations and shares.
	Unit string
	// Experiment names the experiment whose records decide.
	Experiment string
	// Kind is the only kind of data that the claim is about; empty for both.
	Kind DataKind
	// Control says what the runs that are compared have in common, or what a comparison lacks.
	Control string
}

// DataKind tells drawn data from real ones. What holds on one kind says nothing about the other.
type DataKind string

// The kinds of data.
const (
	Synthetic DataKind = "synthetic"
	Real      DataKind = "real"
)

// MinSeeds is the number of seeds that a verdict needs.
const MinSeeds = 3

// Verdict says what the runs say about a claim.
type Verdict string

// The verdicts on a claim among those of a table, see [Scoreboard.Judge]. Without runs there is none.
const (
	// HoldsCorrected: the mean lies on the claimed side of 0, also after Holm's correction for all claims of the table.
	HoldsCorrected Verdict = "holds, corrected"
	// HoldsAlone: the claim's own 95 % interval lies on the claimed side, but that of one of so many claims may do so by chance.
	HoldsAlone Verdict = "holds alone"
	// Open: the interval holds 0, there are fewer than [MinSeeds] seeds, or a run failed with NaN.
	Open Verdict = "open"
	// Fails: the claim's own interval lies on the other side. A correction would only favour the claim.
	Fails  Verdict = "fails"
	NoRuns Verdict = "no runs"
)

// Claims lists the claims in order, with one entry per part.
func Claims() []Claim {
	const file = "paper/claims.csv"
	data, err := paperFiles.ReadFile(file)
	if err != nil {
		panic(err) // The file is embedded.
	}
	claims, err := parseClaims(string(data))
	if err != nil {
		panic(file + ": " + err.Error()) // The file is embedded, and the tests read it.
	}
	return claims
}

func parseClaims(text string) ([]Claim, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	var claims []Claim
	for line, record := range records {
		if line == 0 {
			if header := strings.Join(record, ","); header != "id,part,claim,measure,sign,paper,unit,experiment,data,control" {
				return nil, fmt.Errorf("unexpected header %s", header)
			}
			continue
		}
		claim := Claim{ID: record[0], Part: record[1], Text: record[2], Measure: record[3], Paper: math.NaN(), Unit: record[6], Experiment: record[7],
			Kind: DataKind(record[8]), Control: record[9]}
		switch record[4] {
		case "+":
			claim.Sign = 1
		case "-":
			claim.Sign = -1
		default:
			return nil, fmt.Errorf("line %d: sign %q is neither + nor -", line+1, record[4])
		}
		if record[5] != "" {
			if claim.Paper, err = strconv.ParseFloat(record[5], 64); err != nil {
				return nil, fmt.Errorf("line %d: %q is not a number", line+1, record[5])
			}
		}
		if !slices.Contains([]DataKind{"", Synthetic, Real}, claim.Kind) {
			return nil, fmt.Errorf("line %d: data %q are neither %s nor %s", line+1, claim.Kind, Synthetic, Real)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// Evaluate returns the mean of the claim's quantity over seeds with its 95 % t-interval, and the verdict on the claim alone, which takes a correction
// for [HoldsCorrected]. values has one value per seed: the difference of two runs that share it, or a rank correlation within it.
func (c Claim) Evaluate(values []float64) (stats.Interval, Verdict) {
	interval := stats.MeanInterval(values)
	low, high := float64(c.Sign)*interval.Low, float64(c.Sign)*interval.High
	if c.Sign < 0 {
		low, high = high, low
	}
	switch {
	case len(values) == 0:
		return interval, NoRuns
	case len(values) < MinSeeds:
		return interval, Open
	case low > 0:
		return interval, HoldsAlone
	case high < 0:
		return interval, Fails
	}
	return interval, Open
}
