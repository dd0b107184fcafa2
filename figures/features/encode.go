package features

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/weights"
)

// encoded holds an encoder's outputs for the viewer's scenes.
type encoded struct {
	rows, columns, dim int
	patches            [][]float64   // Patch features, scene by scene. [scenes·rows·columns][dim]
	attention          [][][]float64 // Attention of [CLS] to each patch in the last block. [scenes][heads][rows·columns]
	filter             [][]float64   // Attention of each patch to each prototype; nil without filter. [scenes][heads·rows·columns·Prototypes]
}

// encode runs the encoder in a file, or one with random weights if the file name is empty.
func (w *Viewer) encode(file string) (s encoded, err error) {
	v, err := encoder.ViTByName(w.config.Encoder)
	if err != nil {
		return encoded{}, err
	}
	v.Positions, v.Prototypes = w.config.Positions, w.config.Prototypes
	store := model.NewStore()
	defer store.Finalize()
	if file == "" {
		if err := store.SetRNGStateFromSeed(0); err != nil {
			return encoded{}, err
		}
	} else {
		read, err := weights.ReadViT(file, v, "")
		if err != nil {
			return encoded{}, err
		}
		if len(read.Missing) > 0 {
			v.Prototypes = 0 // The encoder's stage has no filter.
		}
		if err := read.Apply(store, "/"); err != nil {
			return encoded{}, err
		}
	}
	caught := exceptions.TryCatch[error](func() { s, err = w.run(v, store) })
	if caught != nil {
		err = caught
	}
	return s, err
}

func (w *Viewer) run(v encoder.ViT, store *model.Store) (encoded, error) {
	exec, err := model.NewExec(w.backend, store, func(scope *model.Scope, images *graph.Node) []*graph.Node {
		tokens := v.Tokens(scope, images)
		out := []*graph.Node{tokens.Patches, tokens.Attention[v.Depth-1]}
		if tokens.FilterAttention != nil {
			out = append(out, tokens.FilterAttention)
		}
		return out
	})
	if err != nil {
		return encoded{}, err
	}
	defer exec.Finalize()
	s := encoded{dim: v.Dim}
	for _, im := range w.images {
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(im.Pixels, 1, im.Height, im.Width, 3))
		if err != nil {
			return encoded{}, err
		}
		s.rows, s.columns = out[0].Shape().Dim(1), out[0].Shape().Dim(2)
		places := s.rows * s.columns
		if err := weights.CheckFinite(tensors.MustCopyFlatData[float32](out[0])); err != nil {
			return encoded{}, fmt.Errorf("image %s: its features are not finite: %w", im.Name, err)
		}
		for patch := range slices.Chunk(float64s(out[0]), v.Dim) {
			s.patches = append(s.patches, patch)
		}
		var heads [][]float64
		first := 1 + v.Registers // Of the patches.
		for head := range slices.Chunk(float64s(out[1]), (first+places)*(first+places)) {
			heads = append(heads, head[first:first+places]) // The first row is the attention of [CLS].
		}
		s.attention = append(s.attention, heads)
		if len(out) > 2 {
			s.filter = append(s.filter, float64s(out[2]))
		}
	}
	return s, nil
}

func float64s(tensor *tensors.Tensor) (values []float64) {
	for _, x := range tensors.MustCopyFlatData[float32](tensor) {
		values = append(values, float64(x))
	}
	return values
}

// ofScene returns the patch features of a scene.
func (s encoded) ofScene(i int) [][]float64 {
	places := s.rows * s.columns
	return s.patches[i*places : (i+1)*places]
}
