package study

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/stat"
)

// Results are the records of one profile, grouped for tables: for each row and column, the records that share their settings, by ascending seed. If a
// column was run with several settings, the profile's own settings count, or else the most recent ones. Records that [Spec.Selected] has selected all count.
type Results struct {
	Profile Profile
	Kind    figures.DataKind // Of the data, if [Results.On] has told them apart.
	runs    map[[2]string][]Record
	changed map[[2]string][]string    // By row and column, the settings that differ from the profile's.
	leftOut map[string]map[string]int // By column and by what they differ in, how many records are left out because they cannot be compared with the rest.
	records []groupedRecord           // All of the profile, oldest first.
}

// groupedRecord is a record with what it must share with others to be compared with them.
type groupedRecord struct {
	Record
	group   string    // Settings within a group have to agree.
	common  any       // The common part of the configuration, a comparable value.
	changed []string  // The settings that --set changed, as "key=value".
	encoder encoderOf // That it evaluates; zero for others.
}

// Load reads an experiment's records of the options' folder, profile and settings.
func (s Spec[C, D]) Load(o Options) (_ Results, err error) {
	defer try.Handle(&err)
	return s.Results(try.E1(s.Selected(try.E1(Records(Folder(o.Out, s.Name))), o)), o.Profile)
}

// Selected returns the records that a run with the options would find: with Set, the records of cells with its configuration; without Set, all records.
func (s Spec[C, D]) Selected(records []Record, o Options) (selected []Record, err error) {
	defer try.Handle(&err)
	if len(o.Set) == 0 {
		return records, nil
	}
	of := lo.Filter(records, func(r Record, _ int) bool { return r.Profile == o.Profile })
	if len(of) == 0 { // Settings that the experiment does not know are still an error.
		of = records
	}
	hashes := map[string]map[string]bool{} // Of the cells of each dataset.
	for _, r := range of {
		dataset := r.cellDataset()
		if hashes[dataset] == nil {
			hashes[dataset] = try.E1(s.hashes(records, o, dataset))
		}
		if r.Profile == o.Profile && hashes[dataset][r.ConfigHash] {
			r.Asked = true
			selected = append(selected, r)
		}
	}
	return selected, nil
}

// cellDataset is the dataset of the record's cell; empty for images that have no name in the cell's.
func (r Record) cellDataset() string {
	if dataset, _, _ := strings.Cut(r.Cell, "/"); dataset == r.Dataset {
		return dataset
	}
	return ""
}

// hashes are the hashes of a dataset's cells, of as many seeds as records have and the options allow: shares of the images may limit them.
func (s Spec[C, D]) hashes(records []Record, o Options, dataset string) (hashes map[string]bool, err error) {
	for _, r := range records {
		if r.Profile == o.Profile && r.cellDataset() == dataset {
			o.Seeds = max(o.Seeds, r.Seed+1)
		}
	}
	var cells []Cell[C]
	for o.Seeds = max(o.Seeds, 1); o.Seeds > 0; o.Seeds-- {
		if cells, err = s.Cells(o, dataset); err == nil {
			break
		}
	}
	if err != nil {
		return nil, badCells(err)
	}
	return lo.SliceToMap(cells, func(c Cell[C]) (string, bool) { return c.Hash(), true }), nil
}

// Results groups the records of one profile.
func (s Spec[C, D]) Results(records []Record, profile Profile) (_ Results, err error) {
	defer try.Handle(&err)
	records = slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Profile != profile })
	upgrade(records)
	grouped := make([]groupedRecord, len(records))
	for i, r := range records {
		var config C
		try.E(r.DecodeConfig(&config))
		profileConfig := s.ProfileConfig(r, config)
		changed := try.E1(settings.Changed("", profileConfig, config))
		if s.Common != nil {
			config = s.Common(config, profileConfig)
		}
		grouped[i] = groupedRecord{Record: r, common: config, changed: changed, encoder: r.start().Encoder}
		if !s.AcrossColumns {
			grouped[i].group = r.Column
		}
	}
	return resultsOf(profile, grouped), nil
}

