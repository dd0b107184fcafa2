package knn

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/settings"
)

// Classifier is the weighted k-nearest-neighbour classifier of Wu et al. 2018. Each of the K training features most similar to a query, by cosine s,
// votes for its class with weight exp(s/Temperature). It holds the bank once, as it is given, and searches it in blocks, see [Bank]. The augmentation study (appendix B.1) uses K = 200 and 0.1; for [CLS] features see
// [DINOClassifier].
type Classifier struct {
	K           int     `json:"k"`           // Number of neighbours; all training features if there are fewer.
	Temperature float64 `json:"temperature"` // Temperature of the weights of neighbours, at least 0.02.
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
	if err := checkSizes("k-NN", bank, labels, classes, queries, top); err != nil {
		return nil, err
	}
	tensors.MustConstFlatData(bank, func(bank []float32) {
		tensors.MustConstFlatData(queries, func(queries []float32) { ranked, err = c.vote(b, bank, labels, classes, queries, top) })
	})
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

// vote ranks the classes for each query.
func (c Classifier) vote(b compute.Backend, values []float32, labels []int32, classes int, queries []float32, top int) (ranked [][]int32, err error) {
	bank, err := newBank(b, values, len(values)/len(labels), defaultBlocks)
	if err != nil {
		return nil, fmt.Errorf("k-NN: %w", err)
	}
	defer bank.Close()
	votes := make([]float64, classes)
	err = bank.search(context.Background(), queries, min(c.K, bank.Len()), func(_ int, nearest []candidate) {
		clear(votes)
		for _, n := range nearest {
			votes[labels[n.index()]] += math.Exp(float64(n.similarity()) / c.Temperature)
		}
		ranked = append(ranked, highestClasses(votes, top))
	})
	if err != nil {
		return nil, fmt.Errorf("k-NN: %w", err)
	}
	return ranked, nil
}
