package features

import (
	"slices"

	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/weights"
)

// encoded holds an encoder's patch features of the viewer's scenes.
type encoded struct {
	rows, columns int
	patches       [][]float64 // Scene by scene. [scenes·rows·columns][Dim]
}

// open loads the encoder in a file, or one with random weights if the file name is empty. The caller closes it.
func (w *Viewer) open(file string) (frozen *evaluation.FeatureExtractor, closeAll func(), err error) {
	v, err := encoder.ViTByName(w.config.Encoder)
	if err != nil {
		return nil, nil, err
	}
	v.Positions, v.Prototypes, v.BlocksAfterFilter = w.config.Positions, w.config.Prototypes, w.config.BlocksAfterFilter
	store := model.NewStore()
	if file == "" {
		if v, store, err = evaluation.RandomViT(w.config.Encoder, 0); err != nil {
			return nil, nil, err
		}
	} else {
		read, err := weights.ReadViT(file, v, "")
		if err != nil {
			return nil, nil, err
		}
		if len(read.Missing) > 0 {
			v.Prototypes = 0 // The encoder's stage has no filter.
		}
		if err := read.Apply(store, "/"); err != nil {
			return nil, nil, err
		}
	}
	frozen, err = evaluation.NewFeatureExtractor(w.backend, v, store, "/", 1)
	if err != nil {
		store.Finalize()
		return nil, nil, err
	}
	return frozen, func() { frozen.Close(); store.Finalize() }, nil
}

// encode runs the encoder in a file, or one with random weights if the file name is empty.
func (w *Viewer) encode(file string) (s encoded, err error) {
	frozen, closeAll, err := w.open(file)
	if err != nil {
		return encoded{}, err
	}
	defer closeAll()
	images := func(yield func(evaluation.Image, error) bool) {
		for _, im := range w.images {
			if !yield(im, nil) {
				return
			}
		}
	}
	for features, err := range frozen.Features(images, true) {
		if err != nil {
			return encoded{}, err
		}
		s.rows, s.columns = features.Rows, features.Columns
		for patch := range slices.Chunk(features.Patches, frozen.ViT.Dim) {
			wide := make([]float64, len(patch))
			for d, x := range patch {
				wide[d] = float64(x)
			}
			s.patches = append(s.patches, wide)
		}
	}
	return s, nil
}

// ofScene returns the patch features of a scene.
func (s encoded) ofScene(i int) [][]float64 {
	places := s.rows * s.columns
	return s.patches[i*places : (i+1)*places]
}
