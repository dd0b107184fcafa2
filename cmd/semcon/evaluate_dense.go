package main

import (
	"context"
	"fmt"
	"os"

	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/progress"
)

// open returns the features of a split of the dataset.
func (c evaluationCall) open(split datasets.Split) (f evaluation.FrozenFeatures, err error) {
	images, err := datasets.OpenSegmentation(c.dataset, c.data, split)
	if err != nil {
		return f, err
	}
	if c.classes != nil {
		if images, err = images.Only(c.classes...); err != nil {
			return f, usagef("--classes: %v", err)
		}
	}
	images = images.Pick(datasets.Spread(images.Len(), c.images))
	return evaluation.FrozenFeatures{Extractor: c.extractor, Images: images, Seed: c.seed, TestSize: c.size}, nil
}

func evaluateInContext(ctx context.Context, c evaluationCall) (r evaluated, err error) {
	train, err := c.open(datasets.Train)
	if err != nil {
		return r, err
	}
	test, err := c.open(datasets.Test)
	if err != nil {
		return r, err
	}
	type number struct {
		Memory int `json:"memory"`
		metrics.Segmentation
	}
	var numbers []number
	var last metrics.Segmentation
	for _, size := range c.memories {
		settings := evaluation.DefaultInContext()
		settings.Memory = size
		memory, err := settings.Remember(ctx, train)
		if err != nil {
			return r, err
		}
		result, err := settings.Evaluate(ctx, c.engine, memory, test)
		if err != nil {
			return r, err
		}
		held := len(memory.Features) / memory.Dim
		numbers = append(numbers, number{held, result})
		r.lines = append(r.lines, fmt.Sprintf("memory of %8d patches: mIoU %6.2f %%, pixel accuracy %6.2f %%", held, result.MIoU, result.Accuracy))
		settings.Memory, last = held, result
		r.Protocol = settings.Protocol(c.size)
	}
	r.Numbers, r.Data = numbers, "memory: "+train.Images.Identity+"; test: "+test.Images.Identity
	r.compare(last, test.Images.Classes)
	return r, nil
}

// everywhere is what the commonest class of the test images reaches as the answer for every pixel.
type everywhere struct {
	Class string `json:"class"`
	metrics.Segmentation
}

// compare adds what a segmentation is to be compared with.
func (r *evaluated) compare(measured metrics.Segmentation, classes []string) {
	class, constant := measured.Commonest()
	r.Everywhere = &everywhere{classes[class], constant}
	r.lines = append(r.lines, fmt.Sprintf("%s everywhere: mIoU %.2f %%, pixel accuracy %.2f %%", classes[class], constant.MIoU, constant.Accuracy))
}

// evaluateLinear trains a linear layer on the patches of crops, which have the size of the test images.
func evaluateLinear(ctx context.Context, c evaluationCall) (r evaluated, err error) {
	train, err := c.open(datasets.Train)
	if err != nil {
		return r, err
	}
	test, err := c.open(datasets.Test)
	if err != nil {
		return r, err
	}
	settings := evaluation.DefaultSegmentationProbe()
	settings.CropSize, settings.TestSize, settings.Epochs, settings.Batch = c.size, c.size, c.epochs, 32
	result, err := settings.Evaluate(ctx, c.engine, c.extractor, train.Images, test.Images, c.seed)
	if err != nil {
		return r, err
	}
	r.Numbers, r.Data = result, "training: "+train.Images.Identity+"; test: "+test.Images.Identity
	r.Protocol = fmt.Sprintf("linear layer on frozen patches of crops of %[1]d² px, %[2]s of batches of %[3]d, rate %[4]g; tested on images of %[1]d² px",
		c.size, plural.Count(settings.Epochs, "epoch"), settings.Batch, settings.LearningRate)
	r.lines = []string{fmt.Sprintf("mIoU %6.2f %%, pixel accuracy %6.2f %%", result.MIoU, result.Accuracy)}
	r.compare(result, test.Images.Classes)
	return r, nil
}

