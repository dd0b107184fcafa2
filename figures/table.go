package figures

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
)

// Cell is one number of a table: what the paper prints and what runs measured.
type Cell struct {
	Paper float64   // The printed number, NaN if there is none.
	Ours  []float64 // One value per seed in the table's unit; empty if nothing was measured.
	// Images is the interval of ours over test images, shown behind it in brackets; N is 0 without one.
	Images  stats.Interval
	Records []string // The records behind our values, for [Table.LinkedHTML]; empty if they are not known.
}

// Row is one row of a table.
type Row struct {
	Heads []string // One entry per row head; see [PaperRow] for those of switches.
	Cells []Cell   // One cell per column.
}

// Table shows measured numbers beside printed ones. Write it with [Table.Markdown], [Table.Text], [Table.HTML], [Table.LaTeX] or [Table.CSV].
type Table struct {
	Title    string    // E.g. "Tab. effect_aug".
	Caption  string    // What the table shows, without what follows from the fields below.
	Unit     string    // Of the numbers, e.g. "%"; empty for plain numbers.
	Profile  string    // Of our runs.
	Data     []string  // The identity of each dataset behind our numbers.
	RowHeads []RowHead // The leading columns.
	// Columns are those of numbers. In "CIFAR-10/SimCLR" the part before the slash is a group, which gets a header of its own above neighbouring columns.
	Columns []string
	Rows    []Row
}

// cells are all cells, row by row.
func (t Table) cells() []Cell {
	return lo.FlatMap(t.Rows, func(row Row, _ int) []Cell { return row.Cells })
}

func (c Cell) printed() bool { return !math.IsNaN(c.Paper) }

func (c Cell) measured() bool { return len(c.Ours) > 0 }

// PaperAlone reports whether the table shows numbers of the paper and none of ours.
func (t Table) PaperAlone() bool {
	return slices.ContainsFunc(t.cells(), Cell.printed) && !slices.ContainsFunc(t.cells(), Cell.measured)
}

// Measured leaves out tables with nothing but the paper's numbers if another table has ours, such as the same columns on synthetic images.
func Measured(tables []Table) []Table {
	if measured := slices.DeleteFunc(slices.Clone(tables), Table.PaperAlone); len(measured) > 0 {
		return measured
	}
	return tables
}

// Format writes the table in a format: md, text, csv, latex or html. Another name is an error.
func (t Table) Format(format string) (string, error) {
	return formatted(format, map[string]func() string{"md": t.Markdown, "text": t.Text, "csv": t.CSV, "latex": t.LaTeX, "html": t.HTML})
}

// formatted writes by the writer of a format; a name without one is an error.
func formatted(format string, writers map[string]func() string) (string, error) {
	if write := writers[format]; write != nil {
		return write(), nil
	}
	return "", fmt.Errorf("unknown format %q; there are %s", format, strings.Join(slices.Sorted(maps.Keys(writers)), ", "))
}

// Markdown is [Grid.Markdown] of the table: "paper / **ours ± sd** (difference)". Without ours the slash keeps its place; without any paper there is none.
func (t Table) Markdown() string {
	return t.grid("Each cell: paper / ours ± sd (difference)", Cell.inLine).Markdown()
}

// Text writes aligned columns, with the cells of [Table.Markdown].
func (t Table) Text() string { return t.TextWithin(math.MaxInt) }

// TextWithin is [Table.Text] for a terminal that is so many characters wide: columns that do not fit follow below.
func (t Table) TextWithin(width int) string {
	return t.Title + "\n" + t.grid("Each cell: paper / ours ± sd (difference)", Cell.inLine).within(width)
}

const stackedReading = "Each cell: ours ± sd, below it the paper's number and the difference"

// LaTeX is [Grid.LaTeX] of the table: ours in bold above the paper's number and the difference.
func (t Table) LaTeX() string {
	return t.grid(stackedReading, func(c Cell, look numberLook) Lines {
		lines := c.stacked(look)
		if lines[0] == nil && lines[1] != nil { // The second line must not take the place of the first.
			lines[0] = []Run{{Text: "–"}}
		}
		return lines
	}).LaTeX()
}

// HTML is [Grid.HTML] of the table: ours in bold above the paper's number in grey and the difference in blue (more) or brown (less).
func (t Table) HTML() string { return t.LinkedHTML(func(string) string { return "" }) }

