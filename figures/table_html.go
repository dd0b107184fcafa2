package figures

import (
	"fmt"
	"html"
	"strings"
)

// Colours of text in HTML: readable on white and on black, and distinct for every kind of colour vision. The sign says the same.
const (
	paperColour = "#767676"
	moreColour  = "#0072B2"
	lessColour  = "#B85000"
)

// HTML writes a self-contained table with inline styles and no scripts, for notebooks: ours in bold above the paper's number in grey and the
// difference in blue (more) or brown (less).
func (t Table) HTML() string { return t.html(nil) }

// html writes the table, with links to records unless link is nil.
func (t Table) html(link func(record string) string) string {
	t.check()
	var b strings.Builder
	caption := html.EscapeString(t.caption("Each cell: ours ± sd, below it the paper's number and the difference"))
	if t.hasSame() {
		caption += " ◐: the same crop for both views."
	}
	if t.Title != "" {
		caption = "<b>" + html.EscapeString(t.Title) + ".</b> " + caption
	}
	beginHTMLTable(&b, caption)

	spans := t.spans()
	rowspan := ""
	if spans != nil {
		rowspan = " rowspan=\"2\""
	}
	b.WriteString("<tr>")
	heads, _ := t.heads()
	for i, head := range t.RowHeads {
		fmt.Fprintf(&b, "<th%s style=\"%s\">%s</th>", rowspan, headStyle(head), html.EscapeString(heads[i]))
	}
	for _, s := range spans {
		fmt.Fprintf(&b, "<th colspan=\"%d\" style=\"text-align:center;border-left:1px solid #999\">%s</th>", s.width, html.EscapeString(shownName(s.group)))
	}
	if spans != nil {
		b.WriteString("</tr>\n<tr>")
	}
	first := t.groupStarts()
	for c, column := range t.Columns {
		_, name := group(column)
		fmt.Fprintf(&b, "<th style=\"text-align:right;padding:2px 5px%s\">%s</th>", border(first[c]), html.EscapeString(shownName(name)))
	}
	b.WriteString("</tr>\n</thead>\n<tbody>\n")

	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for i, head := range t.RowHeads {
			text := html.EscapeString(row.Heads[i])
			if head.Switch {
				text = switchSymbol(row.Heads[i])
			}
			fmt.Fprintf(&b, "<td style=\"%s;border-top:1px solid #ccc\">%s</td>", headStyle(head), text)
		}
		for c, cell := range row.Cells {
			fmt.Fprintf(&b, "<td style=\"text-align:right;white-space:nowrap;padding:2px 5px;border-top:1px solid #ccc%s\">%s</td>", border(first[c]), cell.html(t.seedsDiffer(), link))
		}
		b.WriteString("</tr>\n")
	}
	endHTMLTable(&b, t.Data)
	return b.String()
}

// beginHTMLTable opens a table and its head, below a caption as wide as the page: a caption within the table would be as narrow as the table.
func beginHTMLTable(b *strings.Builder, caption string) {
	fmt.Fprintf(b, "<div style=\"font-size:80%%;text-align:left;margin:0 0 1em\">\n<p style=\"margin:0 0 0.5em\">%s</p>\n", caption)
	b.WriteString("<table style=\"border-collapse:collapse;font-size:100%;margin:0\">\n<thead>\n")
}

// endHTMLTable closes the table's body and names the data below it.
func endHTMLTable(b *strings.Builder, data []string) {
	b.WriteString("</tbody>\n</table>\n")
	if note := footnote(data); note != "" {
		fmt.Fprintf(b, "<p style=\"margin:0.5em 0 0;color:%s\">%s</p>\n", paperColour, html.EscapeString(note))
	}
	b.WriteString("</div>\n")
}

func headStyle(head RowHead) string {
	if head.Switch {
		return "text-align:center;padding:2px 5px"
	}
	return "text-align:left;padding:2px 5px"
}

func border(first bool) string {
	if first {
		return ";border-left:1px solid #999"
	}
	return ""
}

// groupStarts marks the columns where a group begins, which get a line on their left.
func (t Table) groupStarts() map[int]bool {
	starts := map[int]bool{0: true}
	column := 0
	for _, s := range t.spans() {
		starts[column] = true
		column += s.width
	}
	return starts
}

func (c Cell) html(seedsDiffer bool, link func(record string) string) string {
	n := c.numbers(seedsDiffer)
	var ours, paper string
	if n.mean != "" {
		ours = "<b>" + n.mean + "</b>"
		if link != nil {
			ours = c.linked(ours, link)
		}
		if n.sd != "" {
			ours += " ± " + n.sd
		}
		if n.seeds != "" {
			ours += " <small>" + n.seeds + "</small>"
		}
	}
	if n.paper != "" {
		paper = fmt.Sprintf("<span style=\"color:%s\">%s</span>", paperColour, n.paper)
	}
	if n.delta != "" {
		colour := lessColour
		switch {
		case strings.HasPrefix(n.delta, "+"):
			colour = moreColour
		case n.delta == "0.0":
			colour = paperColour
		}
		paper += fmt.Sprintf(" <span style=\"color:%s\">(%s)</span>", colour, n.delta)
	}
	if ours != "" && paper != "" {
		ours += "<br>"
	}
	return ours + paper
}
