package evaluation

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// Overclustering clusters the patches of a dataset without labels and then names each cluster, as Leopart evaluates (Ziegler & Asano 2022): by the class that
// most of its pixels have or, where there are as many clusters as classes, by the one-to-one matching with the largest sum of IoUs. Clusters are found by
// spherical k-means: features have length 1, and are compared by cosine. Leopart standardises features, reduces them by PCA, and takes the best of five starts
// of Euclidean k-means.
type Overclustering struct {
	testImages
	Size       int `json:"size" range:"[1,8192]"`       // Side in pixels that images are resized to.
	Clusters   int `json:"clusters" range:"[2,2^16]"`   // 500 in Leopart's configurations, or the number of classes.
	Iterations int `json:"iterations" range:"[1,2^16]"` // Of Lloyd's algorithm, fewer if nothing changes any more.
}

// Clustered is the result of an overclustering.
type Clustered struct {
	Majority  metrics.Segmentation  `json:"majority"`
	Hungarian *metrics.Segmentation `json:"hungarian,omitempty"` // Nil unless there are as many clusters as classes.
}

// String has a line for people about each naming.
func (c Clustered) String() string {
	text := fmt.Sprintf("named by majority: mIoU %6.2f %%", c.Majority.MIoU)
	if c.Hungarian != nil {
		text += fmt.Sprintf("\nmatched one to one: mIoU %6.2f %%", c.Hungarian.MIoU)
	}
	return text
}

// Protocol describes the evaluation in one line.
func (o Overclustering) Protocol() string {
	return fmt.Sprintf("overclustering: spherical k-means of patches, %d clusters, images of %d² px, mIoU on the same images", o.Clusters, o.Size)
}

// Measure measures the mIoU of clusters that are named on the same images, with a report of [Clustered].
func (o Overclustering) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	try.E(e.fits(o.Size))
	clustered := try.E1(o.evaluate(ctx, e.backend, e.frozen(d.Test, o.Size), e.Seed))
	r.Report, r.Numbers = clustered, segmentationNumbers("", clustered.Majority)[:1]
	if clustered.Hungarian != nil {
		r.Numbers = append(r.Numbers, segmentationNumbers("_matched", *clustered.Hungarian)[0])
	}
	return r, nil
}

// evaluate clusters the patches of whole images and names the clusters on the same images. A pixel is in the cluster of its patch. Seed draws the first
// centres.
func (o Overclustering) evaluate(ctx context.Context, b compute.Backend, images FrozenFeatures, seed uint64) (_ Clustered, err error) {
	defer try.Handle(&err)
	dim, grid := images.Extractor.ViT.Dim, images.TestSize/images.Extractor.ViT.PatchSize
	features := make([]float32, 0, images.Images.Len()*grid*grid*dim)
	for patches, err := range images.All(ctx) {
		try.E(err)
		features = append(features, patches.Features...)
	}
	unitLength(features, dim)
	if n := len(features) / dim; n <= o.Clusters {
		return Clustered{}, fmt.Errorf("clusters %d: there are only %d patches", o.Clusters, n)
	}
	found := try.E1(o.cluster(ctx, b, features, dim, firstCentres(features, dim, o.Clusters, rand.New(rand.NewPCG(seed, 0)))))
	classes := len(images.Images.Classes)
	counts := make([]int64, o.Clusters*classes) // Pixels, [cluster, class].
	for i := range images.Images.Len() {
		a := try.E1(images.Images.Read(i))
		for p, class := range a.Mask {
			if class != datasets.Ignore {
				place := p/a.Width*grid/a.Height*grid + p%a.Width*grid/a.Width
				counts[int(found[i*grid*grid+place])*classes+int(class)]++
			}
		}
	}
	return nameClusters(counts, o.Clusters, classes)
}

