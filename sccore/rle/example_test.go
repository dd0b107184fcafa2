package rle_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/rle"
)

func must(m rle.Mask, err error) rle.Mask {
	if err != nil {
		panic(err)
	}
	return m
}

// Pixels are row-major, runs go down the columns.
func ExampleEncode() {
	m := must(rle.Encode(2, 3, []bool{
		false, true, true,
		false, false, true,
	}))
	fmt.Println(m.Counts(), m, m.Area(), m.Box())
	// Output: [2 1 1 2] 2111 3 [1 0 2 2]
}

func ExampleFromCounts() {
	m := must(rle.FromCounts(2, 3, []uint32{2, 1, 1, 2}))
	fmt.Println(m.Pixels())
	_, err := rle.FromCounts(2, 3, []uint32{2, 1})
	fmt.Println(err)
	// Output:
	// [false true true false false true]
	// mask: the runs have 3 pixels, not the 6 of 3×2
}

func ExampleParse() {
	m := must(rle.Parse(2, 3, "2111"))
	fmt.Println(m.Counts())
	// Output: [2 1 1 2]
}

func ExampleFromPolygons() {
	m := must(rle.FromPolygons(4, 4, [][]float64{{1, 1, 3, 1, 3, 3, 1, 3}}))
	fmt.Println(m.Area(), m.Box())
	// Output: 4 [1 1 2 2]
}

func ExampleFromBox() {
	fmt.Println(must(rle.FromBox(4, 4, [4]float64{1, 0, 2, 3})).Area())
	// Output: 6
}

func ExampleUnion() {
	a, b := must(rle.FromBox(4, 4, [4]float64{0, 0, 2, 4})), must(rle.FromBox(4, 4, [4]float64{0, 0, 4, 2}))
	fmt.Println(must(rle.Union(a, b)).Area(), must(rle.Intersection(a, b)).Area())
	// Output: 12 4
}

// A detection that lies inside a crowd agrees with it, although the crowd is larger.
func ExampleIoU() {
	small, large := must(rle.FromBox(4, 4, [4]float64{0, 0, 2, 2})), must(rle.FromBox(4, 4, [4]float64{0, 0, 4, 4}))
	object, _ := rle.IoU(small, large, false)
	crowd, _ := rle.IoU(small, large, true)
	fmt.Println(object, crowd)
	// Output: 0.25 1
}
