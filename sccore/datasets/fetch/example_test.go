package fetch_test

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/sccore/datasets/fetch"
)

func ExampleDatasets() {
	err := fetch.Datasets(context.Background(), "data", fetch.Options{}, "imagenet")
	fmt.Println(err)
	// Output: cannot fetch dataset "imagenet"
}
