// Package transfer is the experiment of semantic segmentation with fixed features: a linear head or an FCN on the patch features of a frozen encoder.
//
// In go the four datasets of the paper, or synthetic scenes, and the encoders of package encoders. Out come records of mIoU and pixel accuracy, the
// trained heads, Tab. semantic_seg and semantic_seg_acc, and claim C22.
package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "transfer"

var grid = encoders.Grid[Config]{
	Name: Name, Table: "semantic_seg", Variants: []string{heads.Linear, heads.FCN}, Shares: func(c Config) int { return c.Shares }, Rules: Config.rules,
}

// Study is the experiment.
var Study = encoders.Tuning[Config, Data, evaluation.SegmentationConfig, *trainer, []float32]{
	Grid: grid,
	Sources: encoders.Sources[Data]{Open: func(dir, dataset string) (d Data, err error) {
		d.Data, err = evaluation.Source{Dir: dir, Dataset: dataset}.Segmentation(datasets.Train, datasets.Test)
		return d, err
	}},
	Parts:   []string{"dataset", "row", "head", "seed"},
	Images:  open,
	Columns: func(d Data, c Config) []string { return []string{d.Name + "/" + headTitles[c.Head]} },
	Unit:    "crop",
	Amount:  func(c Config) (steps, batch int) { return c.steps(), c.Batch },
	Training: func(c Config, vit encoder.ViT, d Data) (evaluation.SegmentationConfig, error) {
		if c.CropSize%vit.PatchSize != 0 || c.TestSize%vit.PatchSize != 0 {
			err := fmt.Errorf("train %d and test %d are not both made of patches of %d, which %s sees", c.CropSize, c.TestSize, vit.PatchSize, vit.Name)
			return evaluation.SegmentationConfig{}, err
		}
		return c.training(vit, len(d.Train.Classes)), nil
	},
	New:     evaluation.NewSegmentationTrainer,
	KeepAll: true,
	Take:    take,
	Loss:    func(losses []float32) float64 { return float64(slices.Min(losses)) },
	Final:   headsFile,
	Test:    test,
	Tables:  tables,
	Figures: encoders.Predictions(Predictions).Drawn("semantic_seg"),
}.Spec()

// headTitles are the names of the heads in the table's columns.
var headTitles = map[string]string{heads.Linear: "Linear", heads.FCN: "FCN"}

// Config is the configuration of a cell.
type Config struct {
	encoders.Config

	Head  string `json:"head"`  // The segmentation head: linear or fcn. Both run; --only chooses.
	Width int    `json:"width"` // Channels of the FCN, which the paper does not give.

	CropSize int     `json:"train" range:"[1,2048]"` // Side of training crops in pixels.
	TestSize int     `json:"test" range:"[1,2048]"`  // Side in pixels that test images are resized to.
	MinScale float64 `json:"min_area" range:"(0,1]"` // The smallest crop, as a share of the image's area.
	Crops    int     `json:"crops" range:"[0,2^31)"` // Different crops per image, whose features are computed once; 0 draws a new crop each time.

	Batch             int        `json:"batch" range:"[1,2^14]"`
	Samples           int        `json:"samples" range:"[1,2^31)"`   // Crops that a head is trained on.
	LearningRates     [4]float64 `json:"rates" range:"(0,1e4]"`      // The rate with the highest mIoU on held-out training images counts.
	FinalLearningRate float64    `json:"final_rate" range:"(0,1e4]"` // Learning rate at the last step.
	Holdout           int        `json:"holdout" range:"[1,2^31)"`   // Training images held out to choose the learning rate, or a few more; at most half.

	Images   int     `json:"images" range:"[0,2^31)"`          // Images per split and seed: drawn, or taken evenly spread from the seed's share of a real dataset, where 0 means all.
	Shares   int     `json:"shares,omitzero" range:"[0,2^20]"` // Shares that the images of a real dataset are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Classes  string  `json:"classes,omitzero"`                 // The classes of a real dataset that count, with commas between them; empty for all. Pixels of others are ignored.
	CacheGiB float64 `json:"cache_gib" range:"[0,1e6]"`        // Memory for the features of crops; what does not fit is computed each time.
}

