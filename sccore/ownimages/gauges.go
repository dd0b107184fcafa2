package ownimages

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/safetensors"
)

// Gauges say what has become of the encoder, measured on images that are held out of training.
type Gauges struct {
	Rank       float64 `json:"rank"`       // Effective rank of patch features; see metrics.Spread.
	Std        float64 `json:"std"`        // Their spread over the sphere; 0 if they have collapsed.
	Similarity float64 `json:"similarity"` // Linear CKA of patch features with those of the initial encoder; see metrics.Similarity.
	Cosine     float64 `json:"cosine"`     // Mean cosine of patch features with those of the initial encoder.
	Kept       float64 `json:"kept"`       // Share of a patch's ten nearest patches that are those of the initial encoder; see metrics.Similarity.
	KNN        float64 `json:"knn"`        // k-NN accuracy over class folders in %; 0 without them.
}

// Point is a moment of a run: after step 0, before anything was trained, the gauges alone.
type Point struct {
	sccore.StepMetrics
	Gauges *Gauges `json:"gauges,omitempty"`
}

// Bounds of the verdict on an encoder that began as a trained one, and of the rank of one that began with random weights.
const (
	leastSimilarity  = 0.5
	leastKept        = 0.2
	leastRankShare   = 0.6
	leastRandomShare = 0.25
)

// Damage says how gauges differ from the initial ones so much that training damages the encoder, or nothing. Features of a damaged encoder have little in
// common with the initial ones, or use far fewer dimensions. Features of random weights have nothing to lose but their rank.
func (g Gauges) Damage(initial Gauges, pretrained bool) string {
	share := leastRandomShare
	if pretrained {
		share = leastRankShare
	}
	switch {
	case pretrained && g.Similarity < leastSimilarity:
		return fmt.Sprintf("features have little in common with the initial ones: similarity %.2f, below %g", g.Similarity, leastSimilarity)
	case pretrained && g.Kept < leastKept:
		return fmt.Sprintf("patches have lost their neighbours: %.2f of them are kept, below %g", g.Kept, leastKept)
	case g.Rank < share*initial.Rank:
		return fmt.Sprintf("features collapse: effective rank %.1f, below %g of the initial %.1f", g.Rank, share, initial.Rank)
	}
	return ""
}

// Curve is a run so far.
type Curve []Point

// gauged returns the points with gauges.
func (c Curve) gauged() (points []Point) {
	for _, p := range c {
		if p.Gauges != nil {
			points = append(points, p)
		}
	}
	return points
}

// improved reports whether the last point has the best encoder so far. Damaged encoders do not count, nor does the first point, which is no training. The
// encoder of the highest k-NN accuracy is best, if k-NN decides; else the last one, since nothing says which is better.
func (c Curve) improved(pretrained bool, classes, queries int) bool {
	points := c.gauged()
	if len(points) < 2 {
		return false
	}
	initial, last := *points[0].Gauges, *points[len(points)-1].Gauges
	if last.Damage(initial, pretrained) != "" {
		return false
	}
	decides := classes > 0 && last.KNN > significant(classes, queries)
	for _, p := range points[1 : len(points)-1] {
		if p.Gauges.Damage(initial, pretrained) != "" || classes == 0 || p.Gauges.KNN <= significant(classes, queries) {
			continue
		}
		if !decides || p.Gauges.KNN >= last.KNN {
			return false
		}
	}
	return true
}

// decidedByKNN reports whether k-NN accuracy decides which encoder is best: whether, with class folders, that of any undamaged one after the first point
// exceeds guessing significantly.
func (c Curve) decidedByKNN(pretrained bool, classes, queries int) bool {
	points := c.gauged()
	return classes > 0 && len(points) > 1 && slices.ContainsFunc(points[1:], func(p Point) bool {
		return p.Gauges.KNN > significant(classes, queries) && p.Gauges.Damage(*points[0].Gauges, pretrained) == ""
	})
}

