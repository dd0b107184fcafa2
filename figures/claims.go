package figures

import (
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
)

// Claim is one sign that the paper claims, or one part of a claim that has several: all rows with its ID.
type Claim struct {
	// ID is C1 to C25.
	ID string
	// Part tells the rows of one ID apart, or names the method of C1 to C12; it may be empty.
	Part string
	// Text is the claim in words.
	Text string
	// Measure is the quantity, one value a seed, whose sign is claimed.
	Measure string
	// Sign is +1 where the quantity should lie above 0 and −1 where below.
	Sign int
	// Paper is the quantity from the paper's own tables, NaN where it prints none.
	Paper float64
	// Unit is "points" for percentages, empty for correlations and shares.
	Unit string
	// Experiment whose records decide.
	Experiment string
}

// MinSeeds is how many seeds a verdict needs.
const MinSeeds = 3

// Verdict says what the runs say about a claim.
type Verdict string

// The verdicts: the 95 % interval lies on the claimed side of 0, on the other side, or neither (or there are fewer than [MinSeeds] seeds,
// or a run failed with NaN); or there are no runs.
const (
	Holds  Verdict = "holds"
	Fails  Verdict = "fails"
	Open   Verdict = "open"
	NoRuns Verdict = "no runs"
)

// Claims lists the claims in order, each part of a claim by itself.
func Claims() []Claim {
	const file = "paper/claims.csv"
	data, err := paperFiles.ReadFile(file)
	if err != nil {
		panic(err) // embedded
	}
	claims, err := parseClaims(string(data))
	if err != nil {
		panic(file + ": " + err.Error()) // embedded, and read in the tests
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
				return nil, fmt.Errorf("line %d: %q is no number", line+1, record[5])
			}
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// Judge gives the mean of the claim's quantity over seeds with its 95 % t-interval, and the verdict. values has one value a seed: the
// difference of two runs that share it, or a rank correlation within it. Verdicts are not corrected for the number of claims.
func (c Claim) Judge(values []float64) (stats.Interval, Verdict) {
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
