package knn

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/settings"
)

// Classifier is the weighted k-nearest-neighbour classifier of Wu et al. 2018. Each of the K training features most similar to a query, by cosine s,
// votes for its class with weight exp(s/Temperature). It holds the bank once, as it is given, and searches it in blocks, see [Bank]. The augmentation
// study (appendix B.1) uses K = 200 and 0.1; for [CLS] features see [DINOClassifier].
type Classifier struct {
	K           int     `json:"k" range:"[1,2^24]"`             // Number of neighbours; all training features if there are fewer.
	Temperature float64 `json:"temperature" range:"[0.02,1e6]"` // Temperature of the weights of neighbours. Below 0.02, exp(1/temperature) overflows float32.
}

// DINOClassifier is the classifier with which DINO's code reports [CLS] features: 20 neighbours and a temperature of 0.07. For
// the k-NN column of Tab. main the paper refers to MoCo and gives neither; here [CLS] features are measured as DINO measures them.
func DINOClassifier() Classifier { return Classifier{K: 20, Temperature: 0.07} }

// Protocol describes the classifier, and of what features it is, such as " of [CLS] features"; they are compared by cosine.
func (c Classifier) Protocol(of string) string {
	return fmt.Sprintf("weighted k-NN%s, K %d, temperature %g", of, c.K, c.Temperature)
}

// Rank returns, for each query, the top classes by votes, most votes first and the lower class among equals; all classes if there are fewer. bank,
// [N, D], are training features of any norm with labels in [0, classes); queries are [Q, D]; top is at least 1.
func (c Classifier) Rank(b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) (ranked [][]int32, err error) {
	if err := settings.Check(c); err != nil {
		return nil, fmt.Errorf("k-NN: %w", err)
	}
	if err := CheckLabelled("k-NN", bank, labels, classes, queries, top); err != nil {
		return nil, err
	}
	tensors.MustConstFlatData(bank, func(bank []float32) {
		tensors.MustConstFlatData(queries, func(queries []float32) { ranked, err = c.vote(b, bank, labels, classes, queries, top) })
	})
	return ranked, err
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

// queryBlock is the number of queries whose classes RankBlocks scores at once.
const queryBlock = 256

// CheckLabelled returns an error that says what is wrong with the sizes and labels of the inputs of a classifier.
func CheckLabelled(classifier string, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int) error {
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
