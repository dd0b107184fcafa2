package pretrain

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// Framework draws the method with what the step after the last one of a recorded run's second stage computes, see [features.Framework]. It needs the run's
// images, below the data folder dir, and its last checkpoint below out.
func (r Results) Framework(ctx context.Context, b compute.Backend, out, dir string, seed int) (f figures.Schematic, err error) {
	encoder, err := r.Encoder(out, seed, "second", "online")
	if err != nil {
		return f, err
	}
	config, err := r.configOf(seed)
	if err != nil {
		return f, err
	}
	data, err := recipe.Open(study.Options{Profile: r.Profile, Data: dir}, config, seed)
	if err != nil {
		return f, err
	}
	trainer, err := sccore.NewTrainer(b, data.Train, config.Second)
	if err != nil {
		return f, err
	}
	defer trainer.Close()
	if config.Second.Lambdas.ImageConcentration > 0 {
		path := filepath.Join(filepath.Dir(filepath.Dir(encoder)), recipe.NeighboursFile)
		neighbours, err := data.Neighbours(path, seed, config).Find(ctx, b, nil)
		if err != nil {
			return f, err
		}
		trainer.SetNeighbours(neighbours)
	}
	if _, err := trainer.Resume(filepath.Join(filepath.Dir(encoder), recipe.FinalFile)); err != nil {
		return f, err
	}
	intermediates, err := trainer.Intermediates(ctx)
	if err != nil {
		return f, err
	}
	vit, _, _ := trainer.Encoder(sccore.Online)
	return features.Framework(intermediates, vit, fmt.Sprintf("A step of the method: %s, %s profile, after %d steps", Name, r.Profile, trainer.Done()))
}

// configOf is the configuration of the run with a seed.
func (r Results) configOf(seed int) (c recipe.Config, err error) {
	for _, column := range []string{recipe.ColumnMIoU, recipe.ColumnRank} {
		if record, ok := r.OfSeed(recipe.RowMethod, column, seed); ok {
			err = record.DecodeConfig(&c)
			return c, err
		}
	}
	return c, fmt.Errorf("no run of %s with seed %d is recorded in profile %s", Name, seed, r.Profile)
}
