package figures

import (
	"encoding/csv"
	"fmt"
	"math"
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
}

// MinSeeds is the number of seeds that a verdict needs.
const MinSeeds = 3

// Verdict says what the runs say about a claim.
type Verdict string

// The verdicts. A claim holds if the 95 % interval lies on the claimed side of 0, fails if on the other side, and is open otherwise, also with fewer
// than [MinSeeds] seeds or a run that failed with NaN. Without runs it has none.
const (
	Holds  Verdict = "holds"
	Fails  Verdict = "fails"
	Open   Verdict = "open"
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
			if header := strings.Join(record, ","); header != "id,part,claim,measure,sign,paper,unit,experiment" {
				return nil, fmt.Errorf("unexpected header %s", header)
			}
			continue
		}
		claim := Claim{ID: record[0], Part: record[1], Text: record[2], Measure: record[3], Paper: math.NaN(), Unit: record[6], Experiment: record[7]}
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
		claims = append(claims, claim)
	}
	return claims, nil
}

// Evaluate returns the mean of the claim's quantity over seeds with its 95 % t-interval, and the verdict. values has one value per seed: the
// difference of two runs that share it, or a rank correlation within it. Verdicts are not corrected for the number of claims.
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
		return interval, Holds
	case high < 0:
		return interval, Fails
	}
	return interval, Open
}
