package knn_test

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/knn"
)

func ExampleFind() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	// Four images with features of dimension 2: two near the first axis, two near the second.
	features := []float32{1, 0, 0.9, 0.1, 0, 1, 0.1, 0.8}
	neighbours, err := knn.Find(context.Background(), b, features, 2, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(neighbours.Indices)
	positive := neighbours.Positive(7)
	fmt.Println(positive(0, 2)) // The positive of image 2 at step 0 of a run with seed 7.
	// Output:
	// [1 0 3 2]
	// 3
}

func ExampleBank() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	bank, err := knn.NewBank(b, []float32{1, 0, 0, 1, 3, 4}, 2)
	if err != nil {
		panic(err)
	}
	defer bank.Close()
	nearest, err := bank.Find(context.Background(), []float32{0, 7, 2, 0}, 2)
	fmt.Println(nearest.Indices, nearest.Similarities, err)
	// Output: [1 2 0 2] [1 0.8 1 0.6] <nil>
}
