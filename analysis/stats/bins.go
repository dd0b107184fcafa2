package stats

// MeanByBin averages values over the entries whose key falls into each of bins equal intervals of [0, 1], and returns the intervals' midpoints. The
// mean of an empty bin is NaN.
func MeanByBin(keys, values []float64, bins int) (middles, means []float64) {
	counts := make([]float64, bins)
	means = make([]float64, bins)
	for i, key := range keys {
		bin := min(bins-1, int(key*float64(bins)))
		counts[bin]++
		means[bin] += values[i]
	}
	for bin := range means {
		middles = append(middles, (float64(bin)+0.5)/float64(bins))
		means[bin] /= counts[bin]
	}
	return middles, means
}
