package overdispersion

import (
	"context"
	"fmt"

	"github.com/semcon/semcon/analysis/dispersion"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/train"
	"gonum.org/v1/gonum/mat"
)

// Names of evaluated values in curves.
const (
	evaluatedMIoU     = "probe/miou"
	evaluatedKNN      = "knn/accuracy"
	evaluatedInstance = "dispersion/instance"
	evaluatedClass    = "dispersion/class"
	evaluatedOther    = "dispersion/other"
)

// dispersedScenes is the number of scenes whose patches are compared.
const dispersedScenes = 32

// dispersionEvaluator measures mean similarities of patches on objects of the first scenes: of one object, of two objects of a class, and of two classes.
func dispersionEvaluator(every int, extractor *evaluation.FeatureExtractor, scenes *synthetic.Set, size int) train.Evaluator {
	return train.Evaluator{Name: "dispersion", Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		encoded, err := evaluation.Encode(extractor, scenes.Images, size, dispersedScenes, true)
		if err != nil {
			return nil, err
		}
		similarity, _, err := patchesOf(encoded, scenes).Measure(1)
		if err == nil && min(similarity.InstancePairs, similarity.ClassPairs, similarity.InterClassPairs) == 0 {
			err = fmt.Errorf("%d, %d and %d pairs of patches of one object, of one class and of two", similarity.InstancePairs, similarity.ClassPairs, similarity.InterClassPairs)
		}
		return map[string]float64{"instance": similarity.Instance, "class": similarity.Class, "other": similarity.InterClass}, err
	}}
}

// patchesOf labels patches by the pixel in their middle. Those of no object are left out.
func patchesOf(encoded evaluation.Encoded, scenes *synthetic.Set) dispersion.Patches {
	count := len(encoded.Patches) / encoded.Dim
	values := make([]float64, len(encoded.Patches))
	for i, x := range encoded.Patches {
		values[i] = float64(x)
	}
	p := dispersion.Patches{Features: mat.NewDense(count, encoded.Dim, values)}
	places := encoded.Rows * encoded.Columns
	for i := range count {
		image, row, column := i/places, i%places/encoded.Columns, i%encoded.Columns
		y, x := (2*row+1)*scenes.Height/(2*encoded.Rows), (2*column+1)*scenes.Width/(2*encoded.Columns)
		at := (image*scenes.Height+y)*scenes.Width + x
		p.Class = append(p.Class, int(scenes.ClassMask[at])-1)
		p.Instance = append(p.Instance, 256*image+int(scenes.InstanceMask[at]))
	}
	return p
}
