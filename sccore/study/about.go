package study

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"go.yaml.in/yaml/v2"
)

// files describe the experiments. Each is read when something first asks for it, since most processes need no more than one.
//
//go:embed about/*.yaml
var files embed.FS

// description is what the file of an experiment has.
type description struct {
	Info  `yaml:",inline"`
	Seeds map[Profile]int // By profile, if they are not 3, or 5 in the profiles quick and real.
	// Settings are changes to a configuration, one block after the other, with the names of records. A block's condition, under the key when, is a text of words, all of which
	// have to hold: quick is a fact such as the profile, "smoke|quick" is one of two, and "!full" is its absence.
	Settings []map[any]any
	Tables   map[string]Table // What is fixed of tables, by the names that code has for them.

	blocks []block
}

// block is a block of settings, as JSON.
type block struct {
	when []string
	set  []byte
}

// read holds the descriptions by the names of experiments.
var read sync.Map

// describe returns the description of an experiment, which is empty for one without a file.
func describe(name string) *description {
	if d, ok := read.Load(name); ok {
		return d.(*description)
	}
	d := &description{}
	content, err := files.ReadFile("about/" + name + ".yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(content, d)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	d.Name = name
	for _, settings := range d.Settings {
		when, _ := settings["when"].(string)
		delete(settings, "when")
		d.blocks = append(d.blocks, block{strings.Fields(when), EncodeConfig(named(settings))})
	}
	read.Store(name, d)
	return d
}

// named gives groups of settings the type that JSON takes.
func named(value any) any {
	group, is := value.(map[any]any)
	if !is {
		return value
	}
	return lo.MapEntries(group, func(key, inner any) (string, any) { return fmt.Sprint(key), named(inner) })
}

// InfoOf is what lists show of an experiment.
func InfoOf(experiment string) Info { return describe(experiment).Info }

// Seeds is the number of seeds of a call of an experiment.
func Seeds(experiment string, o Options) int {
	return o.SeedsOr(cmp.Or(describe(experiment).Seeds[o.Profile], lo.Ternary(o.Profile == Quick || o.Profile == Real, 5, 3)))
}

// TableOf is a table as the file of an experiment has it.
func TableOf(experiment, name string) Table {
	t := describe(experiment).Tables[name]
	t.Rows, t.Columns = slices.Clone(t.Rows), slices.Clone(t.Columns)
	return t
}

// Configured returns a configuration that starts as base and is changed by those settings of an experiment whose conditions facts meet, such as the profile and the dataset.
func Configured[C any](experiment string, base C, facts ...string) C {
	for _, b := range describe(experiment).blocks {
		if slices.ContainsFunc(b.when, func(word string) bool { return !holds(word, facts) }) {
			continue
		}
		strict := json.NewDecoder(bytes.NewReader(b.set))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&base); err != nil {
			panic(fmt.Errorf("%s, settings %s: %w", experiment, b.set, err))
		}
	}
	return base
}

// holds reports whether a word of a condition holds.
func holds(word string, facts []string) bool {
	if absent, not := strings.CutPrefix(word, "!"); not {
		return !holds(absent, facts)
	}
	return slices.ContainsFunc(strings.Split(word, "|"), func(fact string) bool { return slices.Contains(facts, fact) })
}

// Kind is the fact that tells photographs from images that an experiment draws.
func Kind(photographs bool) string {
	return lo.Ternary(photographs, "photographs", "drawn")
}

// Table says what a table shows of results.
type Table struct {
	Title, Caption string
	Unit           string // Of the numbers, e.g. "%"; empty for plain ones.
	Paper          string // Label of the paper's table whose numbers stand beside ours, and whose heads are the table's; empty for none.
	RowHeads       []figures.RowHead
	Rows           []Row
	Columns        []Column // Those of the paper's table by default.
	Least          int      // Rows with fewer seeds than this in every column are left out.
}

// Row is a row of a table.
type Row struct {
	Key   string   // The row of the records; empty for a row of the paper alone.
	Heads []string // The first that is missing is the architecture of the row's encoder, others are empty.
	Minus string   // Another row of the records, whose values are subtracted, paired by seed, unless its encoder has another architecture; empty for none.
}

// Column is a column of a table.
type Column struct {
	Head   string
	From   []string // The columns of the records; by default the one that is named as the head.
	Detail string   // The detail of the records; empty for their value.
	Factor float64  // What numbers are multiplied by; 1 by default.
	Apart  bool     // Whether the paper's numbers do not compare with ours.
}

// Columns are columns that show the values of the records' columns of the same names, or a detail of them unless it is empty.
func Columns(detail string, heads ...string) []Column {
	return lo.Map(heads, func(head string, _ int) Column { return Column{Head: head, Detail: detail} })
}

// from lists the columns of the records behind a column.
func (c Column) from() []string { return lo.Ternary(c.From == nil, []string{c.Head}, c.From) }

