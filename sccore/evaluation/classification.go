package evaluation

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// KNN classifies images of one object each by the nearest training images, by the cosine of [CLS] features.
type KNN struct {
	labelled
	knn.Classifier
	Size int `json:"size" range:"[8,2048]"` // Height and width in pixels of crops of photographs.
}

// Protocol describes the evaluation in one line.
func (k KNN) Protocol() string { return k.Classifier.Protocol(" of [CLS] features") + ", cosine" }

// Measure measures the accuracy with the first class, and with the first five.
func (k KNN) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return accuracyOf(ctx, e, d, k.Size, "k-NN accuracy", knnRanker(e, k.Classifier))
}

// LinearClassification classifies images of one object each by a linear layer on [CLS] features.
type LinearClassification struct {
	labelled
	LinearProbe
	Size int `json:"size" range:"[8,2048]"` // Height and width in pixels of crops of photographs.
}

// Protocol describes the evaluation in one line.
func (l LinearClassification) Protocol() string {
	return fmt.Sprintf("%s of [CLS] features of %d-pixel images", l.LinearProbe.Protocol(), l.Size)
}

// Measure measures the accuracy with the first class, and with the first five.
func (l LinearClassification) Measure(ctx context.Context, e *Encoder, d Data) (Result, error) {
	return accuracyOf(ctx, e, d, l.Size, "linear accuracy", linearRanker(e, l.LinearProbe))
}

// ranker ranks five classes for each query, [Q, Dim], by labelled [CLS] features.
type ranker func(from knn.Labelled, queries []float32) ([][]int32, error)

func knnRanker(e *Encoder, c knn.Classifier) ranker {
	return func(from knn.Labelled, queries []float32) ([][]int32, error) {
		return c.Rank(e.backend, from, queries, 5)
	}
}

func linearRanker(e *Encoder, p LinearProbe) ranker {
	return func(from knn.Labelled, queries []float32) ([][]int32, error) {
		return p.Rank(e.backend, from, queries, 5, e.Seed)
	}
}

// accuracies measures classifiers with the first class and with the first five, as "NAME_Acc@1" and "NAME_Acc@5". Features are computed once. images holds
// the counts of each test image behind the former.
func accuracies(ctx context.Context, e *Encoder, d Data, size int, ranks map[string]ranker) (columns map[string]float64, images map[string]stats.ByImage, err error) {
	defer try.Handle(&err)
	var features [2]Encoded
	for i, o := range d.Objects {
		features[i] = try.E1(Encode(ctx, e.FeatureExtractor, o, size, o.Len(), false))
	}
	columns, images = map[string]float64{}, map[string]stats.ByImage{}
	for name, rank := range ranks {
		ranked := try.E1(rank(knn.Labelled{Features: features[0].Class, Dim: features[0].Dim, Labels: d.Labels[0], Classes: d.Classes}, features[1].Class))
		for _, k := range []int{1, 5} {
			columns[fmt.Sprintf("%s_Acc@%d", name, k)] = metrics.TopKAccuracy(ranked, d.Labels[1], k)
		}
		first := make(stats.ByImage, len(ranked))
		for i, classes := range ranked {
			first.Add(i, 0, classes[0] == d.Labels[1][i])
		}
		images[name+"_Acc@1"] = first
	}
	return columns, images, nil
}

// accuracyOf is the result of one classifier.
func accuracyOf(ctx context.Context, e *Encoder, d Data, size int, metric string, rank ranker) (Result, error) {
	columns, images, err := accuracies(ctx, e, d, size, map[string]ranker{"": rank})
	details := map[string]float64{"accuracy@5": columns["_Acc@5"]}
	return Result{Numbers: []Number{{Name: "accuracy", Metric: metric, Unit: "%", Value: columns["_Acc@1"], Details: details, Images: images["_Acc@1"]}}}, err
}

// Spread measures how much of their space the patch features of images use, see [metrics.Spread]. The images need no labels.
type Spread struct {
	labelled
	Images int `json:"images" range:"[1,2^31)"`
	Size   int `json:"size" range:"[8,2048]"` // Height and width in pixels of crops of photographs.
}

// Protocol describes the evaluation in one line.
func (s Spread) Protocol() string {
	return fmt.Sprintf("spread and effective rank of the patch features of %d images of %d px", s.Images, s.Size)
}

// Measure measures the standard deviation and the effective rank of the features of the training images.
func (s Spread) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	d = d.Sample(s.Images) // The first images of class folders are of one class.
	s.Images = min(s.Images, d.Objects[0].Len())
	encoded := try.E1(Encode(ctx, e.FeatureExtractor, d.Objects[0], s.Size, s.Images, true))
	spread, err := metrics.MeasureSpread(encoded.Patches, encoded.Dim)
	r.Numbers = []Number{{Name: "std", Metric: "spread of patch features", Value: spread.Std}, {Name: "rank", Metric: "effective rank of patch features", Value: spread.Rank}}
	r.Protocol = s.Protocol() // Of the number of images that were there.
	return r, err
}

