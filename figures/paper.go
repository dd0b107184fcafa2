package figures

import (
	"cmp"
	"embed"
	"encoding/csv"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

//go:embed paper/*.csv
var paperFiles embed.FS

// noTables are files of the folder that hold no table of the paper: the claims, which [Claims] reads, and the settings, which the page docs/settings.md has.
var noTables = []string{"claims", "settings"}

// PaperTable is a table as the paper prints it.
type PaperTable struct {
	Name     string    // The table's LaTeX label without "tab:", e.g. "effect_aug_full".
	RowHeads []RowHead // The leading columns, which name a row: switches of transformations, or words such as the method.
	Columns  []string  // The columns of numbers, e.g. "CIFAR-10/SimCLR".
	Rows     []PaperRow
}

// PaperRow is one printed row.
type PaperRow struct {
	Heads  []string  // One entry per row head. A switch is "1" (on), "" (off) or "same" (one crop for both views).
	Values []float64 // One number per column, NaN if the paper prints none.
}

// RowHead is a leading column of a table.
type RowHead struct {
	Name   string // E.g. "random_crop"; underscores are shown as spaces.
	Switch bool   // The entries are "1" (shown as a check mark), "same" (a half circle) or "", and not words.
}

// Paper reads a table of the paper by its label, e.g. "effect_aug". An unknown name is an error that lists the known ones.
func Paper(name string) (*PaperTable, error) {
	file := "paper/" + name + ".csv"
	data, err := paperFiles.ReadFile(file)
	if err != nil || slices.Contains(noTables, name) {
		return nil, fmt.Errorf("no table %q in the paper; there are %s", name, strings.Join(PaperNames(), ", "))
	}
	table, err := parsePaper(name, string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return table, nil
}

// MustPaper is [Paper] of a table that there is; a panic otherwise.
func MustPaper(name string) *PaperTable {
	table, err := Paper(name)
	if err != nil {
		panic(err)
	}
	return table
}

// PaperNames lists the tables that [Paper] knows, in alphabetical order.
func PaperNames() []string {
	files, err := fs.Glob(paperFiles, "paper/*.csv")
	if err != nil {
		panic(err) // The pattern is a constant.
	}
	var names []string
	for _, file := range files {
		if name := strings.TrimSuffix(path.Base(file), ".csv"); !slices.Contains(noTables, name) {
			names = append(names, name)
		}
	}
	return names
}

// parsePaper distinguishes row heads from numbers by their form: the paper prints every measured number with a decimal point, and neither the
// switches nor the line numbers of the ablation have one.
func parsePaper(name, text string) (*PaperTable, error) {
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(records) < 2 {
		return nil, fmt.Errorf("want a header and at least one row, got %d lines", len(records))
	}
	header, body := records[0], records[1:]
	t := &PaperTable{Name: name, Rows: make([]PaperRow, len(body))}
	for c, column := range header {
		number, words := false, false // Whether there is a number, and an entry that no switch has.
		for _, record := range body {
			_, err := strconv.ParseFloat(record[c], 64)
			number = number || err == nil && strings.Contains(record[c], ".")
			words = words || record[c] != "" && record[c] != switchOn && record[c] != switchSame
		}
		if !number && len(t.Columns) > 0 {
			return nil, fmt.Errorf("column %q names rows and comes after numbers", column)
		}
		if number {
			t.Columns = append(t.Columns, column)
		} else {
			t.RowHeads = append(t.RowHeads, RowHead{column, !words})
		}
		for r, record := range body {
			row := &t.Rows[r]
			if !number {
				row.Heads = append(row.Heads, record[c])
				continue
			}
			value, err := strconv.ParseFloat(cmp.Or(record[c], "NaN"), 64)
			if err != nil {
				return nil, fmt.Errorf("line %d, column %q: %q is not a number", r+2, column, record[c])
			}
			row.Values = append(row.Values, value)
		}
	}
	return t, nil
}

// Row returns the row with these heads; ok is false if the paper has none.
func (p *PaperTable) Row(heads ...string) (row PaperRow, ok bool) {
	i := slices.IndexFunc(p.Rows, func(row PaperRow) bool { return slices.Equal(row.Heads, heads) })
	if i < 0 {
		return PaperRow{}, false
	}
	return p.Rows[i], true
}

// Value is the printed number of a column in the row with these heads. It is NaN if the paper has no such row or column, or leaves the cell empty.
func (p *PaperTable) Value(column string, heads ...string) float64 {
	row, ok := p.Row(heads...)
	c := slices.Index(p.Columns, column)
	if !ok || c < 0 {
		return math.NaN()
	}
	return row.Values[c]
}
