package figures

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/semcon/semcon/analysis/stats"
)

// Scoreboard shows the paper's claims beside what the runs of one profile say. Write it with [Scoreboard.Text], [Scoreboard.Markdown],
// [Scoreboard.HTML] or [Scoreboard.CSV].
type Scoreboard struct {
	// Profile is that of the runs, and Data identifies each dataset.
	Profile string
	Data    []string
	// Notes are sentences on what stands behind the numbers, such as settings that are not the profile's.
	Notes []string
	// Rows has each part of each claim, in the order of [Claims].
	Rows []ScoreboardRow
}

// ScoreboardRow is one claim, or one part of a claim, with its verdict.
type ScoreboardRow struct {
	Claim Claim
	// Values has one value per seed; it is empty without runs.
	Values []float64
	// Interval is that of their mean.
	Interval stats.Interval
	Verdict  Verdict
}

// NewScoreboard evaluates every claim. It calls measured for each claim, which returns the claim's quantity, one value per seed (see
// [Claim.Evaluate]), or nil without runs.
func NewScoreboard(profile string, data []string, measured func(Claim) []float64) Scoreboard {
	board := Scoreboard{Profile: profile, Data: data}
	board.Judge(measured)
	return board
}

// Judge fills in the rows: it judges every claim by its quantity, see [NewScoreboard].
func (s *Scoreboard) Judge(measured func(Claim) []float64) {
	s.Rows = nil
	for _, claim := range Claims() {
		values := measured(claim)
		interval, verdict := claim.Evaluate(values)
		s.Rows = append(s.Rows, ScoreboardRow{Claim: claim, Values: values, Interval: interval, Verdict: verdict})
	}
}

// ScoreboardFormats are the formats that [Scoreboard.Format] knows.
var ScoreboardFormats = []string{"text", "md", "html", "csv"}

// Format writes the scoreboard in one of [ScoreboardFormats]; another name is an error.
func (s Scoreboard) Format(format string) (string, error) {
	switch format {
	case "text":
		return s.Text(), nil
	case "md":
		return s.Markdown(), nil
	case "html":
		return s.HTML(), nil
	case "csv":
		return s.CSV(), nil
	}
	return "", fmt.Errorf("unknown format %q; there are %s", format, strings.Join(ScoreboardFormats, ", "))
}

// Verdicts returns one verdict per claim. A claim of several parts holds if each part holds, fails if one part fails, has no runs if no part has any,
// and is open otherwise.
func (s Scoreboard) Verdicts() map[string]Verdict {
	verdicts := map[string]Verdict{}
	for _, row := range s.Rows {
		before, seen := verdicts[row.Claim.ID]
		switch {
		case !seen || before == row.Verdict:
			verdicts[row.Claim.ID] = row.Verdict
		case before == Fails || row.Verdict == Fails:
			verdicts[row.Claim.ID] = Fails
		default:
			verdicts[row.Claim.ID] = Open
		}
	}
	return verdicts
}

// caption sums up, says how to read the columns, and names what is behind our numbers, in one sentence each.
func (s Scoreboard) caption() []string {
	count := map[Verdict]int{}
	verdicts := s.Verdicts()
	for _, verdict := range verdicts {
		count[verdict]++
	}
	sentences := []string{
		fmt.Sprintf("Of %d claims, %d hold, %d fail, %d are open and %d have no runs.", len(verdicts), count[Holds], count[Fails], count[Open], count[NoRuns]),
		fmt.Sprintf("Ours: mean ± sd over n seeds; a claim holds where the 95 %% t-interval of the mean lies on the claimed side of 0, with at least %d seeds.", MinSeeds),
	}
	if s.Profile != "" {
		sentences = append(sentences, "Profile: "+s.Profile+".")
	}
	if slices.ContainsFunc(s.Data, func(identity string) bool { return strings.HasPrefix(identity, "synthetic") }) {
		sentences = append(sentences, "On synthetic data a verdict says nothing about the paper's datasets.")
	}
	sentences = append(sentences, s.Notes...)
	return sentences
}

// claim is the claim with its part in front: "SimCLR: independent random crops help".
func (r ScoreboardRow) claim() string {
	if r.Claim.Part == "" {
		return r.Claim.Text
	}
	return r.Claim.Part + ": " + r.Claim.Text
}

// claimed is the measure and its side of 0, with non-breaking spaces.
func (r ScoreboardRow) claimed() string {
	if r.Claim.Sign < 0 {
		return r.Claim.Measure + "\u00a0<\u00a00"
	}
	return r.Claim.Measure + "\u00a0>\u00a00"
}

// numbers are the texts of paper, ours, interval and n, empty if there is nothing to show.
func (r ScoreboardRow) numbers() (paper, ours, interval, n string) {
	if !math.IsNaN(r.Claim.Paper) {
		paper = r.number(r.Claim.Paper)
	}
	if len(r.Values) == 0 {
		return paper, "", "", ""
	}
	ours = r.number(r.Interval.Mean)
	if !math.IsNaN(r.Interval.SD) {
		ours += " ± " + r.number(r.Interval.SD)
		interval = "[" + r.number(r.Interval.Low) + ", " + r.number(r.Interval.High) + "]"
	}
	return paper, ours, interval, strconv.Itoa(len(r.Values))
}

