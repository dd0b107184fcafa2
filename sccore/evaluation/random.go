package evaluation

import (
	"errors"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/train"
)

// RandomViT draws the weights of a transformer that encoder.ViTByName knows, at the root of a store: the same on every backend.
func RandomViT(name string, seed int) (v encoder.ViT, store *model.Store, err error) {
	if v, err = encoder.ViTByName(name); err != nil {
		return v, nil, err
	}
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return v, nil, err
	}
	defer host.Finalize()
	store = model.NewStore()
	caught := exceptions.TryCatch[error](func() {
		var tokens *model.Exec
		tokens, err = model.NewExec(host, store, func(scope *model.Scope, images *graph.Node) *graph.Node { return v.Tokens(scope, images).Class })
		if err != nil {
			return
		}
		defer tokens.Finalize()
		_, err = tokens.Compile(shapes.Make(dtypes.Float32, 1, v.PatchSize, v.PatchSize, 3)) // Compiling creates the variables.
	})
	if err = errors.Join(caught, err); err != nil {
		return v, nil, err
	}
	return v, store, train.Initialize(store, uint64(seed))
}
