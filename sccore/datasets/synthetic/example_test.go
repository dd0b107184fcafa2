package synthetic_test

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func ExampleImages() {
	images := synthetic.Images(100, 32, 1)
	fmt.Println(images.Len(), images.Width, images.Height, len(images.At(0)))
	fmt.Println(images.Labels[10], images.Classes[images.Labels[10]])
	// Output:
	// 100 32 32 3072
	// 2 yellow checker in blue blotches
}

func ExampleScenes() {
	scenes := synthetic.Scenes(4, 64, 1)
	objects := map[uint8]bool{}
	for _, instance := range scenes.InstanceMask[:64*64] {
		if instance > 0 {
			objects[instance] = true
		}
	}
	fmt.Println(scenes.Len(), "scenes of", len(scenes.Classes), "classes, the first of", len(objects), "objects")
	// Output: 4 scenes of 6 classes, the first of 3 objects
}

func ExampleSegmentation() {
	scenes := synthetic.Scenes(4, 64, 1).Segmentation()
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

func ExampleVideos() {
	set := synthetic.Videos(2, 8, 64, 1)
	objects, err := set.All[0].Objects()
	fmt.Println(set.Identity, "-", objects, "objects", err)
	// Output: synthetic videos (seed 1): 2 of 8 frames 64×64 - 3 objects <nil>
}
