package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/semcon/semcon/analysis/stats"
)

// Cell is one number of a table: what the paper prints and what runs measured.
type Cell struct {
	// Paper is the printed number, NaN if there is none.
	Paper float64
	// Ours has one value per seed in the table's unit; it is empty if nothing was measured.
	Ours []float64
	// Records names the records behind our values, for [Table.LinkedHTML]; empty if they are not known.
	Records []string
}

// Row is one row of a table.
type Row struct {
	// Heads has one entry per row head; see [RowHead] for the entries of switches.
	Heads []string
	// Cells has one cell per column.
	Cells []Cell
}

// Table shows measured numbers beside printed ones. Write it with [Table.Markdown], [Table.HTML], [Table.LaTeX] or [Table.CSV].
type Table struct {
	// Title is the heading, e.g. "Tab. effect_aug".
	Title string
	// Caption says what the table shows, without what follows from the fields below.
	Caption string
	// Unit is the unit of the numbers, e.g. "%"; empty for plain numbers.
	Unit string
	// Profile and Data say what is behind our numbers: the profile, and the identity of each dataset.
	Profile string
	Data    []string
	// RowHeads are the leading columns and Columns those of numbers. In "CIFAR-10/SimCLR" the part before the slash is a group, which gets a header
	// of its own above neighbouring columns.
	RowHeads []RowHead
	Columns  []string
	Rows     []Row
}

// PaperAlone reports whether the table shows numbers of the paper and none of ours.
func (t Table) PaperAlone() bool {
	printed := false
	for _, row := range t.Rows {
		for _, cell := range row.Cells {
			if len(cell.Ours) > 0 {
				return false
			}
			printed = printed || !math.IsNaN(cell.Paper)
		}
	}
	return printed
}

// Measured leaves out the tables of the paper alone where others have numbers of ours, such as those of the same columns on synthetic images. Where none has,
// it returns all tables.
func Measured(tables []Table) []Table {
	measured := slices.DeleteFunc(slices.Clone(tables), Table.PaperAlone)
	if len(measured) == 0 {
		return tables
	}
	return measured
}

// Formats are the formats that [Table.Format] knows.
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

// numbers are the texts of one cell, each empty if there is nothing to show.
type numbers struct {
	paper string // "88.5"
	mean  string // "61.2"
	sd    string // "0.4", with two seeds or more
	delta string // "+1.3" or "−27.3": ours − paper
	seeds string // "n = 2", only if the number of seeds differs between the table's cells
}

// numbers formats a cell. The caption gives the number of seeds if all cells have the same.
func (c Cell) numbers(seedsDiffer bool) numbers {
	var n numbers
	if !math.IsNaN(c.Paper) {
		n.paper = decimal(c.Paper, 1)
	}
	if len(c.Ours) == 0 {
		return n
	}
	ours := stats.MeanInterval(c.Ours)
	n.mean = decimal(ours.Mean, 1)
	if !math.IsNaN(ours.SD) {
		n.sd = decimal(ours.SD, 1)
	}
	if delta := ours.Mean - c.Paper; !math.IsNaN(delta) {
		n.delta = signed(delta)
	}
	if seedsDiffer {
		n.seeds = fmt.Sprintf("n = %d", len(c.Ours))
	}
	return n
}

// decimal formats with this many digits after the point (the paper prints one) and a true minus sign.
func decimal(value float64, digits int) string {
	if math.IsNaN(value) {
		return "NaN"
	}
	text := strconv.FormatFloat(value, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-") // −0.04 is shown as 0.0.
	}
	return strings.Replace(text, "-", "−", 1)
}

// signed is decimal with one digit and an explicit sign, except for 0.0.
func signed(value float64) string {
	text := decimal(value, 1)
	if value > 0 && text != "0.0" {
		text = "+" + text
	}
	return text
}

// shownName is a column's name for readers: "random_crop" → "random crop".
func shownName(name string) string { return strings.ReplaceAll(name, "_", " ") }

// heads are the row heads for readers. Switches get letters, as in the paper, which keeps their columns narrow; legend spells them out.
func (t Table) heads() (heads []string, legend string) {
	var meanings []string
	for _, head := range t.RowHeads {
		if !head.Switch {
			heads = append(heads, shownName(head.Name))
			continue
		}
		letter := fmt.Sprintf("(%c)", 'a'+len(meanings))
		heads = append(heads, letter)
		meanings = append(meanings, letter+" "+shownName(head.Name))
	}
	if meanings == nil {
		return heads, ""
	}
	return heads, strings.Join(meanings, "; ") + "."
}

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

// spans are the groups of the columns from left to right; nil if no column has one.
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

// seeds are the smallest and largest number of seeds of the cells that have any; 0, 0 if none has.
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

// hasPaper reports whether the paper has any of the table's numbers.
func (t Table) hasPaper() bool {
	return slices.ContainsFunc(t.Rows, func(row Row) bool {
		return slices.ContainsFunc(row.Cells, func(cell Cell) bool { return !math.IsNaN(cell.Paper) })
	})
}

// caption is the whole caption in plain text: the given one, what the switches mean, how to read a cell, and what is behind our numbers except for
// the data.
func (t Table) caption(reading string) string {
	var parts []string
	add := func(sentence string) {
		if sentence != "" {
			parts = append(parts, sentence)
		}
	}
	if !t.hasPaper() {
		reading = "Each cell: ours ± sd"
	}
	add(t.Caption)
	_, legend := t.heads()
	add(legend)
	if t.Unit != "" {
		reading += ", in " + t.Unit
	}
	add(reading + ".")
	switch least, most := t.seeds(); {
	case most == 0:
		add("No runs.")
	case most == 1:
		add("1 seed, so no sd.")
	case least == most:
		add(fmt.Sprintf("%d seeds.", most))
	default:
		add(fmt.Sprintf("%d to %d seeds (n), sd from 2 on.", least, most))
	}
	if t.Profile != "" {
		add("Profile: " + t.Profile + ".")
	}
	return strings.Join(parts, " ")
}

// footnote names the data behind our numbers, in plain text; it is empty without any. Identities are long and would make a caption hard to read.
func footnote(data []string) string {
	if len(data) == 0 {
		return ""
	}
	return "Data: " + strings.Join(data, "; ") + "."
}

// check panics on a table whose rows do not fit its columns: that is a bug in the program, not in the data.
func (t Table) check() {
	for i, row := range t.Rows {
		if len(row.Heads) != len(t.RowHeads) || len(row.Cells) != len(t.Columns) {
			panic(fmt.Sprintf("figures: row %d of table %q has %d heads and %d cells; the table has %d row heads and %d columns",
				i, t.Title, len(row.Heads), len(row.Cells), len(t.RowHeads), len(t.Columns)))
		}
	}
}

// hasSame reports whether a switch of the table is set to the same crop for both views, which the caption then explains.
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
