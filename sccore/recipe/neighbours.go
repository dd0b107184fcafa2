package recipe

import (
	"fmt"
	"path/filepath"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/study"
)

// NeighboursFile holds the neighbours from which positives are drawn, in the folder that the stages of a run share.
const NeighboursFile = "neighbours.safetensors"

// Neighbours reads the neighbours of object-centric images from the file in dir. If there is no file, it finds them by the [CLS] features of an encoder
// and writes the file.
func Neighbours[C comparable, D study.Data](r *study.Run[C, D], dir string, frozen *evaluation.FeatureExtractor, data Data, config Config) (*knn.Neighbours, error) {
	objects := data.Train.Objects
	encode := func() ([]float32, int, error) {
		r.Say("finding neighbours")
		features, err := evaluation.Encode(frozen, objects, config.Size, objects.Len(), false)
		return features.Class, features.Dim, err
	}
	return knn.Stored(r.Context, r.Backend(), filepath.Join(dir, NeighboursFile), objects.Len(), config.Second.Neighbours, SourceOf(data, r.Cell.Seed), encode)
}

// SourceOf says which images were compared to find neighbours, and by which run.
func SourceOf(data Data, seed int) string {
	return fmt.Sprintf("%s/seed%d, %s", data.Title(), seed, data.Identity())
}
