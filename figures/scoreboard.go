package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
)

// Scoreboard shows the paper's claims beside what the runs of one profile say, on synthetic and on real data apart. Write it with [Scoreboard.Text],
// [Scoreboard.Markdown], [Scoreboard.HTML] or [Scoreboard.CSV].
type Scoreboard struct {
	Profile string   // That of the runs.
	Data    []string // The identity of each dataset behind a row.
	Notes   []string // Sentences on what stands behind the numbers.
	// Rows has each claim, in the order of [Claims]: first on synthetic data, then on real ones. The parts of a claim that has several stand below it. A kind of
	// data without runs is left out.
	Rows []ScoreboardRow
}

// ScoreboardRow is one claim, or one part of a claim, with its verdict.
type ScoreboardRow struct {
	Claim    Claim
	Kind     DataKind
	Data     []string       // The identity of each dataset behind the values.
	Values   []float64      // One per seed; empty without runs.
	Interval stats.Interval // Of their mean.
	Images   stats.Interval // Of their mean, over test images, of which N is the number; N is 0 without one.
	// P is the p-value of the two-sided t-test that the mean is 0, and Corrected that after Holm's correction. NaN if there is none.
	P, Corrected float64
	// Family is the number of quantities that the correction is for: those of all claims of the experiment on this kind of data, whatever has run.
	Family  int
	Verdict Verdict
	// Parts is the number of rows below that are parts of this claim; 0 for a claim of one part, and for a part.
	Parts int
	Part  bool // Whether this row is a part of a claim above.
}

// NewScoreboard judges every claim. It calls measured for each part of each claim and each kind of data that it is about, which returns the quantity, one value per
// seed (see [Claim.Evaluate]), and what identifies the datasets behind it, or nil without runs. Holm's correction is over all that the claims of an experiment
// measure on one kind of data, so that a verdict does not depend on what else has run. A claim of several parts holds if they all do.
func NewScoreboard(profile string, measured func(Claim, DataKind) (values []float64, data []string)) Scoreboard {
	s := Scoreboard{Profile: profile}
	for _, kind := range []DataKind{Synthetic, Real} {
		var rows []ScoreboardRow
		for _, claim := range Claims() {
			if claim.Kind == "" || claim.Kind == kind {
				values, data := measured(claim, kind)
				interval, verdict := claim.Evaluate(values)
				rows = append(rows, ScoreboardRow{Claim: claim, Kind: kind, Data: data, Values: values, Interval: interval, P: math.NaN(), Corrected: math.NaN(), Verdict: verdict})
				s.Data = lo.Uniq(append(s.Data, data...))
			}
		}
		correct(rows)
		hasRuns := slices.ContainsFunc(rows, func(row ScoreboardRow) bool { return row.Verdict != NoRuns })
		if hasRuns || kind == Real && len(s.Rows) == 0 {
			s.Rows = append(s.Rows, joined(rows)...)
		}
	}
	return s
}

// correct fills in p-values, and the verdicts that need them, for the rows of one kind of data.
func correct(rows []ScoreboardRow) {
	families := map[string][]*ScoreboardRow{}
	for i := range rows {
		row := &rows[i]
		if len(row.Values) >= MinSeeds {
			row.P = stats.PValue(row.Values)
		}
		families[row.Claim.Experiment] = append(families[row.Claim.Experiment], row)
	}
	for _, family := range families {
		for i, corrected := range stats.Holm(lo.Map(family, func(row *ScoreboardRow, _ int) float64 { return row.P })) {
			row := family[i]
			row.Corrected, row.Family = corrected, len(family)
			if sure, ok := map[Verdict]Verdict{HoldsAlone: HoldsCorrected, FailsAlone: FailsCorrected}[row.Verdict]; ok && corrected < 1-stats.Confidence {
				row.Verdict = sure
			}
		}
	}
}

// joined puts a row before the parts of each claim that has several, with the verdict on them all.
func joined(rows []ScoreboardRow) (all []ScoreboardRow) {
	for _, parts := range lo.PartitionBy(rows, func(row ScoreboardRow) string { return row.Claim.ID }) {
		if first := parts[0]; len(parts) > 1 {
			whole := ScoreboardRow{Claim: first.Claim, Kind: first.Kind, Interval: stats.MeanInterval(nil), P: math.NaN(), Corrected: math.NaN(), Parts: len(parts)}
			whole.Claim.Part, whole.Claim.Measure, whole.Claim.Control, whole.Claim.Paper, whole.Claim.Quantity = "", "", "", math.NaN(), Quantity{}
			whole.Verdict = together(lo.Map(parts, func(row ScoreboardRow, _ int) Verdict { return row.Verdict }))
			all = append(all, whole)
			for i := range parts {
				parts[i].Part = true
			}
		}
		all = append(all, parts...)
	}
	return all
}

