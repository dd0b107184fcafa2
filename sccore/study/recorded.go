package study

// recorded are the numbers that have a record.
type recorded map[recordKey]bool

// recordKey identifies a number: a cell's row and column with a configuration, on data. It has the profile, too: a run whose --set happens to give
// another profile's configuration is not one of that profile, whose table leaves it out.
type recordKey struct {
	profile                       Profile
	cell, hash, row, column, data string
}

// readRecorded reads what is recorded in an experiment's folder.
func readRecorded(dir string) (recorded, error) {
	records, err := Records(dir)
	if err != nil {
		return nil, err
	}
	found := recorded{}
	for _, r := range records {
		found[recordKey{r.Profile, r.Cell, r.ConfigHash, r.Row, r.Column, r.Data}] = true
	}
	return found, nil
}

// key identifies a number of a cell.
func key[C any](profile Profile, c Cell[C], data Data, n Number) recordKey {
	identity := n.Data
	if identity == "" {
		identity = data.Identity()
	}
	return recordKey{profile, c.Name(), c.Hash(), n.Row, n.Column, identity}
}

// whole tells whether all numbers of a cell are recorded.
func whole[C any](found recorded, profile Profile, c Cell[C], data Data, numbers []Number) bool {
	for _, n := range numbers {
		if !found[key(profile, c, data, n)] {
			return false
		}
	}
	return len(numbers) > 0
}
