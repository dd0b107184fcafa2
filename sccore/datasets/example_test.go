package datasets_test

import (
	"context"
	"fmt"
	"image"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func ExampleCIFAR10() {
	_, err := datasets.CIFAR10("testdata", datasets.Train)
	fmt.Println(err)
	// Output:
	// no CIFAR-10 in testdata: cifar10/cifar-10-batches-bin does not exist ("semcon data fetch cifar10" downloads it)
}

func ExampleVOC() {
	_, err := datasets.VOC("testdata", datasets.Test)
	fmt.Println(err)
	// Output: no PASCAL VOC in testdata: VOC2012/JPEGImages does not exist
}

// A loader mixes object-centric images and scenes in equal parts.
func ExampleLoader() {
	loader := datasets.Loader{
		Objects:   synthetic.Objects(6, 32, 1),
		Scenes:    synthetic.Scenes(10, 48, 1),
		BatchSize: 4,
		ImageSize: 64,
		Seed:      1,
	}
	for batch, err := range loader.Batches(context.Background(), 0) {
		if err != nil {
			panic(err)
		}
		fmt.Println(batch.Objects, "objects and", batch.Scenes, "scenes of", len(batch.Pixels), "bytes")
		fmt.Println("sizes before padding:", batch.Sizes)
		break
	}
	// Output:
	// 2 objects and 2 scenes of 49152 bytes
	// sizes before padding: [{32 32} {32 32} {48 48} {48 48}]
}

// An image of a camera becomes the square that DINO's evaluations see.
func ExamplePreprocessing() {
	p := datasets.DefaultPreprocessing()
	pixels, size, err := p.Apply(image.NewRGBA(image.Rect(0, 0, 640, 480)), 224, 16)
	fmt.Println(p.Describe(224))
	fmt.Println(size.Height, size.Width, len(pixels), err)
	// Output:
	// shorter side resized to 256 px (bicubic), centre crop of 224 px, ImageNet's mean and deviation
	// 224 224 150528 <nil>
}
