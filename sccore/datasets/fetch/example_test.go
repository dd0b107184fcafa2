package fetch_test

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/sccore/datasets/fetch"
)

func ExampleDataset() {
	err := fetch.Dataset(context.Background(), "imagenet", "data", fetch.Options{})
	fmt.Println(err)
	// Output: cannot fetch dataset "imagenet", only cifar10 and cifar100
}
