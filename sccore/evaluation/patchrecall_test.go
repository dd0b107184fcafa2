package evaluation

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func TestPureClasses(t *testing.T) {
	const void = datasets.Ignore
	a := &datasets.SegmentedImage{Height: 4, Width: 5, Mask: []uint8{ // Columns 0 to 2 and 3 to 4.
		1, 1, 0, 2, 2,
		1, 1, 0, 2, void,
		0, 0, 0, void, void,
		0, 0, 1, void, 2,
	}}
	for purity, want := range map[float64][]uint8{0.6: {1, 2, 0, void}, 0.75: {void, 2, 0, void}, 0.8: {void, void, 0, void}, 1: {void, void, void, void}} {
		if got := pureClasses(a, 2, 3, purity); !slices.Equal(got, want) {
			t.Errorf("purity %g: %v, want %v", purity, got, want)
		}
	}
}

// recallSets are scenes to train and to test on. Where strangers is set, each has the annotation of another scene.
func recallSets(frozen *FeatureExtractor, strangers bool) (sets [2]FrozenFeatures) {
	for i := range sets {
		scenes := synthetic.Scenes(40, 32, uint64(3+i)).Segmentation()
		images := datasets.NewSegmentation("scenes", scenes.Classes, "", scenes.Len(), func(i int) (*datasets.SegmentedImage, error) {
			a, err := scenes.Read(i)
			if err != nil || !strangers {
				return a, err
			}
			other, err := scenes.Read((i + 7) % scenes.Len())
			if err != nil {
				return nil, err
			}
			mixed := *a
			mixed.Mask = other.Mask
			return &mixed, nil
		})
		sets[i] = FrozenFeatures{Extractor: frozen, Images: images, TestSize: 32}
	}
	return sets
}

func TestPatchRecall(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		v, store, err := RandomViT("vit-32x1x2p4", 0)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Finalize()
		frozen, err := NewFeatureExtractor(b, v, store, "/", 8)
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		recall := DefaultPatchRecall()
		recall.Probe.Steps = 300
		measure := func(strangers bool) PatchRecalls {
			sets := recallSets(frozen, strangers)
			r, err := recall.Evaluate(t.Context(), b, sets[0], sets[1])
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []float64{r.All.Linear, r.All.KNN, r.Foreground.Linear} {
				if got := r.ByImage[i].Score(nil); len(r.ByImage[i]) != 40 || !(math.Abs(got-want) <= 1e-9) {
					t.Errorf("recall %d by image is %g of %d images, want %g of 40", i, got, len(r.ByImage[i]), want)
				}
			}
			if r.Foreground == nil || r.All.Classes != 7 || r.Foreground.Classes != 6 || r.All.Training < 20 {
				t.Fatalf("%+v", r)
			}
			return r
		}
		own, other := measure(false), measure(true)
		for name, pair := range map[string][2]Recall{"all": {own.All, other.All}, "foreground": {*own.Foreground, *other.Foreground}} {
			own, other := pair[0], pair[1]
			if own.Linear < own.Chance+12 || own.KNN < own.Chance+12 {
				t.Errorf("%s: %+v is not above chance", name, own)
			}
			if !(math.Abs(other.Linear-other.Chance) <= 9) || !(math.Abs(other.KNN-other.Chance) <= 9) {
				t.Errorf("%s: with the annotation of other scenes %+v, far from chance", name, other)
			}
		}
		if again := measure(false); again.All != own.All || *again.Foreground != *own.Foreground {
			t.Error("measured twice, the numbers differ")
		}
	})
}

// Testing may hold any number of each class: recall is that of classes, not of patches.
func TestPatchRecallCountsClassesEqually(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		classes := func(counts ...int) (byClass [][][]float32) {
			for class, count := range counts {
				var features [][]float32
				for i := range count {
					feature := []float32{0, 0, 0, 0.01 * float32(i%5)}
					feature[class] = 1
					if class == 2 && i%2 == 1 { // Half of class 2 looks like class 0.
						feature[0], feature[2] = 1, 0
					}
					features = append(features, feature)
				}
				byClass = append(byClass, features)
			}
			return byClass
		}
		known := classes(60, 50, 0)
		known[2] = slices.Repeat([][]float32{{0, 0, 1, 0}}, 40)
		images := [][]int{make([]int, 300), make([]int, 30), make([]int, 10)} // Every other patch is of the second of three images.
		for _, of := range images {
			for i := range of {
				of[i] = i % 2
			}
		}
		r, counts, err := DefaultPatchRecall().classify(b, known, classes(300, 30, 10), images, 3, 0)
		for i, of := range counts {
			want := stats.ByImage{{{0, 150, 150}, {1, 15, 15}, {2, 5, 5}}, {{0, 150, 150}, {1, 15, 15}, {2, 0, 5}}, nil}
			if !reflect.DeepEqual(of, want) || !(math.Abs(of.Score(nil)-[]float64{r.Linear, r.KNN}[i]) <= 1e-9) {
				t.Errorf("counts by image %v, want %v", of, want)
			}
		}
		if want := 100 * (1 + 1 + 0.5) / 3.; err != nil || !(math.Abs(r.Linear-want) <= 1e-9) || !(math.Abs(r.KNN-want) <= 1e-9) || r.Training != 40 {
			t.Errorf("%+v, %v, want recalls of %.2f and 40 patches of each class", r, err, want)
		}
		variance := 0.0
		for _, class := range [][2]float64{{300, 300}, {30, 30}, {5, 10}} { // Right patches, and all.
			p := (class[0] + 1) / (class[1] + 2)
			variance += p * (1 - p) / class[1]
		}
		if want := 100 * math.Sqrt(variance) / 3; r.Test != 340 || !(math.Abs(r.LinearError-want) <= 1e-9) || !(math.Abs(r.KNNError-want) <= 1e-9) {
			t.Errorf("%+v, want 340 patches and standard errors of %.3f", r, want)
		}
	})
}

