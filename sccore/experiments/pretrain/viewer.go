package pretrain

import (
	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures/features"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// NewViewer returns a viewer of the first count scenes of a profile's data, at least 2: synthetic test scenes, or the scenes of the data folder dir.
func NewViewer(b compute.Backend, profile study.Profile, dir string, count int) (*features.Viewer, error) {
	config := recipe.ProfileConfig(profile, dir != "")
	config.Shares, config.Recall = 1, recipe.Recall{} // It measures nothing.
	data, err := recipe.Open(study.Options{Profile: profile, Data: dir}, config, 0)
	if err != nil {
		return nil, err
	}
	scenes := data.Train.Scenes
	if data.Scenes[1] != nil {
		scenes = data.Scenes[1].Images
	}
	return features.NewViewer(b, config.Second, config.Size, scenes, count)
}