// LinkedHTML is [Table.HTML] with links from our numbers to their records. link returns the target for one of [Cell].Records, or "" for none.
func (t Table) LinkedHTML(link func(record string) string) string {
	const mostLinks = 4 // In a cell.
	return t.grid(stackedReading, func(c Cell, look numberLook) Lines {
		lines := c.stacked(look)
		if c.measured() {
			mean := &lines[0][0]
			targets := lo.Uniq(lo.Compact(lo.Map(c.Records, func(record string, _ int) string { return link(record) })))
			mean.Links = lo.Slice(targets, 0, mostLinks)
		}
		return lines
	}).HTML()
}

// Entries of switch columns in the paper's tables.
const (
	switchOn   = "1"
	switchSame = "same"
)

// grid formats the table. reading says how to read a cell, which the caption says with what the switches mean and what is behind our numbers.
func (t Table) grid(reading string, format func(Cell, numberLook) Lines) Grid {
	printed := slices.ContainsFunc(t.cells(), Cell.printed)
	reading = lo.Ternary(printed, reading, "Each cell: ours ± sd") + lo.Ternary(t.Unit == "", "", ", in "+t.Unit)
	seeds := lo.FilterMap(t.cells(), func(c Cell, _ int) (int, bool) { return len(c.Ours), c.measured() })
	least, most := lo.Min(seeds), lo.Max(seeds) // 0 without any.
	look := numberLook{printed, least < most}
	g := Grid{Title: t.Title, Data: t.Data, Sections: make([]Section, 1)}
	var meanings []string // Of switches. They get letters, as in the paper, which keeps their columns narrow.
	for _, head := range t.RowHeads {
		column := Column{Title: shownName(head.Name), Align: "left", Head: true}
		if head.Switch {
			letter := fmt.Sprintf("(%c)", 'a'+len(meanings))
			meanings = append(meanings, letter+" "+column.Title)
			column.Title, column.Align = letter, "center"
		}
		g.Columns = append(g.Columns, column)
	}
	before := ""
	for i, column := range t.Columns {
		group, name, found := strings.Cut(column, "/")
		if !found {
			group, name = "", column
		}
		g.Columns = append(g.Columns, Column{
			Title: shownName(name), Group: shownName(group), Align: "right", Line: i == 0 || group != before, Body: "text-align:right;white-space:nowrap;padding:2px 5px",
		})
		before = group
	}
	same := false // Whether a switch is set to the same crop for both views.
	for i, row := range t.Rows {
		if len(row.Heads) != len(t.RowHeads) || len(row.Cells) != len(t.Columns) { // A bug in the program, not in the data.
			panic(fmt.Sprintf("figures: row %d of table %q has %d heads and %d cells; the table has %d row heads and %d columns",
				i, t.Title, len(row.Heads), len(row.Cells), len(t.RowHeads), len(t.Columns)))
		}
		var line GridRow
		for i, text := range row.Heads {
			if t.RowHeads[i].Switch {
				same = same || text == switchSame
				text = map[string]string{switchOn: "✓", switchSame: "◐"}[text]
			}
			line.Cells = append(line.Cells, Plain(text)...)
		}
		line.Cells = append(line.Cells, lo.Map(row.Cells, func(cell Cell, _ int) Lines { return format(cell, look) })...)
		g.Sections[0].Rows = append(g.Sections[0].Rows, line)
	}
	if meanings != nil {
		meanings[len(meanings)-1] += "."
	}
	g.Caption = sentences("table", map[string]any{
		"Table": t, "Switches": strings.Join(meanings, "; "), "Reading": reading, "Least": least, "Most": most, "Same": same,
		"Images": slices.ContainsFunc(t.cells(), func(c Cell) bool { return c.Images.N > 0 }),
	})
	return g
}

// shownName is a column's name for readers: "random_crop" → "random crop".
func shownName(name string) string { return strings.ReplaceAll(name, "_", " ") }

// numberLook says what cells of a table show: numbers of the paper, and their own numbers of seeds, if these differ.
type numberLook struct{ besidePaper, seeds bool }