// ImageNet is the dataset of class folders, imagenet/train and imagenet/val.
const ImageNet = "imagenet"

// The number of classes of ImageNet-1k, and what the identity of class folders with another number ends in.
const (
	imageNetClasses = 1000
	otherClasses    = " in imagenet/, where ImageNet-1k has 1000"
)

// OtherClasses reports whether the images that an identity in records names lie in imagenet/ without being ImageNet-1k, because they have another number of
// classes. Their numbers cannot be compared with the paper's numbers.
func OtherClasses(identity string) bool { return strings.Contains(identity, otherClasses) }

// Labelled opens images of one object each, with labels.
func (s Source) Labelled() (d Data, err error) {
	defer try.Handle(&err)
	if s.Dataset == Synthetic {
		d.Name = "synthetic objects"
		for i := range 2 {
			d.addObjects(i, synthetic.Run(s.Seed).Objects(s.Images, s.Size, 11+2*i))
		}
		return d, nil
	}
	if len(s.Folders) > 0 {
		return s.classFolders()
	}
	var identities [2]string
	var classes [2][]string
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		pictures := try.E1(datasets.ImageNet(s.Dir, split))
		d.Labels[i], classes[i] = try.E2(pictures.Labels())
		d.Objects[i], identities[i] = LabelledPictures{ImageFolder: pictures}, pictures.Identity
	}
	d.Name, d.Classes = "ImageNet-1k", len(classes[0])
	d.ID = strings.Join(identities[:], "; ")
	if d.Classes != imageNetClasses {
		d.Name = fmt.Sprintf("imagenet/ (%d classes)", d.Classes)
		d.ID += fmt.Sprintf("; %d classes%s", d.Classes, otherClasses)
	}
	if !slices.Equal(classes[0], classes[1]) {
		return d, fmt.Errorf("%s: train and val have different classes", filepath.Join(s.Dir, "imagenet"))
	}
	return d.Sample(s.Images), nil
}

// heldOut is one over the share of a class's images that test, where class folders have no split of their own.
const heldOut = 5

// classFolders opens class folders: those in the folders train and test, or train and val, of a single folder, or else all, of which every fifth image of each class tests, and one of two to nine.
func (s Source) classFolders() (d Data, err error) {
	defer try.Handle(&err)
	var parts [2]*datasets.ImageFolder
	if train, test, ok := SplitFolders(s.Folders...); ok {
		parts[0], parts[1] = try.E1(datasets.OpenImageFolder(train)), try.E1(datasets.OpenImageFolder(test))
	} else {
		all := try.E1(datasets.OpenImages(s.Folders...))
		labels, _ := try.E2(all.Labels())
		var tests []int
		for _, members := range lo.PartitionBy(lo.Range(all.Len()), func(i int) int32 { return labels[i] }) {
			if n := len(members); n > 1 {
				tests = append(tests, lo.Map(datasets.Spread(n, max(1, n/heldOut)), func(at, _ int) int { return members[at] })...)
			}
		}
		if len(tests) == 0 {
			return d, fmt.Errorf("image folder %s: contains %s, one of each class, which leaves none to test", all.Name, plural.Count(all.Len(), "image"))
		}
		slices.Sort(tests)
		parts[0], parts[1] = all.HoldOut(tests)
	}
	var classes []string
	d.Labels[0], classes = try.E2(parts[0].Labels())
	if len(classes) < 2 {
		return d, fmt.Errorf("image folder %s: has one class, %s, which leaves nothing to tell apart", parts[0].Name, classes[0])
	}
	d.Labels[1] = try.E1(parts[1].LabelsOf(classes))
	d.Objects = [2]datasets.Source{LabelledPictures{parts[0]}, LabelledPictures{parts[1]}}
	d.Name, d.Classes = fmt.Sprintf("%s (%d classes)", filepath.Base(s.Folders[0]), len(classes)), len(classes)
	d.ID = fmt.Sprintf("%s; test: %s; %d classes", parts[0].Identity, parts[1].Identity, len(classes))
	return d.Sample(s.Images), nil
}

// SkipUnread leaves out the photographs of class folders that cannot be read, and returns the reasons, which name the files. Datasets, whose images all count, do without it.
func (d *Data) SkipUnread(ctx context.Context, by datasets.Preprocessing) (unread []string, err error) {
	defer try.Handle(&err)
	for i := range d.Objects {
		photographs := d.Objects[i].(LabelledPictures)
		faults := try.E1(datasets.Faults(ctx, photographs.Len(), 0, func(at int) error { _, _, err := photographs.Preprocess(at, by, 8, 1); return err }))
		var places []int
		for at, fault := range faults {
			if fault != nil {
				unread = append(unread, fault.Error())
				continue
			}
			places = append(places, at)
		}
		if len(places) == 0 {
			return nil, fmt.Errorf("image folder %s: none of its images can be read: %w", photographs.Name, faults[0])
		}
		d.take(i, photographs, places)
	}
	if len(unread) > 0 {
		d.ID += fmt.Sprintf("; %s left out, which cannot be read", plural.Count(len(unread), "image"))
	}
	return unread, nil
}

