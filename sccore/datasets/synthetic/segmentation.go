package synthetic

import "github.com/semcon/semcon/sccore/datasets"

// Segmentation draws [Scenes] as a segmentation dataset. Class 0 is "background", the six classes of objects follow, and no pixel is ignored.
func Segmentation(n, size int, seed uint64) *datasets.Segmentation {
	return segmentation(Scenes(n, size, seed))
}

// segmentation is a set of scenes as a segmentation dataset.
func segmentation(scenes *Set) *datasets.Segmentation {
	n, size := scenes.Len(), scenes.Width
	classes := append([]string{"background"}, scenes.Classes...)
	return datasets.NewSegmentation(scenes.Name, classes, scenes.Identity, n, func(i int) (*datasets.SegmentedImage, error) {
		area := size * size
		return &datasets.SegmentedImage{Height: size, Width: size, Pixels: scenes.At(i), Mask: scenes.ClassMask[i*area : (i+1)*area : (i+1)*area]}, nil
	})
}