// evaluatePatches measures the recall of classes over single patches.
func evaluatePatches(ctx context.Context, c evaluationCall) (r evaluated, err error) {
	train, err := c.open(datasets.Train)
	if err != nil {
		return r, err
	}
	test, err := c.open(datasets.Test)
	if err != nil {
		return r, err
	}
	settings := evaluation.DefaultPatchRecall()
	settings.Size = c.size
	result, err := settings.Evaluate(ctx, c.engine, train, test)
	if err != nil {
		return r, err
	}
	r.Numbers, r.Data, r.Protocol = result, "training: "+train.Images.Identity+"; test: "+test.Images.Identity, settings.Protocol()
	line := func(which string, recall evaluation.Recall) {
		r.lines = append(r.lines, fmt.Sprintf("%-18s mean recall: linear %5.1f ± %.1f %%, k-NN %5.1f ± %.1f %%, chance %.1f %%; %s of each class, %s",
			which, recall.Linear, recall.LinearError, recall.KNN, recall.KNNError, recall.Chance,
			plural.Count(recall.Training, "training patch"), plural.Count(recall.Test, "test patch")))
	}
	line(plural.Count(result.All.Classes, "class"), result.All)
	if result.Foreground != nil {
		line("without background", *result.Foreground)
	}
	r.lines = append(r.lines, "± is the standard error over test patches, as if they were independent; patches of an image are not, so it is rather larger")
	return r, nil
}

func evaluateOverclustering(ctx context.Context, c evaluationCall) (r evaluated, err error) {
	test, err := c.open(datasets.Test)
	if err != nil {
		return r, err
	}
	settings := evaluation.DefaultOverclustering()
	settings.Clusters = c.clusters
	result, err := settings.Evaluate(ctx, c.engine, test, c.seed)
	if err != nil {
		return r, err
	}
	r.Numbers, r.Data = result, test.Images.Identity
	r.Protocol = fmt.Sprintf("overclustering: spherical k-means of patches, %d clusters, images of %d² px, mIoU on the same images", c.clusters, c.size)
	r.lines = append(r.lines, fmt.Sprintf("named by majority: mIoU %6.2f %%", result.Majority.MIoU))
	if result.Hungarian != nil {
		r.lines = append(r.lines, fmt.Sprintf("matched one to one: mIoU %6.2f %%", result.Hungarian.MIoU))
	}
	return r, nil
}

func evaluateSPair(ctx context.Context, c evaluationCall) (r evaluated, err error) {
	pairs, err := datasets.SPair(c.data, datasets.Test)
	if err != nil {
		return r, err
	}
	which := datasets.Spread(len(pairs), c.images)
	bar := progress.New(os.Stderr, "pairs", len(which))
	defer bar.Close()
	known := map[string]evaluation.FeatureMap{} // Images occur in many pairs.
	features := func(path string) (m evaluation.FeatureMap, err error) {
		if m, ok := known[path]; ok {
			return m, nil
		}
		if len(known) >= 256 {
			clear(known)
		}
		m, err = c.squashed(path)
		known[path] = m
		return m, err
	}
	rule := evaluation.Keypoints{Alpha: 0.1}
	var pck evaluation.PCK
	for done, i := range which {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		p := pairs[i]
		source, err := features(p.Source)
		if err != nil {
			return r, err
		}
		target, err := features(p.Target)
		if err != nil {
			return r, err
		}
		if err := rule.Add(&pck, rule.Transfer(source, target, points(p.SourcePoints)), points(p.TargetPoints), evaluation.Box(p.TargetBox)); err != nil {
			return r, fmt.Errorf("%s: %w", p.Name, err)
		}
		bar.Set(done+1, "")
	}
	r.Numbers, r.Data = pck, fmt.Sprintf("SPair-71k test: %d pairs", pck.Pairs)
	r.Protocol = fmt.Sprintf("keypoints by the nearest patch, images squashed to %d² px, PCK at 0.1 of the longer side of the box", c.size)
	r.lines = []string{fmt.Sprintf("PCK@0.1 per image: %6.2f %%", pck.PerImage), fmt.Sprintf("PCK@0.1 per point: %6.2f %%", pck.PerPoint)}
	return r, nil
}

