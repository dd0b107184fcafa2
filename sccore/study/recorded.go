package study

// recorded is the set of numbers that have a record.
type recorded map[recordKey]bool

// recordKey identifies a number: a row and column of a cell with its configuration and data. It includes the profile, because a run whose --set happens
// to give another profile's configuration does not appear in that profile's tables.
type recordKey struct {
	profile                       Profile
	cell, hash, row, column, data string
}

// readRecorded reads which numbers are recorded in an experiment's folder.
func readRecorded(dir string) (recorded, error) {
	records, err := Records(dir)
	if err != nil {
		return nil, err
	}
	done := recorded{}
	for _, r := range records {
		done[recordKey{r.Profile, r.Cell, r.ConfigHash, r.Row, r.Column, r.Data}] = true
	}
	return done, nil
}

// key returns the key of one of a cell's numbers, whose data are identified.
func key[C any](profile Profile, c Cell[C], n Number) recordKey {
	return recordKey{profile, c.Name(), c.Hash(), n.Row, n.Column, n.Data}
}

// complete reports whether all numbers of a cell are recorded.
func complete[C any](done recorded, profile Profile, c Cell[C], numbers []Number) bool {
	for _, n := range numbers {
		if !done[key(profile, c, n)] {
			return false
		}
	}
	return len(numbers) > 0
}