// resultsOf chooses the settings of each group, and a run of pretrain among those that have left its encoders, and sorts the records that have them: the latest without
// changes, or else the latest. Encoders of no such run, or of an earlier version, which does not record it, always count.
func resultsOf(profile Profile, records []groupedRecord) Results {
	results := Results{Profile: profile, runs: map[[2]string][]Record{}, changed: map[[2]string][]string{}, leftOut: map[string]map[string]int{}, records: records}
	chosen := map[string]groupedRecord{}
	for _, r := range records {
		if c, ok := chosen[r.group]; !ok || len(r.changed) == 0 || len(c.changed) > 0 {
			chosen[r.group] = r
		}
	}
	differs := func(r groupedRecord) bool {
		c := chosen[r.group]
		return !r.Asked && r.common != c.common || r.Data != c.Data
	}
	pretraining := map[string]encoderOf{}
	for _, r := range records {
		if c := pretraining[r.group]; r.encoder.Run != "" && !differs(r) && (r.encoder.Changed == "" || c.Changed != "" || c.Run == "") {
			pretraining[r.group] = r.encoder
		}
	}
	for _, r := range records {
		key := [2]string{r.Row, r.Column}
		if c := chosen[r.group]; differs(r) || r.encoder.Run != "" && r.encoder.Run != pretraining[r.group].Run {
			if results.leftOut[r.Column] == nil {
				results.leftOut[r.Column] = map[string]int{}
			}
			results.leftOut[r.Column][r.differs(c)]++
			continue
		}
		results.changed[key] = r.changed
		group := slices.DeleteFunc(results.runs[key], func(old Record) bool { return old.Seed == r.Seed })
		group = append(group, r.Record)
		slices.SortFunc(group, func(a, b Record) int { return a.Seed - b.Seed })
		results.runs[key] = group
	}
	return results
}

// differs says in words what keeps a record out of the group of another, and what shows it.
func (r groupedRecord) differs(chosen groupedRecord) string {
	switch {
	case r.common == chosen.common && r.Data == chosen.Data:
		return "encoders of another run of pretrain"
	case slices.Equal(r.changed, chosen.changed):
		return "other data or an earlier version"
	case len(r.changed) == 0:
		return "the profile's settings"
	}
	return fmt.Sprintf("--set %s, which shows them", strings.Join(r.changed, " --set "))
}

// OtherProfiles returns the sorted profiles of the records if none of them has the wanted profile.
func OtherProfiles(records []Record, wanted Profile) []string {
	others := lo.Uniq(lo.Map(records, func(r Record, _ int) string { return string(r.Profile) }))
	return lo.Ternary(slices.Contains(others, string(wanted)), nil, slices.Sorted(slices.Values(others)))
}

// Where returns the results of those records that keep selects.
func (r Results) Where(keep func(Record) bool) Results {
	some := resultsOf(r.Profile, slices.DeleteFunc(slices.Clone(r.records), func(record groupedRecord) bool { return !keep(record.Record) }))
	some.Kind = r.Kind
	return some
}

// On returns the results on one kind of data.
func (r Results) On(kind figures.DataKind) Results {
	some := r.Where(func(record Record) bool { return record.Kind == kind })
	some.Kind = kind
	return some
}

// Kinds returns the results on real images and those on synthetic ones, without empty ones; at least one.
func (r Results) Kinds() []Results {
	kinds := slices.DeleteFunc([]Results{r.On(figures.Real), r.On(figures.Synthetic)}, Results.Empty)
	if len(kinds) == 0 {
		kinds = append(kinds, r.On(figures.Synthetic))
	}
	return kinds
}

