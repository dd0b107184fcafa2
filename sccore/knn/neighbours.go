// Package knn compares features by cosine. [Bank] finds the nearest of a set of features for any queries; [Find] the nearest images of each image of a training
// set, from which training draws positives; [Classifier] classifies queries by the votes of their nearest training features. Features go in as rows; indices
// or ranked classes come out. All of them search in the blocks of a [Bank], so that memory grows with no product of sizes.
//
// The next use of nearest features, such as retrieval, gets a file here and searches a [Bank].
package knn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
)

// Neighbours are the k nearest images of each image of a training set, its candidate positives in "Explicit semantic concentration for image-level
// SSL". They are computed once, before training, and stored.
type Neighbours struct {
	K       int     // Neighbours per image; 20 by default, since the paper leaves k open.
	Indices []int32 // [N, K], nearest first, the lower index first among equals. No image is its own neighbour.
	Source  string  // The images, and the checkpoint whose features were compared.
}

// DefaultK is the default number of neighbours from which positives are drawn.
const DefaultK = 20

// Find compares the [CLS] features of N images, [N, dim] row by row, by cosine. k is below N. The same features give the same bytes on the same backend.
//
// All pairs are compared in the blocks of a [Bank]. The host holds the features and the result, 2.0 GB and 0.1 GB for ImageNet's 1.28 million images and
// ViT-S. Time is O(N²): 1.6·10¹² pairs there, hours on a few cores; BenchmarkFind reports pairs per second.
//
// The error is ctx's or one line that says what is wrong with the features.
func Find(ctx context.Context, b compute.Backend, features []float32, dim, k int) (*Neighbours, error) {
	bank, err := NewBank(b, features, dim)
	if err != nil {
		return nil, fmt.Errorf("neighbours: %w", err)
	}
	defer bank.Close()
	return bank.neighbours(ctx, k)
}

// neighbours are the k nearest others of each feature.
func (bank *Bank) neighbours(ctx context.Context, k int) (*Neighbours, error) {
	n := bank.Len()
	if k < 1 || k >= n {
		return nil, fmt.Errorf("neighbours: k %d of %d images, want 1 to %d", k, n, n-1)
	}
	out := &Neighbours{K: k, Indices: make([]int32, 0, n*k)}
	return out, bank.search(ctx, bank.features.values, k+1, func(image int, nearest []candidate) {
		// An image is among its own k+1 nearest, unless k+1 others are equally near.
		for _, other := range nearest {
			if int(other.index) != image && len(out.Indices) < (image+1)*k {
				out.Indices = append(out.Indices, other.index)
			}
		}
	})
}

// Positive returns a function that draws one of an image's neighbours uniformly at a step, the paper's x'. The draw depends on the seed, the step and
// the image alone.
func (n *Neighbours) Positive(seed uint64) func(step int, image int32) int32 {
	return func(step int, image int32) int32 {
		random := rand.New(rand.NewPCG(seed, uint64(step)<<32|uint64(uint32(image))))
		return n.Indices[int(image)*n.K+random.IntN(n.K)]
	}
}

// Stored reads the k neighbours of a number of images from the file at path, or finds them and stores them there. encode returns the features of the images,
// as [Find] wants them; it is not called if the file is there. source says what was compared, and must equal the file's source. k is at most images − 1.
func Stored(ctx context.Context, b compute.Backend, path string, images, k int, source string,
	encode func() (features []float32, dim int, err error)) (_ *Neighbours, err error) {
	defer try.Handle(&err)
	if _, err := os.Stat(path); err == nil {
		found, err := Read(path, images, source)
		if err != nil {
			err = fmt.Errorf("%w (remove the file to find them again)", err)
		}
		return found, err
	}
	features, dim := try.E2(encode())
	found := try.E1(Find(ctx, b, features, dim, min(k, images-1)))
	found.Source = source
	return found, found.Write(path)
}

