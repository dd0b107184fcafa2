// Package evaluation evaluates frozen encoders, each by a stated protocol. An encoder, wrapped by [NewFeatureExtractor], and a dataset go in; what a
// protocol measures comes out. [During] evaluates along a training.
//
// Each protocol is an [Evaluation] with a line in [List]. Metrics belong in package metrics, trainable heads in package heads.
package evaluation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Evaluation measures frozen encoders by a stated protocol. It is a struct of settings with JSON names, whose ranges [settings.Check] holds. The same value is
// what an experiment's cells measure, what "semcon evaluate NAME" runs, and, by [During], what looks at an encoder while it is trained.
type Evaluation interface {
	// Protocol describes the evaluation in one line, for records, tables and model cards.
	Protocol() string
	// Open opens the images that it measures on.
	Open(Source) (Data, error)
	// Measure measures an encoder.
	Measure(context.Context, *Encoder, Data) (Result, error)
}

// Encoder is a frozen encoder that is evaluated.
type Encoder struct {
	*FeatureExtractor
	Seed     uint64                                 // Seeds all random draws of an evaluation except the images.
	Progress func(done, all int, what, note string) // Told how far a measurement of many parts, such as "videos", is. Optional.
	Owned    *model.Store                           // Its weights, which Close frees; nil if they are the caller's.
	File     string                                 // The file of its weights; empty for those that are in none.
}

// NewEncoder returns an encoder of weights at the root of a store, which becomes its own. It encodes batch images at a time.
func NewEncoder(b compute.Backend, v encoder.ViT, store *model.Store, batch int, seed uint64) (*Encoder, error) {
	extractor, err := NewFeatureExtractor(b, v, store, "/", batch)
	if err != nil {
		store.Finalize()
		return nil, err
	}
	return &Encoder{FeatureExtractor: extractor, Seed: seed, Owned: store}, nil
}

// OpenEncoder is [NewEncoder] of weights that were read from a file, which its error names.
func OpenEncoder(b compute.Backend, read *weights.Import, batch int, seed uint64) (_ *Encoder, err error) {
	defer try.Handle(&err)
	e, err := NewEncoder(b, read.ViT, try.E1(read.Store()), batch, seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", read.File, err)
	}
	e.File = read.File
	return e, nil
}

// Close frees the memory of the encoder.
func (e *Encoder) Close() {
	e.FeatureExtractor.Close()
	if e.Owned != nil {
		e.Owned.Finalize()
	}
}

// progress tells how far a measurement is.
func (e *Encoder) progress(done, all int, what, format string, args ...any) {
	if e.Progress != nil {
		e.Progress(done, all, what, fmt.Sprintf(format, args...))
	}
}

// Result is what an evaluation has measured.
type Result struct {
	Numbers  []Number
	Protocol string                   // Where the measurement says more about it than the evaluation.
	Report   any                      // All that was measured, as JSON; its String, if there is one, is for people. Nil for the numbers alone.
	Images   map[string]stats.ByImage // Counts of each test image for details of the first number, by the detail's name; may be nil.
	Compared *metrics.Segmentation    // A segmentation, which is compared with its commonest class everywhere; nil for other results.
}

// Number is one of the numbers of an evaluation.
type Number struct {
	Name    string             `json:"name"`           // "linear": tells it from the others, in columns and curves.
	Metric  string             `json:"metric"`         // "recall".
	Unit    string             `json:"unit,omitempty"` // "%", or empty.
	Value   float64            `json:"value"`
	Details map[string]float64 `json:"details,omitempty"` // Further numbers, by name.
	Images  stats.ByImage      `json:"-"`                 // Counts of each test image behind Value; may be nil.
}

// String returns the number for people.
func (n Number) String() string {
	title := lo.Ternary(strings.HasSuffix(n.Metric, n.Name), n.Metric, n.Name+", "+n.Metric)
	return strings.TrimSpace(fmt.Sprintf("%-24s %8.2f %s", title, n.Value, n.Unit))
}

