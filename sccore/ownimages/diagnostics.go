package ownimages

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/safetensors"
)

// Diagnostics say what has become of the encoder, measured on images that are held out of training.
type Diagnostics struct {
	Rank       float64 `json:"rank"`       // Effective rank of patch features; see metrics.Spread.
	Std        float64 `json:"std"`        // Their spread over the sphere; 0 if they have collapsed.
	Similarity float64 `json:"similarity"` // Linear CKA of patch features with the initial encoder's; see metrics.Similarity.
	Cosine     float64 `json:"cosine"`     // Mean cosine of patch features with the initial encoder's.
	Kept       float64 `json:"kept"`       // Share of a patch's ten nearest patches that the initial encoder also has; see metrics.Similarity.
	KNN        float64 `json:"knn"`        // k-NN accuracy over class folders in %; 0 without them.
}

// Point is a moment of a run: after step 0, before anything was trained, the diagnostics alone.
type Point struct {
	sccore.StepMetrics
	Diagnostics *Diagnostics `json:"gauges,omitempty"`
}

// Bounds of the verdict on an encoder that began as a trained one, and of the rank of one that began with random weights.
const (
	leastSimilarity  = 0.5
	leastKept        = 0.2
	leastRankShare   = 0.6
	leastRandomShare = 0.25
)

// Damage says how diagnostics differ from the initial ones so much that training damages the encoder, or nothing. Features of a damaged encoder have little in
// common with the initial ones, or use far fewer dimensions. Features of random weights have nothing to lose but their rank.
func (d Diagnostics) Damage(initial Diagnostics, pretrained bool) string {
	share := lo.Ternary(pretrained, leastRankShare, leastRandomShare)
	switch {
	case pretrained && d.Similarity < leastSimilarity:
		return fmt.Sprintf("features have little in common with the initial ones: similarity %.2f, below %g", d.Similarity, leastSimilarity)
	case pretrained && d.Kept < leastKept:
		return fmt.Sprintf("patches have lost their neighbours: %.2f of them are kept, below %g", d.Kept, leastKept)
	case d.Rank < share*initial.Rank:
		return fmt.Sprintf("features collapse: effective rank %.1f, below %g of the initial %.1f", d.Rank, share, initial.Rank)
	}
	return ""
}

// verdict judges the encoders of a run.
type verdict struct {
	pretrained       bool
	classes, queries int // Class folders, 0 for none, and the images that their k-NN accuracy is measured on.
}

// measured returns the points with diagnostics.
func measured(curve []Point) []Point {
	return lo.Filter(curve, func(p Point, _ int) bool { return p.Diagnostics != nil })
}

// damage is the damage of the encoder at a point of a curve.
func (v verdict) damage(curve []Point, p Point) string {
	return p.Diagnostics.Damage(*measured(curve)[0].Diagnostics, v.pretrained)
}

// significant is the accuracy in % that guessing one of the classes exceeds once in about a thousand times.
func (v verdict) significant() float64 {
	chance := 1 / float64(max(v.classes, 1))
	return 100 * (chance + 3*math.Sqrt(chance*(1-chance)/float64(max(v.queries, 1))))
}

// best returns the point of the best encoder, and whether k-NN accuracy has decided; ok is false if there is none. Damaged encoders do not count, nor does the first
// point, which is no training. The encoder of the highest k-NN accuracy is best if one exceeds guessing significantly; else the last one, since nothing says which is better.
func (v verdict) best(curve []Point) (best Point, byKNN, ok bool) {
	points := measured(curve)
	for _, p := range points[min(1, len(points)):] {
		if v.damage(curve, p) != "" {
			continue
		}
		decides := v.classes > 0 && p.Diagnostics.KNN > v.significant()
		if !byKNN || decides && p.Diagnostics.KNN > best.Diagnostics.KNN {
			best, ok = p, true
		}
		byKNN = byKNN || decides
	}
	return best, byKNN, ok
}

// improved reports whether the last point of a curve has the best encoder so far.
func (v verdict) improved(curve []Point) bool {
	best, _, ok := v.best(curve)
	return ok && best.Diagnostics == curve[len(curve)-1].Diagnostics
}

// damagedBefore returns the first step before the last point whose diagnostics showed the same damage as the last one's, but for the numbers.
func (v verdict) damagedBefore(curve []Point, damage string) (step int, found bool) {
	points := measured(curve)
	kind, _, _ := strings.Cut(damage, ":")
	p, found := lo.Find(points[:len(points)-1], func(p Point) bool { before, _, _ := strings.Cut(v.damage(curve, p), ":"); return before == kind })
	return p.Step, found
}

// rule says what makes an encoder of the run the best, in two words and in a sentence.
func (v verdict) rule(curve []Point) (short, sentence string) {
	const last = "Best is the last encoder that no diagnostic calls damaged."
	_, byKNN, _ := v.best(curve)
	switch {
	case v.classes == 0:
		return "last undamaged", "There are no class folders, so there is no k-NN accuracy. " + last
	case byKNN:
		return "by k-NN", "Best is the encoder of the highest k-NN accuracy that no diagnostic calls damaged."
	case v.significant() >= 100:
		return "last undamaged", "So few held-out images cannot tell k-NN from guessing, so it does not decide. " + last
	}
	return "last undamaged", fmt.Sprintf("No undamaged encoder has a k-NN accuracy above %.1f %%, guessing plus three standard errors, so k-NN does not decide. %s", v.significant(), last)
}

// patchImages and mostPatches bound the patches that are compared: CKA takes time quadratic in the width.
const (
	patchImages = 64
	mostPatches = 4096
)

// measure measures the encoder as it is.
func (r *run) measure(ctx context.Context) (_ *Diagnostics, err error) {
	defer try.Handle(&err)
	path := r.path(initialPatches)
	named, _ := try.E2(safetensors.Read(path))
	if named["patches"] == nil {
		return nil, fmt.Errorf("%s: has no features", path)
	}
	initial := try.E1(tensors.CopyFlatData[float32](named["patches"]))
	patches := try.E1(r.patches(ctx))
	dim := r.trainer.Frozen.ViT.Dim
	spread := try.E1(metrics.MeasureSpread(patches, dim))
	similarity := try.E1(metrics.MeasureSimilarity(patches, initial, dim))
	d := &Diagnostics{Rank: spread.Rank, Std: spread.Std, Similarity: similarity.CKA, Cosine: similarity.Cosine, Kept: similarity.Kept}
	if im := r.images; im.classes != nil {
		labelled := evaluation.Data{
			Objects: [2]datasets.Source{im.bank, im.queries}, Labels: [2][]int32{im.bank.Labels, im.queries.Labels}, Classes: len(im.classes),
		}
		e := &evaluation.Encoder{FeatureExtractor: r.trainer.Frozen}
		result := try.E1(evaluation.KNN{Classifier: knn.DINOClassifier(), Size: im.measured}.Measure(ctx, e, labelled))
		d.KNN = result.Numbers[0].Value
	}
	return d, nil
}

// patches returns the features of patches of held-out images, evenly spread.
func (r *run) patches(ctx context.Context) (chosen []float32, err error) {
	defer try.Handle(&err)
	encoded := try.E1(evaluation.Encode(ctx, r.trainer.Frozen, r.images.held, r.images.measured, min(r.images.held.Len(), patchImages), true))
	for _, i := range datasets.Spread(len(encoded.Patches)/encoded.Dim, mostPatches) {
		chosen = append(chosen, encoded.Patches[i*encoded.Dim:(i+1)*encoded.Dim]...)
	}
	return chosen, ctx.Err()
}