// rules returns an error for what a dataset cannot have, or what does not fit in memory.
func (c Config) rules(dataset string) (err error) {
	defer try.Handle(&err)
	if dataset != encoders.Synthetic {
		try.E(settings.Between("shares", c.Shares, 1, 1<<20))
	} else {
		if c.Shares != 0 || c.Classes != "" {
			return errors.New("shares and classes: synthetic images are drawn for each seed, with all classes")
		}
		try.E(cmp.Or(settings.Between("images", c.Images, 2, math.MaxInt32), synthetic.Check("images", c.Images, "size", drawnSize)))
	}
	// Any encoder will do, because the cell's is not open yet: the widest of patches of 16 pixels.
	try.E(settings.Check(c.training(encoder.ViT{PatchSize: 1, Dim: 768}, 2).Head))
	side := max(1, c.CropSize/16)
	what := fmt.Sprintf("batch %d of crops of train %d", c.Batch, c.CropSize)
	if err := settings.Fit(settings.MaxBytes, what, c.Batch, side, side, 768, 4); err != nil || c.Head != heads.FCN {
		return err
	}
	side *= heads.Upsampling
	return settings.Fit(settings.MaxDeviceBytes, fmt.Sprintf("%s through width %d", what, c.Width), c.Batch, side, side, c.Width, 4)
}

func (c Config) crop() evaluation.RandomResizedCrop {
	return evaluation.RandomResizedCrop{Size: c.CropSize, MinScale: c.MinScale}
}

// steps is the number of training steps.
func (c Config) steps() int { return (c.Samples + c.Batch - 1) / c.Batch }

// used is the number of crops of each of the training images that come up: one more in each epoch, up to Crops.
func (c Config) used(images int) int { return min(c.Crops, (c.steps()*c.Batch+images-1)/images) }

// training is the configuration of the heads' training for a number of classes.
func (c Config) training(vit encoder.ViT, classes int) evaluation.SegmentationConfig {
	return evaluation.SegmentationConfig{
		Head: heads.Segmentation{Kind: c.Head, Classes: classes, Width: c.Width}, Dim: vit.Dim, Grid: c.CropSize / vit.PatchSize,
		Batch: c.Batch, Steps: c.steps(), LearningRates: c.LearningRates[:], FinalLearningRate: c.FinalLearningRate,
	}
}

// tables returns the paper's two tables, and the same two for rows and datasets that the paper does not have.
func tables(results study.Results) []figures.Table {
	var all, ours []figures.Table
	for _, metric := range []struct {
		label, name, detail string
	}{{"semantic_seg", "mIoU", ""}, {"semantic_seg_acc", "pixel accuracy", "accuracy"}} {
		t := encoders.Beside(metric.label, "Semantic segmentation with fixed features: "+metric.name+" at the full size of the annotation.",
			study.Columns(metric.detail, figures.MustPaper(metric.label).Columns...)...)
		all = append(all, t.Of(results))
		rows := encoders.WithRecords(results, encoders.OurRows(results, "semantic_seg"), results.Columns()...)
		columns := encoders.ColumnsOf(results, rows, results.Columns()...)
		if slices.SortFunc(columns, byPlace); len(columns) > 0 {
			t = encoders.Alone(t.Title+" for encoders of our own, which the paper does not have", t.Caption+encoders.BothBegin, rows, study.Columns(metric.detail, columns...)...)
			t.RowHeads = []figures.RowHead{{Name: "encoder"}}
			ours = append(ours, t.Of(results))
		}
	}
	if gains := encoders.Gains(results, "What training is worth in mIoU", "mIoU", slices.SortedFunc(slices.Values(results.Columns()), byPlace)...); len(gains.Rows) > 0 {
		ours = append(ours, gains)
	}
	return append(all, ours...)
}