// damagedBefore returns the first step before the last point whose gauges showed the same damage as the last one's, but for the numbers.
func (c Curve) damagedBefore(damage string, pretrained bool) (step int, found bool) {
	points := c.gauged()
	kind, _, _ := strings.Cut(damage, ":")
	for _, p := range points[:len(points)-1] {
		if before, _, _ := strings.Cut(p.Gauges.Damage(*points[0].Gauges, pretrained), ":"); before == kind {
			return p.Step, true
		}
	}
	return 0, false
}

// significant is the accuracy in % that guessing one of the classes for so many images exceeds once in about a thousand times.
func significant(classes, queries int) float64 {
	chance := 1 / float64(classes)
	return 100 * (chance + 3*math.Sqrt(chance*(1-chance)/float64(queries)))
}

// meter measures gauges.
type meter struct {
	backend   compute.Backend
	extractor *evaluation.FeatureExtractor // Of the encoder that is trained.
	images    *Images
	initial   []float32 // Patch features of the initial encoder.
}

// patchImages and mostPatches bound the patches that are compared: CKA takes time quadratic in the width.
const (
	patchImages = 64
	mostPatches = 4096
)

// measure measures the encoder as it is.
func (m *meter) measure(ctx context.Context) (*Gauges, error) {
	patches, err := m.patches(ctx)
	if err != nil {
		return nil, err
	}
	dim := m.extractor.ViT.Dim
	spread, err := metrics.MeasureSpread(tensors.FromFlatDataAndDimensions(patches, len(patches)/dim, dim))
	if err != nil {
		return nil, err
	}
	similarity, err := metrics.MeasureSimilarity(patches, m.initial, dim)
	if err != nil {
		return nil, err
	}
	g := &Gauges{Rank: spread.Rank, Std: spread.Std, Similarity: similarity.CKA, Cosine: similarity.Cosine, Kept: similarity.Kept}
	if m.images.classes != nil {
		if g.KNN, err = m.accuracy(ctx); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// patches returns the features of patches of held-out images, evenly spread.
func (m *meter) patches(ctx context.Context) ([]float32, error) {
	held := m.images.held
	encoded, err := evaluation.Encode(m.extractor, held, m.images.measured, min(held.Len(), patchImages), true)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var chosen []float32
	for _, i := range datasets.Spread(len(encoded.Patches)/encoded.Dim, mostPatches) {
		chosen = append(chosen, encoded.Patches[i*encoded.Dim:(i+1)*encoded.Dim]...)
	}
	return chosen, nil
}

// accuracy is the k-NN accuracy on held-out images, in %.
func (m *meter) accuracy(ctx context.Context) (float64, error) {
	class, err := evaluation.EncodeObjects(m.extractor, [2]datasets.Source{m.images.bank, m.images.queries}, m.images.measured)
	if err != nil {
		return 0, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	classifier := knn.DINOClassifier()
	predictions, err := classifier.Predict(m.backend, class[0], m.images.bank.Labels, len(m.images.classes), class[1])
	if err != nil {
		return 0, err
	}
	return metrics.Accuracy(predictions, m.images.queries.Labels), nil
}

// saveInitial measures and writes what later gauges are compared with.
func (m *meter) saveInitial(ctx context.Context, path string) (err error) {
	if m.initial, err = m.patches(ctx); err != nil {
		return err
	}
	dim := m.extractor.ViT.Dim
	features := tensors.FromFlatDataAndDimensions(m.initial, len(m.initial)/dim, dim)
	return safetensors.Write(path, map[string]*tensors.Tensor{"patches": features}, nil)
}

// readInitial reads what saveInitial wrote.
func (m *meter) readInitial(path string) error {
	named, _, err := safetensors.Read(path)
	if err != nil {
		return err
	}
	if named["patches"] == nil {
		return fmt.Errorf("%s: has no features", path)
	}
	m.initial, err = tensors.CopyFlatData[float32](named["patches"])
	return err
}