// During evaluates an encoder every given number of steps of its training; 0 turns it off. The extractor uses the store of the encoder that is trained and only
// reads its weights, so that a training ends with the same bytes with and without it. A point of the curve has the numbers as "NAME/NUMBER".
func During(every int, name string, evaluated Evaluation, e *Encoder, d Data) train.Evaluator {
	return train.Evaluator{Name: name, Every: every, Evaluate: func(ctx context.Context) (map[string]float64, error) {
		result, err := evaluated.Measure(ctx, e, d)
		return lo.SliceToMap(result.Numbers, func(n Number) (string, float64) { return n.Name, n.Value }), err
	}}
}

// Named is an evaluation of the list.
type Named struct {
	Name     string
	Measures string            // What it measures, for the help of "semcon evaluate".
	New      func() Evaluation // With its usual settings: a pointer to a struct.
	Sizes    []string          // The settings that hold the size of images; by default it is that of the weights.
	Datasets []string          // Names of the datasets that it can open.
	Training string            // What training images are for, if not training.
	Single   bool              // Its images have sizes of their own, and are encoded one by one.
	Draws    bool              // It draws with [Encoder.Seed].
}

// segmented are the names of the datasets with a class for every pixel.
var segmented = datasets.SegmentationKeys()

// List lists all evaluations of frozen encoders by name.
var List = []Named{
	{Name: "centroid", Measures: "classification of patches by the nearest mean of training features", New: func() Evaluation { return new(NearestCentroid) },
		Sizes: []string{"size"}, Datasets: segmented},
	{Name: "fcn", Measures: "segmentation by an FCN of width 256 on frozen patch features",
		New: func() Evaluation { return &FCNProbe{SegmentationProbe: linearSegmentation(), Width: 256} }, Sizes: []string{"train", "test"}, Datasets: segmented, Draws: true},
	// As Balažević et al. 2023 have it, with one of the memories that they report.
	{Name: "in-context", Measures: "segmentation by the nearest patches of a memory, without training",
		New: func() Evaluation {
			return &InContext{Size: 448, Neighbours: 30, Temperature: 0.02, Memory: []int{102_400}}
		},
		Sizes: []string{"size"}, Datasets: segmented, Training: "memory", Draws: true},
	{Name: "knn", Measures: "classification of images by their nearest neighbours", New: func() Evaluation { return &KNN{Classifier: knn.DINOClassifier()} },
		Sizes: []string{"size"}, Datasets: []string{ImageNet}},
	{Name: "linear", Measures: "segmentation by a linear head on frozen patch features", New: func() Evaluation { return new(linearSegmentation()) },
		Sizes: []string{"train", "test"}, Datasets: segmented, Draws: true},
	{Name: "linear-classification", Measures: "classification of images by a linear probe; also called linear-probe",
		New:   func() Evaluation { return &LinearClassification{LinearProbe: FastLinearProbe()} },
		Sizes: []string{"size"}, Datasets: []string{ImageNet}, Draws: true},
	{Name: "lost", Measures: "object discovery by LOST, without training", New: func() Evaluation { return &LOST{Expansion: 100} },
		Datasets: []string{"voc2012"}, Single: true},
	{Name: "noise-rate", Measures: "how often the most similar patches of two images share their class",
		New: func() Evaluation {
			return &NoiseRate{Sample: PatchSample{Images: 2000, PerImage: 8}, Bins: 20, PatchHead: heads.DefaultProjector()}
		},
		Sizes: []string{"sample.size"}, Datasets: segmented, Draws: true},
	// As in Leopart's configurations for PASCAL VOC.
	{Name: "overclustering", Measures: "segmentation by clusters of patch features",
		New:   func() Evaluation { return &Overclustering{Size: 448, Clusters: 500, Iterations: 100} },
		Sizes: []string{"size"}, Datasets: segmented, Draws: true},
	{Name: "patches", Measures: "recall of classes over patches", New: func() Evaluation { return new(DefaultPatchRecall()) },
		Sizes: []string{"size"}, Datasets: segmented, Draws: true},
	{Name: "spair", Measures: "keypoint matching on SPair-71k by the nearest patch", New: func() Evaluation { return &Keypoints{Alpha: 0.1} },
		Sizes: []string{"size"}, Datasets: []string{"spair"}, Single: true},
	{Name: "spread", Measures: "how far patch features are from collapse", New: func() Evaluation { return &Spread{Images: 256} },
		Sizes: []string{"size"}, Datasets: []string{ImageNet}},
	{Name: "tokencut", Measures: "object discovery by TokenCut, without training", New: func() Evaluation { return &TokenCut{Threshold: 0.2} },
		Datasets: []string{"voc2012"}, Single: true},
	{Name: "video", Measures: "video object segmentation on DAVIS", New: func() Evaluation { return new(DefaultLabelPropagation()) },
		Datasets: []string{"davis"}},
}