// ByKind returns Tables of a [Spec] from the tables of one kind of data: tables of real images come first.
func ByKind(tables func(Results) []figures.Table) func(Results) []figures.Table {
	return func(r Results) []figures.Table {
		return lo.FlatMap(r.Kinds(), func(kind Results, _ int) []figures.Table { return tables(kind) })
	}
}

// FromFile reports whether trainings behind the records start from a file of weights.
func (r Results) FromFile() bool {
	return slices.ContainsFunc(slices.Concat(slices.Collect(maps.Values(r.runs))...), func(record Record) bool { return record.start().fromFile() })
}

// Empty reports whether there are no records.
func (r Results) Empty() bool { return len(r.runs) == 0 }

// Of returns the records of a row and a column by ascending seed.
func (r Results) Of(row, column string) []Record { return r.runs[[2]string{row, column}] }

// Recorded reports whether a row has records in one of the columns.
func (r Results) Recorded(row string, columns ...string) bool {
	return slices.ContainsFunc(columns, func(column string) bool { return len(r.Of(row, column)) > 0 })
}

// OfSeed returns the record of a row, a column and a seed; ok is false if there is none.
func (r Results) OfSeed(row, column string, seed int) (Record, bool) {
	return lo.Find(r.Of(row, column), func(record Record) bool { return record.Seed == seed })
}

// Columns returns the columns with records, sorted.
func (r Results) Columns() []string { return r.keys(1) }

// Rows returns the rows with records, sorted.
func (r Results) Rows() []string { return r.keys(0) }

func (r Results) keys(part int) (names []string) {
	names = lo.Uniq(lo.MapToSlice(r.runs, func(key [2]string, _ []Record) string { return key[part] }))
	slices.Sort(names)
	return names
}

// Changed lists the settings of a column's records that differ from the profile's, as "key=value".
func (r Results) Changed(column string) []string {
	return lo.Union(lo.Map(r.Rows(), func(row string, _ int) []string { return r.changed[[2]string{row, column}] })...)
}

// changes is Changed as a text, which names rows unless they share their settings.
func (r Results) changes(column string) string {
	rows := lo.Filter(r.Rows(), func(row string, _ int) bool { return r.Recorded(row, column) })
	texts := lo.Map(rows, func(row string, _ int) string { return strings.Join(r.changed[[2]string{row, column}], ", ") })
	if len(lo.Uniq(texts)) == 1 {
		return texts[0]
	}
	named := lo.Map(texts, func(text string, i int) string { return lo.Ternary(text == "", "", rows[i]+": "+text) })
	return strings.Join(lo.Compact(named), "; ")
}

// Values returns the values of a row and a column by ascending seed.
func (r Results) Values(row, column string) []float64 { return r.Details(row, column, "") }

// Details returns one of the further numbers of a row and a column by ascending seed. Records without it are skipped.
func (r Results) Details(row, column, name string) []float64 {
	return lo.FilterMap(r.Of(row, column), func(record Record, _ int) (float64, bool) { return record.number(name) })
}

// number is one of the record's further numbers, or its value for an empty name.
func (r Record) number(detail string) (value float64, ok bool) {
	if detail == "" {
		return r.Value, true
	}
	value, ok = r.Details[detail]
	return value, ok
}

// Differences returns, for each seed with records of all the rows, the value of one row minus that of the other with the highest mean. They are paired by
// seed because runs with the same seed start alike.
func (r Results) Differences(column, row string, others ...string) []float64 {
	values := r.quantities(figures.Quantity{Row: row, MinusRow: strings.Join(others, " & ")}, column)
	return lo.Map(slices.Sorted(maps.Keys(values)), func(seed, _ int) float64 { return values[seed] })
}

// Data lists the identities of the data behind the given columns, or behind all columns, in column order.
func (r Results) Data(columns ...string) (identities []string) {
	if len(columns) == 0 {
		columns = r.Columns()
	}
	for _, column := range columns {
		inColumn := lo.FilterMapToSlice(r.runs, func(key [2]string, group []Record) (string, bool) { return group[0].Data, key[1] == column }) // A group shares its data.
		slices.Sort(inColumn)
		identities = append(identities, inColumn...)
	}
	return lo.Uniq(identities)
}

