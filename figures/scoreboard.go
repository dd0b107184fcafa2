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

// Scoreboard shows the paper's claims beside what the runs of one profile say, on synthetic and on real data apart. Write it with [Scoreboard.Text],
// [Scoreboard.Markdown], [Scoreboard.HTML] or [Scoreboard.CSV].
type Scoreboard struct {
	// Profile is that of the runs, and Data identifies each dataset behind a row.
	Profile string
	Data    []string
	// Notes are sentences on what stands behind the numbers.
	Notes []string
	// Rows has each part of each claim, in the order of [Claims]: first on synthetic data, then on real ones. A kind of data without runs is left out.
	Rows []ScoreboardRow
}

// ScoreboardRow is one claim, or one part of a claim, with its verdict.
type ScoreboardRow struct {
	Claim Claim
	Kind  DataKind
	// Data identifies each dataset behind the values.
	Data []string
	// Values has one value per seed; it is empty without runs.
	Values []float64
	// Interval is that of their mean.
	Interval stats.Interval
	// P is the p-value of the two-sided t-test that the mean is 0, and Corrected that after Holm's correction. NaN if there is none.
	P, Corrected float64
	Verdict      Verdict
}

// NewScoreboard evaluates every claim, see [Scoreboard.Judge].
func NewScoreboard(profile string, measured func(Claim, DataKind) (values []float64, data []string)) Scoreboard {
	board := Scoreboard{Profile: profile}
	board.Judge(measured)
	return board
}

// Judge fills in the rows and their data. It calls measured for each claim and each kind of data that the claim is about, which returns the claim's quantity,
// one value per seed (see [Claim.Evaluate]), and what identifies the datasets behind it, or nil without runs. Holm's correction is over all claims on one kind of data that have [MinSeeds] seeds.
func (s *Scoreboard) Judge(measured func(Claim, DataKind) (values []float64, data []string)) {
	s.Rows, s.Data = nil, nil
	for _, kind := range []DataKind{Synthetic, Real} {
		var rows []ScoreboardRow
		for _, claim := range Claims() {
			if claim.Kind == "" || claim.Kind == kind {
				values, data := measured(claim, kind)
				interval, verdict := claim.Evaluate(values)
				rows = append(rows, ScoreboardRow{claim, kind, data, values, interval, math.NaN(), math.NaN(), verdict})
				for _, identity := range data {
					if !slices.Contains(s.Data, identity) {
						s.Data = append(s.Data, identity)
					}
				}
			}
		}
		correct(rows)
		if hasRuns(rows) || kind == Real && len(s.Rows) == 0 {
			s.Rows = append(s.Rows, rows...)
		}
	}
}

func hasRuns(rows []ScoreboardRow) bool {
	return slices.ContainsFunc(rows, func(row ScoreboardRow) bool { return row.Verdict != NoRuns })
}

// correct fills in p-values, and the verdicts that need them.
func correct(rows []ScoreboardRow) {
	var tested []*ScoreboardRow
	var p []float64
	for i := range rows {
		if row := &rows[i]; len(row.Values) >= MinSeeds {
			row.P = stats.PValue(row.Values)
			tested, p = append(tested, row), append(p, row.P)
		}
	}
	for i, corrected := range stats.Holm(p) {
		tested[i].Corrected = corrected
		if tested[i].Verdict == HoldsAlone && corrected < 1-stats.Confidence {
			tested[i].Verdict = HoldsCorrected
		}
	}
}

// of returns the rows of one kind of data.
func (s Scoreboard) of(kind DataKind) (rows []ScoreboardRow) {
	for _, row := range s.Rows {
		if row.Kind == kind {
			rows = append(rows, row)
		}
	}
	return rows
}

// sections are the rows of each kind of data that has any, with a title.
func (s Scoreboard) sections() (sections []scoreboardSection) {
	for _, kind := range []DataKind{Synthetic, Real} {
		if rows := s.of(kind); len(rows) > 0 {
			sections = append(sections, scoreboardSection{strings.ToUpper(string(kind[:1])) + string(kind[1:]) + " data", rows})
		}
	}
	return sections
}

