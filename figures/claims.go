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
	Quantity
}

// Quantity says which records of the experiment hold the quantity of a claim: the value of a row in a column, for each seed.
type Quantity struct {
	// Column is the records' column. "a & b" is the mean over columns, and "a + b" the mean over the columns with records.
	Column string
	// Row is the records' row. "a < b < c" is the rank correlation of the values with the order of the rows.
	Row string
	// MinusRow is the row whose value is subtracted, in the same column and of the same seed; of "a & b" the better. It may be empty.
	MinusRow string
	// MinusColumn is a column, usually empty: the same quantity in it is subtracted.
	MinusColumn string
	// Detail is the detail of the records that is meant; empty for their value.
	Detail string
	// Alternatives of Column, Row and MinusRow are separated by " | ", and a column with "*" stands for all that match: the first that has values counts, for all claims
	// of the experiment with as many alternatives of Column. A field without alternatives is the same for all.
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

// The verdicts on a claim among the claims of its experiment, see [NewScoreboard]. Without runs there is none.
const (
	// HoldsCorrected: the mean lies on the claimed side of 0, also after Holm's correction for all claims of the experiment.
	HoldsCorrected Verdict = "holds, corrected"
	// HoldsAlone: the claim's own 95 % interval lies on the claimed side, but among so many claims one may do so by chance.
	HoldsAlone Verdict = "holds alone"
	// Open: the interval holds 0, there are fewer than [MinSeeds] seeds, or a run failed with NaN.
	Open Verdict = "open"
	// FailsAlone: the claim's own interval lies on the other side, but among so many claims one may do so by chance.
	FailsAlone Verdict = "fails alone"
	// FailsCorrected: the mean lies on the other side, also after the correction.
	FailsCorrected Verdict = "fails, corrected"
	NoRuns         Verdict = "no runs"
)

// together is the verdict on a claim that holds if all its parts hold. It is corrected if each part that holds is, or one that fails.
func together(parts []Verdict) Verdict {
	for _, decides := range []Verdict{FailsCorrected, FailsAlone} {
		if slices.Contains(parts, decides) {
			return decides
		}
	}
	runs := slices.ContainsFunc(parts, func(v Verdict) bool { return v != NoRuns })
	switch {
	case !runs:
		return NoRuns
	case slices.Contains(parts, Open) || slices.Contains(parts, NoRuns):
		return Open
	case slices.Contains(parts, HoldsAlone):
		return HoldsAlone
	}
	return HoldsCorrected
}

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
			if header := strings.Join(record, ","); header != "id,part,claim,measure,sign,paper,unit,experiment,data,control,column,row,minus_row,minus_column,detail" {
				return nil, fmt.Errorf("unexpected header %s", header)
			}
			continue
		}
		claim := Claim{ID: record[0], Part: record[1], Text: record[2], Measure: record[3], Paper: math.NaN(), Unit: record[6], Experiment: record[7],
			Kind: DataKind(record[8]), Control: record[9], Quantity: Quantity{record[10], record[11], record[12], record[13], record[14]}}
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
// for [HoldsCorrected] and [FailsCorrected]. values has one value per seed: the difference of two runs that share it, or a rank correlation within it.
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
		return interval, FailsAlone
	}
	return interval, Open
}
