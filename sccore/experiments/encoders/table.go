package encoders

import (
	"math"
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Table says which numbers of a study's records a table of frozen encoders shows, in %.
type Table struct {
	Title, Caption string
	Rows           []Row
	Heads          []figures.RowHead // Which name a row: as many of [Row.Heads], with the architecture behind our own.
	Columns        []string
	// From are the columns of the records that all columns of the table are taken from. Nil where each is of the records' column of its name.
	From []string
	// Detail names what a column shows of a record: one of its details, or its value if it is empty. Nil for the detail of the column's name.
	Detail func(column string) string
}

// Beside sets our numbers beside those of a table of the paper, which gives rows, heads and columns.
func (t Table) Beside(results study.Results, paper string) (figures.Table, error) {
	printed, err := figures.Paper(paper)
	if err != nil {
		return figures.Table{}, err
	}
	if t.Rows, err = PaperRows(paper); err != nil {
		return figures.Table{}, err
	}
	return t.describe(results, printed.Beside(func(heads []string, column string) []float64 {
		i := slices.IndexFunc(t.Rows, func(row Row) bool { return slices.Equal(row.Heads, heads) })
		if i < 0 {
			return nil
		}
		return t.numbers(results, t.Rows[i], column)
	})), nil
}

// Alone lays out numbers that the paper does not have.
func (t Table) Alone(results study.Results) figures.Table {
	table := figures.Table{RowHeads: t.Heads, Columns: t.Columns}
	for _, row := range t.Rows {
		line := figures.Row{Heads: append(slices.Clone(row.Heads), t.architecture(results, row))[:len(t.Heads)]}
		for _, column := range t.Columns {
			line.Cells = append(line.Cells, figures.Cell{Paper: math.NaN(), Ours: t.numbers(results, row, column)})
		}
		table.Rows = append(table.Rows, line)
	}
	return t.describe(results, table)
}

// records are those behind a row and a column.
func (t Table) records(results study.Results, row Row, column string) (records []study.Record) {
	if t.From == nil {
		return results.Of(row.Key, column)
	}
	for _, from := range t.From {
		records = append(records, results.Of(row.Key, from)...)
	}
	return records
}

// numbers are the values of a row and a column by ascending seed.
func (t Table) numbers(results study.Results, row Row, column string) (values []float64) {
	detail := column
	if t.Detail != nil {
		detail = t.Detail(column)
	}
	for _, record := range t.records(results, row, column) {
		if value, ok := record.Details[detail]; ok {
			values = append(values, value)
		} else if detail == "" {
			values = append(values, record.Value)
		}
	}
	return values
}

// architecture is what a row's encoder is, as its records say; empty without any.
func (t Table) architecture(results study.Results, row Row) string {
	for _, column := range t.Columns {
		for _, record := range t.records(results, row, column) {
			var config struct {
				Encoder Encoder `json:"encoder"`
			}
			if record.DecodeConfig(&config) == nil {
				return config.Encoder.Architecture
			}
		}
	}
	return ""
}

// describe fills in what the table says of itself and of the data behind its numbers.
func (t Table) describe(results study.Results, table figures.Table) figures.Table {
	table.Title, table.Caption = t.Title, t.Caption
	if t.From == nil {
		results.Describe(&table, "%")
	} else {
		results.DescribeAs(&table, "%", ColumnsOf(results, t.Rows, t.From...)...)
	}
	return table
}
