package transfer

import (
	"fmt"
	"iter"
	"path/filepath"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

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
	identity := r.Data.train.Identity + "; " + r.Data.test.Identity // Of the seed's share.
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
