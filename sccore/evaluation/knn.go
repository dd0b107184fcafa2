// Package evaluation turns a frozen encoder into numbers, with the protocol stated.
package evaluation

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/losses"
)

// knnBlock is the number of queries classified at once: 50,000 neighbours of 256 queries are 51 MB of similarities.
const knnBlock = 256

// KNN is the weighted k-nearest-neighbour classifier of Wu et al. 2018, which the augmentation study (appendix B.1) uses: each of the K
// training features most similar to a query by cosine s votes for its class with weight exp(s/Temperature).
type KNN struct {
	K           int     `json:"k"`           // 200 in the paper; all neighbours if there are fewer.
	Temperature float64 `json:"temperature"` // 0.1 in the paper; at least 0.02.
}

// Predict returns the class of each query, with the lowest number among classes of equal votes. bank, [N, D], are training features of any
// length with labels in [0, classes); queries, [Q, D].
func (c KNN) Predict(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor) (predictions []int32, err error) {
	if err := c.check(bank, labels, classes, queries); err != nil {
		return nil, err
	}
	caught := exceptions.TryCatch[error](func() { predictions, err = c.predict(b, bank, labels, classes, queries) })
	if caught != nil {
		return nil, caught
	}
	return predictions, err
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

func (c KNN) check(bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor) error {
	if err := c.Check(); err != nil {
		return err
	}
	switch {
	case bank.Rank() != 2 || queries.Rank() != 2 || bank.Shape().Dimensions[1] != queries.Shape().Dimensions[1]:
		return fmt.Errorf("k-NN: features %s and queries %s do not match", bank.Shape(), queries.Shape())
	case len(labels) != bank.Shape().Dimensions[0]:
		return fmt.Errorf("k-NN: %d labels for %d features", len(labels), bank.Shape().Dimensions[0])
	}
	for i, label := range labels {
		if label < 0 || int(label) >= classes {
			return fmt.Errorf("k-NN: label %d of feature %d is not in [0, %d)", label, i, classes)
		}
	}
	return nil
}

func (c KNN) predict(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor) ([]int32, error) {
	k := min(c.K, len(labels))
	classify, err := NewExec(b, func(queries, bank, labels *Node) *Node {
		similarity := MatMul(losses.Unit(queries), Transpose(losses.Unit(bank), 0, 1))
		similarity.AssertDims(knnBlock, bank.Shape().Dimensions[0])
		votes := Where(largest(similarity, k), Exp(DivScalar(similarity, c.Temperature)), ZerosLike(similarity))
		scores := MatMul(votes, OneHot(labels, classes, votes.DType()))
		scores.AssertDims(knnBlock, classes)
		return ArgMax(scores, -1, dtypes.Int32)
	})
	if err != nil {
		return nil, err
	}
	defer classify.Finalize()

	labelTensor := tensors.FromValue(labels)
	n, dim := queries.Shape().Dimensions[0], queries.Shape().Dimensions[1]
	rows := tensors.MustCopyFlatData[float32](queries)
	var predictions []int32
	for begin := 0; begin < n; begin += knnBlock {
		count := min(knnBlock, n-begin)
		block := make([]float32, knnBlock*dim) // The last block is padded with zeros.
		copy(block, rows[begin*dim:(begin+count)*dim])
		out, err := classify.Exec(tensors.FromFlatDataAndDimensions(block, knnBlock, dim), bank, labelTensor)
		if err != nil {
			return nil, err
		}
		predictions = append(predictions, tensors.MustCopyFlatData[int32](out[0])[:count]...)
		out[0].FinalizeAll()
	}
	return predictions, nil
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
