package figures

import (
	"fmt"
	"slices"
	"strings"
)

// LaTeX writes a table environment as wide as the page: ours in bold above the paper's number and the difference. The document needs
// \usepackage{amssymb} for \checkmark and nothing else; the half circle is drawn from two symbols.
func (t Table) LaTeX() string {
	t.check()
	var b strings.Builder
	caption := latexText(t.caption("Each cell: ours ± sd, below it the paper's number and the difference"))
	if t.hasSame() {
		caption += ` \protect\semconSame: the same crop for both views.`
	}
	if t.Title != "" {
		caption = `\textbf{` + latexText(t.Title) + `.} ` + caption
	}
	b.WriteString("% needs \\usepackage{amssymb}\n")
	b.WriteString("\\providecommand{\\semconSame}{\\mbox{\\ooalign{\\hss$|$\\hss\\cr$\\bigcirc$\\cr}}}\n")
	b.WriteString("\\begin{table*}\n\\centering\\scriptsize\\setlength{\\tabcolsep}{2.5pt}\n")
	fmt.Fprintf(&b, "\\caption{%s}\n", caption)

	spans := t.spans()
	columns := ""
	for _, head := range t.RowHeads {
		if head.Switch {
			columns += "c"
		} else {
			columns += "l"
		}
	}
	if spans == nil {
		columns += "|" + strings.Repeat("r", len(t.Columns))
	}
	for _, s := range spans {
		columns += "|" + strings.Repeat("r", s.width)
	}
	fmt.Fprintf(&b, "\\begin{tabular}{%s}\n\\hline\n", columns)
	if spans != nil {
		b.WriteString(strings.Repeat("& ", len(t.RowHeads)-1))
		for i, s := range spans {
			line := "|"
			if i == len(spans)-1 {
				line = ""
			}
			fmt.Fprintf(&b, " & \\multicolumn{%d}{c%s}{%s}", s.width, line, latexText(shownName(s.group)))
		}
		b.WriteString(` \\` + "\n")
	}
	var header []string
	heads, _ := t.heads()
	for _, head := range heads {
		header = append(header, latexText(head))
	}
	for _, column := range t.Columns {
		_, name := group(column)
		header = append(header, latexStack("r", strings.Fields(latexText(shownName(name)))...))
	}
	latexLine(&b, header)
	b.WriteString("\\hline\n")
	for _, row := range t.Rows {
		var line []string
		for i, head := range t.RowHeads {
			line = append(line, latexHead(head, row.Heads[i]))
		}
		for _, cell := range row.Cells {
			line = append(line, cell.numbers(t.seedsDiffer()).latex())
		}
		latexLine(&b, line)
	}
	b.WriteString("\\hline\n\\end{tabular}\n")
	if note := footnote(t.Data); note != "" {
		fmt.Fprintf(&b, "\\par\\smallskip\\raggedright %s\n", latexText(note))
	}
	b.WriteString("\\end{table*}\n")
	return b.String()
}

func latexLine(b *strings.Builder, cells []string) {
	b.WriteString(strings.Join(cells, " & ") + ` \\[2pt]` + "\n")
}

// latexStack puts lines above one another, as narrow columns need; alignment is "l", "c" or "r".
func latexStack(alignment string, lines ...string) string {
	if len(lines) < 2 {
		return strings.Join(lines, "")
	}
	return `\begin{tabular}{@{}` + alignment + `@{}}` + strings.Join(lines, `\\`) + `\end{tabular}`
}

func latexHead(head RowHead, value string) string {
	if !head.Switch {
		return latexText(value)
	}
	switch value {
	case switchOn:
		return `$\checkmark$`
	case switchSame:
		return `\semconSame`
	}
	return ""
}

func (n numbers) latex() string {
	var ours, paper []string
	if n.mean != "" {
		ours = append(ours, `\textbf{`+latexText(n.mean)+`}`)
	}
	if n.sd != "" {
		ours = append(ours, latexText("±"+n.sd))
	}
	if n.seeds != "" {
		ours = append(ours, `\tiny `+n.seeds)
	}
	if n.paper != "" && n.mean == "" {
		ours = append(ours, "--") // So that the paper's number does not take the place of ours.
	}
	if n.paper != "" {
		paper = append(paper, latexText(n.paper))
	}
	if n.delta != "" {
		paper = append(paper, latexText("("+n.delta+")"))
	}
	lines := slices.DeleteFunc([]string{strings.Join(ours, " "), strings.Join(paper, " ")}, func(line string) bool { return line == "" })
	return latexStack("r", lines...)
}

// latexText escapes the characters that LaTeX reserves, and those in tables that its default encoding lacks.
func latexText(text string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "%", `\%`, "&", `\&`, "_", `\_`, "#", `\#`, "$", `\$`,
		"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `$<$`, ">", `$>$`, "|", `$|$`,
		"±", `$\pm$`, "−", `$-$`, "–", "--", "×", `$\times$`, "·", `$\cdot$`, "τ", `$\tau$`,
	).Replace(text)
}