func points(all [][2]float64) (points []evaluation.Point) {
	for _, p := range all {
		points = append(points, evaluation.Point{X: p[0], Y: p[1]})
	}
	return points
}

// squashed returns the patch features of an image that is resized to a square.
func (c evaluationCall) squashed(path string) (m evaluation.FeatureMap, err error) {
	photo, err := datasets.ReadPhoto(path)
	if err != nil {
		return m, err
	}
	by := c.extractor.Preprocessing
	by.CropMode, by.CropPct, by.Resize = datasets.Squash, 1, 0
	pixels, size, err := by.Apply(photo.Image(), c.size, c.extractor.ViT.PatchSize)
	if err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	im := evaluation.NewImage(pixels, size, by)
	im.Name = path
	f, err := c.one(im, evaluation.Outputs{Patches: true})
	return evaluation.FeatureMap{
		Features: f.Patches, Rows: f.Rows, Columns: f.Columns, Dim: c.extractor.ViT.Dim, Height: float64(photo.Height), Width: float64(photo.Width),
	}, err
}

// one returns the features of one image.
func (c evaluationCall) one(im evaluation.Image, outputs evaluation.Outputs) (evaluation.Features, error) {
	for all, err := range c.extractor.Extract(func(yield func(evaluation.Image, error) bool) { yield(im, nil) }, outputs) {
		if err != nil {
			return evaluation.Features{}, err
		}
		return all[0], nil
	}
	return evaluation.Features{}, fmt.Errorf("%s: no features", im.Name)
}

// discover measures how often the box of a discovered object is one of the true ones.
func (c evaluationCall) discover(ctx context.Context, find evaluation.ObjectDiscovery) (r evaluated, err error) {
	name, images, err := datasets.VOCObjects(c.data)
	if err != nil {
		return r, err
	}
	which := datasets.Spread(len(images), c.images)
	bar := progress.New(os.Stderr, "images", len(which))
	defer bar.Close()
	found := 0
	for done, i := range which {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		box, err := c.objectOf(images[i].Path, find)
		if err != nil {
			return r, err
		}
		var truth []evaluation.Box
		for _, b := range images[i].Boxes {
			truth = append(truth, b)
		}
		if evaluation.Localized(box, truth) {
			found++
		}
		bar.Set(done+1, "")
	}
	corloc := 100 * float64(found) / float64(len(which))
	r.Numbers = map[string]any{"corloc": corloc, "images": len(which)}
	r.Data = fmt.Sprintf("PASCAL %s trainval: %d images, all objects", name, len(which))
	r.Protocol = "keys of the last block, images at their own size, padded to whole patches; an IoU of 0.5 or more with any object"
	r.lines = []string{fmt.Sprintf("CorLoc %6.2f %%", corloc)}
	return r, nil
}

// objectOf returns the box of the object that is discovered in an image.
func (c evaluationCall) objectOf(path string, find evaluation.ObjectDiscovery) (box evaluation.Box, err error) {
	photo, err := datasets.ReadPhoto(path)
	if err != nil {
		return box, err
	}
	patch := c.extractor.ViT.PatchSize
	size := datasets.Size{Height: (photo.Height + patch - 1) / patch * patch, Width: (photo.Width + patch - 1) / patch * patch}
	im := evaluation.Image{Name: path, Height: size.Height, Width: size.Width, Pixels: make([]float32, size.Height*size.Width*3)} // Padded with 0, as in the official code.
	for y, normal := 0, c.extractor.Preprocessing.Normalize(photo.Pixels); y < photo.Height; y++ {
		copy(im.Pixels[y*size.Width*3:], normal[y*photo.Width*3:(y+1)*photo.Width*3])
	}
	f, err := c.one(im, evaluation.Outputs{Patches: true, Keys: true})
	if err != nil {
		return box, err
	}
	object, err := find(f.Patches, f.Rows, f.Columns, c.extractor.ViT.Dim)
	if err != nil {
		return box, fmt.Errorf("%s: %w", path, err)
	}
	return evaluation.BoxOf(object, f.Columns, patch, photo.Height, photo.Width), nil
}
