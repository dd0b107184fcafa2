package datasets_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
)

func ExampleCIFAR10() {
	_, err := datasets.CIFAR10("testdata", datasets.Train)
	fmt.Println(err)
	// Output:
	// no CIFAR-10 in testdata: cifar10/cifar-10-batches-bin is not there ("semcon data fetch cifar10" gets it)
}

func ExampleVOC() {
	_, err := datasets.VOC("testdata", datasets.Test)
	fmt.Println(err)
	// Output: no PASCAL VOC in testdata: VOC2012/JPEGImages is not there
}
