package losses

import "math/bits"

// SortingNetwork names the comparisons by which [NeCo] sorts, as diffsort does.
type SortingNetwork string

const (
	// OddEven compares neighbours, in as many layers as there are values.
	OddEven SortingNetwork = "odd_even"
	// Bitonic merges sequences of doubling length, in k(k+1)/2 layers for at most 2ᵏ values. For other numbers than powers of two, it leaves wires out as
	// diffsort does. It then sorts the 49 values of NeCo's configurations, but not all numbers of values: not 22, for one.
	Bitonic SortingNetwork = "bitonic"
)

// comparator puts the smaller of two wires' values on low.
type comparator struct{ low, high int }

// layers are the comparisons for n values. Those of one layer share no wire.
func (s SortingNetwork) layers(n int) [][]comparator {
	if s == OddEven {
		return oddEven(n)
	}
	return bitonic(n)
}

func oddEven(n int) (layers [][]comparator) {
	for at := range n {
		var layer []comparator
		for wire := at % 2; wire+1 < n; wire += 2 {
			layer = append(layer, comparator{wire, wire + 1})
		}
		layers = append(layers, layer)
	}
	return layers
}

func bitonic(n int) (layers [][]comparator) {
	blocks := bits.Len(uint(n - 1))
	unused := 1<<blocks - n // The first wires.
	for block := range blocks {
		for distance := 1 << block; distance > 0; distance /= 2 {
			var layer []comparator
			for wire := unused; wire < 1<<blocks; wire++ {
				if wire&distance != 0 {
					continue
				}
				pair := comparator{wire - unused, wire + distance - unused}
				if wire>>(block+1)%2 == 1 {
					pair.low, pair.high = pair.high, pair.low
				}
				layer = append(layer, pair)
			}
			layers = append(layers, layer)
		}
	}
	return layers
}
