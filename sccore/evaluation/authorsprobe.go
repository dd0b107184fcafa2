package evaluation

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
)

// AuthorsProbe is linear classification as DINO measures it (eval_linear.py), and iBOT and Mugs after it: the protocol of the baselines' numbers in the paper's Tab. main. A
// linear layer sees the [CLS] tokens of the last four blocks, or, of transformers wider than ViT-S, that of the last block and the mean of its patch tokens. SGD trains it
// on random crops of at least 8 % of an image, mirrored half of the time: each epoch encodes all images anew.
type AuthorsProbe struct {
	Epochs       int     `json:"epochs" range:"[0,2^14]"` // 0 for no such probe.
	Batch        int     `json:"batch" range:"[1,2^18]"`  // The images that are left over at the end of an epoch are left out.
	LearningRate float64 `json:"rate" range:"(0,1e4]"`    // For a batch of 256: it grows with the batch, and follows a cosine to 0.
}

// DefaultAuthorsProbe is that of the authors.
func DefaultAuthorsProbe() AuthorsProbe {
	return AuthorsProbe{Epochs: 100, Batch: 1024, LearningRate: 1e-3}
}

// Protocol describes the classifier.
func (p AuthorsProbe) Protocol() string {
	return fmt.Sprintf("as DINO measures: linear layer on [CLS] of the last 4 blocks, or of the last and its mean patch token, random crops, SGD, %d epochs of batches of %d, rate %g per 256",
		p.Epochs, p.Batch, p.LearningRate)
}

// outputs are what the layer sees of a transformer.
func (p AuthorsProbe) outputs(v encoder.ViT) (o Outputs) {
	if v.Dim > 384 {
		return Outputs{Patches: true}
	}
	for block := max(1, v.Depth-3); block <= v.Depth; block++ {
		o.Blocks = append(o.Blocks, block)
	}
	return o
}

// joined are the outputs of an image as one feature.
func joined(all []Features) (feature []float32) {
	for _, f := range all {
		feature = append(feature, f.Class...)
		dim, places := len(f.Class), float32(f.Rows*f.Columns)
		mean := make([]float32, min(dim, len(f.Patches)))
		for i, x := range f.Patches {
			mean[i%dim] += x / places
		}
		feature = append(feature, mean...)
	}
	return feature
}

// order is the order of n images in an epoch.
func (p AuthorsProbe) order(seed uint64, epoch, n int) []int {
	return rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(n)
}

// leastCrop is the least area of a random crop, as a share of the image, and cropCanvas the longer side in pixels that larger images are shrunk to before.
const (
	leastCrop  = 0.08
	cropCanvas = 512
)

// crops yields random crops of the images of all epochs.
func (p AuthorsProbe) crops(ctx context.Context, e *Encoder, set datasets.Source, perEpoch, size int) iter.Seq2[Image, error] {
	return func(yield func(Image, error) bool) {
		for epoch := range p.Epochs {
			order := p.order(e.Seed, epoch, set.Len())[:perEpoch]
			for image, err := range datasets.InTurn(ctx, perEpoch, e.batch, func(i int) (Image, error) {
				return randomCrop(e, set, order[i], size, rand.New(rand.NewPCG(e.Seed, uint64(epoch)<<32|uint64(order[i]))))
			}) {
				if !yield(image, err) {
					return
				}
			}
		}
	}
}

// randomCrop reads a random crop of an image of a set. A picture of [datasets.ImageFolder] that cannot be read is black, as in [ImagesOf], which names it.
func randomCrop(e *Encoder, set datasets.Source, at, size int, rng *rand.Rand) (Image, error) {
	canvas := make([]uint8, cropCanvas*cropCanvas*3)
	read, err := set.Read(at, canvas, cropCanvas)
	if _, skipped := set.(*datasets.ImageFolder); skipped && err != nil {
		clear(canvas)
		read, err = datasets.Size{Height: cropCanvas, Width: cropCanvas}, nil
	}
	if err != nil {
		return Image{}, err
	}
	whole := &datasets.SegmentedImage{Height: read.Height, Width: read.Width}
	for row := range read.Height {
		whole.Pixels = append(whole.Pixels, canvas[3*row*cropCanvas:3*(row*cropCanvas+read.Width)]...)
	}
	pixels, _ := RandomResizedCrop{size, leastCrop}.Cut(whole, 0, rng)
	image := NewImage(pixels, datasets.Size{Height: size, Width: size}, e.Preprocessing)
	image.Name = nameOf(set, at)
	return image, nil
}

// Rank trains the layer on the first objects and returns for each of the second the top classes, most probable first. The seed draws the order of images and their crops.
func (p AuthorsProbe) Rank(ctx context.Context, e *Encoder, d Data, size, top int) (ranked [][]int32, err error) {
	n, outputs := d.Objects[0].Len(), p.outputs(e.ViT)
	batch := min(p.Batch, n)
	steps := n / batch
	next, stop := iter.Pull2(e.Extract(p.crops(ctx, e, d.Objects[0], steps*batch, size), outputs))
	defer stop()
	var order []int
	training := headTraining{
		name: "linear layer", steps: p.Epochs * steps, rate: p.LearningRate * float64(batch) / 256, momentum: 0.9, loss: classLoss(d.Classes),
		batch: func(step int) ([]any, error) {
			if step%steps == 0 {
				order = p.order(e.Seed, step/steps, n)
			}
			var features, counts []float32
			var labels []int32
			for _, i := range order[step%steps*batch:][:batch] {
				all, err, _ := next()
				if err != nil {
					return nil, err
				}
				features, counts, labels = append(features, joined(all)...), append(counts, 1), append(labels, d.Labels[0][i])
			}
			return []any{tensors.FromFlatDataAndDimensions(features, batch, len(features)/batch), labels, counts}, nil
		},
	}
	store := model.NewStore()
	defer store.Finalize()
	err = caught(func() error {
		if err := training.run(e.backend, store); err != nil {
			return err
		}
		var queries []float32
		tested := d.Objects[1].Len()
		for all, err := range e.Extract(ImagesOf(d.Objects[1], e.Preprocessing, size, tested, e.Skipped), outputs) {
			if err != nil {
				return err
			}
			queries = append(queries, joined(all)...)
		}
		ranked, err = rankedBy(e.backend, store, d.Classes, tensors.FromFlatDataAndDimensions(queries, tested, len(queries)/tested), top)
		return err
	})
	return ranked, err
}
