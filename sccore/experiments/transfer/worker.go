package transfer

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// headsFile holds the trained heads of a cell.
const headsFile = "heads.safetensors"

type run = study.Run[Config, Data]

// trainer trains heads on the features of a cell's encoder.
type trainer = evaluation.SegmentationTrainer

// take makes the features of a cell's crops.
func take(t *trainer, r *run, vit encoder.ViT, pretrained *model.Store) (done func(), err error) {
	c := r.Cell.Config
	frozen, err := evaluation.NewFeatureExtractor(r.Backend(), vit, pretrained, "/", evaluation.EncodeBatch)
	if err != nil {
		return nil, err
	}
	t.Frozen = evaluation.FrozenFeatures{Extractor: frozen, Images: r.Data.Train, Crop: c.crop(), Seed: 1, TestSize: c.TestSize}
	crops, err := kept(r, t.Frozen)
	if err != nil {
		frozen.Close()
		return nil, err
	}
	t.Crops = batches(r, t.Frozen, crops)
	return frozen.Close, nil
}

// test chooses the learning rate on held-out images, and measures mIoU on the test images.
func test(t *trainer, r *run, _ evaluation.SegmentationConfig, losses []float32) ([]study.Number, error) {
	heldOut, err := evaluate(r, t, r.Data.heldOut)
	if err != nil {
		return nil, err
	}
	t.Frozen.Images = r.Data.Test
	tested, err := evaluate(r, t, r.Data.tested)
	if err != nil {
		return nil, err
	}
	c, best := r.Cell.Config, 0
	for i := range heldOut {
		if heldOut[i].MIoU > heldOut[best].MIoU {
			best = i
		}
	}
	details := map[string]float64{"accuracy": tested[best].Accuracy, "rate": c.LearningRates[best], "loss": float64(losses[best])}
	for i, rate := range c.LearningRates {
		details[fmt.Sprintf("held_out_miou_rate_%g", rate)], details[fmt.Sprintf("miou_rate_%g", rate)] = heldOut[i].MIoU, tested[i].MIoU
	}
	head, decay := "linear 1×1 head", ""
	if c.Head == heads.FCN {
		head, decay = fmt.Sprintf("FCN of width %d", c.Width), fmt.Sprintf(" decaying to %g on a cosine", c.FinalLearningRate)
	}
	crops := "a new one each time"
	if c.Crops > 0 {
		crops = fmt.Sprintf("%d of each image", c.Crops)
	}
	return []study.Number{{
		Metric: "mIoU", Unit: "%", Value: tested[best].MIoU, Details: details,
		Protocol: fmt.Sprintf("%s on fixed patch features of %s; crops of %d px of %g to 1 of an image's area, mirrored half of the time, %s; %d steps of %d crops, "+
			"Adam at rate %g of %v%s, chosen by mIoU on %d held-out training images; %d test images resized to %d×%d px, logits resized bilinearly to the annotation's "+
			"size, ignored pixels (255) left out",
			head, t.Frozen.Extractor.ViT.Name, c.CropSize, c.MinScale, crops, c.steps(), c.Batch, c.LearningRates[best], c.LearningRates, decay, len(r.Data.heldOut),
			len(r.Data.tested), c.TestSize, c.TestSize),
	}}, nil
}

// batches yields the features and labels of a step: crops of the training images, which are shuffled for each epoch. Those of crops are computed already.
func batches(r *run, fixed evaluation.FrozenFeatures, crops []evaluation.Patches) func(ctx context.Context, step int) iter.Seq2[evaluation.Patches, error] {
	c, images := r.Cell.Config, r.Data.trained
	epoch, order := -1, []int(nil)
	return func(ctx context.Context, step int) iter.Seq2[evaluation.Patches, error] {
		var computed []evaluation.Patches
		var samples []evaluation.Sample
		for sample := step * c.Batch; sample < (step+1)*c.Batch; sample++ {
			if now := sample / len(images); now != epoch {
				epoch, order = now, rand.New(rand.NewPCG(uint64(r.Cell.Seed), uint64(now))).Perm(len(images))
			}
			crop, place := epoch, order[sample%len(images)]
			if c.Crops > 0 {
				crop %= c.Crops
			}
			if crops != nil {
				computed = append(computed, crops[place*c.Crops+crop])
			}
			samples = append(samples, evaluation.Sample{Image: images[place], Crop: crop})
		}
		if crops == nil {
			return fixed.Crops(ctx, samples)
		}
		return func(yield func(evaluation.Patches, error) bool) {
			for _, patches := range computed {
				if !yield(patches, nil) {
					return
				}
			}
		}
	}
}

// evaluate measures how well the heads segment images.
func evaluate(r *run, t *trainer, which []int) ([]metrics.Segmentation, error) {
	r.Say("evaluating on %d images", len(which))
	return t.Evaluate(which, t.Frozen.Whole(r.Context, which))
}

// Data is a dataset to train and test heads on.
type Data struct {
	evaluation.Data
	trained, heldOut, tested []int // Indices of the images that train, choose the learning rate and test.
}

// drawnSize is the height and width of synthetic scenes in pixels.
const drawnSize = 64

// open opens a dataset for a configuration: the seed's share of a real one, with the classes that count, or synthetic scenes of a seed.
func open(o study.Options, dataset string, c Config, seed int) (d Data, err error) {
	source := evaluation.Source{Dir: o.Data, Dataset: dataset, Classes: c.Classes, Seed: seed}
	if encoders.Drawn(dataset) {
		source.Images, source.Size = c.Images, drawnSize
	}
	if d.Data, err = recipe.Annotated(source, "classes", datasets.Train, datasets.Test); err != nil {
		return d, err
	}
	if !encoders.Drawn(dataset) {
		d.Data = encoders.Share(o, d.Data, seed, c.Shares)
	}
	d.tested = datasets.Spread(d.Test.Len(), c.Images)
	all := datasets.Spread(d.Train.Len(), c.Images)
	every := max(2, len(all)/c.Holdout)
	for i, image := range all {
		if i%every == every-1 {
			d.heldOut = append(d.heldOut, image)
		} else {
			d.trained = append(d.trained, image)
		}
	}
	if len(d.heldOut) == 0 { // There is a single image.
		d.heldOut = d.trained
	}
	return d, nil
}

// kept computes the features of all crops of a cell, since each is used many times. It returns none if crops are drawn anew each time, or if they do not fit.
func kept(r *run, fixed evaluation.FrozenFeatures) (crops []evaluation.Patches, err error) {
	if r.Cell.Config.Crops == 0 {
		return nil, nil
	}
	var samples []evaluation.Sample
	for _, image := range r.Data.trained {
		for crop := range r.Cell.Config.Crops {
			samples = append(samples, evaluation.Sample{Image: image, Crop: crop})
		}
	}
	patches := fixed.Grid() * fixed.Grid()
	if gib := float64(len(samples)*patches*(4*fixed.Extractor.ViT.Dim+64)) / (1 << 30); gib > r.Cell.Config.CacheGiB {
		r.Warnf("%s: features are computed each time, because %.1f GiB of them exceed cache_gib, %g", r.Cell.Name(), gib, r.Cell.Config.CacheGiB)
		return nil, nil
	}
	r.Say("features of %d crops", len(samples))
	for patches, err := range fixed.Crops(r.Context, samples) {
		if err != nil {
			return nil, err
		}
		crops = append(crops, patches)
	}
	return crops, nil
}
