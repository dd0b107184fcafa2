package knn

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/settings"
)

// Classifier is the weighted k-nearest-neighbour classifier of Wu et al. 2018. Each of the K training features most similar to a query, by cosine s,
// votes for its class with weight exp(s/Temperature). The augmentation study (appendix B.1) uses K = 200 and 0.1; for [CLS] features see
// [DINOClassifier].
type Classifier struct {
	K           int     `json:"k"`           // All training features if there are fewer.
	Temperature float64 `json:"temperature"` // At least 0.02.
}

// DINOClassifier is the classifier with which DINO's code reports [CLS] features: 20 neighbours and a temperature of 0.07. For
// the k-NN column of Tab. main the paper refers to MoCo and gives neither; here [CLS] features are measured as DINO measures them.
func DINOClassifier() Classifier { return Classifier{K: 20, Temperature: 0.07} }

// Predict returns the class of each query: the first one from Rank.
func (c Classifier) Predict(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor) ([]int32, error) {
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

// Rank returns, for each query, the top classes by votes, most votes first and the lower class among equals; all classes if there are fewer. bank,
// [N, D], are training features of any norm with labels in [0, classes); queries are [Q, D]; top is at least 1.
func (c Classifier) Rank(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) (ranked [][]int32, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if err := CheckLabelled("k-NN", bank, labels, classes, queries, top); err != nil {
		return nil, err
	}
	caught := exceptions.TryCatch[error](func() { ranked, err = c.rank(b, bank, labels, classes, queries, top) })
	if caught != nil {
		return nil, caught
	}
	return ranked, err
}

// Check returns an error that names the setting that is out of range.
func (c Classifier) Check() error {
	// Below 0.02, exp(1/temperature) overflows float32.
	if err := cmp.Or(settings.Between("k", c.K, 1, 1<<24), settings.Between("temperature", c.Temperature, 0.02, 1e6)); err != nil {
		return fmt.Errorf("k-NN: %w", err)
	}
	return nil
}

func (c Classifier) rank(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) ([][]int32, error) {
	k := min(c.K, len(labels))
	classify, err := NewExec(b, func(queries, bank, labels *Node) *Node {
		similarity := MatMul(losses.Unit(queries), Transpose(losses.Unit(bank), 0, 1))
		similarity.AssertDims(queryBlock, bank.Shape().Dimensions[0])
		votes := Where(largest(similarity, k), Exp(DivScalar(similarity, c.Temperature)), ZerosLike(similarity))
		scores := MatMul(votes, OneHot(labels, classes, votes.DType()))
		scores.AssertDims(queryBlock, classes)
		return scores
	})
	if err != nil {
		return nil, err
	}
	defer classify.Finalize()

	labelTensor := tensors.FromValue(labels)
	return RankBlocks(queries, top, func(block *tensors.Tensor) (*tensors.Tensor, error) {
		out, err := classify.Call(block, bank, labelTensor)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	})
}
