package evaluation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// PatchRecall classifies single patches, every class counting the same. It sees what mIoU hides where one class covers most pixels: a linear head that
// answers background everywhere has a high accuracy and the mIoU of any other weak encoder, but the recall of chance.
//
// A patch counts if one class covers enough of its pixels. Training takes equally many patches of each class. Recall is the mean over classes of the share of
// their patches that are classified correctly, so chance is 100 % over the number of classes.
type PatchRecall struct {
	trainAndTest
	Size     int            `json:"size" range:"[1,8192]"`      // Side in pixels that images are resized to.
	Purity   float64        `json:"purity" range:"(0.5,1]"`     // The least share of a patch's pixels that its class covers, above 0.5 and at most 1.
	PerClass int            `json:"per_class" range:"[1,2^20]"` // The most patches of a class, in training and in testing. In training each class gives as many as the rarest.
	Least    int            `json:"least" range:"[0,2^20]"`     // Classes with fewer patches, in training or in testing, are left out; 0 leaves out none.
	Probe    PatchProbe     `json:"probe"`                      // The linear classifier.
	KNN      knn.Classifier `json:"knn"`                        // The classifier that trains nothing.
}

// DefaultPatchRecall takes up to 4,000 patches of each class, which covers at least 60 % of each.
func DefaultPatchRecall() PatchRecall {
	return PatchRecall{Size: 448, Purity: 0.6, PerClass: 4000, Probe: DefaultPatchProbe(), KNN: knn.DINOClassifier()}
}

// Rules returns an error for settings that contradict each other.
func (p PatchRecall) Rules() error {
	if p.Least > p.PerClass {
		return fmt.Errorf("least %d is above per_class %d", p.Least, p.PerClass)
	}
	return nil
}

// Protocol describes the evaluation in one line.
func (p PatchRecall) Protocol() string {
	least := lo.Ternary(p.Least > 0, fmt.Sprintf("without classes of fewer than %d; ", p.Least), "")
	return fmt.Sprintf("mean recall of classes over patches that one class covers by %g %% of the pixels, at most %d a class and as many of each in training; "+least+
		"linear probe of %d steps of %d patches, and %s; images of %d² px",
		100*p.Purity, p.PerClass, p.Probe.Steps, p.Probe.Batch, p.KNN.Protocol(""), p.Size)
}

// Recall is the mean recall of classes, in percent.
//
// The standard errors are those of the test patches, as if these were drawn independently: the variance of a class of n patches, k of them right, is p(1−p)/n
// with p = (k+1)/(n+2), so that few patches that are all right count as uncertain; the error of the mean over C classes is the root of the summed variances
// over C. They do not include the choice of training patches, and patches of an image are alike, so the true spread is larger.
type Recall struct {
	Classes     int     `json:"classes"`
	Chance      float64 `json:"chance"`
	Training    int     `json:"training"` // Patches of each class.
	Test        int     `json:"test"`     // Patches of all classes.
	Linear      float64 `json:"linear"`
	LinearError float64 `json:"linear_error"`
	KNN         float64 `json:"knn"`
	KNNError    float64 `json:"knn_error"`
}

// PatchRecalls are the recalls of all classes, and of those without background where the first class is background; nil elsewhere.
type PatchRecalls struct {
	All        Recall   `json:"all"`
	Foreground *Recall  `json:"foreground,omitempty"`
	Names      []string `json:"names"` // The classes that count.
	// ByImage are the counts of the test images behind three recalls: linear, k-NN, and linear without background.
	ByImage [3]stats.ByImage `json:"-"`
}

// String has a line for people about each.
func (r PatchRecalls) String() string {
	line := func(which string, recall Recall) string {
		return fmt.Sprintf("%-18s mean recall: linear %5.1f ± %.1f %%, k-NN %5.1f ± %.1f %%, chance %.1f %%; %s of each class, %s\n",
			which, recall.Linear, recall.LinearError, recall.KNN, recall.KNNError, recall.Chance,
			plural.Count(recall.Training, "training patch"), plural.Count(recall.Test, "test patch"))
	}
	text := line(plural.Count(r.All.Classes, "class"), r.All)
	if r.Foreground != nil {
		text += line("without background", *r.Foreground)
	}
	return text + "± is the standard error over test patches, as if they were independent; patches of an image are not, so it is rather larger"
}

