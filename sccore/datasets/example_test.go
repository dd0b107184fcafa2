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

func ExampleSyntheticScenes() {
	scenes := datasets.SyntheticScenes(4, 64, 1)
	objects := map[uint8]bool{}
	for _, instance := range scenes.InstanceMask[:64*64] {
		if instance > 0 {
			objects[instance] = true
		}
	}
	fmt.Println(scenes.Len(), "scenes of", len(scenes.Classes), "classes, the first of", len(objects), "objects")
	// Output: 4 scenes of 6 classes, the first of 3 objects
}

func ExampleSegmentedScenes() {
	scenes := datasets.SegmentedScenes(4, 64, 1)
	first, err := scenes.Read(0)
	if err != nil {
		panic(err)
	}
	fmt.Println(scenes.Len(), "images of", len(scenes.Classes), "classes; the first is", first.Width, "wide and", first.Height, "high")
	fmt.Println("its centre is", scenes.Classes[first.Mask[32*64+32]])
	// Output:
	// 4 images of 7 classes; the first is 64 wide and 64 high
	// its centre is class 0
}

func ExampleVOC() {
	_, err := datasets.VOC("testdata", datasets.Test)
	fmt.Println(err)
	// Output: no PASCAL VOC in testdata: VOC2012/JPEGImages is not there
}