// nameClusters scores clusters by their pixels of each class, [clusters, classes].
func nameClusters(counts []int64, clusters, classes int) (r Clustered, err error) {
	name := lo.Times(clusters, func(cluster int) int {
		row := counts[cluster*classes : (cluster+1)*classes]
		return slices.Index(row, slices.Max(row))
	})
	r.Majority = scoreNames(counts, name, classes)
	if math.IsNaN(r.Majority.Accuracy) {
		return r, errNotAnnotated
	}
	if clusters == classes {
		ofCluster, ofClass := make([]int64, classes), make([]int64, classes)
		for i, n := range counts {
			ofCluster[i/classes] += n
			ofClass[i%classes] += n
		}
		ious := lo.Map(counts, func(n int64, i int) float64 {
			return float64(n) / float64(max(ofCluster[i/classes]+ofClass[i%classes]-n, 1))
		})
		matched := scoreNames(counts, metrics.Assign(ious, classes), classes)
		r.Hungarian = &matched
	}
	return r, nil
}

// scoreNames is the segmentation in which every cluster has a class.
func scoreNames(counts []int64, name []int, classes int) metrics.Segmentation {
	confusion := metrics.NewConfusion(classes)
	for i, n := range counts {
		confusion.AddCount(i%classes, name[i/classes], n)
	}
	return confusion.Segmentation()
}

// unitLength scales rows to length 1; rows of zeros stay.
func unitLength(values []float32, dim int) {
	for from := 0; from < len(values); from += dim {
		norm := 0.0
		for _, x := range values[from : from+dim] {
			norm += float64(x) * float64(x)
		}
		if norm = math.Sqrt(norm); norm > 0 {
			for i := from; i < from+dim; i++ {
				values[i] = float32(float64(values[i]) / norm)
			}
		}
	}
}

// firstCentres draws centres by k-means++ (Arthur & Vassilvitskii 2007): each with a probability proportional to the squared distance to the nearest of
// those before.
func firstCentres(features []float32, dim, count int, rng *rand.Rand) []float32 {
	n := len(features) / dim
	row := func(i int) []float32 { return features[i*dim : (i+1)*dim] }
	nearest := slices.Repeat([]float64{math.Inf(1)}, n)
	centres := append([]float32{}, row(rng.IntN(n))...)
	for {
		last, total := centres[len(centres)-dim:], 0.0
		for i := range nearest {
			distance := 0.0
			for d, x := range row(i) {
				distance += float64(x-last[d]) * float64(x-last[d])
			}
			nearest[i] = min(nearest[i], distance)
			total += nearest[i]
		}
		if len(centres) == count*dim {
			return centres
		}
		left, chosen := rng.Float64()*total, n-1
		for i, distance := range nearest {
			if left -= distance; left < 0 {
				chosen = i
				break
			}
		}
		centres = append(centres, row(chosen)...)
	}
}

// cluster returns the cluster of each feature of length 1, by Lloyd's algorithm from the given centres. A cluster that loses all features keeps its centre.
func (o Overclustering) cluster(ctx context.Context, b compute.Backend, features []float32, dim int, centres []float32) (_ []int32, err error) {
	defer try.Handle(&err)
	var clusters []int32
	for range o.Iterations {
		bank := try.E1(knn.NewBank(b, centres, dim))
		found, err := bank.Find(ctx, features, 1)
		bank.Close()
		try.E(err)
		if slices.Equal(clusters, found.Indices) {
			break
		}
		clusters = found.Indices
		sums, members := make([]float64, len(centres)), make([]int, o.Clusters)
		for i, cluster := range clusters {
			members[cluster]++
			for d, x := range features[i*dim : (i+1)*dim] {
				sums[int(cluster)*dim+d] += float64(x)
			}
		}
		next := make([]float32, len(centres))
		for i := range next {
			if next[i] = centres[i]; members[i/dim] > 0 {
				next[i] = float32(sums[i] / float64(members[i/dim]))
			}
		}
		unitLength(next, dim)
		centres = next
	}
	return clusters, nil
}
