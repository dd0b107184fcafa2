package theory

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// BenchmarkCompare50kViews measures all bounds on as many views as CIFAR-10 has training images: 10 classes, 2,500 images, 2 views, 128 dimensions.
func BenchmarkCompare50kViews(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	rows := mat.NewDense(50000, 128, nil)
	for i := range 50000 {
		for c := range 128 {
			rows.Set(i, c, random.NormFloat64())
		}
		rows.Set(i, i/5000, 5+rows.At(i, i/5000))
	}
	f, err := GridFeatures(rows, 10, 2500, 2, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Compare(200); err != nil {
			b.Fatal(err)
		}
	}
}
