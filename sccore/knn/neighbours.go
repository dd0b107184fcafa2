// Package knn compares features by cosine. [Bank] finds the nearest of a set of features for any queries; [Find] the nearest images of each image of a training
// set, from which training draws positives; [Classifier] classifies queries by the votes of their nearest training features. Features go in as rows; indices
// or ranked classes come out. All of them search in the blocks of a [Bank], so that memory grows with no product of sizes.
//
// The next use of nearest features, such as retrieval, gets a file here and searches a [Bank].
package knn

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/safetensors"
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

// Find compares the [CLS] features of N images, [N, dim] row by row, by cosine. k is below N. The same features give the same bytes on the same
// backend.
//
// All pairs are compared in the blocks of a [Bank]. The host holds the features and the result, 2.0 GB and 0.1 GB for ImageNet's 1.28 million images and
// ViT-S. Time is O(N²): 1.6·10¹² pairs there, hours on a few cores; BenchmarkFind reports pairs per second.
//
// Find reports to bar how many images are done. The error is ctx's or one line that says what is wrong with the features.
func Find(ctx context.Context, b compute.Backend, features []float32, dim, k int, bar progress.Bar) (*Neighbours, error) {
	return find(ctx, b, features, dim, k, bar, defaultBlocks)
}

func find(ctx context.Context, b compute.Backend, features []float32, dim, k int, bar progress.Bar, size blocks) (*Neighbours, error) {
	bank, err := newBank(b, features, dim, size)
	if err != nil {
		return nil, fmt.Errorf("neighbours: %w", err)
	}
	defer bank.Close()
	n := bank.Len()
	if k < 1 || k >= n {
		return nil, fmt.Errorf("neighbours: k %d of %d images, want 1 to %d", k, n, n-1)
	}
	out := &Neighbours{K: k, Indices: make([]int32, 0, n*k)}
	err = bank.search(ctx, features, k+1, func(image int, nearest []candidate) {
		// An image is among its own k+1 nearest, unless k+1 others are equally near.
		for _, other := range nearest {
			if int(other.index()) != image && len(out.Indices) < (image+1)*k {
				out.Indices = append(out.Indices, other.index())
			}
		}
		if done := image + 1; done%size.queries == 0 || done == n {
			bar.Set(done, "")
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
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
	encode func() (features []float32, dim int, err error)) (*Neighbours, error) {
	if _, err := os.Stat(path); err == nil {
		found, err := Read(path, images, source)
		if err != nil {
			err = fmt.Errorf("%w (remove the file to find them again)", err)
		}
		return found, err
	}
	features, dim, err := encode()
	if err != nil {
		return nil, err
	}
	found, err := Find(ctx, b, features, dim, min(k, images-1), progress.Discard)
	if err != nil {
		return nil, err
	}
	found.Source = source
	return found, found.Write(path)
}

// Write stores the neighbours in a .safetensors file, atomically.
func (n *Neighbours) Write(path string) error {
	indices := tensors.FromFlatDataAndDimensions(n.Indices, len(n.Indices)/n.K, n.K)
	return safetensors.Write(path, map[string]*tensors.Tensor{"neighbours": indices}, map[string]string{"source": n.Source})
}

// Read reads what [Neighbours.Write] stored for this number of images, from this source. The error is one line that names the file.
func Read(path string, images int, source string) (*Neighbours, error) {
	named, metadata, err := safetensors.Read(path)
	if err != nil {
		return nil, err
	}
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

// Mutual returns the mutual nearest neighbours of two sets of features, [N, dim] and [M, dim], whose cosine similarity is at least threshold, in
// the order of the first set. Of equally near features the one with the lower place is nearest. It holds N·M similarities; it is for the patches of
// two images. A feature that is zero or not finite is an error.
func Mutual(first, second []float32, dim int, threshold float64) ([]Match, error) {
	a, err := directions(first, dim, "first")
	if err != nil {
		return nil, err
	}
	b, err := directions(second, dim, "second")
	if err != nil {
		return nil, err
	}
	best, back := make([]int, len(a)), make([]int, len(b))
	most, mostBack := make([]float64, len(a)), make([]float64, len(b))
	for i, x := range a {
		for j, y := range b {
			similarity := 0.0
			for d := range x {
				similarity += x[d] * y[d]
			}
			if j == 0 || similarity > most[i] {
				best[i], most[i] = j, similarity
			}
			if i == 0 || similarity > mostBack[j] {
				back[j], mostBack[j] = i, similarity
			}
		}
	}
	var matches []Match
	for i, j := range best {
		if len(b) > 0 && back[j] == i && most[i] >= threshold {
			matches = append(matches, Match{i, j, most[i]})
		}
	}
	return matches, nil
}

// directions scales features to length 1.
func directions(features []float32, dim int, set string) ([][]float64, error) {
	if dim < 1 || len(features)%dim != 0 {
		return nil, fmt.Errorf("mutual neighbours: %d numbers in the %s set do not make features of %d", len(features), set, dim)
	}
	rows := make([][]float64, len(features)/dim)
	for i := range rows {
		square := 0.0
		for _, x := range features[i*dim : (i+1)*dim] {
			rows[i] = append(rows[i], float64(x))
			square += float64(x) * float64(x)
		}
		if !(square > 0) || math.IsInf(square, 0) {
			return nil, fmt.Errorf("mutual neighbours: feature %d of the %s set has squared length %g", i, set, square)
		}
		for d := range rows[i] {
			rows[i][d] /= math.Sqrt(square)
		}
	}
	return rows, nil
}
