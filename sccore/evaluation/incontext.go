package evaluation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// InContext segments by the labels of the nearest patches in a memory, without training (Balažević et al. 2023, "Hummingbird", section 3): a patch of the
// test image attends, by the cosine of features over a temperature, to its nearest patches of training images, and takes the mean of their labels.
type InContext struct {
	trainAndTest
	Size        int     `json:"size" range:"[1,8192]"` // Side in pixels that images are resized to.
	Neighbours  int     `json:"neighbours" range:"[1,2^16]"`
	Temperature float64 `json:"temperature" range:"[1e-3,1e3]"`
	Memory      []int   `json:"memory" range:"[1,2^27]"` // Patches in the memory, as many of each image; fewer if there are fewer. Each size is measured.
}

// Protocol describes the evaluation in one line.
func (c InContext) Protocol() string {
	return fmt.Sprintf("in-context segmentation: %d nearest of %d patches, temperature %g, images of %d² px, mIoU at the masks' own size",
		c.Neighbours, c.Memory[len(c.Memory)-1], c.Temperature, c.Size)
}

// rememberedSegmentation is a segmentation by a memory of some size.
type rememberedSegmentation struct {
	Memory int `json:"memory"`
	metrics.Segmentation
}

// inContextReport has the segmentations by memories of all sizes.
type inContextReport []rememberedSegmentation

// String has a line for people about each.
func (r inContextReport) String() string {
	return strings.Join(lo.Map(r, func(n rememberedSegmentation, _ int) string {
		return fmt.Sprintf("memory of %8d patches: mIoU %6.2f %%, pixel accuracy %6.2f %%", n.Memory, n.MIoU, n.Accuracy)
	}), "\n")
}

// Measure measures mIoU and pixel accuracy with a memory of each size.
func (c InContext) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	try.E(e.fits(c.Size))
	var all inContextReport
	for i, size := range c.Memory {
		memory := try.E1(c.Remember(ctx, e.frozen(d.Train, c.Size), size))
		segmentation := try.E1(c.Evaluate(ctx, e.backend, memory, e.frozen(d.Test, c.Size)))
		held, name := len(memory.Features)/memory.Dim, lo.Ternary(len(c.Memory) > 1, fmt.Sprintf("@%d", size), "")
		r.Numbers = append(r.Numbers, segmentationNumbers(name, segmentation)...)
		all, r.Compared = append(all, rememberedSegmentation{held, segmentation}), &segmentation
		if i == len(c.Memory)-1 {
			c.Memory = []int{held}
		}
	}
	r.Report, r.Protocol = all, c.Protocol()
	return r, nil
}

// Memory holds patches of training images with their labels.
type Memory struct {
	Dim, Classes int
	Features     []float32 // [N, Dim]
	Labels       []float32 // [N, Classes]: the share of each class among the annotated pixels of the patch.
}

// Remember fills a memory of a size with patches of the images of train, of whole images. As in Balažević et al. 2023, appendix, each image gives the same number of
// patches, give or take one, rare classes of the image first: those with the lowest product of a uniform number and the summed frequencies of the patch's classes. Patches
// without annotated pixels are left out. The draw depends on train's seed and the image alone.
func (c InContext) Remember(ctx context.Context, train FrozenFeatures, size int) (_ *Memory, err error) {
	defer try.Handle(&err)
	which := datasets.Spread(train.Images.Len(), size) // A memory smaller than the number of images has one patch of some.
	images := len(which)
	quota := func(i int) int { return (i+1)*size/images - i*size/images } // They sum to size.
	grid := train.TestSize / train.Extractor.ViT.PatchSize
	m := &Memory{Dim: train.Extractor.ViT.Dim, Classes: len(train.Images.Classes)}
	most := min(size, grid*grid*images)
	m.Features, m.Labels = make([]float32, 0, most*m.Dim), make([]float32, 0, most*m.Classes)
	i := 0
	for patches, err := range train.Whole(ctx, which) {
		try.E(err)
		shares := classShares(patches.Image, grid, m.Classes)
		for _, p := range rareFirst(shares, m.Classes, quota(i), rand.New(rand.NewPCG(train.Seed, uint64(which[i])))) {
			m.Features = append(m.Features, patches.Features[p*m.Dim:(p+1)*m.Dim]...)
			m.Labels = append(m.Labels, shares[p*m.Classes:(p+1)*m.Classes]...)
		}
		i++
	}
	if len(m.Labels) == 0 {
		return nil, errNotAnnotated
	}
	return m, nil
}

