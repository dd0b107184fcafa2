package figures

import (
	"cmp"
	"embed"
	"encoding/csv"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/janpfeifer/must"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
)

//go:embed paper/*.csv
var paperFiles embed.FS

// noTables are files of the folder that hold no table of the paper: the claims, which [Claims] reads, and the settings, which the page docs/settings.md has.
var noTables = []string{"claims", "settings"}

// PaperTable is a table as the paper prints it.
type PaperTable struct {
	Name     string    // The table's LaTeX label without "tab:", e.g. "effect_aug_full".
	RowHeads []RowHead // The leading columns, which name a row: switches of transformations, or words such as the method.
	Columns  []string  // The columns of numbers, e.g. "CIFAR-10/SimCLR".
	Rows     []PaperRow
}

// PaperRow is one printed row.
type PaperRow struct {
	Heads  []string  // One entry per row head. A switch is "1" (on), "" (off) or "same" (one crop for both views).
	Values []float64 // One number per column, NaN if the paper prints none.
}

// RowHead is a leading column of a table.
type RowHead struct {
	Name   string // E.g. "random_crop"; underscores are shown as spaces.
	Switch bool   // The entries are "1" (shown as a check mark), "same" (a half circle) or "", and not words.
}

// Paper reads a table of the paper by its label, e.g. "effect_aug". An unknown name is an error that lists the known ones.
func Paper(name string) (*PaperTable, error) {
	file := "paper/" + name + ".csv"
	data, err := paperFiles.ReadFile(file)
	if err != nil || slices.Contains(noTables, name) {
		return nil, fmt.Errorf("no table %q in the paper; there are %s", name, strings.Join(PaperNames(), ", "))
	}
	table, err := parsePaper(name, string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return table, nil
}

// MustPaper is [Paper] of a table that there is; a panic otherwise.
func MustPaper(name string) *PaperTable { return must.M1(Paper(name)) }

// PaperNames lists the tables that [Paper] knows, in alphabetical order.
func PaperNames() []string {
	files := must.M1(fs.Glob(paperFiles, "paper/*.csv"))
	return lo.Without(lo.Map(files, func(file string, _ int) string { return strings.TrimSuffix(path.Base(file), ".csv") }), noTables...)
}

// parsePaper distinguishes row heads from numbers by their form: the paper prints every measured number with a decimal point, and neither the
// switches nor the line numbers of the ablation have one.
func parsePaper(name, text string) (_ *PaperTable, err error) {
	defer try.Handle(&err)
	records := try.E1(csv.NewReader(strings.NewReader(text)).ReadAll())
	if len(records) < 2 {
		return nil, fmt.Errorf("want a header and at least one row, got %d lines", len(records))
	}
	header, body := records[0], records[1:]
	t := &PaperTable{Name: name, Rows: make([]PaperRow, len(body))}
	for c, column := range header {
		number := slices.ContainsFunc(body, func(record []string) bool {
			_, err := strconv.ParseFloat(record[c], 64)
			return err == nil && strings.Contains(record[c], ".")
		})
		words := slices.ContainsFunc(body, func(record []string) bool { return !slices.Contains([]string{"", switchOn, switchSame}, record[c]) })
		if !number && len(t.Columns) > 0 {
			return nil, fmt.Errorf("column %q names rows and comes after numbers", column)
		}
		if number {
			t.Columns = append(t.Columns, column)
		} else {
			t.RowHeads = append(t.RowHeads, RowHead{column, !words})
		}
		for r, record := range body {
			row := &t.Rows[r]
			if !number {
				row.Heads = append(row.Heads, record[c])
				continue
			}
			value, err := strconv.ParseFloat(cmp.Or(record[c], "NaN"), 64)
			if err != nil {
				return nil, fmt.Errorf("line %d, column %q: %q is not a number", r+2, column, record[c])
			}
			row.Values = append(row.Values, value)
		}
	}
	return t, nil
}

// Row returns the row with these heads; ok is false if the paper has none.
func (p *PaperTable) Row(heads ...string) (row PaperRow, ok bool) {
	return lo.Find(p.Rows, func(row PaperRow) bool { return slices.Equal(row.Heads, heads) })
}

// Value is the printed number of a column in the row with these heads. It is NaN if the paper has no such row or column, or leaves the cell empty.
func (p *PaperTable) Value(column string, heads ...string) float64 {
	row, ok := p.Row(heads...)
	c := slices.Index(p.Columns, column)
	if !ok || c < 0 {
		return math.NaN()
	}
	return row.Values[c]
}

// Claim is the sign of a quantity that the paper claims. A claim with several parts has one Claim per part, all with the same ID.
type Claim struct {
	ID         string   // C1 to C26.
	Part       string   // Tells the parts of one ID apart, or names the method in C1 to C12; it may be empty.
	Text       string   // The claim in words.
	Measure    string   // The quantity whose sign is claimed, one value per seed.
	Sign       int      // +1 if the quantity should be above 0, and −1 if below.
	Paper      float64  // The quantity computed from the paper's own tables, NaN if it prints none.
	Unit       string   // "points" for percentages, empty for correlations and shares.
	Experiment string   // The experiment whose records decide.
	Kind       DataKind // The only kind of data that the claim is about; empty for both.
	Control    string   // What the runs that are compared have in common, or what a comparison lacks.
	Quantity
}

// Quantity says which records of the experiment hold the quantity of a claim: the value of a row in a column, for each seed.
type Quantity struct {
	Column      string // The records' column. "a & b" is the mean over columns, and "a + b" the mean over the columns with records.
	Row         string // The records' row. "a < b < c" is the rank correlation of the values with the order of the rows.
	MinusRow    string // The row whose value is subtracted, in the same column and of the same seed; of "a & b" the one with the higher mean over seeds. It may be empty.
	MinusColumn string // A column, usually empty: the same quantity in it is subtracted.
	Detail      string // The detail of the records that is meant; empty for their value.
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

// OnImages says in titles what kind of images something is on.
var OnImages = map[DataKind]string{Real: " on images", Synthetic: " on synthetic images"}

// MinSeeds is the number of seeds that a verdict needs.
const MinSeeds = 3

// Verdict says what the runs say about a claim.
type Verdict string

// The verdicts on a claim among the claims of its experiment, see [NewScoreboard]. Without runs there is none.
const (
	HoldsCorrected Verdict = "holds, corrected" // The mean lies on the claimed side of 0, also after Holm's correction for all claims of the experiment.
	HoldsAlone     Verdict = "holds alone"      // The claim's own 95 % interval lies on the claimed side, but among so many claims one may do so by chance.
	Open           Verdict = "open"             // The interval holds 0, there are fewer than [MinSeeds] seeds, or a run failed with NaN.
	FailsAlone     Verdict = "fails alone"      // The claim's own interval lies on the other side, but among so many claims one may do so by chance.
	FailsCorrected Verdict = "fails, corrected" // The mean lies on the other side, also after the correction.
	NoRuns         Verdict = "no runs"
)

// together is the verdict on a claim that holds if all its parts hold. It is corrected if each part that holds is, or one that fails.
func together(parts []Verdict) Verdict {
	if len(slices.Compact(slices.Clone(parts))) == 1 {
		return parts[0]
	}
	if decides, fails := lo.Find([]Verdict{FailsCorrected, FailsAlone}, func(v Verdict) bool { return slices.Contains(parts, v) }); fails {
		return decides
	}
	return lo.Ternary(lo.Some(parts, []Verdict{Open, NoRuns}), Open, HoldsAlone)
}

// Claims lists the claims in order, with one entry per part.
func Claims() []Claim {
	return must.M1(parseClaims(string(must.M1(paperFiles.ReadFile("paper/claims.csv"))))) // The file is embedded, and the tests read it.
}

func parseClaims(text string) (claims []Claim, err error) {
	defer try.Handle(&err)
	records := try.E1(csv.NewReader(strings.NewReader(text)).ReadAll())
	if header := strings.Join(lo.FirstOrEmpty(records), ","); header != "id,part,claim,measure,sign,paper,unit,experiment,data,control,column,row,minus_row,minus_column,detail" {
		return nil, fmt.Errorf("unexpected header %s", header)
	}
	for i, record := range records[1:] {
		claim := Claim{ID: record[0], Part: record[1], Text: record[2], Measure: record[3], Sign: map[string]int{"+": 1, "-": -1}[record[4]], Unit: record[6],
			Experiment: record[7], Kind: DataKind(record[8]), Control: record[9], Quantity: Quantity{record[10], record[11], record[12], record[13], record[14]}}
		if claim.Sign == 0 {
			return nil, fmt.Errorf("line %d: sign %q is neither + nor -", i+2, record[4])
		}
		if claim.Paper, err = strconv.ParseFloat(cmp.Or(record[5], "NaN"), 64); err != nil {
			return nil, fmt.Errorf("line %d: %q is not a number", i+2, record[5])
		}
		if !slices.Contains([]DataKind{"", Synthetic, Real}, claim.Kind) {
			return nil, fmt.Errorf("line %d: data %q are neither %s nor %s", i+2, claim.Kind, Synthetic, Real)
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