// number formats by unit: one decimal for points, two for correlations and shares.
func (r ScoreboardRow) number(value float64) string {
	if r.Claim.Unit == "points" {
		return decimal(value, 1)
	}
	return decimal(value, 2)
}

// Text writes aligned columns for a terminal, without the measures.
func (s Scoreboard) Text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "id\tclaim\tpaper\tours\t95 % interval\tn\tverdict")
	for _, row := range s.Rows {
		paper, ours, interval, n := row.numbers()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Claim.ID, row.claim(), paper, ours, interval, n, row.Verdict)
	}
	if err := w.Flush(); err != nil {
		panic(err) // A strings.Builder never fails.
	}
	lines := s.caption()
	if note := footnote(s.Data); note != "" {
		lines = append(lines, note)
	}
	return b.String() + "\n" + strings.Join(lines, "\n") + "\n"
}

// Markdown writes a GitHub table.
func (s Scoreboard) Markdown() string {
	var b strings.Builder
	b.WriteString("| id | claim | measured | paper | ours | 95 % interval | n | verdict |\n| :-- | :-- | :-- | --: | --: | --: | --: | :-- |\n")
	for _, row := range s.Rows {
		paper, ours, interval, n := row.numbers()
		verdict := string(row.Verdict)
		if row.Verdict == Holds || row.Verdict == Fails {
			verdict = "**" + verdict + "**"
		}
		markdownLine(&b, []string{row.Claim.ID, markdownText(row.claim()), markdownText(row.claimed()), paper, ours, markdownText(interval), n, verdict})
	}
	b.WriteString("\n" + markdownText(strings.Join(s.caption(), " ")) + "\n")
	if note := footnote(s.Data); note != "" {
		b.WriteString("\n" + markdownText(note) + "\n")
	}
	return b.String()
}

// HTML writes a self-contained table with inline styles and no scripts, for notebooks. Verdicts are words; colour only repeats them.
func (s Scoreboard) HTML() string {
	var b strings.Builder
	beginHTMLTable(&b, html.EscapeString(strings.Join(s.caption(), " ")))
	b.WriteString("<tr>")
	const left, right = "text-align:left;padding:2px 5px", "text-align:right;padding:2px 5px;white-space:nowrap"
	columns := []struct{ name, style string }{
		{"id", left}, {"claim", left}, {"measured", left}, {"paper", right + ";color:" + paperColour}, {"ours", right}, {"95 % interval", right}, {"n", right},
		{"verdict", left + ";white-space:nowrap"},
	}
	for _, column := range columns {
		fmt.Fprintf(&b, "<th style=\"%s\">%s</th>", column.style, column.name)
	}
	b.WriteString("</tr>\n</thead>\n<tbody>\n")
	for _, row := range s.Rows {
		paper, ours, interval, n := row.numbers()
		verdict := string(row.Verdict)
		switch row.Verdict {
		case Holds:
			verdict = fmt.Sprintf("<b style=\"color:%s\">%s</b>", moreColour, verdict)
		case Fails:
			verdict = fmt.Sprintf("<b style=\"color:%s\">%s</b>", lessColour, verdict)
		case NoRuns:
			verdict = fmt.Sprintf("<span style=\"color:%s\">%s</span>", paperColour, verdict)
		}
		if ours != "" {
			ours = "<b>" + ours + "</b>"
		}
		b.WriteString("<tr>")
		for i, cell := range []string{row.Claim.ID, html.EscapeString(row.claim()), html.EscapeString(row.claimed()), paper, ours, interval, n, verdict} {
			fmt.Fprintf(&b, "<td style=\"%s;border-top:1px solid #ccc\">%s</td>", columns[i].style, cell)
		}
		b.WriteString("</tr>\n")
	}
	endHTMLTable(&b, s.Data)
	return b.String()
}

// CSV writes the scoreboard for machines: seven digits, missing values empty, one value per seed separated by spaces.
func (s Scoreboard) CSV() string {
	records := [][]string{{"id", "part", "claim", "measure", "sign", "unit", "experiment", "profile", "data", "paper", "mean", "sd", "low", "high", "n", "values", "verdict"}}
	for _, row := range s.Rows {
		sign := "+"
		if row.Claim.Sign < 0 {
			sign = "-"
		}
		mean := ""
		if len(row.Values) > 0 {
			mean = sevenDigits(row.Interval.Mean)
		}
		records = append(records, []string{row.Claim.ID, row.Claim.Part, row.Claim.Text, row.Claim.Measure, sign, row.Claim.Unit, row.Claim.Experiment, s.Profile, strings.Join(s.Data, "; "),
			plain(row.Claim.Paper), mean, plain(row.Interval.SD), plain(row.Interval.Low), plain(row.Interval.High), strconv.Itoa(len(row.Values)),
			joinPlain(row.Values), string(row.Verdict)})
	}
	return csvText(records)
}
