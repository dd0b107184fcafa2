package figures

import (
	"encoding/csv"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Markdown writes a GitHub table. Each cell reads "paper / **ours ± sd** (difference)"; a missing part is left out, and the slash keeps its place. In
// a table without numbers of the paper a cell is "**ours ± sd**".
func (t Table) Markdown() string {
	t.check()
	var b strings.Builder
	if t.Title != "" {
		b.WriteString("**" + markdownText(t.Title) + "**\n\n")
	}
	var header, rule []string
	heads, _ := t.heads()
	for i, head := range t.RowHeads {
		header = append(header, markdownText(heads[i]))
		if head.Switch {
			rule = append(rule, ":-:")
		} else {
			rule = append(rule, ":--")
		}
	}
	for _, column := range t.Columns {
		group, name := group(column)
		text := markdownText(shownName(name))
		if group != "" {
			text = markdownText(shownName(group)) + "<br>" + text
		}
		header, rule = append(header, text), append(rule, "--:")
	}
	markdownLine(&b, header)
	markdownLine(&b, rule)
	for _, row := range t.Rows {
		var line []string
		for i, head := range row.Heads {
			line = append(line, markdownHead(t.RowHeads[i], head))
		}
		for _, cell := range row.Cells {
			line = append(line, cell.numbers(t.seedsDiffer()).markdown(t.hasPaper()))
		}
		markdownLine(&b, line)
	}
	caption := markdownText(t.caption("Each cell: paper / ours ± sd (difference)"))
	if t.hasSame() {
		caption += " ◐: the same crop for both views."
	}
	b.WriteString("\n" + caption + "\n")
	if note := footnote(t.Data); note != "" {
		b.WriteString("\n" + markdownText(note) + "\n")
	}
	return b.String()
}

func markdownLine(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func markdownHead(head RowHead, value string) string {
	if !head.Switch {
		return markdownText(value)
	}
	return switchSymbol(value)
}

// switchSymbol is a switch's entry in plain text.
func switchSymbol(value string) string {
	switch value {
	case switchOn:
		return "✓"
	case switchSame:
		return "◐"
	}
	return ""
}

// markdownText escapes what Markdown would treat as markup in a table cell.
func markdownText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "[", `\[`, "\n", " ").Replace(text)
}

func (n numbers) markdown(besidePaper bool) string {
	if n.mean == "" {
		if n.paper == "" {
			return ""
		}
		return n.paper + " /"
	}
	text := "**" + n.mean
	if n.sd != "" {
		text += " ± " + n.sd
	}
	text += "**"
	if n.delta != "" {
		text += " (" + n.delta + ")"
	}
	if n.seeds != "" {
		text += ", " + n.seeds
	}
	if !besidePaper {
		return text
	}
	return strings.TrimSpace(n.paper + " / " + text)
}

// CSV writes the table for machines, one line per cell: table, row (its nonempty heads as name=value, separated by semicolons), column, paper, mean,
// sd, n, values (one per seed, separated by spaces), unit, profile, data and caption. All tables have the same columns. Numbers have seven digits,
// more than any of them means; the records have all. Missing values are empty.
func (t Table) CSV() string {
	t.check()
	records := [][]string{slices.Concat([]string{"table", "row", "column"}, cellHeader, []string{"unit", "profile", "data", "caption"})}
	for _, row := range t.Rows {
		var heads []string
		for i, value := range row.Heads {
			if value != "" {
				heads = append(heads, t.RowHeads[i].Name+"="+value)
			}
		}
		for c, cell := range row.Cells {
			records = append(records, slices.Concat([]string{t.Title, strings.Join(heads, ";"), t.Columns[c]}, cell.record(),
				[]string{t.Unit, t.Profile, strings.Join(t.Data, "; "), t.Caption}))
		}
	}
	return csvText(records)
}

// plain is a number for machines, with at most seven digits, or nothing for NaN.
func plain(value float64) string {
	if math.IsNaN(value) {
		return ""
	}
	return sevenDigits(value)
}

func sevenDigits(value float64) string { return strconv.FormatFloat(value, 'g', 7, 64) }

// joinPlain keeps each seed's value, including the NaN of a failed run.
func joinPlain(values []float64) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = sevenDigits(value)
	}
	return strings.Join(texts, " ")
}

func csvText(records [][]string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.WriteAll(records); err != nil {
		panic(err) // A strings.Builder never fails.
	}
	return b.String()
}