// Measure measures the recall of both classifiers, with a report of [PatchRecalls].
func (p PatchRecall) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	try.E(e.fits(p.Size))
	recalls := try.E1(p.Evaluate(ctx, e.backend, e.frozen(d.Train, p.Size), e.frozen(d.Test, p.Size)))
	r.Report, r.Protocol = recalls, fmt.Sprintf("%s; classes %s", p.Protocol(), strings.Join(recalls.Names, ", "))
	number := func(name string, images stats.ByImage, value func(Recall) float64) {
		details := map[string]float64{
			"chance": recalls.All.Chance, "training_patches_per_class": float64(recalls.All.Training), "test_patches": float64(recalls.All.Test),
		}
		if f := recalls.Foreground; f != nil {
			details["foreground"], details["foreground_chance"], details["foreground_training_patches_per_class"] = value(*f), f.Chance, float64(f.Training)
		}
		r.Numbers = append(r.Numbers, Number{Name: name, Metric: "recall", Unit: "%", Value: value(recalls.All), Details: details, Images: images})
	}
	number("linear", recalls.ByImage[0], func(r Recall) float64 { return r.Linear })
	number("k-NN", recalls.ByImage[1], func(r Recall) float64 { return r.KNN })
	return r, nil
}

// Evaluate classifies the patches of whole images: those of test, by those of train. train's seed draws the patches of both and the probe's batches. A class
// without a training patch is an error unless Least leaves it out, and so is a single class, of which recall is always 100 %. Where no class has more than
// PerClass patches, all of them are held and the seed draws the probe's batches alone.
func (p PatchRecall) Evaluate(ctx context.Context, b compute.Backend, train, test FrozenFeatures) (r PatchRecalls, err error) {
	defer try.Handle(&err)
	classes := train.Images.Classes
	if len(classes) < 2 {
		return r, fmt.Errorf("%s: recall of one class says nothing, want two or more", train.Images.Name)
	}
	known, _ := try.E2(p.draw(ctx, train))
	for class, features := range known {
		if len(features) == 0 && p.Least == 0 {
			there := lo.Filter(classes, func(_ string, other int) bool { return len(known[other]) > 0 })
			return r, fmt.Errorf("%s: no patch has %g %% of %q: choose the classes that count; those with patches are %s",
				train.Images.Name, 100*p.Purity, classes[class], cmp.Or(strings.Join(there, ","), "none"))
		}
	}
	asked, images := try.E2(p.draw(ctx, test))
	for class, name := range classes {
		if min(len(known[class]), len(asked[class])) >= p.Least {
			known[len(r.Names)], asked[len(r.Names)], images[len(r.Names)] = known[class], asked[class], images[class]
			r.Names = append(r.Names, name)
		}
	}
	if len(r.Names) < 2 {
		return r, fmt.Errorf("%s: fewer than two classes have at least %d patches, in training and in testing", train.Images.Name, p.Least)
	}
	known, asked, images = known[:len(r.Names)], asked[:len(r.Names)], images[:len(r.Names)]
	var counts [2]stats.ByImage
	r.All, counts, err = p.classify(b, known, asked, images, test.Images.Len(), train.Seed)
	if r.ByImage[0], r.ByImage[1] = counts[0], counts[1]; err != nil || r.Names[0] != "background" || len(r.Names) < 3 {
		return r, err
	}
	foreground, counts, err := p.classify(b, known[1:], asked[1:], images[1:], test.Images.Len(), train.Seed)
	r.Foreground, r.ByImage[2] = &foreground, counts[0]
	return r, err
}

// draw returns features of patches by class, and the images that they are of: of each class, as many as are drawn without preference from all of its patches.
func (p PatchRecall) draw(ctx context.Context, set FrozenFeatures) (drawn [][][]float32, images [][]int, err error) {
	classes := len(set.Images.Classes)
	grid := set.TestSize / set.Extractor.ViT.PatchSize
	drawn, images = make([][][]float32, classes), make([][]int, classes)
	image, seen, rng := -1, make([]int, classes), rand.New(rand.NewPCG(set.Seed, uint64(p.PerClass)))
	pure := func(of Patches) []uint8 {
		image++
		return pureClasses(of.Image, grid, classes, p.Purity)
	}
	_, err = eachPatch(set.All(ctx), pure, func(feature []float32, class uint8) {
		seen[class]++
		if len(drawn[class]) < p.PerClass {
			drawn[class], images[class] = append(drawn[class], slices.Clone(feature)), append(images[class], image)
		} else if at := rng.IntN(seen[class]); at < p.PerClass { // So each of those seen is held with the same probability.
			drawn[class][at], images[class][at] = slices.Clone(feature), image
		}
	})
	if err != nil && !errors.Is(err, errNotAnnotated) { // The caller says which classes have patches.
		return nil, nil, err
	}
	return drawn, images, nil
}

