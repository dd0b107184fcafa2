package study

import "fmt"

// SharesOf returns the number of shares that real data are cut into, of which each seed has its own: those asked for, or 1, with a warning, if there are fewer
// of what is cut, such as "images", so that every seed has all.
func (o Options) SharesOf(dataset string, count int, what string, shares int) int {
	if count >= shares {
		return shares
	}
	o.Warnf("%s is too small for %d shares: every seed has all of its %s", dataset, shares, what)
	return 1
}

// IdentityOfShares identifies in records data that are cut into shares, of whatever seed.
func IdentityOfShares(identity string, shares int) string {
	if shares == 1 {
		return identity
	}
	return fmt.Sprintf("%s; of each %d shares, one for a seed", identity, shares)
}

// CheckSeeds returns an error if real data, cut into shares of which each seed has its own, have none for one of the seeds.
func CheckSeeds(seeds, shares int) error {
	if shares > 1 && seeds > shares {
		return fmt.Errorf("%d seeds and %d shares: each seed needs a share of its own; --set shares=%[1]d, or 1 to give all to every seed", seeds, shares)
	}
	return nil
}