// linearSegmentation is the segmentation of the list, of more epochs than the paper's.
func linearSegmentation() SegmentationProbe {
	p := DefaultSegmentationProbe()
	p.Epochs, p.Batch = 20, 32
	return p
}

// ByName returns an evaluation of the list.
func ByName(name string) (Named, error) {
	i := slices.IndexFunc(List, func(n Named) bool { return n.Name == name })
	if i < 0 {
		return Named{}, fmt.Errorf("no evaluation %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return List[i], nil
}

// Names returns the names of the evaluations, sorted.
func Names() []string {
	return slices.Sorted(slices.Values(lo.Map(List, func(n Named, _ int) string { return n.Name })))
}

// Synthetic is the dataset that is drawn.
const Synthetic = "synthetic"

// Source says where the images of an evaluation come from.
type Source struct {
	Dir, Dataset string   // A data folder and the name of a dataset in it, or Synthetic.
	Folders      []string // Class folders in the place of a dataset with one label an image, as [datasets.OpenImages] takes them.
	Classes      string   // The only classes that count, with commas between them; empty for all.
	Images       int      // Images per split: drawn, or evenly spread over a dataset's, of which 0 takes all.
	Size         int      // Height and width of drawn images in pixels.
	Frames       int      // Frames of drawn videos.
	Seed         int      // Draws synthetic images. Their sets are not those that encoders are trained on.
}

// Data are the images of an evaluation, of the kinds that it needs. In pairs, the first train and the second test.
type Data struct {
	Name string // The dataset's name for people.
	ID   string // Identifies the images in records.
	Note string // What the protocol of records says of the images; may be empty.

	Train, Test *datasets.Segmentation // Images with a class for every pixel.
	Scenes      [2]*synthetic.Set      // Drawn ones, encoded once.
	Objects     [2]datasets.Source     // Images of one object each, with labels.
	Labels      [2][]int32
	Classes     int // Of objects.
	Videos      []datasets.Video
	Pairs       []datasets.KeypointPair
	Boxed       []datasets.BoxedImage
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.ID }

// Title is the name of the dataset.
func (d Data) Title() string { return d.Name }

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }

// BadSetting is the error for a setting that does not fit the data or the encoder.
type BadSetting struct {
	Key string // Such as "size".
	Err error
}

// Error returns the text of Err.
func (b BadSetting) Error() string { return b.Err.Error() }

// spread are so many of a list, evenly spread; 0 takes all.
func spread[T any](all []T, most int) []T {
	return lo.Map(datasets.Spread(len(all), most), func(place, _ int) T { return all[place] })
}

// Segmentation opens splits of a dataset with a class for every pixel.
func (s Source) Segmentation(splits ...datasets.Split) (d Data, err error) {
	defer try.Handle(&err)
	var identities []string
	for _, split := range splits {
		set := try.E1(s.split(split))
		if d.Name, identities = set.Name, append(identities, set.Identity); split == datasets.Train {
			d.Train = set
		} else {
			d.Test = set
		}
	}
	d.ID = strings.Join(identities, "; ")
	return d, nil
}

// What evaluations open; they embed it.
type (
	trainAndTest struct{} // Training and test images with a class for every pixel.
	testImages   struct{} // Test images with a class for every pixel.
	labelled     struct{} // Images of one object each, with labels.
)

// Open opens training and test images.
func (trainAndTest) Open(s Source) (Data, error) {
	return s.Segmentation(datasets.Train, datasets.Test)
}

// Open opens test images.
func (testImages) Open(s Source) (Data, error) { return s.Segmentation(datasets.Test) }

// Open opens labelled images.
func (labelled) Open(s Source) (Data, error) { return s.Labelled() }

func (s Source) split(split datasets.Split) (_ *datasets.Segmentation, err error) {
	defer try.Handle(&err)
	if s.Dataset == Synthetic {
		return synthetic.Run(s.Seed).Scenes(s.Images, s.Size, lo.Ternary(split == datasets.Test, 14, 12)).Segmentation(), nil
	}
	set := try.E1(datasets.OpenSegmentation(s.Dataset, s.Dir, split))
	if s.Classes != "" {
		if set, err = set.Only(strings.Split(s.Classes, ",")...); err != nil {
			return nil, BadSetting{"classes", err}
		}
	}
	return set.Pick(datasets.Spread(set.Len(), s.Images)), nil
}

// frozen returns the features of a set of images that are resized to squares.
func (e *Encoder) frozen(images *datasets.Segmentation, size int) FrozenFeatures {
	return FrozenFeatures{Extractor: e.FeatureExtractor, Images: images, Seed: e.Seed, TestSize: size}
}

// fits returns an error unless sizes are whole numbers of an encoder's patches.
func (e *Encoder) fits(sizes ...int) error {
	if i := slices.IndexFunc(sizes, func(size int) bool { return size < 1 || size%e.ViT.PatchSize != 0 }); i >= 0 {
		return BadSetting{"size", fmt.Errorf("size %d is not made of patches of %d, which %s sees", sizes[i], e.ViT.PatchSize, e.ViT.Name)}
	}
	return nil
}

// Share returns a share of the images of each split; cut says into how many a split of n images is cut. parts is the largest number of shares. Drawn objects
// stay as they are.
func (d Data) Share(share int, cut func(n int) int) (own Data, parts int) {
	parts = 1
	for i, set := range []**datasets.Segmentation{&d.Train, &d.Test} {
		if *set != nil {
			of := cut((*set).Len())
			*set, parts = (*set).Share(share, of), max(parts, of)
		}
		if photographs, ok := d.Objects[i].(LabelledPictures); ok {
			of := cut(photographs.Len())
			parts = max(parts, of)
			d.take(i, photographs, datasets.Share(photographs.Len(), share, of))
		}
	}
	return d, parts
}

// Sample returns at most the given number of images per split of a dataset, evenly spread; all if most is 0. The classes stay. Drawn objects stay as they are:
// [Source] has their number.
func (d Data) Sample(most int) Data {
	if _, drawn := d.Objects[0].(*datasets.Images); drawn || most == 0 {
		return d
	}
	for i, set := range []**datasets.Segmentation{&d.Train, &d.Test} {
		if *set != nil {
			*set = (*set).Pick(datasets.Spread((*set).Len(), most))
		}
		if photographs, ok := d.Objects[i].(LabelledPictures); ok {
			d.take(i, photographs, datasets.Spread(photographs.Len(), most))
		}
	}
	d.ID = fmt.Sprintf("at most %d per split, spread evenly, of (%s)", most, d.ID)
	return d
}

// take makes the photographs at some places those of a split.
func (d *Data) take(split int, photographs LabelledPictures, places []int) {
	labels := d.Labels[split]
	d.Labels[split] = lo.Map(places, func(place, _ int) int32 { return labels[place] })
	d.Objects[split] = LabelledPictures{photographs.Pick(places)}
}
