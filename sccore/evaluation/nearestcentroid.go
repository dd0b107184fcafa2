package evaluation

import (
	"context"
	"fmt"
	"math"

	"github.com/dsnet/try"
	"github.com/semcon/semcon/sccore/datasets"
)

// NearestCentroid classifies each patch of an image by the class whose mean training feature is nearest, in Euclidean distance. It is the classifier of the
// paper's theory, on patches. It trains nothing, so it needs no seed.
//
// Images are resized to squares and mirrored half of the time; of an image that is longer than 4:3, only the middle is used. A patch has the class of the
// pixel in its middle.
type NearestCentroid struct {
	trainAndTest
	Images int `json:"images" range:"[0,2^31)"` // The number taken from each set, evenly spread; 0 takes all.
	Size   int `json:"size" range:"[1,2048]"`   // Side of an image in pixels.
}

// Protocol describes the evaluation in one line.
func (n NearestCentroid) Protocol() string {
	return fmt.Sprintf("class of the nearest mean of training features, Euclidean; images of %d px", n.Size)
}

// Measure measures the share of test patches that are classified correctly. Memory does not grow with the sets. A set without an annotated patch is an error.
func (n NearestCentroid) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	means, right := make([]centroid, len(d.Train.Classes)), 0
	try.E1(n.each(ctx, e, d.Train, func(feature []float32, class uint8) { means[class].add(feature) }))
	all, err := n.each(ctx, e, d.Test, func(feature []float32, class uint8) {
		if nearestOf(means, feature) == class {
			right++
		}
	})
	r.Numbers = []Number{{Name: "accuracy", Metric: "patch accuracy", Unit: "%", Value: 100 * float64(right) / float64(all)}}
	return r, err
}

// each visits the annotated patches of a set and returns their number.
func (n NearestCentroid) each(ctx context.Context, e *Encoder, set *datasets.Segmentation, visit func(feature []float32, class uint8)) (int, error) {
	samples := samplesOf(datasets.Spread(set.Len(), n.Images), 0)
	crops := FrozenFeatures{Extractor: e.FeatureExtractor, Images: set, Crop: RandomResizedCrop{Size: n.Size, MinScale: 1}}
	return eachPatch(crops.Crops(ctx, samples), func(p Patches) []uint8 { return p.middleClasses(crops.Grid()) }, visit)
}

// centroid is the mean of features; empty without any.
type centroid struct {
	mean  []float64
	count float64
}

func (c *centroid) add(feature []float32) {
	c.mean = append(c.mean, make([]float64, len(feature)-len(c.mean))...)
	c.count++
	for d, x := range feature {
		c.mean[d] += (float64(x) - c.mean[d]) / c.count
	}
}

// nearestOf is the number of the centroid that is nearest to a feature, the lower one of a tie. Empty ones are not near.
func nearestOf(means []centroid, feature []float32) (best uint8) {
	least := math.Inf(1)
	for i, c := range means {
		distance := 0.0
		for d, mean := range c.mean {
			distance += (float64(feature[d]) - mean) * (float64(feature[d]) - mean)
		}
		if c.count > 0 && distance < least {
			best, least = uint8(i), distance
		}
	}
	return best
}