// Write stores the neighbours in a .safetensors file, atomically.
func (n *Neighbours) Write(path string) error {
	indices := tensors.FromFlatDataAndDimensions(n.Indices, len(n.Indices)/n.K, n.K)
	return safetensors.Write(path, map[string]*tensors.Tensor{"neighbours": indices}, map[string]string{"source": n.Source})
}

// Read reads what [Neighbours.Write] stored for this number of images, from this source. The error is one line that names the file.
func Read(path string, images int, source string) (_ *Neighbours, err error) {
	defer try.Handle(&err)
	named, metadata := try.E2(safetensors.Read(path))
	indices := named["neighbours"]
	switch {
	case indices == nil || indices.DType() != dtypes.Int32 || indices.Rank() != 2 || indices.Shape().Dim(1) < 1:
		return nil, fmt.Errorf("%s: no neighbours in the file", path)
	case metadata["source"] != source:
		return nil, fmt.Errorf("%s: neighbours are of %q, not of %q", path, metadata["source"], source)
	case indices.Shape().Dim(0) != images:
		return nil, fmt.Errorf("%s: neighbours of %d images, want %d", path, indices.Shape().Dim(0), images)
	}
	n := &Neighbours{K: indices.Shape().Dim(1), Indices: tensors.MustCopyFlatData[int32](indices), Source: source}
	for i, index := range n.Indices {
		if index < 0 || int(index) >= images || int(index) == i/n.K {
			return nil, fmt.Errorf("%s: image %d has neighbour %d of %d images", path, i/n.K, index, images)
		}
	}
	return n, nil
}

// Match is a pair of features of two sets that are each other's nearest.
type Match struct {
	First, Second int     // Places in the two sets.
	Similarity    float64 // Their cosine.
}

// Mutual returns the mutual nearest neighbours of two sets of features, [N, dim] and [M, dim] of any norm, whose cosine similarity is at least threshold, in
// the order of the first set. Of equally near features the one with the lower place is nearest. It takes N·M products; it is for the patches of
// two images. A feature that is not finite is an error.
func Mutual(first, second []float32, dim int, threshold float64) (matches []Match, err error) {
	if len(first) == 0 || len(second) == 0 {
		return nil, nil
	}
	var sets [2]features
	for i, values := range [][]float32{first, second} {
		if sets[i], err = newFeatures(values, dim); err != nil {
			return nil, fmt.Errorf("mutual neighbours: set %d: %w", i+1, err)
		}
	}
	a, b := sets[0], sets[1]
	best, back := make([]Match, a.len()), make([]Match, b.len())
	for i := range best {
		for j := range back {
			similarity := 0.0
			for d, x := range first[i*dim : (i+1)*dim] {
				similarity += float64(x) * float64(second[j*dim+d])
			}
			match := Match{i, j, similarity * float64(a.scales[i]) * float64(b.scales[j])}
			if j == 0 || match.Similarity > best[i].Similarity {
				best[i] = match
			}
			if i == 0 || match.Similarity > back[j].Similarity {
				back[j] = match
			}
		}
	}
	return lo.Filter(best, func(match Match, _ int) bool { return match == back[match.Second] && match.Similarity >= threshold }), nil
}

// Classifier is the weighted k-nearest-neighbour classifier of Wu et al. 2018. Each of the K training features most similar to a query, by cosine s,
// votes for its class with weight exp(s/Temperature). It holds the bank once, as it is given, and searches it in blocks, see [Bank]. The augmentation
// study (appendix B.1) uses K = 200 and 0.1; for [CLS] features see [DINOClassifier].
type Classifier struct {
	K           int     `json:"k" range:"[1,2^24]"`             // Number of neighbours; all training features if there are fewer.
	Temperature float64 `json:"temperature" range:"[0.02,1e6]"` // Temperature of the weights of neighbours; a weight is at most exp(1/temperature).
}

// DINOClassifier is the classifier with which DINO's code reports [CLS] features: 20 neighbours and a temperature of 0.07. For
// the k-NN column of Tab. main the paper refers to MoCo and gives neither; here [CLS] features are measured as DINO measures them.
func DINOClassifier() Classifier { return Classifier{K: 20, Temperature: 0.07} }

