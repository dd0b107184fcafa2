package recipe

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/study"
)

// NeighboursFile holds the neighbours from which positives are drawn, in the folder that the stages of a run share.
const NeighboursFile = "neighbours.safetensors"

// Neighbours reads the neighbours of object-centric images from the file in dir. If there is no file, it finds them by the [CLS] features of an encoder
// and writes the file.
func Neighbours[C comparable, D study.Data](r *study.Run[C, D], dir string, frozen *evaluation.FeatureExtractor, data Data, config Config) (*knn.Neighbours, error) {
	path, objects, source := filepath.Join(dir, NeighboursFile), data.Train.Objects, SourceOf(data, r.Cell.Seed)
	if _, err := os.Stat(path); err == nil {
		found, err := knn.Read(path, objects.Len(), source)
		if err != nil {
			return nil, fmt.Errorf("%w (remove the file to find them again)", err)
		}
		return found, nil
	}
	r.Say("finding neighbours")
	features, err := evaluation.Encode(frozen, objects, config.Size, objects.Len(), false)
	if err != nil {
		return nil, err
	}
	k := min(config.Second.Neighbours, objects.Len()-1)
	found, err := knn.Find(r.Context, r.Backend(), features.Class, features.Dim, k, progress.Discard)
	if err != nil {
		return nil, err
	}
	found.Source = source
	return found, found.Write(path)
}

// SourceOf says which images were compared to find neighbours, and by which run.
func SourceOf(data Data, seed int) string {
	return fmt.Sprintf("%s/seed%d, %s", data.Title(), seed, data.Identity())
}