// Of makes the table.
func (t Table) Of(r Results) figures.Table {
	made := figures.Table{Title: t.Title, Caption: t.Caption, RowHeads: t.RowHeads}
	var printed *figures.PaperTable
	if t.Paper != "" {
		printed = figures.MustPaper(t.Paper)
		made.RowHeads = printed.RowHeads
		if t.Columns == nil {
			t.Columns = Columns("", printed.Columns...)
		}
	}
	var behind []string // The records' columns.
	for _, column := range t.Columns {
		made.Columns = append(made.Columns, column.Head)
		behind = append(behind, lo.Filter(column.from(), func(from string, _ int) bool {
			return lo.SomeBy(t.Rows, func(row Row) bool { return r.Recorded(row.Key, from) })
		})...)
	}
	behind = lo.Uniq(behind)
	for _, row := range t.Rows {
		line, most := figures.Row{Heads: slices.Clone(row.Heads)}, 0
		for _, column := range t.Columns {
			cell := r.cell(row, column)
			if printed != nil && !column.Apart {
				cell.Paper = printed.Value(column.Head, row.Heads...)
			}
			line.Cells, most = append(line.Cells, cell), max(most, len(cell.Ours))
		}
		if most < t.Least {
			continue
		}
		if len(line.Heads) < len(made.RowHeads) {
			line.Heads = append(line.Heads, r.start(row.Key, behind...).Encoder.Architecture)
		}
		line.Heads = append(line.Heads, make([]string, len(made.RowHeads))...)[:len(made.RowHeads)]
		made.Rows = append(made.Rows, line)
	}
	r.Describe(&made, t.Unit, behind...)
	return made
}

// cell is one number of a table of ours.
func (r Results) cell(row Row, column Column) (cell figures.Cell) {
	var values []float64
	var records []Record
	for _, from := range column.from() {
		if row.Minus != "" {
			if r.comparable(row.Key, row.Minus, from) {
				values = append(values, r.Differences(from, row.Key, row.Minus)...)
				records = slices.Concat(records, r.Of(row.Key, from), r.Of(row.Minus, from))
			}
			continue
		}
		for _, record := range r.Of(row.Key, from) {
			if value, ok := record.number(column.Detail); ok {
				values, records = append(values, value), append(records, record)
			}
		}
	}
	if column.Factor != 0 {
		for i := range values {
			values[i] *= column.Factor
		}
	}
	cell = cellOf(values, records)
	if from := column.from(); len(from) == 1 && row.Minus != "" && column.Factor == 0 && len(values) > 0 {
		cell.Images = r.Images(figures.Quantity{Column: from[0], Row: row.Key, MinusRow: row.Minus})
	}
	return cell
}

// start is what the first of a row's records has of its encoder; empty without one.
func (r Results) start(row string, columns ...string) start {
	records := lo.FlatMap(columns, func(column string, _ int) []Record { return r.Of(row, column) })
	return lo.FirstOrEmpty(records).start()
}

// comparable reports whether rows have encoders of one architecture, as far as records say: they do not for a file that --set names, which fits its row.
func (r Results) comparable(row, other, column string) bool {
	a, b := r.start(row, column).Encoder, r.start(other, column).Encoder
	return a.Architecture == b.Architecture || a.Architecture == "" && a.Digest != "" || b.Architecture == "" && b.Digest != ""
}

// Cell returns the values of a row and a column by ascending seed as a cell of a table, which names their records.
func (r Results) Cell(row, column string) figures.Cell {
	return r.Derived(r.Values(row, column), column, row)
}

// Derived returns values that are computed from the records of rows in a column, such as [Results.Differences], as a cell of a table, which names these records.
func (r Results) Derived(values []float64, column string, rows ...string) figures.Cell {
	return cellOf(values, lo.FlatMap(rows, func(row string, _ int) []Record { return r.Of(row, column) }))
}

// cellOf returns values as a cell of a table, which names the records behind them.
func cellOf(values []float64, records []Record) figures.Cell {
	c := figures.Cell{Paper: math.NaN(), Ours: values}
	if len(values) > 0 {
		c.Records = lo.Compact(lo.Map(records, func(r Record, _ int) string { return r.Place() }))
	}
	return c
}

// Figure is a figure of an experiment.
type Figure struct {
	Name    string // Of its files, such as "crop-drop".
	Caption string // What it shows, in a sentence or two.
	figures.Figure
}

// FigureSources are what figures are drawn from, beside the records.
type FigureSources struct {
	Out  string // Folder of the records, with the curves and models that they name.
	Data string // Folder of the datasets; empty for synthetic images.
	// Backend computes what models make of images. Without it such figures are left out.
	Backend compute.Backend
}

// Drawn collects the figures of an experiment and the errors of those that cannot be drawn.
type Drawn struct {
	figures []Figure
	errs    []error
}

// Add adds a figure, or the error instead of it. The parts of its name are joined, in small letters.
func (d *Drawn) Add(figure figures.Figure, err error, caption string, name ...string) {
	joined := strings.ToLower(strings.ReplaceAll(strings.Join(name, "-"), " ", "-"))
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("figure %s: %w", joined, err))
		return
	}
	d.figures = append(d.figures, Figure{joined, caption, figure})
}
