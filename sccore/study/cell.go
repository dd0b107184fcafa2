package study

import (
	"math"

	"github.com/semcon/semcon/figures"
)

// Cell returns the values of a row and a column by ascending seed as a cell of a table, which names their records.
func (r Results) Cell(row, column string) figures.Cell {
	return r.Derived(r.Values(row, column), column, row)
}

// Derived returns values that are computed from the records of rows in a column, such as [Results.Differences], as a cell of a table, which names these records.
func (r Results) Derived(values []float64, column string, rows ...string) figures.Cell {
	var records []Record
	for _, row := range rows {
		records = append(records, r.Of(row, column)...)
	}
	return CellOf(values, records)
}

// CellOf returns values as a cell of a table, which names the records behind them.
func CellOf(values []float64, records []Record) figures.Cell {
	c := figures.Cell{Paper: math.NaN(), Ours: values}
	if len(values) == 0 {
		return c
	}
	for _, record := range records {
		if place := record.Place(); place != "" {
			c.Records = append(c.Records, place)
		}
	}
	return c
}