type scoreboardSection struct {
	title string
	rows  []ScoreboardRow
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

// Verdicts returns one verdict per claim on one kind of data. A claim of several parts holds if each part holds, and is corrected if each is; it fails if
// one part fails, has no runs if no part has any, and is open otherwise.
func (s Scoreboard) Verdicts(kind DataKind) map[string]Verdict {
	verdicts := map[string]Verdict{}
	for _, row := range s.of(kind) {
		before, seen := verdicts[row.Claim.ID]
		both := []Verdict{before, row.Verdict}
		switch {
		case !seen || before == row.Verdict:
			verdicts[row.Claim.ID] = row.Verdict
		case slices.Contains(both, Fails):
			verdicts[row.Claim.ID] = Fails
		case slices.Contains(both, Open) || slices.Contains(both, NoRuns):
			verdicts[row.Claim.ID] = Open
		default:
			verdicts[row.Claim.ID] = HoldsAlone
		}
	}
	return verdicts
}

// caption sums up, says how to read the columns, and names what is behind our numbers, in one sentence each.
func (s Scoreboard) caption() (sentences []string) {
	for _, section := range s.sections() {
		count := map[Verdict]int{}
		verdicts := s.Verdicts(section.rows[0].Kind)
		for _, verdict := range verdicts {
			count[verdict]++
		}
		claims := "claims"
		if len(verdicts) == 1 {
			claims = "claim"
		}
		sentences = append(sentences, fmt.Sprintf("%s: of %d %s, %d hold corrected, %d hold alone, %d fail, %d are open and %d have no runs.",
			section.title, len(verdicts), claims, count[HoldsCorrected], count[HoldsAlone], count[Fails], count[Open], count[NoRuns]))
	}
	sentences = append(sentences,
		"Ours: mean ± sd over n seeds, with the 95 % t-interval and Holm's corrected p-value over the claims of its kind of data.",
		fmt.Sprintf("Holds, corrected: the corrected p-value is below 0.05, on the claimed side of 0. Holds alone: only the claim's own interval lies there. "+
			"Fails: it lies on the other side. Open: it holds 0, or there are fewer than %d seeds.", MinSeeds))
	if s.Profile != "" {
		sentences = append(sentences, "Profile: "+s.Profile+".")
	}
	if len(s.of(Synthetic)) > 0 {
		sentences = append(sentences, "On synthetic data a verdict says nothing about the paper's datasets.")
	}
	return append(sentences, s.Notes...)
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

// measured is what is claimed, and the control.
func (r ScoreboardRow) measured() string {
	if r.Claim.Control == "" {
		return r.claimed()
	}
	return r.claimed() + "; control: " + r.Claim.Control
}

// numbers are the texts of paper, ours, interval, n and the corrected p-value, empty if there is nothing to show.
func (r ScoreboardRow) numbers() (paper, ours, interval, n, p string) {
	if !math.IsNaN(r.Claim.Paper) {
		paper = r.number(r.Claim.Paper)
	}
	if len(r.Values) == 0 {
		return paper, "", "", "", ""
	}
	ours = r.number(r.Interval.Mean)
	if !math.IsNaN(r.Interval.SD) {
		ours += " ± " + r.number(r.Interval.SD)
		interval = "[" + r.number(r.Interval.Low) + ", " + r.number(r.Interval.High) + "]"
	}
	switch {
	case math.IsNaN(r.Corrected):
	case r.Corrected < 0.001:
		p = "< 0.001"
	default:
		p = decimal(r.Corrected, 3)
	}
	return paper, ours, interval, strconv.Itoa(len(r.Values)), p
}

// number formats by unit: one decimal for points, two for correlations and shares.
func (r ScoreboardRow) number(value float64) string {
	if r.Claim.Unit == "points" {
		return decimal(value, 1)
	}
	return decimal(value, 2)
}

// Text writes aligned columns for a terminal, with what was measured below each claim that has runs.
func (s Scoreboard) Text() string {
	var b strings.Builder
	for _, section := range s.sections() {
		var columns strings.Builder
		w := tabwriter.NewWriter(&columns, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "id\tclaim\tpaper\tours\t95 % interval\tn\tp\tverdict")
		for _, row := range section.rows {
			paper, ours, interval, n, p := row.numbers()
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row.Claim.ID, row.claim(), paper, ours, interval, n, p, row.Verdict)
		}
		if err := w.Flush(); err != nil {
			panic(err) // A strings.Builder never fails.
		}
		b.WriteString(section.title + "\n")
		for i, line := range strings.Split(strings.TrimRight(columns.String(), "\n"), "\n") {
			b.WriteString(line + "\n")
			if i > 0 && len(section.rows[i-1].Values) > 0 {
				b.WriteString("     " + section.rows[i-1].measured() + "\n")
			}
		}
		b.WriteString("\n")
	}
	lines := s.caption()
	if note := footnote(s.Data); note != "" {
		lines = append(lines, note)
	}
	return b.String() + strings.Join(lines, "\n") + "\n"
}

// Markdown writes a GitHub table for each kind of data.
func (s Scoreboard) Markdown() string {
	var b strings.Builder
	for _, section := range s.sections() {
		b.WriteString("**" + section.title + "**\n\n| id | claim | measured | paper | ours | 95 % interval | n | p | verdict |\n| :-- | :-- | :-- | --: | --: | --: | --: | --: | :-- |\n")
		for _, row := range section.rows {
			paper, ours, interval, n, p := row.numbers()
			verdict := string(row.Verdict)
			if row.Verdict == HoldsCorrected || row.Verdict == Fails {
				verdict = "**" + verdict + "**"
			}
			markdownLine(&b, []string{row.Claim.ID, markdownText(row.claim()), markdownText(row.measured()), paper, ours, markdownText(interval), n, markdownText(p), verdict})
		}
		b.WriteString("\n")
	}
	b.WriteString(markdownText(strings.Join(s.caption(), " ")) + "\n")
	if note := footnote(s.Data); note != "" {
		b.WriteString("\n" + markdownText(note) + "\n")
	}
	return b.String()
}

// HTML writes a self-contained table with inline styles and no scripts, for notebooks. Verdicts are words; colour only repeats them.
func (s Scoreboard) HTML() string { return s.LinkedHTML(nil) }

// LinkedHTML is [Scoreboard.HTML] with a link from each of our numbers to the records of its experiment. link returns the target for an experiment; nil for no links.
func (s Scoreboard) LinkedHTML(link func(experiment string) string) string {
	var b strings.Builder
	beginHTMLTable(&b, html.EscapeString(strings.Join(s.caption(), " ")))
	b.WriteString("<tr>")
	const left, right = "text-align:left;padding:2px 5px", "text-align:right;padding:2px 5px;white-space:nowrap"
	columns := []struct{ name, style string }{
		{"id", left}, {"claim", left}, {"measured", left}, {"paper", right + ";color:" + paperColour}, {"ours", right}, {"95 % interval", right}, {"n", right},
		{"p", right}, {"verdict", left + ";white-space:nowrap"},
	}
	for _, column := range columns {
		fmt.Fprintf(&b, "<th style=\"%s\">%s</th>", column.style, column.name)
	}
	b.WriteString("</tr>\n</thead>\n<tbody>\n")
	for _, section := range s.sections() {
		fmt.Fprintf(&b, "<tr><th colspan=\"%d\" style=\"%s;border-top:1px solid #ccc\">%s</th></tr>\n", len(columns), left, section.title)
		for _, row := range section.rows {
			paper, ours, interval, n, p := row.numbers()
			if ours != "" {
				ours = "<b>" + ours + "</b>"
				if link != nil {
					ours = fmt.Sprintf("<a href=\"%s\">%s</a>", html.EscapeString(link(row.Claim.Experiment)), ours)
				}
			}
			b.WriteString("<tr>")
			for i, cell := range []string{row.Claim.ID, html.EscapeString(row.claim()), html.EscapeString(row.measured()), paper, ours, interval, n,
				html.EscapeString(p), row.Verdict.html()} {
				fmt.Fprintf(&b, "<td style=\"%s;border-top:1px solid #ccc\">%s</td>", columns[i].style, cell)
			}
			b.WriteString("</tr>\n")
		}
	}
	endHTMLTable(&b, s.Data)
	return b.String()
}

// html is the verdict with its colour.
func (v Verdict) html() string {
	switch v {
	case HoldsCorrected:
		return fmt.Sprintf("<b style=\"color:%s\">%s</b>", moreColour, v)
	case HoldsAlone:
		return fmt.Sprintf("<span style=\"color:%s\">%s</span>", moreColour, v)
	case Fails:
		return fmt.Sprintf("<b style=\"color:%s\">%s</b>", lessColour, v)
	case NoRuns:
		return fmt.Sprintf("<span style=\"color:%s\">%s</span>", paperColour, v)
	}
	return string(v)
}

// CSV writes the scoreboard for machines: seven digits, missing values empty, one value per seed separated by spaces.
func (s Scoreboard) CSV() string {
	records := [][]string{{"id", "part", "claim", "measure", "sign", "unit", "experiment", "control", "kind", "profile", "data", "paper", "mean", "sd", "low", "high",
		"n", "values", "p", "corrected_p", "verdict"}}
	for _, row := range s.Rows {
		sign := "+"
		if row.Claim.Sign < 0 {
			sign = "-"
		}
		mean := ""
		if len(row.Values) > 0 {
			mean = sevenDigits(row.Interval.Mean)
		}
		records = append(records, []string{row.Claim.ID, row.Claim.Part, row.Claim.Text, row.Claim.Measure, sign, row.Claim.Unit, row.Claim.Experiment,
			row.Claim.Control, string(row.Kind), s.Profile, strings.Join(row.Data, "; "), plain(row.Claim.Paper), mean, plain(row.Interval.SD), plain(row.Interval.Low),
			plain(row.Interval.High), strconv.Itoa(len(row.Values)), joinPlain(row.Values), plain(row.P), plain(row.Corrected), string(row.Verdict)})
	}
	return csvText(records)
}

// Of returns the rows of one experiment, "ablation", without the identities of all data.
func (s Scoreboard) Of(experiment string) Scoreboard {
	s.Data = nil
	s.Rows = slices.DeleteFunc(slices.Clone(s.Rows), func(row ScoreboardRow) bool { return row.Claim.Experiment != experiment })
	return s
}