// byPlace orders columns and datasets as the paper does.
var byPlace = encoders.ByPlace(
	[]string{"COCOStuff-27", "PASCAL VOC", "ADE20k", "Cityscapes", "CamVid", "synthetic scenes"}, []string{headTitles[heads.Linear], headTitles[heads.FCN]},
)

// Predictions segments n evenly spread test images with the trained heads of the lowest seed of a row ("random", "second", "dino-s16") and column.
// It also returns the names of the classes. A row and column without records is an error.
func Predictions(r study.Results, b compute.Backend, data, out, row, column string, n int) (_ []figures.Segmented, _ []string, err error) {
	defer try.Handle(&err)
	record, c, file, err := encoders.Recorded[Config](r, out, row, column)
	try.E(err)
	c.Encoder = try.E1(c.Encoder.Locate(out, r.Profile, record.Seed))
	images := try.E1(open(study.Options{Data: data}, record.Dataset, c, record.Seed))
	encoder := try.E1(c.Encoder.Open(b, record.Seed))
	defer encoder.Close()
	trainer := try.E1(evaluation.NewSegmentationTrainer(b, c.training(encoder.ViT, len(images.Test.Classes))))
	defer trainer.Close()
	try.E(trainer.Begin(uint64(record.Seed)))
	try.E1(trainer.Resume(file))
	best := slices.Index(c.LearningRates[:], record.Details["rate"])
	which := lo.Map(datasets.Spread(len(images.tested), n), func(place, _ int) int { return images.tested[place] })
	trainer.Frozen = evaluation.FrozenFeatures{Extractor: encoder.FeatureExtractor, Images: images.Test, Crop: c.crop(), TestSize: c.TestSize}
	predictions := make([]figures.Segmented, len(which))
	err = trainer.Predict(which, trainer.Frozen.Whole(context.Background(), which),
		func(place int, a *datasets.SegmentedImage, head int, classes []uint8) error {
			if head == best {
				predictions[place] = figures.Segmented{Image: a, Predicted: classes, Colours: encoders.Colours(record.Dataset, images.Test)}
			}
			return nil
		})
	return predictions, images.Test.Classes, err
}

// headsFile holds the trained heads of a cell.
const headsFile = "heads.safetensors"

type run = study.Run[Config, Data]

// trainer trains heads on the features of a cell's encoder.
type trainer = evaluation.SegmentationTrainer

// take makes the features of a cell's crops.
func take(t *trainer, r *run, vit encoder.ViT, pretrained *model.Store) (done func(), err error) {
	defer try.Handle(&err)
	c := r.Cell.Config
	frozen := try.E1(evaluation.NewFeatureExtractor(r.Backend(), vit, pretrained, "/", evaluation.EncodeBatch))
	t.Frozen = evaluation.FrozenFeatures{Extractor: frozen, Images: r.Data.Train, Crop: c.crop(), Seed: 1, TestSize: c.TestSize}
	crops, err := kept(r, t.Frozen)
	if err != nil {
		frozen.Close()
		return nil, err
	}
	t.Crops = batches(r, t.Frozen, crops)
	return func() {
		frozen.Close()
		t.Crops = nil // The trainer is kept, and the features are not.
	}, nil
}