// of returns the rows of one kind of data.
func (s Scoreboard) of(kind DataKind) []ScoreboardRow {
	return lo.Filter(s.Rows, func(row ScoreboardRow, _ int) bool { return row.Kind == kind })
}

// sectionTitles are the titles of the rows of a kind of data.
var sectionTitles = map[DataKind]string{Synthetic: "Synthetic data", Real: "Real data"}

// Format writes the scoreboard in a format: text, md, html or csv. Another name is an error.
func (s Scoreboard) Format(format string) (string, error) {
	return formatted(format, map[string]func() string{"text": s.Text, "md": s.Markdown, "html": s.HTML, "csv": s.CSV})
}

// Verdicts returns the verdict on each claim on one kind of data.
func (s Scoreboard) Verdicts(kind DataKind) map[string]Verdict {
	return lo.FilterSliceToMap(s.of(kind), func(row ScoreboardRow) (string, Verdict, bool) { return row.Claim.ID, row.Verdict, !row.Part })
}

// caption sums up, says how to read the columns, and names what is behind our numbers, in one sentence each.
func (s Scoreboard) caption() []string {
	counts := lo.Map([]DataKind{Synthetic, Real}, func(kind DataKind, _ int) map[string]any {
		verdicts := lo.Map(lo.Values(s.Verdicts(kind)), func(v Verdict, _ int) string { return string(v) })
		return map[string]any{"Title": sectionTitles[kind], "All": len(verdicts), "Of": lo.CountValues(verdicts)}
	})
	return append(sentences("claims", map[string]any{
		"Counts": counts, "MinSeeds": MinSeeds, "Profile": s.Profile, "Synthetic": len(s.of(Synthetic)) > 0,
		"Images": slices.ContainsFunc(s.Rows, func(r ScoreboardRow) bool { return r.Images.N > 0 }),
	}), s.Notes...)
}

// measured is what is claimed, the measure and its side of 0, and the control.
func (r ScoreboardRow) measured() string {
	if r.Parts > 0 {
		return ""
	}
	return r.Claim.Measure + "\u00a0" + lo.Ternary(r.Claim.Sign < 0, "<", ">") + "\u00a00" + lo.Ternary(r.Claim.Control == "", "", "; control: "+r.Claim.Control)
}

// digits are those after the point of printed numbers: one for points, two for correlations and shares.
func (r ScoreboardRow) digits() int { return lo.Ternary(r.Claim.Unit == "points", 1, 2) }

// number formats one of ours, with one more digit if an end of its interval would look like 0.
func (r ScoreboardRow) number(value float64) string {
	digits := r.digits()
	ends := []float64{r.Interval.Low, r.Interval.High}
	if r.Images.N > 0 {
		ends = append(ends, r.Images.Low, r.Images.High)
	}
	if slices.ContainsFunc(ends, func(end float64) bool { return math.Abs(end) < 0.5*math.Pow10(-digits) }) {
		digits++
	}
	return decimal(value, digits)
}

// cells are the texts of the columns of [Scoreboard], empty if there is nothing to show.
func (r ScoreboardRow) cells() []Lines {
	id, claim, paper, ours, interval, n, p := r.Claim.ID, r.Claim.Text, "", "", "", "", ""
	if r.Part {
		id, claim = "", r.Claim.Part
	} else if r.Claim.Part != "" {
		claim = r.Claim.Part + ": " + claim
	}
	if !math.IsNaN(r.Claim.Paper) {
		paper = decimal(r.Claim.Paper, r.digits())
	}
	if len(r.Values) > 0 {
		ours, n = r.number(r.Interval.Mean), strconv.Itoa(len(r.Values))
		if !math.IsNaN(r.Interval.SD) {
			ours += " ± " + r.number(r.Interval.SD)
			interval = "[" + r.number(r.Interval.Low) + ", " + r.number(r.Interval.High) + "]"
		}
		if r.Images.N > 0 {
			interval = strings.TrimSpace(interval + " images [" + r.number(r.Images.Low) + ", " + r.number(r.Images.High) + "]")
		}
		if r.Corrected < 0.001 {
			p = "< 0.001"
		} else if !math.IsNaN(r.Corrected) {
			p = decimal(r.Corrected, 3)
		}
		if p != "" {
			p += fmt.Sprintf(" of %d", r.Family)
		}
	}
	cells := Plain(id, claim, r.measured(), paper, ours, interval, n, p, string(r.Verdict))
	verdict := &cells[len(cells)-1][0][0]
	verdict.Bold = r.Verdict == HoldsCorrected || r.Verdict == FailsCorrected
	verdict.Colour = map[Verdict]string{HoldsCorrected: moreColour, HoldsAlone: moreColour, FailsAlone: lessColour, FailsCorrected: lessColour, NoRuns: paperColour}[r.Verdict]
	return cells
}