// pureClasses returns the class of each of grid×grid patches that covers at least the share purity of all its pixels, or [datasets.Ignore] without one.
func pureClasses(a *datasets.SegmentedImage, grid, classes int, purity float64) []uint8 {
	counts, pixels := classCounts(a, grid, classes)
	pure := make([]uint8, grid*grid)
	for patch := range pure {
		pure[patch] = datasets.Ignore
		for class, count := range counts[patch*classes : (patch+1)*classes] {
			if count > 0 && float64(count) >= purity*float64(pixels[patch]) {
				pure[patch] = uint8(class)
			}
		}
	}
	return pure
}

// classify measures both classifiers on patches by class. images tells from which of count images each asked patch is. counts are by image, first of the linear
// classifier, then of k-NN.
func (p PatchRecall) classify(b compute.Backend, known, asked [][][]float32, images [][]int, count int, seed uint64) (r Recall, counts [2]stats.ByImage, err error) {
	defer try.Handle(&err)
	classes := len(known)
	r = Recall{Classes: classes, Chance: 100 / float64(classes), Training: min(p.PerClass, lo.Min(lo.Map(known, func(of [][]float32, _ int) int { return len(of) })))}
	var balanced [][][]float32
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, features := range known {
		if len(features) > r.Training { // The first would come from the first images.
			features = slices.Clone(features)
			rng.Shuffle(len(features), func(i, j int) { features[i], features[j] = features[j], features[i] })
		}
		balanced = append(balanced, features[:r.Training])
	}
	train, test := asPatches(balanced), asPatches(asked)
	if len(test.Truth) == 0 {
		return r, counts, errNotAnnotated
	}
	said := try.E1(p.Probe.predict(b, train, test, classes, seed))
	labels := lo.Map(train.Truth, func(class uint8, _ int) int32 { return int32(class) })
	predicted := try.E1(p.KNN.Rank(b, knn.Labelled{Features: train.Patches, Dim: train.Dim, Labels: labels, Classes: classes}, test.Patches, 1))
	linear, nearest, of := metrics.NewConfusion(classes), metrics.NewConfusion(classes), slices.Concat(images...)
	counts = [2]stats.ByImage{make(stats.ByImage, count), make(stats.ByImage, count)}
	for i, class := range test.Truth {
		linear.AddCount(int(class), int(said[i]), 1)
		nearest.AddCount(int(class), int(predicted[i][0]), 1)
		counts[0].Add(of[i], int(class), said[i] == class)
		counts[1].Add(of[i], int(class), predicted[i][0] == int32(class))
	}
	r.Test, r.Linear, r.LinearError = len(test.Truth), linear.Recall(), recallError(linear)
	r.KNN, r.KNNError = nearest.Recall(), recallError(nearest)
	return r, counts, nil
}

// recallError is the standard error of a mean recall in percent; see [Recall].
func recallError(counts *metrics.Confusion) float64 {
	variance, occurring := 0.0, 0
	for class, patches := range counts.Segmentation().Pixels {
		if patches > 0 {
			share := float64(counts.At(class, class)+1) / float64(patches+2)
			variance += share * (1 - share) / float64(patches)
			occurring++
		}
	}
	return 100 * math.Sqrt(variance) / float64(occurring)
}

// asPatches lists patches, one class after the other, as annotated images of one patch and one pixel.
func asPatches(byClass [][][]float32) AnnotatedPatches {
	a := AnnotatedPatches{Rows: 1, Columns: 1, Height: 1, Width: 1}
	for class, features := range byClass {
		for _, feature := range features {
			a.Dim = len(feature)
			a.Patches = append(a.Patches, feature...)
			a.Truth = append(a.Truth, uint8(class))
		}
	}
	return a
}
