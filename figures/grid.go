package figures

import (
	"embed"
	"encoding/csv"
	"fmt"
	"html"
	"slices"
	"strings"
	"text/tabwriter"
	"text/template"
	"unicode"
	"unicode/utf8"

	"github.com/janpfeifer/must"
	"github.com/samber/lo"
)

// Grid is formatted text in rows and columns. Every table is a grid, and each format has one renderer: [Grid.Text], [Grid.Markdown], [Grid.HTML] and [Grid.LaTeX].
type Grid struct {
	Title    string
	Caption  []string // Sentences.
	Data     []string // Identities of the data behind the numbers. They are long, and stand below the grid.
	Columns  []Column
	Sections []Section
}

// Column is a column of a [Grid]. Columns that name rows come first.
type Column struct {
	Title string
	Group string // Stands above neighbouring columns of one group.
	Align string // "left", "center" or "right".
	Head  bool   // The column names rows.
	Line  bool   // A line stands left of the column.
	Style string // Further style in HTML.
	Body  string // The style of cells in HTML if it is not the title's.
}

// Section is some rows of a [Grid], below a title that may be empty.
type Section struct {
	Title string
	Rows  []GridRow
}

// GridRow is a row of a [Grid]: a cell for each column, and what stands below the row in a terminal.
type GridRow struct {
	Cells []Lines
	Below string
}

// Lines are the lines of a cell, each a sequence of runs.
type Lines [][]Run

// Run is text of one look.
type Run struct {
	Text        string
	Bold, Small bool
	Colour      string   // In HTML.
	Links       []string // In HTML: the target of the text, and the targets of numbers behind it.
}

// Plain are the cells of a row without a look.
func Plain(texts ...string) []Lines {
	return lo.Map(texts, func(text string, _ int) Lines { return Lines{{{Text: text}}} })
}

// TextGrid is a grid of texts without a look, below titles of columns; nil titles leave these out.
func TextGrid(titles []string, rows [][]string) Grid {
	return Grid{
		Columns:  lo.Map(titles, func(title string, _ int) Column { return Column{Title: title, Align: "left"} }),
		Sections: []Section{{Rows: lo.Map(rows, func(row []string, _ int) GridRow { return GridRow{Cells: Plain(row...)} })}},
	}
}

// texts are the lines as look writes their runs. Empty lines are left out.
func (l Lines) texts(look func(Run) string) []string {
	return lo.Compact(lo.Map(l, func(runs []Run, _ int) string {
		return strings.Join(lo.Map(runs, func(run Run, _ int) string { return look(run) }), "")
	}))
}

// beside puts the lines of a cell beside each other.
func beside(lines []string) string { return strings.Join(lines, " ") }

// heads are the columns that name rows, and values those after them.
func (g Grid) heads() []Column { return g.Columns[:len(g.Columns)-len(g.values())] }

func (g Grid) values() []Column {
	i := slices.IndexFunc(g.Columns, func(c Column) bool { return !c.Head })
	return g.Columns[max(i, 0):]
}

// span is a number of neighbouring columns of one group.
type span struct {
	Group string
	Width int
	Last  bool
}

// spans are the groups of the columns of values; nil if no column has one.
func (g Grid) spans() (spans []span) {
	for i, c := range g.values() {
		if i == 0 || spans[len(spans)-1].Group != c.Group {
			spans = append(spans, span{Group: c.Group})
		}
		spans[len(spans)-1].Width++
	}
	if len(spans) == 0 || len(spans) == 1 && spans[0].Group == "" {
		return nil
	}
	spans[len(spans)-1].Last = true
	return spans
}

// note names the data behind the numbers; it is empty without any. Identities share files, which are named once.
func (g Grid) note() string {
	parts := strings.Split(strings.Join(g.Data, "; "), "; ")
	bare := lo.Map(parts, func(part string, _ int) string { return strings.TrimPrefix(part, "measured on ") })
	once := lo.Filter(parts, func(part string, i int) bool {
		return !strings.Contains(part, "sha256") || !slices.Contains(bare[:i], bare[i])
	})
	return lo.Ternary(len(g.Data) == 0, "", "Data: "+strings.Join(once, "; ")+".")
}

// formats are the templates of formats. In them text escapes, and cell writes a cell. All but CSV define run, which writes a run.
//
//go:embed formats/*.tmpl
var formats embed.FS

// renderer writes grids by the template of a format, which has another one for runs. stack puts the lines of a cell together.
func renderer(format string, text func(string) string, stack func(lines []string) string) func(Grid) string {
	t := template.New(format).Delims("[[", "]]")
	write := func(name string, data any) string {
		var b strings.Builder
		must.M(t.ExecuteTemplate(&b, name, data)) // The template is a constant.
		return visible(b.String())
	}
	template.Must(t.Funcs(template.FuncMap{
		"text": text, "cell": func(cell Lines) string { return stack(cell.texts(func(r Run) string { return write("run", r) })) },
		"caption": func(g Grid) string { return strings.Join(g.Caption, " ") }, "note": Grid.note, "heads": Grid.heads, "values": Grid.values, "spans": Grid.spans,
		"stacked": Column.stacked, "replace": strings.ReplaceAll, "number": func(i int) int { return i + 2 }, // The number of a link behind the first.
	}).ParseFS(formats, "formats/"+format+".tmpl"))
	return func(g Grid) string { return write(format+".tmpl", g) }
}

// sentences are the lines of a template of captions that are not empty.
func sentences(format string, data any) []string {
	var b strings.Builder
	must.M(template.Must(template.New(format+".tmpl").Delims("[[", "]]").ParseFS(formats, "formats/"+format+".tmpl")).Execute(&b, data))
	return lo.Compact(strings.Split(b.String(), "\n"))
}

