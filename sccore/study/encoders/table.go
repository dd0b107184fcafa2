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
func (t Table) Beside(results study.Results, paper string) figures.Table {
	rows, printed := PaperRows(paper), figures.MustPaper(paper)
	t.Rows, t.Columns = nil, printed.Columns
	for _, row := range printed.Rows {
		if i := slices.IndexFunc(rows, func(r Row) bool { return slices.Equal(r.Heads, row.Heads) }); i >= 0 {
			t.Rows = append(t.Rows, rows[i])
		} else {
			t.Rows = append(t.Rows, Row{Heads: row.Heads})
		}
	}
	made := t.table()
	made.Paper = paper
	return made.Of(results)
}

// Alone makes a table of numbers that the paper does not have.
func (t Table) Alone(results study.Results) figures.Table { return t.table().Of(results) }

// table is the same for all results.
func (t Table) table() study.Table {
	made := study.Table{Title: t.Title, Caption: t.Caption, Unit: "%", RowHeads: t.Heads}
	for _, row := range t.Rows {
		made.Rows = append(made.Rows, study.Row{Key: row.Key, Heads: row.Heads})
	}
	for _, column := range t.Columns {
		detail := column
		if t.Detail != nil {
			detail = t.Detail(column)
		}
		made.Columns = append(made.Columns, study.Column{Head: column, From: t.From, Detail: detail})
	}
	return made
}

// Plain returns the tables of an experiment that the paper has no table of: one, of the values of all rows and columns with records. paper is the table whose rows
// weights can be given for.
func Plain(paper, title, caption string) func(study.Results) []figures.Table {
	return func(results study.Results) []figures.Table {
		return []figures.Table{Table{
			Title: title, Caption: caption, Rows: AllRows(results, paper, results.Columns()...), Heads: []figures.RowHead{{Name: "method"}, {Name: "arch"}}, Columns: results.Columns(), Detail: Value,
		}.Alone(results)}
	}
}

// Value is the Detail of a [Table] that shows the values of records.
func Value(string) string { return "" }
