package figures

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// mostLinks is the largest number of links in a cell.
const mostLinks = 4

// LinkedHTML writes [Table.HTML] with a link from each of our numbers to its records. link returns the target for one of [Cell].Records, or "" for no link. Records with
// one target share a link.
func (t Table) LinkedHTML(link func(record string) string) string { return t.html(link) }

// linked returns the text of our mean with links to the cell's records: on the number to the first, and behind it, as small numbers, to the others.
func (c Cell) linked(text string, link func(record string) string) string {
	var targets []string
	for _, record := range c.Records {
		if target := link(record); target != "" && !slices.Contains(targets, target) {
			targets = append(targets, target)
		}
	}
	if len(targets) == 0 {
		return text
	}
	anchor := func(target, text string) string {
		return fmt.Sprintf("<a href=\"%s\">%s</a>", html.EscapeString(target), text)
	}
	linked := anchor(targets[0], text)
	var more []string
	for i, target := range targets[1:min(len(targets), mostLinks)] {
		more = append(more, anchor(target, fmt.Sprint(i+2)))
	}
	if more != nil {
		linked += "<sup>" + strings.Join(more, " ") + "</sup>"
	}
	return linked
}
