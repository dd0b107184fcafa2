package losses

// moments are sums over a set of pairs.
type moments struct{ count, sum, squares float64 }

func (m moments) plus(o moments) moments {
	return moments{m.count + o.count, m.sum + o.sum, m.squares + o.squares}
}

func (m moments) minus(o moments) moments {
	return moments{m.count - o.count, m.sum - o.sum, m.squares - o.squares}
}

// fenwick is a binary indexed tree of moments at places 0 to len − 2: adding at a place and summing the places below one each take a time
// of order log len.
type fenwick []moments

// add adds m at place.
func (f fenwick) add(place int32, m moments) {
	for at := int(place) + 1; at < len(f); at += at & -at {
		f[at] = f[at].plus(m)
	}
}

// below is the sum at the places 0 to end − 1.
func (f fenwick) below(end int32) moments {
	var total moments
	for at := end; at > 0; at &= at - 1 {
		total = total.plus(f[at])
	}
	return total
}