// visible replaces the control characters of a text, which names of files and settings may hold, as a terminal would obey them and XML forbids them.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		return lo.Ternary(unicode.IsControl(r) && r != '\n' && r != '\t', unicode.ReplacementChar, r)
	}, text)
}

// Text writes aligned columns for a terminal.
func (g Grid) Text() string {
	var b strings.Builder
	for _, section := range g.Sections {
		rows := section.Rows
		if slices.ContainsFunc(g.Columns, func(c Column) bool { return c.Title != "" }) {
			titles := lo.Map(g.Columns, func(c Column, _ int) string { return strings.TrimSpace(c.Group + " " + c.Title) })
			rows = append([]GridRow{{Cells: Plain(titles...)}}, rows...)
		}
		var columns strings.Builder
		w := tabwriter.NewWriter(&columns, 0, 0, 2, ' ', 0)
		for _, row := range rows {
			cells := lo.Map(row.Cells, func(cell Lines, _ int) string { return beside(cell.texts(func(r Run) string { return r.Text })) })
			fmt.Fprintln(w, strings.Join(cells, "\t"))
		}
		must.M(w.Flush())
		b.WriteString(strings.TrimPrefix(section.Title+"\n", "\n"))
		for i, line := range slices.Collect(strings.Lines(columns.String())) {
			b.WriteString(line + strings.TrimPrefix(rows[i].Below+"\n", "\n"))
		}
		b.WriteString("\n")
	}
	for _, line := range append(slices.Clone(g.Caption), g.note()) {
		b.WriteString(strings.TrimPrefix(line+"\n", "\n"))
	}
	return visible(b.String())
}

// within is [Grid.Text] on lines of at most so many characters, where columns allow it: those that do not fit follow below, again with the columns that name rows.
func (g Grid) within(width int) string {
	heads, end := len(g.heads()), len(g.Columns)
	part := func(end int) string {
		first := g.part(heads, end)
		first.Caption, first.Data = nil, nil
		return first.Text()
	}
	for end > heads+1 && lo.Max(lo.Map(strings.Split(part(end), "\n"), func(line string, _ int) int { return utf8.RuneCountInString(strings.TrimRight(line, " ")) })) > width {
		end--
	}
	if end == len(g.Columns) {
		return g.Text()
	}
	return part(end) + g.part(end, len(g.Columns)).within(width)
}

// part has the columns that name rows, and some of the others.
func (g Grid) part(from, to int) Grid {
	heads := len(g.heads())
	g.Sections = lo.Map(g.Sections, func(s Section, _ int) Section {
		s.Rows = lo.Map(s.Rows, func(row GridRow, _ int) GridRow {
			row.Cells = slices.Concat(row.Cells[:heads], row.Cells[from:to])
			return row
		})
		return s
	})
	g.Columns = slices.Concat(g.Columns[:heads], g.Columns[from:to])
	return g
}

// Markdown writes a GitHub table for each section.
func (g Grid) Markdown() string { return markdownGrid(g) }

// In a table cell Markdown would treat these as markup.
var markdownGrid = renderer("markdown", strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "[", `\[`, "\n", " ").Replace, beside)

// Colours of text in HTML: readable on white and on black, and distinct for every kind of colour vision. The sign says the same.
const (
	paperColour = "#767676"
	moreColour  = "#0072B2"
	lessColour  = "#B85000"
)

// HTML writes a self-contained table with inline styles and no scripts. The caption is as wide as the page; within the table it would be as narrow as the table.
func (g Grid) HTML() string { return htmlGrid(g) }

var htmlGrid = renderer("html", html.EscapeString, func(lines []string) string { return strings.Join(lines, "<br>") })

// LaTeX writes a table environment as wide as the page. The document needs \usepackage{amssymb} for \checkmark and nothing else; the half circle is drawn from two
// symbols. Titles of sections are left out.
func (g Grid) LaTeX() string { return latexGrid(g) }

var latexGrid = renderer("latex", latexText, latexStack)

// stacked is the title in LaTeX, a word a line above numbers.
func (c Column) stacked() string {
	return lo.Ternary(c.Head, latexText(c.Title), latexStack(strings.Fields(latexText(c.Title))))
}

// latexStack puts lines above one another, as narrow columns need.
func latexStack(lines []string) string {
	return lo.Ternary(len(lines) < 2, strings.Join(lines, ""), `\begin{tabular}{@{}r@{}}`+strings.Join(lines, `\\`)+`\end{tabular}`)
}

// latexText escapes the characters that LaTeX reserves, and those in tables that its default encoding lacks.
func latexText(text string) string {
	return strings.NewReplacer(
		`\`, `\textbackslash{}`, "{", `\{`, "}", `\}`, "%", `\%`, "&", `\&`, "_", `\_`, "#", `\#`, "$", `\$`,
		"~", `\textasciitilde{}`, "^", `\textasciicircum{}`, "<", `$<$`, ">", `$>$`, "|", `$|$`,
		"±", `$\pm$`, "−", `$-$`, "–", "--", "×", `$\times$`, "·", `$\cdot$`, "τ", `$\tau$`, "κ", `$\kappa$`, "δ", `$\delta$`, "λ", `$\lambda$`, "Σ", `$\Sigma$`, "Δ", `$\Delta$`, "→", `$\to$`, "✓", `$\checkmark$`, "◐", `\semconSame`,
	).Replace(text)
}

// csvText writes records for machines.
func csvText(records [][]string) string {
	var b strings.Builder
	must.M(csv.NewWriter(&b).WriteAll(records)) // A strings.Builder never fails.
	return visible(b.String())
}
