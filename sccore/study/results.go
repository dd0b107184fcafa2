package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/settings"
)

// Results are the records of one profile that tables are made of: for each row and column those that share their settings, by ascending seed. Where
// a column has been run with several settings, the profile's own count, and else the last ones.
type Results struct {
	Profile Profile
	runs    map[[2]string][]Record
	changed map[string][]string // By column, the settings that are not the profile's own.
	group   func([]Record) (Results, error)
	records []Record
}

// grouping is what the numbers that are compared with each other share.
type grouping struct {
	common  any // Comparable: what configurations have in common.
	data    string
	changed []string // What --set changed, as "key=value".
}

// Load reads an experiment's records under the folder out.
func (s Spec[C, D]) Load(out string, profile Profile) (Results, error) {
	records, err := Records(Folder(out, s.Name))
	if err != nil {
		return Results{}, err
	}
	return s.Results(records, profile)
}

// Results groups the records of one profile.
func (s Spec[C, D]) Results(records []Record, profile Profile) (Results, error) {
	results := Results{Profile: profile, runs: map[[2]string][]Record{}, changed: map[string][]string{}}
	results.group = func(some []Record) (Results, error) { return s.Results(some, profile) }
	records = slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Profile != profile })
	results.records = records
	found, chosen := make([]grouping, len(records)), map[string]grouping{}
	for i, r := range records { // In the order of time.
		var config C
		if err := r.DecodeConfig(&config); err != nil {
			return results, err
		}
		own := s.Own(r, config)
		changed, err := settings.Changed("", own, config)
		if err != nil {
			return results, err
		}
		if s.Common != nil {
			config = s.Common(config, own)
		}
		found[i] = grouping{config, r.Data, changed}
		group := s.group(r)
		if c, ok := chosen[group]; !ok || len(found[i].changed) == 0 || len(c.changed) > 0 {
			chosen[group] = found[i]
		}
	}
	for i, r := range records {
		if c := chosen[s.group(r)]; found[i].common != c.common || found[i].data != c.data {
			continue
		}
		results.changed[r.Column] = found[i].changed
		key := [2]string{r.Row, r.Column}
		group := slices.DeleteFunc(results.runs[key], func(old Record) bool { return old.Seed == r.Seed })
		group = append(group, r)
		slices.SortFunc(group, func(a, b Record) int { return a.Seed - b.Seed })
		results.runs[key] = group
	}
	return results, nil
}

// group names the records that are compared with each other, whose settings have to agree.
func (s Spec[C, D]) group(r Record) string {
	if s.AcrossColumns {
		return ""
	}
	return r.Column
}

// Where are the results of some of the records alone.
func (r Results) Where(keep func(Record) bool) (Results, error) {
	return r.group(slices.DeleteFunc(slices.Clone(r.records), func(record Record) bool { return !keep(record) }))
}

// Empty tells whether there are no records.
func (r Results) Empty() bool { return len(r.runs) == 0 }

// Of are the records of a row and a column by ascending seed.
func (r Results) Of(row, column string) []Record { return r.runs[[2]string{row, column}] }

// OfSeed is the record of a row, a column and a seed.
func (r Results) OfSeed(row, column string, seed int) (Record, bool) {
	for _, record := range r.Of(row, column) {
		if record.Seed == seed {
			return record, true
		}
	}
	return Record{}, false
}

// Columns are those with records, sorted.
func (r Results) Columns() (columns []string) {
	for key := range r.runs {
		if !slices.Contains(columns, key[1]) {
			columns = append(columns, key[1])
		}
	}
	slices.Sort(columns)
	return columns
}

// Values are the numbers of a row and a column by ascending seed.
func (r Results) Values(row, column string) (values []float64) {
	for _, record := range r.Of(row, column) {
		values = append(values, record.Value)
	}
	return values
}

// Details are further numbers of a row and a column by ascending seed, of the records that have them.
func (r Results) Details(row, column, name string) (values []float64) {
	for _, record := range r.Of(row, column) {
		if value, ok := record.Details[name]; ok {
			values = append(values, value)
		}
	}
	return values
}

// Differences are, for each seed that has all the rows, one row minus the best of the others: paired, as the runs of a seed begin alike.
func (r Results) Differences(column, row string, others ...string) (differences []float64) {
seeds:
	for _, record := range r.Of(row, column) {
		best := math.Inf(-1)
		for _, other := range others {
			before, ok := r.OfSeed(other, column, record.Seed)
			if !ok {
				continue seeds
			}
			best = max(best, before.Value)
		}
		differences = append(differences, record.Value-best)
	}
	return differences
}

// Data lists the identities of the data behind columns, or behind all of them, in the order of the columns.
func (r Results) Data(columns ...string) (identities []string) {
	if len(columns) == 0 {
		columns = r.Columns()
	}
	for _, column := range columns {
		var found []string
		for key, group := range r.runs {
			if key[1] == column {
				found = append(found, group[0].Data) // The same for all of a column.
			}
		}
		slices.Sort(found)
		for _, identity := range found {
			if !slices.Contains(identities, identity) {
				identities = append(identities, identity)
			}
		}
	}
	return identities
}

// Evidence is the quantity of a claim, one value a seed, and what stands behind it.
type Evidence struct {
	Values  []float64
	Data    []string // Identities of the data.
	Changed []string // Settings that are not the profile's own.
}

// Evidence is that of values from some columns, or from all of them; nothing without values.
func (r Results) Evidence(values []float64, columns ...string) Evidence {
	if len(values) == 0 {
		return Evidence{}
	}
	if len(columns) == 0 {
		columns = r.Columns()
	}
	e := Evidence{Values: values, Data: r.Data(columns...)}
	for _, column := range columns {
		for _, change := range r.changed[column] {
			if !slices.Contains(e.Changed, change) {
				e.Changed = append(e.Changed, change)
			}
		}
	}
	return e
}

// Describe fills in what stands behind a table's numbers: unit, profile, data and what --set changed in the columns with numbers of ours.
func (r Results) Describe(t *figures.Table, unit string) {
	var measured []string
	for i, column := range t.Columns {
		if slices.ContainsFunc(t.Rows, func(row figures.Row) bool { return len(row.Cells[i].Ours) > 0 }) {
			measured = append(measured, column)
		}
	}
	r.DescribeAs(t, unit, measured...)
}

// DescribeAs is [Results.Describe] for tables whose columns are named unlike those of the records behind them.
func (r Results) DescribeAs(t *figures.Table, unit string, columns ...string) {
	t.Unit, t.Profile = unit, string(r.Profile)
	if len(columns) == 0 {
		return
	}
	t.Data = r.Data(columns...)
	var changes []string // Of columns with records, in their order, each with those that share it.
	sharing := map[string][]string{}
	recorded := 0
	for _, column := range columns {
		changed, ok := r.changed[column]
		if !ok {
			continue
		}
		recorded++
		if len(changed) == 0 {
			continue
		}
		text := strings.Join(changed, ", ")
		if sharing[text] == nil {
			changes = append(changes, text)
		}
		sharing[text] = append(sharing[text], column)
	}
	for _, text := range changes {
		if len(sharing[text]) == recorded {
			t.Caption += fmt.Sprintf(" Run with other settings than the profile's: %s.", text)
		} else {
			t.Caption += fmt.Sprintf(" %s: run with other settings than the profile's: %s.", strings.Join(sharing[text], ", "), text)
		}
	}
}
