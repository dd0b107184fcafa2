// Package testvalues holds inputs that the tests of several packages share: features drawn in clusters, and the label maps of golden files.
package testvalues

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dsnet/try"
)

// Clusters draws n unnormalised features of dimension dim around one centre per class.
func Clusters(seed uint64, n, dim, classes int, noise float64) (features [][]float32, labels []int32) {
	rng := rand.New(rand.NewPCG(seed, 0))
	centres := rand.New(rand.NewPCG(1, 2)) // The same for every seed.
	centre := make([][]float64, classes)
	for c := range centre {
		for range dim {
			centre[c] = append(centre[c], centres.NormFloat64())
		}
	}
	for range n {
		label := int32(rng.IntN(classes))
		labels = append(labels, label)
		row, length := make([]float32, dim), 0.5+rng.Float64()
		for j := range row {
			row[j] = float32(length * (centre[label][j] + noise*rng.NormFloat64()))
		}
		features = append(features, row)
	}
	return features, labels
}

// Unpacked returns the frames or masks of a golden file, size bytes each, from base64 of their zlib stream.
func Unpacked(t testing.TB, packed string, size int) [][]uint8 {
	t.Helper()
	defer try.F(t.Fatal)
	compressed := try.E1(base64.StdEncoding.DecodeString(packed))
	reader := try.E1(zlib.NewReader(bytes.NewReader(compressed)))
	return slices.Collect(slices.Chunk(try.E1(io.ReadAll(reader)), size))
}

// Integers draws integers that a script of golden files can draw too, so that the file need not hold the inputs: Knuth's linear congruential generator
// of 64 bits, of which the upper 31 are used. It starts at the seed.
type Integers uint64

// Below returns the next integer, from 0 to n−1.
func (s *Integers) Below(n int) int {
	*s = *s*6364136223846793005 + 1442695040888963407
	return int(*s>>33) % n
}
