package mainresults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
)

// runMainResults runs the cells that are not recorded yet, one after the other.
func runMainResults(ctx context.Context, b compute.Backend, options Options) error {
	switch {
	case options.Profile == Smoke && options.Data != "":
		options.warn("the smoke profile runs on synthetic images and leaves the data folder alone")
		options.Data = ""
	case options.Profile == Full && options.Data == "":
		return fmt.Errorf("the full profile needs --data DIR with imagenet/train and imagenet/val, or coco")
	}
	data := map[string]mainData{"synthetic": {}}
	if options.Data != "" {
		read, missing, err := readMainData(options.Data)
		if err != nil {
			return err
		}
		data = read
		for _, line := range missing {
			options.warn("%s", line)
		}
	}
	cells, err := mainCells(options, data)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, mainParts, options.Only); err != nil {
		return BadOption{err}
	}
	if options.Data == "" {
		data["synthetic"] = drawMainData(cells[0].config)
	}
	dir := folderOf(options.Out, MainResults)
	recorded, err := recordedOn(dir)
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(slices.Clone(cells), func(c mainCell) bool {
		return recorded[recordKey(c.name(), c.config.hash(), data[c.dataset].identity)]
	})
	bar := options.bar(fmt.Sprintf("%s (%s)", MainResults, options.Profile), len(cells))
	defer bar.Close()
	bar.Set(len(cells)-len(todo), fmt.Sprintf("%d of %d runs to go", len(todo), len(cells)))
	for i, c := range todo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		begun := time.Now()
		numbers, err := measureMain(ctx, b, c, data[c.dataset])
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		record := mainRecord(c, data[c.dataset], options.Profile, numbers, time.Since(begun))
		if err := record.Append(dir); err != nil {
			return err
		}
		bar.Set(len(cells)-len(todo)+i+1, fmt.Sprintf("%s  %s %.1f %%", c.name(), record.Metric, record.Value))
	}
	return nil
}

// Columns that a record's own value is of.
const (
	columnNearest   = "knn_Acc@1"
	columnSegmented = "linear_seg_mIoU"
)

// measureMain measures a cell's encoder, see [measureFrozen].
func measureMain(ctx context.Context, b compute.Backend, c mainCell, data mainData) (map[string]float64, error) {
	vit, store, err := c.config.Encoder.open(c.seed)
	if err != nil {
		return nil, err
	}
	defer store.Finalize()
	frozen, err := evaluation.NewFrozen(b, vit, store, "/", frozenBatch)
	if err != nil {
		return nil, err
	}
	defer frozen.Close()
	return measureFrozen(ctx, b, frozen, c, data)
}

// measureFrozen returns the numbers of the table's columns that the data has, in percent. Of the cell its seed counts, and how to measure.
func measureFrozen(ctx context.Context, b compute.Backend, frozen *evaluation.Frozen, c mainCell, data mainData) (map[string]float64, error) {
	numbers := map[string]float64{}
	if data.objects[0] != nil {
		if err := classifyMain(b, frozen, c, data, numbers); err != nil {
			return nil, err
		}
	}
	var segmentation metrics.Segmentation
	var err error
	switch {
	case data.annotated[0] != nil:
		segmentation, err = c.config.Segmentation.Measure(ctx, b, frozen, data.annotated[0], data.annotated[1], uint64(c.seed))
	case data.scenes[0] != nil:
		segmentation, err = segmentScenes(b, frozen, c, data)
	default:
		return numbers, nil
	}
	numbers[columnSegmented], numbers["linear_seg_Acc"] = segmentation.MIoU, segmentation.Accuracy
	return numbers, err
}

// classifyMain adds the numbers of classification by [CLS] features.
func classifyMain(b compute.Backend, frozen *evaluation.Frozen, c mainCell, data mainData, numbers map[string]float64) error {
	class, err := classFeatures(frozen, data.objects, c.config.Size)
	if err != nil {
		return err
	}
	nearest, err := c.config.KNN.Rank(b, class[0], data.labels[0], data.classes, class[1], 5)
	if err != nil {
		return err
	}
	linear, err := c.config.Class.Rank(b, class[0], data.labels[0], data.classes, class[1], 5, uint64(c.seed))
	if err != nil {
		return err
	}
	for _, k := range []int{1, 5} {
		numbers[fmt.Sprintf("knn_Acc@%d", k)] = metrics.AccuracyWithin(nearest, data.labels[1], k)
		numbers[fmt.Sprintf("linear_cls_Acc@%d", k)] = metrics.AccuracyWithin(linear, data.labels[1], k)
	}
	return nil
}

// segmentScenes measures a linear probe on synthetic scenes, background a class.
func segmentScenes(b compute.Backend, frozen *evaluation.Frozen, c mainCell, data mainData) (metrics.Segmentation, error) {
	annotated, err := annotatedScenes(frozen, data.scenes, c.config.Size)
	if err != nil {
		return metrics.Segmentation{}, err
	}
	return c.config.Patch.Measure(b, annotated[0], annotated[1], 1+data.classes, uint64(c.seed))
}

func mainRecord(c mainCell, data mainData, profile Profile, numbers map[string]float64, took time.Duration) Record {
	metric, column := "k-NN accuracy", columnNearest
	if c.dataset == "coco" {
		metric, column = "mIoU", columnSegmented
	}
	return Record{
		Experiment: MainResults, Cell: c.name(), Row: c.config.Encoder.Row, Column: mainTitles[c.dataset],
		Metric: metric, Unit: "%", Value: numbers[column],
		Seed: c.seed, Profile: profile, Config: configJSON(c.config), ConfigHash: c.config.hash(),
		Protocol: c.protocol(), Data: data.identity, Details: numbers, Skipped: []string{},
		Backend: backend.Name(), Versions: versions(), Seconds: took.Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
	}
}

// protocol says how the numbers came about.
func (c mainCell) protocol() string {
	s, k, l := c.config.Segmentation, c.config.KNN, c.config.Class
	if c.dataset == "coco" {
		return fmt.Sprintf("linear 1×1 head on fixed patch features; crops of %d px of %g to 1 of an image's area, mirrored half of the time, %d of each training image in "+
			"batches of %d, Adam at rate %g; test images resized to %d×%d px, logits resized bilinearly to the annotation's size, ignored pixels (255) left out",
			s.Train, s.MinArea, s.Epochs, s.Batch, s.Rate, s.Test, s.Test)
	}
	text := fmt.Sprintf("[CLS] features of %d-pixel images; weighted k-NN, K %d, temperature %g, cosine; linear probe, AdamW, %d epochs of batches of %d, rate %g",
		c.config.Size, k.K, k.Temperature, l.Epochs, l.Batch, l.Rate)
	if c.dataset == "synthetic" {
		text += fmt.Sprintf("; on scenes a linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation",
			c.config.Patch.Steps, c.config.Patch.Batch)
	}
	return text
}
