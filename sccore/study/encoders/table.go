package encoders

import (
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/study"
)

// Table says which numbers of the records a table of frozen encoders shows, in %.
type Table struct {
	Title, Caption string
	Rows           []Row
	Heads          []figures.RowHead // The first of [Row.Heads] to show; our own rows add their architecture.
	Columns        []string
	// From lists the columns of the records behind every column of the table. If it is nil, each column shows the records' column with its name.
	From []string
	// Detail returns which of a record's details a column shows; empty for the record's value. If it is nil, each column shows the detail with its
	// name.
	Detail func(column string) string
}

// Beside sets our numbers beside those of one of the paper's tables, which provides rows, heads and columns.
func (t Table) Beside(results study.Results, paper string) (figures.Table, error) {
	printed, err := figures.Paper(paper)
	if err != nil {
		return figures.Table{}, err
	}
	if t.Rows, err = PaperRows(paper); err != nil {
		return figures.Table{}, err
	}
	return t.describe(results, printed.Beside(func(heads []string, column string) figures.Cell {
		i := slices.IndexFunc(t.Rows, func(row Row) bool { return slices.Equal(row.Heads, heads) })
		if i < 0 {
			return figures.Cell{}
		}
		return t.cell(results, t.Rows[i], column)
	})), nil
}

// Alone makes a table of numbers that the paper does not have.
func (t Table) Alone(results study.Results) figures.Table {
	table := figures.Table{RowHeads: t.Heads, Columns: t.Columns}
	for _, row := range t.Rows {
		line := figures.Row{Heads: append(slices.Clone(row.Heads), t.architecture(results, row))[:len(t.Heads)]}
		for _, column := range t.Columns {
			line.Cells = append(line.Cells, t.cell(results, row, column))
		}
		table.Rows = append(table.Rows, line)
	}
	return t.describe(results, table)
}

// records returns the records behind a row and a column.
func (t Table) records(results study.Results, row Row, column string) (records []study.Record) {
	if t.From == nil {
		return results.Of(row.Key, column)
	}
	for _, from := range t.From {
		records = append(records, results.Of(row.Key, from)...)
	}
	return records
}

// cell returns the values of a row and a column by ascending seed.
func (t Table) cell(results study.Results, row Row, column string) figures.Cell {
	var values []float64
	var behind []study.Record
	detail := column
	if t.Detail != nil {
		detail = t.Detail(column)
	}
	for _, record := range t.records(results, row, column) {
		if value, ok := record.Details[detail]; ok {
			values, behind = append(values, value), append(behind, record)
		} else if detail == "" {
			values, behind = append(values, record.Value), append(behind, record)
		}
	}
	return study.CellOf(values, behind)
}

// architecture returns the architecture of a row's encoder from its records; empty without records.
func (t Table) architecture(results study.Results, row Row) string {
	for _, column := range t.Columns {
		if name := architectureOf(t.records(results, row, column)); name != "" {
			return name
		}
	}
	return ""
}

// describe fills in the title and the caption, and describes the data behind the numbers.
func (t Table) describe(results study.Results, table figures.Table) figures.Table {
	table.Title, table.Caption = t.Title, t.Caption
	if t.From == nil {
		results.Describe(&table, "%")
	} else {
		results.DescribeAs(&table, "%", ColumnsOf(results, t.Rows, t.From...)...)
	}
	return table
}