// Protocol describes the classifier, and of what features it is, such as " of [CLS] features"; they are compared by cosine.
func (c Classifier) Protocol(of string) string {
	return fmt.Sprintf("weighted k-NN%s, K %d, temperature %g", of, c.K, c.Temperature)
}

// Labelled are features with labels, from which a classifier learns.
type Labelled struct {
	Features []float32 // [N, Dim], row by row.
	Dim      int
	Labels   []int32 // [N], in [0, Classes).
	Classes  int
}

// Check returns an error that says what is wrong with the sizes and labels, with queries, [Q, Dim], or with the number of classes that are asked for.
func (l Labelled) Check(queries []float32, top int) error {
	switch {
	case l.Dim < 1 || len(l.Features) != len(l.Labels)*l.Dim || len(queries)%l.Dim != 0:
		return fmt.Errorf("%d labels for %d numbers in rows of %d, and %d of queries", len(l.Labels), len(l.Features), l.Dim, len(queries))
	case len(l.Labels) == 0:
		return errors.New("no training images")
	case top < 1:
		return fmt.Errorf("top %d is below 1", top)
	}
	for i, label := range l.Labels {
		if label < 0 || int(label) >= l.Classes {
			return fmt.Errorf("label %d of feature %d is not in [0, %d)", label, i, l.Classes)
		}
	}
	return nil
}

// Rank returns, for each query, the top classes by votes, most votes first and the lower class among equals; all classes if there are fewer. The features are of
// any norm; queries are [Q, Dim]; top is at least 1.
func (c Classifier) Rank(b compute.Backend, from Labelled, queries []float32, top int) (ranked [][]int32, err error) {
	defer try.HandleF(&err, func() { err = fmt.Errorf("k-NN: %w", err) })
	try.E(settings.Check(c))
	try.E(from.Check(queries, top))
	bank := try.E1(NewBank(b, from.Features, from.Dim))
	defer bank.Close()
	votes := make([]float64, from.Classes)
	try.E(bank.search(context.Background(), queries, min(c.K, bank.Len()), func(_ int, nearest []candidate) {
		clear(votes)
		for _, n := range nearest {
			votes[from.Labels[n.index]] += math.Exp(float64(n.similarity) / c.Temperature)
		}
		ranked = append(ranked, highestClasses(votes, top))
	}))
	return ranked, nil
}

// queryBlock is the number of queries whose classes RankBlocks scores at once.
const queryBlock = 256

// RankBlocks passes queries, [Q, dim], to score in blocks of 256, the last one padded with zeros, and ranks the classes by the scores that come back, [256,
// classes]. It is an error if the score of a query is not finite.
func RankBlocks(queries []float32, dim, top int, score func(block *tensors.Tensor) (*tensors.Tensor, error)) (ranked [][]int32, err error) {
	defer try.Handle(&err)
	for rows := range slices.Chunk(queries, queryBlock*dim) {
		block := make([]float32, queryBlock*dim)
		copy(block, rows)
		scores := try.E1(score(tensors.FromFlatDataAndDimensions(block, queryBlock, dim)))
		flat := tensors.MustCopyFlatData[float32](scores)
		scores.FinalizeAll()
		for one := range slices.Chunk(flat[:len(flat)/queryBlock*(len(rows)/dim)], len(flat)/queryBlock) {
			if err := safetensors.CheckFinite(one); err != nil {
				return nil, fmt.Errorf("scores of query %d: %w", len(ranked), err)
			}
			ranked = append(ranked, highestClasses(one, top))
		}
	}
	return ranked, nil
}

// highestClasses lists the classes with the highest scores, highest first, the lower class first among equals.
func highestClasses[F float32 | float64](scores []F, top int) []int32 {
	list := make([]int32, 0, min(top, len(scores))+1) // Sorting all of a thousand classes would take longer than the search.
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