// classShares returns the share of each class among the annotated pixels of each of grid×grid patches, [grid·grid, classes]; all 0 without such pixels.
func classShares(a *datasets.SegmentedImage, grid, classes int) []float32 {
	shares, _ := classCounts(a, grid, classes)
	for patch := range slices.Chunk(shares, classes) {
		annotated := max(lo.Sum(patch), 1)
		for class := range patch {
			patch[class] /= annotated
		}
	}
	return shares
}

// classCounts returns the pixels of each class in each of grid×grid patches, [grid·grid, classes], and all pixels of each patch, annotated or not.
func classCounts(a *datasets.SegmentedImage, grid, classes int) (counts, pixels []float32) {
	counts, pixels = make([]float32, grid*grid*classes), make([]float32, grid*grid)
	for y := range a.Height {
		for x := range a.Width {
			patch := y*grid/a.Height*grid + x*grid/a.Width
			pixels[patch]++
			if class := a.Mask[y*a.Width+x]; class != datasets.Ignore {
				counts[patch*classes+int(class)]++
			}
		}
	}
	return counts, pixels
}

// rareFirst draws at most count patches that have classes.
func rareFirst(shares []float32, classes, count int, rng *rand.Rand) []int {
	frequency := make([]float64, classes)
	for i, share := range shares {
		if share > 0 {
			frequency[i%classes]++
		}
	}
	var places []int
	scores := make([]float64, len(shares)/classes)
	for p := range scores {
		for class := range classes {
			if shares[p*classes+class] > 0 {
				scores[p] += frequency[class]
			}
		}
		if scores[p] > 0 {
			scores[p] *= rng.Float64()
			places = append(places, p)
		}
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	return places[:min(count, len(places))]
}

// Label returns the labels that patches take from a memory in which bank searches, [Q, Classes]: the sum over the nearest patches of the softmax of
// cosine over temperature, times their labels. Queries are [Q, Dim].
func (c InContext) Label(ctx context.Context, bank *knn.Bank, m *Memory, queries []float32) (labels []float32, err error) {
	defer try.Handle(&err)
	found := try.E1(bank.Find(ctx, queries, min(c.Neighbours, bank.Len())))
	labels = make([]float32, len(found.Indices)/found.K*m.Classes)
	sums := make([]float64, m.Classes)
	for q := range len(labels) / m.Classes {
		clear(sums)
		similarities, total := found.Similarities[q*found.K:(q+1)*found.K], 0.0
		for j, s := range similarities {
			weight := math.Exp(float64(s-similarities[0]) / c.Temperature)
			total += weight
			at := int(found.Indices[q*found.K+j]) * m.Classes
			for class, share := range m.Labels[at : at+m.Classes] {
				sums[class] += weight * float64(share)
			}
		}
		for class, sum := range sums {
			labels[q*m.Classes+class] = float32(sum / total)
		}
	}
	return labels, nil
}

// Evaluate segments the images of test by a memory. Labels of patches are resized to the annotation bilinearly, and the largest is the prediction.
func (c InContext) Evaluate(ctx context.Context, b compute.Backend, m *Memory, test FrozenFeatures) (_ metrics.Segmentation, err error) {
	defer try.Handle(&err)
	bank := try.E1(knn.NewBank(b, m.Features, m.Dim))
	defer bank.Close()
	grid := test.TestSize / test.Extractor.ViT.PatchSize
	confusion := metrics.NewConfusion(m.Classes)
	var waiting []float32 // Features of images that are not segmented yet; a search is fast for many at once.
	var images []*datasets.SegmentedImage
	done := 0
	for patches, err := range test.All(ctx) {
		try.E(err)
		waiting, images = append(waiting, patches.Features...), append(images, patches.Image)
		if done++; len(waiting) < 4096*m.Dim && done < test.Images.Len() {
			continue
		}
		labels := try.E1(c.Label(ctx, bank, m, waiting))
		for i, a := range images {
			one := labels[i*grid*grid*m.Classes : (i+1)*grid*grid*m.Classes]
			try.E(confusion.Add(a.Mask, heads.PredictPixels(one, grid, grid, m.Classes, a.Height, a.Width)))
		}
		waiting, images = waiting[:0], images[:0]
	}
	return annotated(confusion)
}
