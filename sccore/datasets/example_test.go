package datasets_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
)

func ExampleSynthetic() {
	images := datasets.Synthetic(100, 32, 1)
	fmt.Println(images.Len(), images.Width, images.Height, len(images.At(0)))
	fmt.Println(images.Labels[10], images.Classes[images.Labels[10]])
	// Output:
	// 100 32 32 3072
	// 2 yellow checker in blue blotches
}

func ExampleCIFAR10() {
	_, err := datasets.CIFAR10("testdata", datasets.Train)
	fmt.Println(err)
	// Output:
	// no CIFAR-10 in testdata: cifar10/cifar-10-batches-bin is not there ("semcon data fetch cifar10" gets it)
}
