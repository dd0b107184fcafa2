package knn

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"
)

// queryBlock is the number of queries whose classes RankBlocks scores at once.
const queryBlock = 256

// CheckLabelled returns an error that says what is wrong with the inputs of a classifier.
func CheckLabelled(classifier string, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) error {
	if err := checkSizes(classifier, bank, labels, classes, queries, top); err != nil {
		return err
	}
	if err := checkFinite(bank); err != nil {
		return fmt.Errorf("%s: training image %w", classifier, err)
	}
	if err := checkFinite(queries); err != nil {
		return fmt.Errorf("%s: query %w", classifier, err)
	}
	return nil
}

// checkSizes is CheckLabelled without a look at the features.
func checkSizes(classifier string, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) error {
	switch {
	case bank.Rank() != 2 || queries.Rank() != 2 || bank.Shape().Dimensions[1] != queries.Shape().Dimensions[1]:
		return fmt.Errorf("%s: features %s and queries %s do not match", classifier, bank.Shape(), queries.Shape())
	case len(labels) != bank.Shape().Dimensions[0]:
		return fmt.Errorf("%s: %d labels for %d features", classifier, len(labels), bank.Shape().Dimensions[0])
	case len(labels) == 0:
		return fmt.Errorf("%s: no training images", classifier)
	case top < 1:
		return fmt.Errorf("%s: top %d is below 1", classifier, top)
	}
	for i, label := range labels {
		if label < 0 || int(label) >= classes {
			return fmt.Errorf("%s: label %d of feature %d is not in [0, %d)", classifier, label, i, classes)
		}
	}
	return nil
}

// checkFinite returns an error that names the first row, [N, D], with a value that is NaN or infinite.
func checkFinite(features *tensors.Tensor) (err error) {
	dim := features.Shape().Dimensions[1]
	tensors.MustConstFlatData(features, func(values []float32) {
		for i, x := range values {
			if x-x != 0 {
				err = fmt.Errorf("%d: feature %d is %v", i/dim, i%dim, x)
				return
			}
		}
	})
	return err
}

// RankBlocks passes the queries to score in blocks of 256, the last one padded with zeros, and ranks the classes by the scores that come back, [256,
// classes].
func RankBlocks(queries *tensors.Tensor, top int, score func(block *tensors.Tensor) (*tensors.Tensor, error)) (ranked [][]int32, err error) {
	n, dim := queries.Shape().Dimensions[0], queries.Shape().Dimensions[1]
	rows := tensors.MustCopyFlatData[float32](queries)
	for begin := 0; begin < n; begin += queryBlock {
		count := min(queryBlock, n-begin)
		block := make([]float32, queryBlock*dim)
		copy(block, rows[begin*dim:(begin+count)*dim])
		scores, err := score(tensors.FromFlatDataAndDimensions(block, queryBlock, dim))
		if err != nil {
			return nil, err
		}
		classes := scores.Shape().Dimensions[1]
		flat := tensors.MustCopyFlatData[float32](scores)
		scores.FinalizeAll()
		for i := range count {
			ranked = append(ranked, highestClasses(flat[i*classes:(i+1)*classes], top))
		}
	}
	return ranked, nil
}

// highestClasses lists the classes with the highest scores, highest first, the lower class first among equals.
func highestClasses[F float32 | float64](scores []F, top int) []int32 {
	list := make([]int32, 0, min(top, len(scores))+1)
	for class, score := range scores {
		at := len(list)
		for at > 0 && scores[list[at-1]] < score {
			at--
		}
		if at < top {
			list = slices.Insert(list, at, int32(class))
			list = list[:min(len(list), top)]
		}
	}
	return list
}
