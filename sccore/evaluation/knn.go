// Package evaluation turns a frozen encoder into numbers, with the protocol stated.
package evaluation

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/losses"
)

// knnBlock is the number of queries classified at once: 50,000 neighbours of 256 queries are 51 MB of similarities.
const knnBlock = 256

// KNN is the weighted k-nearest-neighbour classifier of Wu et al. 2018: each of the K training features most similar to a query by cosine s
// votes for its class with weight exp(s/Temperature). The augmentation study (appendix B.1) names K = 200 and 0.1; for [CLS] features see
// [DINOKNN].
type KNN struct {
	K           int     `json:"k"`           // All neighbours if there are fewer.
	Temperature float64 `json:"temperature"` // At least 0.02.
}

// DINOKNN is the classifier of [CLS] features as DINO's code reports it, 20 neighbours and a temperature of 0.07.
func DINOKNN() KNN { return KNN{K: 20, Temperature: 0.07} }

// Predict returns the class of each query: the first that Rank gives.
func (c KNN) Predict(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor) ([]int32, error) {
	ranked, err := c.Rank(b, bank, labels, classes, queries, 1)
	if err != nil {
		return nil, err
	}
	predictions := make([]int32, len(ranked))
	for i, classes := range ranked {
		predictions[i] = classes[0]
	}
	return predictions, nil
}

// Rank returns, for each query, the top classes with the most votes, the one with most first and the lower number among equals; all classes
// if there are fewer. bank, [N, D], are training features of any length with labels in [0, classes); queries, [Q, D]; top is at least 1.
func (c KNN) Rank(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) (ranked [][]int32, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := checkLabelled("k-NN", bank, labels, classes, queries, top); err != nil {
		return nil, err
	}
	caught := exceptions.TryCatch[error](func() { ranked, err = c.rank(b, bank, labels, classes, queries, top) })
	if caught != nil {
		return nil, caught
	}
	return ranked, err
}

// Check returns an error that names the setting out of range.
func (c KNN) Check() error {
	if c.K < 1 {
		return fmt.Errorf("k-NN: k %d is not positive", c.K)
	}
	if !(c.Temperature >= 0.02) { // Below, exp(1/temperature) leaves float32.
		return fmt.Errorf("k-NN: temperature %g is not at least 0.02", c.Temperature)
	}
	return nil
}

// checkLabelled returns an error that says what is wrong with the features that a classifier is given.
func checkLabelled(classifier string, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) error {
	switch {
	case bank.Rank() != 2 || queries.Rank() != 2 || bank.Shape().Dimensions[1] != queries.Shape().Dimensions[1]:
		return fmt.Errorf("%s: features %s and queries %s do not match", classifier, bank.Shape(), queries.Shape())
	case len(labels) != bank.Shape().Dimensions[0]:
		return fmt.Errorf("%s: %d labels for %d features", classifier, len(labels), bank.Shape().Dimensions[0])
	case len(labels) == 0:
		return fmt.Errorf("%s: no images to learn from", classifier)
	case top < 1:
		return fmt.Errorf("%s: the first %d classes are none", classifier, top)
	}
	for i, label := range labels {
		if label < 0 || int(label) >= classes {
			return fmt.Errorf("%s: label %d of feature %d is not in [0, %d)", classifier, label, i, classes)
		}
	}
	return nil
}

func (c KNN) rank(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) ([][]int32, error) {
	k := min(c.K, len(labels))
	classify, err := NewExec(b, func(queries, bank, labels *Node) *Node {
		similarity := MatMul(losses.Unit(queries), Transpose(losses.Unit(bank), 0, 1))
		similarity.AssertDims(knnBlock, bank.Shape().Dimensions[0])
		votes := Where(largest(similarity, k), Exp(DivScalar(similarity, c.Temperature)), ZerosLike(similarity))
		scores := MatMul(votes, OneHot(labels, classes, votes.DType()))
		scores.AssertDims(knnBlock, classes)
		return scores
	})
	if err != nil {
		return nil, err
	}
	defer classify.Finalize()

	labelTensor := tensors.FromValue(labels)
	return rankBlocks(queries, top, func(block *tensors.Tensor) (*tensors.Tensor, error) {
		out, err := classify.Exec(block, bank, labelTensor)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	})
}

// rankBlocks passes the queries on in blocks of knnBlock, the last one filled up with zeros, and ranks the classes by the scores that come back,
// [knnBlock, classes].
func rankBlocks(queries *tensors.Tensor, top int, score func(block *tensors.Tensor) (*tensors.Tensor, error)) (ranked [][]int32, err error) {
	n, dim := queries.Shape().Dimensions[0], queries.Shape().Dimensions[1]
	rows := tensors.MustCopyFlatData[float32](queries)
	for begin := 0; begin < n; begin += knnBlock {
		count := min(knnBlock, n-begin)
		block := make([]float32, knnBlock*dim)
		copy(block, rows[begin*dim:(begin+count)*dim])
		scores, err := score(tensors.FromFlatDataAndDimensions(block, knnBlock, dim))
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

// highestClasses lists the classes of the highest scores from the highest down, the lower class first among equals.
func highestClasses(scores []float32, top int) []int32 {
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

// Accuracy is the share of predictions equal to labels, in percent; 0 of none.
func Accuracy(predictions, labels []int32) float64 {
	if len(predictions) != len(labels) || len(labels) == 0 {
		return 0
	}
	right := 0
	for i := range labels {
		if predictions[i] == labels[i] {
			right++
		}
	}
	return 100 * float64(right) / float64(len(labels))
}

// AccuracyWithin is the share of labels that are among the first k classes of their ranking, in percent: the top-k accuracy. It is 0 of none.
func AccuracyWithin(ranked [][]int32, labels []int32, k int) float64 {
	if len(ranked) != len(labels) || len(labels) == 0 {
		return 0
	}
	right := 0
	for i, classes := range ranked {
		if slices.Contains(classes[:min(k, len(classes))], labels[i]) {
			right++
		}
	}
	return 100 * float64(right) / float64(len(labels))
}