// Blind reports whether a column does not show training: no row is better than random weights by more than three standard errors. The mean and its error are of
// the differences, paired by seed. If no row has two seeds in common with random weights, it is false.
func (r Results) Blind(column, random string, rows ...string) bool {
	measured := false
	for _, row := range rows {
		if gains := r.Differences(column, row, random); len(gains) > 1 {
			mean, sd := stat.MeanStdDev(gains, nil)
			if mean > 3*stat.StdErr(sd, float64(len(gains))) {
				return false
			}
			measured = true
		}
	}
	return measured
}

// oneFile lists the rows whose records in columns are all of one file of weights and differ by seed, as they do where something is trained on it.
func (r Results) oneFile(columns []string, rows ...string) (of []string) {
	return slices.DeleteFunc(slices.Clone(rows), func(row string) bool {
		digests, values := map[string]bool{}, map[float64]bool{}
		for _, column := range columns {
			for _, record := range r.Of(row, column) {
				digests[record.start().Encoder.Digest], values[record.Value] = true, true
			}
		}
		return len(digests) != 1 || digests[""] || len(values) <= len(columns)
	})
}

// Describe fills in a table's unit, profile and data. It adds to its caption what --set changed in columns of the records, the versions that have measured them if
// there are several, and how many records are left out there because they had other settings or data.
func (r Results) Describe(t *figures.Table, unit string, columns ...string) {
	t.Unit, t.Profile = unit, string(r.Profile)
	if len(r.records) > 0 && r.records[0].LeftOut > 0 {
		t.Caption += fmt.Sprintf(" Left out as damaged: %s of %s.", plural.Count(r.records[0].LeftOut, "line"), RunsFile)
	}
	if len(columns) == 0 {
		return
	}
	t.Data = r.Data(columns...)
	if rows := r.oneFile(columns, r.Rows()...); len(rows) > 0 {
		t.Caption += fmt.Sprintf(" All seeds of %s use the same weights file, so their spread does not include the training of the encoder.", strings.Join(rows, ", "))
	}
	versions := map[string]bool{}
	for key, records := range r.runs {
		for _, record := range records {
			version := cmp.Or(record.Versions["semcon"], "unknown")
			if len(version) >= 40 { // A commit.
				version = version[:8] + version[40:]
			}
			versions[version] = versions[version] || slices.Contains(columns, key[1])
		}
	}
	if used := lo.PickByValues(versions, []bool{true}); len(used) > 1 {
		t.Caption += fmt.Sprintf(" Measured by %d versions of semcon: %s.", len(used), strings.Join(slices.Sorted(maps.Keys(used)), ", "))
	}
	recorded := lo.Intersect(columns, r.Columns())
	changes := lo.SliceToMap(recorded, func(column string) (string, string) { return column, r.changes(column) })
	for _, text := range lo.Compact(lo.Uniq(lo.Map(recorded, func(column string, _ int) string { return changes[column] }))) {
		sharing := lo.Filter(recorded, func(column string, _ int) bool { return changes[column] == text })
		if len(sharing) == len(recorded) {
			t.Caption += fmt.Sprintf(" Settings that differ from the profile's: %s.", text)
		} else {
			t.Caption += fmt.Sprintf(" %s: settings that differ from the profile's: %s.", strings.Join(sharing, ", "), text)
		}
	}
	leftOut := map[string]int{}
	for _, column := range columns {
		for why, count := range r.leftOut[column] {
			leftOut[why] += count
		}
	}
	for _, why := range slices.Sorted(maps.Keys(leftOut)) {
		t.Caption += fmt.Sprintf(" Left out, as they cannot be compared with the rest: %s with %s.", plural.Count(leftOut[why], "number"), why)
	}
}
