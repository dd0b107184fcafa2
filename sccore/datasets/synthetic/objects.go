package synthetic

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/rle"
)

// Instances draws [Scenes] as an object-detection dataset: each object that is seen is annotated with the mask of what is seen of it and the box around
// that. It panics as [Scenes] does.
func Instances(n, size int, seed uint64) *datasets.ObjectImages {
	return instances(Scenes(n, size, seed))
}

// instances is a set of scenes as images with objects.
func instances(scenes *Set) *datasets.ObjectImages {
	n, size := scenes.Len(), scenes.Width
	var categories []datasets.ObjectCategory
	for i, name := range scenes.Classes {
		categories = append(categories, datasets.ObjectCategory{ID: int64(i + 1), Name: name})
	}
	var images []datasets.InstanceImage
	var annotations []datasets.Annotation
	area := size * size
	inside := make([]bool, area)
	for i := range n {
		images = append(images, datasets.InstanceImage{ID: int64(i + 1), FileName: fmt.Sprintf("scene%d", i), Height: size, Width: size})
		class := map[uint8]uint8{} // By object.
		objects := scenes.InstanceMask[i*area:][:area]
		for p, object := range objects {
			class[object] = scenes.ClassMask[i*area+p]
		}
		for object := uint8(1); int(object) <= maxObjects; object++ {
			if class[object] == 0 {
				continue // It is hidden.
			}
			for p := range inside {
				inside[p] = objects[p] == object
			}
			mask, err := rle.Encode(size, size, inside)
			if err != nil {
				panic(err) // The size fits.
			}
			annotations = append(annotations, datasets.Annotation{
				ID: int64(len(annotations) + 1), Image: int64(i + 1), Category: int64(class[object]), Box: mask.Box(), Area: float64(mask.Area()),
				Mask: datasets.InstanceMask{Size: datasets.Size{Height: size, Width: size}, Text: mask.String()},
			})
		}
	}
	truth := datasets.NewInstances(scenes.Name, images, categories, annotations)
	return datasets.NewObjectImages(scenes.Name, scenes.Identity, truth, func(i int) (*datasets.SegmentedImage, error) {
		return &datasets.SegmentedImage{Name: images[i].FileName, Height: size, Width: size, Pixels: scenes.At(i)}, nil
	})
}

// maxObjects is the most objects in a scene.
const maxObjects = 3