// numbers are the texts of a cell, each empty if there is nothing to show: "88.5", "61.2", " ± 0.4" with two seeds or more, and ours − paper, "+1.3" or "−27.3".
func (c Cell) numbers() (paper, mean, sd, delta string) {
	if c.printed() {
		paper = decimal(c.Paper, 1)
	}
	if !c.measured() {
		return paper, "", "", ""
	}
	ours := stats.MeanInterval(c.Ours)
	if !math.IsNaN(ours.SD) {
		sd = " ± " + decimal(ours.SD, 1)
	}
	if c.Images.N > 0 {
		sd += " [" + decimal(c.Images.Low, 1) + ", " + decimal(c.Images.High, 1) + "]"
	}
	if difference := ours.Mean - c.Paper; !math.IsNaN(difference) {
		delta = signed(difference)
	}
	return paper, decimal(ours.Mean, 1), sd, delta
}

// inLine writes a cell in one line.
func (c Cell) inLine(look numberLook) Lines {
	paper, mean, sd, delta := c.numbers()
	if mean == "" {
		return Lines{{{Text: lo.Ternary(paper == "", "", paper+" /")}}}
	}
	line := []Run{{}, {Text: mean + sd, Bold: true}, {}}
	if look.besidePaper {
		line[0].Text = strings.TrimLeft(paper+" / ", " ")
	}
	if delta != "" {
		line[2].Text = " (" + delta + ")"
	}
	if look.seeds {
		line[2].Text += fmt.Sprintf(", n = %d", len(c.Ours))
	}
	return Lines{line}
}

// stacked writes a cell in two lines, the first of which is nil without numbers of ours.
func (c Cell) stacked(look numberLook) Lines {
	paper, mean, sd, delta := c.numbers()
	lines := make(Lines, 2)
	if mean != "" {
		lines[0] = []Run{{Text: mean, Bold: true}, {Text: sd}}
		if look.seeds {
			lines[0] = append(lines[0], Run{Text: " "}, Run{Text: fmt.Sprintf("n = %d", len(c.Ours)), Small: true})
		}
	}
	if paper != "" {
		lines[1] = []Run{{Text: paper, Colour: paperColour}}
	}
	if delta != "" {
		colour := lo.Ternary(strings.HasPrefix(delta, "+"), moreColour, lo.Ternary(delta == "0.0", paperColour, lessColour))
		lines[1] = append(lines[1], Run{Text: " "}, Run{Text: "(" + delta + ")", Colour: colour})
	}
	return lines
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
	return lo.Ternary(value > 0 && text != "0.0", "+"+text, text)
}

// CSV writes the table for machines, one line per cell: table, row (its nonempty heads as name=value, separated by semicolons), column, paper, mean,
// sd, n, values (one per seed, separated by spaces), unit, profile, data and caption. All tables have the same columns. Numbers have seven digits,
// more than any of them means; the records have all. Missing values are empty.
func (t Table) CSV() string {
	records := [][]string{{"table", "row", "column", "paper", "mean", "sd", "n", "values", "unit", "profile", "data", "caption"}}
	for _, row := range t.Rows {
		heads := lo.FilterMap(row.Heads, func(value string, i int) (string, bool) { return t.RowHeads[i].Name + "=" + value, value != "" })
		for c, cell := range row.Cells {
			ours := stats.MeanInterval(cell.Ours)
			mean := lo.Ternary(ours.N == 0, "", sevenDigits(ours.Mean)) // Also the NaN of a failed run.
			records = append(records, []string{t.Title, strings.Join(heads, ";"), t.Columns[c], plain(cell.Paper), mean, plain(ours.SD), strconv.Itoa(ours.N), joinPlain(cell.Ours),
				t.Unit, t.Profile, strings.Join(t.Data, "; "), t.Caption})
		}
	}
	return csvText(records)
}

// plain is a number for machines, with at most seven digits, or nothing for NaN.
func plain(value float64) string { return lo.Ternary(math.IsNaN(value), "", sevenDigits(value)) }

func sevenDigits(value float64) string { return strconv.FormatFloat(value, 'g', 7, 64) }

// joinPlain keeps each seed's value, including the NaN of a failed run.
func joinPlain(values []float64) string {
	return strings.Join(lo.Map(values, func(value float64, _ int) string { return sevenDigits(value) }), " ")
}
