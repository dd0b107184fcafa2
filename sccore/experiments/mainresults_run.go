package experiments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
)

// runMainResults runs the cells that are not recorded yet, one after the other.
func runMainResults(ctx context.Context, b compute.Backend, options Options) error {
	switch {
	case options.Profile == Smoke && options.Data != "":
		if options.Warn != nil {
			options.Warn("the smoke profile runs on synthetic images and leaves the data folder alone")
		}
		options.Data = ""
	case options.Profile == Full && options.Data == "":
		return fmt.Errorf("the full profile needs --data DIR with imagenet/train and imagenet/val")
	}
	cells, err := mainCells(options)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, mainParts, options.Only); err != nil {
		return BadOption{err}
	}
	data, err := openMainData(options.Data, cells[0].config)
	if err != nil {
		return err
	}
	dir := folderOf(options.Out, MainResults)
	records, err := Records(dir)
	if err != nil {
		return err
	}
	recorded := map[string]bool{}
	for _, r := range records {
		recorded[r.Cell+" "+r.ConfigHash+" "+r.Data] = true
	}
	todo := slices.DeleteFunc(slices.Clone(cells), func(c mainCell) bool {
		return recorded[c.name()+" "+hashOf(c.config.encode())+" "+data.identity]
	})
	open := options.Bar
	if open == nil {
		open = func(string, int) progress.Bar { return progress.Discard }
	}
	bar := open(fmt.Sprintf("%s (%s) on %s", MainResults, options.Profile, mainTitles[cells[0].dataset]), len(cells))
	defer bar.Close()
	bar.Set(len(cells)-len(todo), fmt.Sprintf("%d of %d runs to go", len(todo), len(cells)))
	for i, c := range todo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		begun := time.Now()
		numbers, err := measureMain(b, c, data)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		if err := mainRecord(c, data, options.Profile, numbers, time.Since(begun)).Append(dir); err != nil {
			return err
		}
		bar.Set(len(cells)-len(todo)+i+1, fmt.Sprintf("%s  k-NN %.1f %%", c.name(), numbers[columnNearest]))
	}
	return nil
}

// columnNearest is the column that a record's own value is of.
const columnNearest = "knn_Acc@1"

// measureMain returns the numbers of the table's columns, in percent; those of segmentation for synthetic scenes only.
func measureMain(b compute.Backend, c mainCell, data mainData) (map[string]float64, error) {
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
	var class [2]*tensors.Tensor
	for i, objects := range data.objects {
		features, err := encode(frozen, objects, c.config.Size, objects.Len(), false)
		if err != nil {
			return nil, err
		}
		class[i] = tensors.FromFlatDataAndDimensions(features.class, objects.Len(), features.dim)
	}
	numbers := map[string]float64{}
	nearest, err := c.config.KNN.Rank(b, class[0], data.labels[0], data.classes, class[1], 5)
	if err != nil {
		return nil, err
	}
	linear, err := c.config.Class.Rank(b, class[0], data.labels[0], data.classes, class[1], 5, uint64(c.seed))
	if err != nil {
		return nil, err
	}
	for _, k := range []int{1, 5} {
		numbers[fmt.Sprintf("knn_Acc@%d", k)] = evaluation.AccuracyWithin(nearest, data.labels[1], k)
		numbers[fmt.Sprintf("linear_cls_Acc@%d", k)] = evaluation.AccuracyWithin(linear, data.labels[1], k)
	}
	if data.scenes[0] == nil {
		return numbers, nil
	}
	var annotated [2]evaluation.Annotated
	for i, scenes := range data.scenes {
		features, err := encode(frozen, scenes.Images, c.config.Size, scenes.Len(), true)
		if err != nil {
			return nil, err
		}
		annotated[i] = evaluation.Annotated{
			Rows: features.rows, Columns: features.columns, Dim: features.dim, Patches: features.patches,
			Height: scenes.Height, Width: scenes.Width, Truth: scenes.ClassMask,
		}
	}
	segmentation, err := c.config.Patch.Measure(b, annotated[0], annotated[1], 1+data.classes, uint64(c.seed))
	numbers["linear_seg_mIoU"], numbers["linear_seg_Acc"] = segmentation.MIoU, segmentation.Accuracy
	return numbers, err
}

func mainRecord(c mainCell, data mainData, profile Profile, numbers map[string]float64, took time.Duration) Record {
	config := c.config.encode()
	return Record{
		Experiment: MainResults, Cell: c.name(), Row: c.config.Encoder.Row, Column: mainTitles[c.dataset],
		Metric: "k-NN accuracy", Unit: "%", Value: numbers[columnNearest],
		Seed: c.seed, Profile: profile, Config: config, ConfigHash: hashOf(config),
		Protocol: fmt.Sprintf("[CLS] features of %d-pixel images; weighted k-NN, K %d, temperature %g, cosine; linear probe, AdamW, %d epochs of batches of %d, rate %g; "+
			"on scenes a linear probe of patch features, %d steps of %d patches, background a class, logits resized to the annotation",
			c.config.Size, c.config.KNN.K, c.config.KNN.Temperature, c.config.Class.Epochs, c.config.Class.Batch, c.config.Class.Rate, c.config.Patch.Steps, c.config.Patch.Batch),
		Data: data.identity, Details: numbers, Skipped: []string{},
		Backend: backend.Name(), Versions: versions(), Seconds: took.Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
	}
}
