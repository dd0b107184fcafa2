package encoders

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Encoder is where a cell's encoder comes from, as it stands in configurations.
type Encoder struct {
	Row          string `json:"row"`
	Architecture string `json:"architecture"` // Of random weights and of our own training.
	Weights      string `json:"weights"`      // The file; empty for random weights.
	Digest       string `json:"digest"`       // The first 16 hexadecimal digits of the file's SHA-256.
}

// Portable is the same encoder wherever its file lies, for the hashes of configurations.
func (e Encoder) Portable() Encoder {
	e.Weights = ""
	return e
}

// Digest identifies a file's content.
func Digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

// read reads the file, which must hold all weights of the row's architecture.
func (e Encoder) read() (*weights.Import, error) {
	read, err := weights.ReadViT(e.Weights, encoder.ViT{Positions: encoder.DINOPositions}, "")
	if err != nil {
		return nil, err
	}
	if len(read.Missing) > 0 {
		return nil, fmt.Errorf("%s: no weights of the filter, %s first", e.Weights, read.Missing[0])
	}
	if size := strings.TrimPrefix(read.ViT.Name, "vit"); titles[e.Row] == "" && !strings.HasSuffix(e.Row, size) {
		return nil, fmt.Errorf("%s: holds %s, which row %s is not of", e.Weights, read.ViT.Name, e.Row)
	}
	return read, nil
}

// Load returns the encoder with its weights at the store's root. Without a file the seed draws them.
func (e Encoder) Load(seed int) (encoder.ViT, *model.Store, error) {
	if e.Weights == "" {
		return randomViT(e.Architecture, seed)
	}
	read, err := e.read()
	if err != nil {
		return encoder.ViT{}, nil, err
	}
	store := model.NewStore()
	return read.ViT, store, read.Apply(store, "/")
}

// Opened is an encoder that is ready to run.
type Opened struct {
	*evaluation.Frozen
	Store *model.Store // Its weights, at the root.
}

// Open loads the encoder to run it on a backend.
func (e Encoder) Open(b compute.Backend, seed int) (*Opened, error) {
	vit, store, err := e.Load(seed)
	if err != nil {
		return nil, err
	}
	frozen, err := evaluation.NewFrozen(b, vit, store, "/", evaluation.EncodeBatch)
	if err != nil {
		store.Finalize()
		return nil, err
	}
	return &Opened{frozen, store}, nil
}

// Close frees the memory of the encoder and of its weights.
func (o *Opened) Close() {
	o.Frozen.Close()
	o.Store.Finalize()
}

// randomArchitecture is what an encoder of random weights is in a profile.
func randomArchitecture(profile study.Profile) string {
	if profile == study.Full {
		return "vit-s16"
	}
	return "vit-tiny"
}

// randomViT draws a transformer's weights, the same on every backend.
func randomViT(name string, seed int) (v encoder.ViT, store *model.Store, err error) {
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
		_, err = tokens.Compile(shapes.Make(dtypes.Float32, 1, v.PatchSize, v.PatchSize, 3)) // Which makes the variables.
	})
	if err = errors.Join(caught, err); err != nil {
		return v, nil, err
	}
	return v, store, train.Initialize(store, uint64(seed))
}