// SplitFolders returns the folders of training and of test images of a single folder that has them: train, and test or val.
func SplitFolders(folders ...string) (train, test string, ok bool) {
	train = filepath.Join(folders[0], "train")
	for _, name := range []string{"test", "val"} {
		if test = filepath.Join(folders[0], name); len(folders) == 1 && datasets.IsFolder(train) && datasets.IsFolder(test) {
			return train, test, true
		}
	}
	return "", "", false
}

// addObjects adds a drawn set of objects: the first of a pair trains, the second tests.
func (d *Data) addObjects(i int, set *synthetic.Set) {
	d.Objects[i], d.Labels[i], d.Classes = set.Images, set.Labels, len(set.Classes)
	d.ID += lo.Ternary(i > 0, "; ", "") + set.Identity
}

// MainTable has the measures of the paper's Tab. main, as far as the data allow: k-NN and linear classification of [CLS] features, linear segmentation by patch
// features. Measures that do not apply are zero.
type MainTable struct {
	Preprocessing datasets.Preprocessing
	Size          int // Height and width in pixels of objects and of synthetic scenes.
	KNN           knn.Classifier
	Class         LinearProbe
	Authors       AuthorsProbe      // As the printed baselines are measured.
	Patch         PatchProbe        // Segments synthetic scenes.
	Segmentation  SegmentationProbe // Segments COCOStuff-27.
}

// Protocol describes the measures in one line.
func (m MainTable) Protocol() string {
	if m.KNN.K == 0 {
		text := m.Segmentation.Protocol()
		if m.Preprocessing != (datasets.Preprocessing{}) {
			text += "; " + m.Preprocessing.Colours()
		}
		return text
	}
	images := lo.Ternary(m.Patch.Steps > 0, fmt.Sprintf("%d-pixel images", m.Size), "images, "+m.Preprocessing.Describe(m.Size))
	text := fmt.Sprintf("[CLS] features of %s; %s, cosine; %s", images, m.KNN.Protocol(""), m.Class.Protocol())
	if m.Authors.Epochs > 0 {
		text += "; " + m.Authors.Protocol()
	}
	if m.Patch.Steps > 0 {
		text += "; on scenes a " + m.Patch.Protocol()
	}
	return text
}

// Open opens class folders, images with masks, or both kinds drawn.
func (m MainTable) Open(s Source) (d Data, err error) {
	switch s.Dataset {
	case Synthetic:
		run := synthetic.Run(s.Seed)
		for i := range 2 {
			d.addObjects(i, run.Objects(s.Images, s.Size, 11+2*i))
			d.Scenes[i] = run.Scenes(s.Images, s.Size, 12+2*i)
			d.ID += "; " + d.Scenes[i].Identity
		}
		d.Name = "synthetic objects and scenes"
		return d, nil
	case ImageNet:
		return s.Labelled()
	}
	return s.Segmentation(datasets.Train, datasets.Test)
}

// Measure measures the table's columns that the data allow, in percent, as details of one number.
func (m MainTable) Measure(ctx context.Context, e *Encoder, d Data) (r Result, err error) {
	defer try.Handle(&err)
	if m.Preprocessing != (datasets.Preprocessing{}) {
		e.Preprocessing = m.Preprocessing
	}
	number := Number{Name: "accuracy", Metric: "k-NN accuracy", Unit: "%", Details: map[string]float64{}}
	if d.Objects[0] != nil {
		ranks := map[string]ranker{"knn": knnRanker(e, m.KNN), "linear_cls": linearRanker(e, m.Class)}
		if m.Authors.Epochs > 0 {
			ranks["authors_linear_cls"] = func(knn.Labelled, []float32) ([][]int32, error) { return m.Authors.Rank(ctx, e, d, m.Size, 5) }
		}
		number.Details, r.Images = try.E2(accuracies(ctx, e, d, m.Size, ranks))
		number.Value = number.Details["knn_Acc@1"]
	}
	var segmentation metrics.Segmentation
	switch {
	case d.Train != nil:
		segmentation, err = m.Segmentation.Evaluate(ctx, e, d)
		number.Name, number.Metric, number.Value = "miou", "mIoU", segmentation.MIoU
		r.Images = map[string]stats.ByImage{"linear_seg_mIoU": segmentation.ByImage}
	case d.Scenes[0] != nil:
		segmentation, err = m.Patch.segment(ctx, e, d)
	}
	if d.Train != nil || d.Scenes[0] != nil {
		number.Details["linear_seg_mIoU"], number.Details["linear_seg_Acc"] = segmentation.MIoU, segmentation.Accuracy
	}
	r.Numbers = []Number{number}
	return r, err
}