// grid formats the scoreboard, with a section for each kind of data, and changes each row by format.
func (s Scoreboard) grid(format func(r ScoreboardRow, row *GridRow)) Grid {
	const nowrap = ";white-space:nowrap"
	g := Grid{Caption: s.caption(), Data: s.Data, Columns: []Column{
		{Title: "id", Align: "left"}, {Title: "claim", Align: "left"}, {Title: "measured", Align: "left"}, {Title: "paper", Align: "right", Style: nowrap + ";color:" + paperColour},
		{Title: "ours", Align: "right", Style: nowrap}, {Title: "95 % interval", Align: "right", Style: nowrap}, {Title: "n", Align: "right", Style: nowrap},
		{Title: "p", Align: "right", Style: nowrap}, {Title: "verdict", Align: "left", Style: nowrap},
	}}
	for i, row := range s.Rows {
		if i == 0 || row.Kind != s.Rows[i-1].Kind {
			g.Sections = append(g.Sections, Section{Title: sectionTitles[row.Kind]})
		}
		last, line := &g.Sections[len(g.Sections)-1], GridRow{Cells: row.cells()}
		format(row, &line)
		last.Rows = append(last.Rows, line)
	}
	return g
}

// Text writes aligned columns for a terminal, with what was measured below each claim that has runs.
func (s Scoreboard) Text() string {
	g := s.grid(func(r ScoreboardRow, row *GridRow) {
		row.Cells = slices.Delete(row.Cells, 2, 3)
		if len(r.Values) > 0 {
			row.Below = "     " + r.measured()
		}
	})
	g.Columns = slices.Delete(g.Columns, 2, 3)
	return g.Text()
}

// Markdown writes a GitHub table for each kind of data.
func (s Scoreboard) Markdown() string { return s.grid(func(ScoreboardRow, *GridRow) {}).Markdown() }

// HTML is [Grid.HTML] of the scoreboard. Verdicts are words; colour only repeats them.
func (s Scoreboard) HTML() string { return s.LinkedHTML(nil) }

// LinkedHTML is [Scoreboard.HTML] with a link from each of our numbers to the records of its experiment. link returns the target for an experiment; nil for no links.
func (s Scoreboard) LinkedHTML(link func(experiment string) string) string {
	return s.grid(func(r ScoreboardRow, row *GridRow) {
		if ours := &row.Cells[4][0][0]; len(r.Values) > 0 {
			ours.Bold = true
			if link != nil {
				ours.Links = []string{link(r.Claim.Experiment)}
			}
		}
	}).HTML()
}

// CSV writes the scoreboard for machines: seven digits, missing values empty, one value per seed separated by spaces.
func (s Scoreboard) CSV() string {
	records := [][]string{{"id", "part", "claim", "measure", "sign", "unit", "experiment", "control", "kind", "profile", "data", "paper", "mean", "sd", "low", "high",
		"n", "values", "p", "corrected_p", "family", "verdict", "images_low", "images_high", "images"}}
	for _, row := range s.Rows {
		images, signs := [3]string{}, map[int]string{1: "+", -1: "-"}
		if row.Images.N > 0 {
			images = [3]string{plain(row.Images.Low), plain(row.Images.High), strconv.Itoa(row.Images.N)}
		}
		mean := lo.Ternary(len(row.Values) > 0, sevenDigits(row.Interval.Mean), "")
		records = append(records, []string{row.Claim.ID, row.Claim.Part, row.Claim.Text, row.Claim.Measure, signs[row.Claim.Sign], row.Claim.Unit, row.Claim.Experiment,
			row.Claim.Control, string(row.Kind), s.Profile, strings.Join(row.Data, "; "), plain(row.Claim.Paper), mean, plain(row.Interval.SD), plain(row.Interval.Low),
			plain(row.Interval.High), strconv.Itoa(len(row.Values)), joinPlain(row.Values), plain(row.P), plain(row.Corrected), strconv.Itoa(row.Family), string(row.Verdict),
			images[0], images[1], images[2]})
	}
	return csvText(records)
}

// Of returns the rows of one experiment, "ablation", without the identities of all data.
func (s Scoreboard) Of(experiment string) Scoreboard {
	s.Data = nil
	s.Rows = slices.DeleteFunc(slices.Clone(s.Rows), func(row ScoreboardRow) bool { return row.Claim.Experiment != experiment })
	return s
}
