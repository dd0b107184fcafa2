package experiments

import "slices"

// settings are what the numbers that are compared with each other share.
type settings struct {
	base    any // Configuration of a comparable type, without what belongs to a row, a column or a seed.
	data    string
	changed []string // What is not the profile's own in it, as "key=value".
}

func (s settings) equal(other settings) bool { return s.base == other.base && s.data == other.data }

// recordGroups are records of one profile by row and column.
type recordGroups struct {
	// runs are those of one row and column by ascending seed; all of a column share their settings.
	runs map[[2]string][]Record
	// changed says, for each column, which settings are not the profile's own.
	changed map[string][]string
}

// groupRecords groups the records of a profile. Where a column has been run with several settings, the profile's own count, and else the last
// ones.
func groupRecords(records []Record, profile Profile, settingsOf func(Record) (settings, error)) (recordGroups, error) {
	groups := recordGroups{map[[2]string][]Record{}, map[string][]string{}}
	records = slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Profile != profile })
	found, chosen := make([]settings, len(records)), map[string]settings{}
	for i, r := range records { // In the order of time.
		var err error
		if found[i], err = settingsOf(r); err != nil {
			return groups, err
		}
		if c, ok := chosen[r.Column]; !ok || len(found[i].changed) == 0 || len(c.changed) > 0 {
			chosen[r.Column] = found[i]
		}
	}
	for i, r := range records {
		if !found[i].equal(chosen[r.Column]) {
			continue
		}
		groups.changed[r.Column] = found[i].changed
		key := [2]string{r.Row, r.Column}
		group := slices.DeleteFunc(groups.runs[key], func(old Record) bool { return old.Seed == r.Seed })
		group = append(group, r)
		slices.SortFunc(group, func(a, b Record) int { return a.Seed - b.Seed })
		groups.runs[key] = group
	}
	return groups, nil
}

// gains are the values of a row less those of another in a column, one for each seed that has both.
func (g recordGroups) gains(row, other, column string) (gains []float64) {
	for _, after := range g.runs[[2]string{row, column}] {
		for _, before := range g.runs[[2]string{other, column}] {
			if before.Seed == after.Seed {
				gains = append(gains, after.Value-before.Value)
			}
		}
	}
	return gains
}