// test chooses the learning rate on held-out images, and measures mIoU on the test images.
func test(t *trainer, r *run, _ evaluation.SegmentationConfig, losses []float32) (_ []study.Number, err error) {
	defer try.Handle(&err)
	heldOut := try.E1(evaluate(r, t, r.Data.heldOut))
	t.Frozen.Images = r.Data.Test
	tested := try.E1(evaluate(r, t, r.Data.tested))
	c := r.Cell.Config
	for i, loss := range losses {
		if loss == math.MaxFloat32 { // This head has diverged, and predicts one class.
			heldOut[i].MIoU, tested[i].MIoU = math.NaN(), math.NaN()
		}
	}
	_, best := lo.MaxIndexBy(heldOut, func(a, b metrics.Segmentation) bool { return a.MIoU > b.MIoU || math.IsNaN(b.MIoU) })
	details := map[string]float64{"accuracy": tested[best].Accuracy, "rate": c.LearningRates[best], "loss": float64(losses[best])}
	for i, rate := range c.LearningRates {
		details[fmt.Sprintf("held_out_miou_rate_%g", rate)], details[fmt.Sprintf("miou_rate_%g", rate)] = heldOut[i].MIoU, tested[i].MIoU
	}
	head, decay := "linear 1×1 head", ""
	if c.Head == heads.FCN {
		head, decay = fmt.Sprintf("FCN of width %d", c.Width), fmt.Sprintf(" decaying to %g on a cosine", c.FinalLearningRate)
	}
	crops := lo.Ternary(c.Crops > 0, fmt.Sprintf("%d of each image", c.Crops), "a new one each time")
	return []study.Number{{
		Metric: "mIoU", Unit: "%", Value: tested[best].MIoU, Images: lo.Ternary(c.Shares > 1, nil, tested[best].ByImage), Details: details,
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
				computed = append(computed, crops[place*c.used(len(images))+crop])
			}
			samples = append(samples, evaluation.Sample{Image: images[place], Crop: crop})
		}
		if crops == nil {
			return fixed.Crops(ctx, samples)
		}
		return datasets.InTurn(ctx, len(computed), 0, func(i int) (evaluation.Patches, error) { return computed[i], nil })
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
	defer try.Handle(&err)
	source := evaluation.Source{Dir: o.Data, Dataset: dataset, Classes: c.Classes, Seed: seed}
	if encoders.Drawn(dataset) {
		source.Images, source.Size = c.Images, drawnSize
	}
	d.Data = try.E1(recipe.Annotated(source, "classes", datasets.Train, datasets.Test))
	if !encoders.Drawn(dataset) {
		d.Data = encoders.Share(o, d.Data, seed, c.Shares)
	}
	d.tested = datasets.Spread(d.Test.Len(), c.Images)
	all := datasets.Spread(d.Train.Len(), c.Images)
	every := max(2, len(all)/c.Holdout)
	d.heldOut, d.trained = lo.FilterReject(all, func(_, i int) bool { return i%every == every-1 })
	if len(d.heldOut) == 0 { // There is a single image.
		d.heldOut = d.trained
	}
	return d, nil
}

// kept computes the features of the crops of a cell that come up, since each may be used many times. It returns none if crops are drawn anew each time, or if they do not fit.
func kept(r *run, fixed evaluation.FrozenFeatures) (crops []evaluation.Patches, err error) {
	defer try.Handle(&err)
	if r.Cell.Config.Crops == 0 {
		return nil, nil
	}
	samples := lo.FlatMap(r.Data.trained, func(image, _ int) []evaluation.Sample {
		return lo.Times(r.Cell.Config.used(len(r.Data.trained)), func(crop int) evaluation.Sample { return evaluation.Sample{Image: image, Crop: crop} })
	})
	patches := fixed.Grid() * fixed.Grid()
	if gib := float64(len(samples)*patches*(4*fixed.Extractor.ViT.Dim+64)) / (1 << 30); gib > r.Cell.Config.CacheGiB {
		r.Warnf("%s: features are computed each time, because %.1f GiB of them exceed cache_gib, %g", r.Cell.Name(), gib, r.Cell.Config.CacheGiB)
		return nil, nil
	}
	r.Say("features of %d crops", len(samples))
	for patches, err := range fixed.Crops(r.Context, samples) {
		try.E(err)
		crops = append(crops, patches)
	}
	return crops, nil
}