// Classes with too few patches in either set are left out, and the others are named.
func TestPatchRecallLeavesOutRareClasses(t *testing.T) {
	b := testbackend.Soonest(t)
	v, store, err := RandomViT("vit-32x1x2p4", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Finalize()
	frozen, err := NewFeatureExtractor(b, v, store, "/", 8)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	sets := recallSets(frozen, false)
	counts := [2][]int{}
	for i, set := range sets {
		byClass, images, err := DefaultPatchRecall().draw(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		for class, features := range byClass {
			counts[i] = append(counts[i], len(features))
			if len(images[class]) != len(features) || !slices.IsSorted(images[class]) || slices.Max(images[class]) >= set.Images.Len() {
				t.Errorf("class %d: %d patches of images %v", class, len(features), images[class])
			}
		}
	}
	recall := DefaultPatchRecall()
	recall.Probe.Steps = 10
	recall.Least = min(slices.Min(counts[0]), slices.Min(counts[1])) + 1
	var want []string
	for class, name := range sets[0].Images.Classes {
		if min(counts[0][class], counts[1][class]) >= recall.Least {
			want = append(want, name)
		}
	}
	r, err := recall.Evaluate(t.Context(), b, sets[0], sets[1])
	if err != nil || !slices.Equal(r.Names, want) || r.All.Classes != len(want) || len(want) == len(sets[0].Images.Classes) {
		t.Errorf("%d classes, %v, want %v of %v; %v", r.All.Classes, r.Names, want, sets[0].Images.Classes, err)
	}
	recall.Least = 4000
	if _, err := recall.Evaluate(t.Context(), b, sets[0], sets[1]); err == nil || !strings.Contains(err.Error(), "fewer than two classes") {
		t.Errorf("no class has enough patches: %v", err)
	}
}

func TestPatchRecallRefuses(t *testing.T) {
	for want, p := range map[string]PatchRecall{
		"purity 0.5":  {Size: 8, Purity: 0.5, PerClass: 1},
		"purity NaN":  {Size: 8, Purity: math.NaN(), PerClass: 1},
		"per_class 0": {Size: 8, Purity: 1},
		"size 0":      {Purity: 1, PerClass: 1},
		"steps 0":     {Size: 8, Purity: 1, PerClass: 1},
	} {
		if err := settings.Check(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	b := testbackend.Soonest(t)
	v, store, err := RandomViT("vit-8x1x2p8", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Finalize()
	frozen, err := NewFeatureExtractor(b, v, store, "/", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	sets := recallSets(frozen, false)
	scenes := sets[0].Images
	sets[0].Images = datasets.NewSegmentation("scenes", append(slices.Clone(scenes.Classes), "unicorn"), "", scenes.Len(), scenes.Read)
	if _, err := DefaultPatchRecall().Evaluate(context.Background(), b, sets[0], sets[1]); err == nil || !strings.Contains(err.Error(), `no patch has 60 % of "unicorn"`) ||
		!strings.HasSuffix(err.Error(), "those with patches are "+strings.Join(scenes.Classes, ",")) {
		t.Errorf("%v, want the class without patches", err)
	}
	one, err := scenes.Only(scenes.Classes[1])
	if err != nil {
		t.Fatal(err)
	}
	sets[0].Images = one
	if _, err := DefaultPatchRecall().Evaluate(context.Background(), b, sets[0], sets[1]); err == nil || !strings.Contains(err.Error(), "recall of one class") {
		t.Errorf("one class: %v", err)
	}
}

func ExamplePatchRecall_Protocol() {
	fmt.Println(DefaultPatchRecall().Protocol())
	// Output:
	// mean recall of classes over patches that one class covers by 60 % of the pixels, at most 4000 a class and as many of each in training; linear probe of 1000 steps of 512 patches, and weighted k-NN, K 20, temperature 0.07; images of 448² px
}
