package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/analysis"
)

// Cell is one number of a table: what the paper prints and what runs gave.
type Cell struct {
	// Paper is the printed number, NaN where there is none.
	Paper float64
	// Ours has one value a seed in the table's unit; empty where nothing was measured.
	Ours []float64
}

// Row is one row of a table.
type Row struct {
	// Heads has one entry a row head; see [RowHead] for those of switches.
	Heads []string
	// Cells has one cell a column.
	Cells []Cell
}

// Table sets measured numbers beside printed ones. Write it with [Table.Markdown], [Table.HTML], [Table.LaTeX] or [Table.CSV].
type Table struct {
	// Title is the heading, e.g. "Tab. effect_aug".
	Title string
	// Caption says what is shown, without what follows from the fields below.
	Caption string
	// Unit of the numbers, e.g. "%"; empty for plain numbers.
	Unit string
	// Profile and Data say what stands behind our numbers: the profile, and the identity of each data set.
	Profile string
	Data    []string
	// RowHeads are the leading columns, Columns those of numbers. In "CIFAR-10/SimCLR" the part before the slash is a group, which gets
	// a header of its own over neighbouring columns.
	RowHeads []RowHead
	Columns  []string
	Rows     []Row
}

// Formats are the names that [Table.Format] and [Scoreboard.Format] know.
var Formats = []string{"md", "csv", "latex", "html"}

// Format writes the table in one of [Formats]; another name is an error.
func (t Table) Format(format string) (string, error) {
	switch format {
	case "md":
		return t.Markdown(), nil
	case "csv":
		return t.CSV(), nil
	case "latex":
		return t.LaTeX(), nil
	case "html":
		return t.HTML(), nil
	}
	return "", fmt.Errorf("unknown format %q; there are %s", format, strings.Join(Formats, ", "))
}

// Entries of switch columns in the paper's tables.
const (
	switchOn   = "1"
	switchSame = "same"
)

// numbers are the texts of one cell, each empty where there is nothing to show.
type numbers struct {
	paper string // "88.5"
	mean  string // "61.2"
	sd    string // "0.4", with two seeds or more
	delta string // "+1.3" or "−27.3": ours − paper
	seeds string // "n = 2", only where the table's cells differ in that
}

// numbers formats a cell. Sameness of seeds over the table is left to the caption.
func (c Cell) numbers(seedsDiffer bool) numbers {
	var n numbers
	if !math.IsNaN(c.Paper) {
		n.paper = decimal(c.Paper)
	}
	if len(c.Ours) == 0 {
		return n
	}
	ours := analysis.MeanInterval(c.Ours)
	n.mean = decimal(ours.Mean)
	if !math.IsNaN(ours.SD) {
		n.sd = decimal(ours.SD)
	}
	if delta := ours.Mean - c.Paper; !math.IsNaN(delta) {
		n.delta = signed(delta)
	}
	if seedsDiffer {
		n.seeds = fmt.Sprintf("n = %d", len(c.Ours))
	}
	return n
}

// decimal has one digit after the point, as the paper prints, and a true minus sign.
func decimal(value float64) string {
	if math.IsNaN(value) {
		return "NaN"
	}
	text := strconv.FormatFloat(value, 'f', 1, 64)
	if text == "-0.0" {
		text = "0.0"
	}
	return strings.Replace(text, "-", "−", 1)
}

// signed is decimal with the sign always shown, but for 0.0.
func signed(value float64) string {
	text := decimal(value)
	if value > 0 && text != "0.0" {
		text = "+" + text
	}
	return text
}

// shownName is a column's name for readers: "random_crop" → "random crop".
func shownName(name string) string { return strings.ReplaceAll(name, "_", " ") }

// group splits "CIFAR-10/SimCLR" into its group and the column's own name; the group may be empty.
func group(column string) (group, name string) {
	if before, after, found := strings.Cut(column, "/"); found {
		return before, after
	}
	return "", column
}

// span is a run of neighbouring columns of one group.
type span struct {
	group string
	width int
}

// spans are the groups of the columns from left to right; nil where no column has one.
func (t Table) spans() []span {
	var spans []span
	grouped := false
	for _, column := range t.Columns {
		name, _ := group(column)
		grouped = grouped || name != ""
		if n := len(spans); n > 0 && spans[n-1].group == name {
			spans[n-1].width++
			continue
		}
		spans = append(spans, span{name, 1})
	}
	if !grouped {
		return nil
	}
	return spans
}

// seeds are the smallest and largest number of seeds of the cells that have any; 0, 0 where none has.
func (t Table) seeds() (least, most int) {
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			n := len(cell.Ours)
			if n == 0 {
				continue
			}
			if least == 0 {
				least = n
			}
			least, most = min(least, n), max(most, n)
		}
	}
	return least, most
}

func (t Table) seedsDiffer() bool {
	least, most := t.seeds()
	return least != most
}

// provenance is the second half of every caption: how to read a cell, and what stands behind our numbers.
func (t Table) provenance(reading string) string {
	parts := []string{reading}
	switch least, most := t.seeds(); {
	case most == 0:
		parts = append(parts, "No runs.")
	case most == 1:
		parts = append(parts, "1 seed, so no sd.")
	case least == most:
		parts = append(parts, fmt.Sprintf("%d seeds.", most))
	default:
		parts = append(parts, fmt.Sprintf("%d to %d seeds (n), sd from 2 on.", least, most))
	}
	if t.Profile != "" {
		parts = append(parts, "Profile: "+t.Profile+".")
	}
	if len(t.Data) > 0 {
		parts = append(parts, "Data: "+strings.Join(t.Data, "; ")+".")
	}
	return strings.Join(parts, " ")
}

// unit is " (%)" after a reading, or nothing.
func (t Table) unit() string {
	if t.Unit == "" {
		return ""
	}
	return ", in " + t.Unit
}

// check panics on a table whose rows do not fit its columns: that is a mistake in the program, not in the data.
func (t Table) check() {
	for i, row := range t.Rows {
		if len(row.Heads) != len(t.RowHeads) || len(row.Cells) != len(t.Columns) {
			panic(fmt.Sprintf("figures: row %d of table %q has %d heads and %d cells; the table has %d row heads and %d columns",
				i, t.Title, len(row.Heads), len(row.Cells), len(t.RowHeads), len(t.Columns)))
		}
	}
}

// hasSame tells whether a switch of the table is set to the same crop for both views, which the caption then explains.
func (t Table) hasSame() bool {
	return slices.ContainsFunc(t.Rows, func(row Row) bool {
		for i, head := range t.RowHeads {
			if head.Switch && row.Heads[i] == switchSame {
				return true
			}
		}
		return false
	})
}
