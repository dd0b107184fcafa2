package testvalues

// Integers draws integers that a script of golden files can draw too, so that the file need not hold the inputs: Knuth's linear congruential generator
// of 64 bits, of which the upper 31 are used. It starts at the seed.
type Integers uint64

// Below returns the next integer, from 0 to n−1.
func (s *Integers) Below(n int) int {
	*s = *s*6364136223846793005 + 1442695040888963407
	return int(*s>>33) % n
}
