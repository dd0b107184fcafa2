package datasets_test

import (
	"context"
	"fmt"
	"image"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func ExampleCIFAR10() {
	_, err := datasets.CIFAR10("testdata", datasets.Train)
	fmt.Println(err)
	// Output:
	// no CIFAR-10 in testdata: cifar10/cifar-10-batches-bin does not exist ("semcon data fetch cifar10 --data testdata" downloads it)
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

// An annotation that cannot be used is left out and said.
func ExampleReadInstances() {
	in, err := datasets.ReadInstances(strings.NewReader(`{
		"images": [{"id": 1, "file_name": "cats.jpg", "height": 8, "width": 10}],
		"categories": [{"id": 17, "name": "cat"}],
		"annotations": [
			{"id": 1, "image_id": 1, "category_id": 17, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0, "segmentation": [[1, 2, 4, 2, 4, 6, 1, 6]]},
			{"id": 2, "image_id": 1, "category_id": 18, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}]}`), "cats.json")
	if err != nil {
		panic(err)
	}
	cat := in.Annotations[0]
	size, _ := in.ImageSize(cat.Image)
	mask, err := cat.Mask.Runs(size)
	fmt.Println(cat.Box, mask.Area(), err)
	fmt.Println(in.Skipped[0].File, in.Skipped[0].Reason)
	// Output:
	// [1 2 3 4] 12 <nil>
	// cats.json annotation 2: there is no category 18
}

func ExampleOpenInstances() {
	_, err := datasets.OpenInstances("instances_val2017.json")
	fmt.Println(err)
	// Output: instances_val2017.json: no such file or directory
}
