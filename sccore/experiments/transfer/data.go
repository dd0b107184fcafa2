package transfer

import (
	"errors"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// sources are the real datasets: the paper's in its order, and CamVid, which is small.
var sources = encoders.Sources[Data]{
	Needed: "COCO, PASCAL VOC, ADE20k, Cityscapes or CamVid (\"semcon data\" lists what there is)",
	None:   "none of COCO, PASCAL VOC, ADE20k, Cityscapes and CamVid is",
	Names:  []string{"coco", "voc2012", "ade20k", "cityscapes", "camvid"},
	Row:    "dino-s16",
	Open: func(dir, dataset string) (d Data, err error) {
		d.Data, err = evaluation.Source{Dir: dir, Dataset: dataset}.Segmentation(datasets.Train, datasets.Test)
		return d, err
	},
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
	d.Data, err = source.Segmentation(datasets.Train, datasets.Test)
	if errors.As(err, new(evaluation.BadSetting)) {
		return d, study.BadOption{Err: fmt.Errorf("--set classes=%s: %w", c.Classes, err)}
	}
	if err != nil {
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

// cacheCrops opens the cached features of all crops. It returns nil if crops are drawn anew each time or the file would be too large.
func cacheCrops(r *run, fixed evaluation.FrozenFeatures) (*evaluation.FeatureFile, error) {
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
	return cacheFeatures(r, "crops", evaluation.FeatureEntries{
		Count: len(samples), Features: patches * fixed.Extractor.ViT.Dim, Labels: 64 * patches,
		Compute: func(from int) iter.Seq2[evaluation.Patches, error] { return fixed.Crops(r.Context, samples[from:]) },
	})
}

// cacheFeatures opens a file of cached features, which all runs with the same encoder and images share. It makes the file if it fits in the cache, and
// otherwise returns nil.
func cacheFeatures(r *run, kind string, entries evaluation.FeatureEntries) (*evaluation.FeatureFile, error) {
	c := r.Cell.Config
	encoder := c.Encoder.Digest
	if encoder == "" {
		encoder = fmt.Sprintf("%s of seed %d", c.Encoder.Architecture, r.Cell.Seed)
	}
	identity := r.Data.Train.Identity + "; " + r.Data.Test.Identity // Of the seed's share.
	if encoders.Drawn(r.Cell.Dataset) {
		identity += fmt.Sprintf(", of seed %d", r.Cell.Seed)
	} else {
		identity += ", " + datasets.JPEGDecoder
	}
	name := study.Hash(fmt.Appendf(nil, "%s, %s, %s, crops %d of {Side:%d MinArea:%v}, whole %d, %d images",
		identity, encoder, kind, c.Crops, c.CropSize, c.MinScale, c.TestSize, entries.Count))
	r.Say("features of %d %s", entries.Count, kind)
	cache := evaluation.FeatureCache{Dir: filepath.Join(r.Root(), "features"), Limit: c.CacheGiB * (1 << 30)}
	file, wanted, err := cache.Open(r.Context, name, entries)
	if err == nil && file == nil {
		r.Warnf("%s: features are computed each time, because a cache of %.1f GiB exceeds cache_gib, %g", r.Cell.Name(), wanted/(1<<30), c.CacheGiB)
	}
	return file, err
}
