package sccore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// TargetBranch is the frozen branch that S_t comes from: an encoder, and the projector of its patch tokens.
type TargetBranch struct {
	ViT       encoder.ViT
	PatchHead heads.Projector
	// Store has the weights of both, those of the encoder in the scope TargetEncoder. Without those of the projector, [TargetBranch.Project] draws them.
	Store *model.Store
}

// TargetEncoder is the scope of the encoder in the store of a [TargetBranch].
const TargetEncoder = "/" + targetScope + "/" + encoderScope

// ReadTarget reads the target branch of a training from a checkpoint. For an encoder that a training has left, such as online.safetensors, it reads the end of the training,
// final.safetensors in the same folder or in its checkpoints. The error is an [fs.ErrNotExist] if there is no such branch; the path may be empty.
func ReadTarget(path string) (b TargetBranch, err error) {
	if slices.Contains([]string{"online.safetensors", "target.safetensors", "best.safetensors", "encoder.safetensors"}, filepath.Base(path)) {
		ended := filepath.Join(filepath.Dir(path), "final.safetensors")
		if path = ended; !isFile(ended) {
			path = filepath.Join(filepath.Dir(ended), "checkpoints", "final.safetensors")
		}
	}
	absent := fmt.Errorf("%s: no target branch: %w", path, fs.ErrNotExist)
	if !isFile(path) {
		return b, absent
	}
	config, ok, err := configOf(path)
	if err != nil {
		return b, err
	}
	if !ok {
		return b, absent
	}
	named, _, err := safetensors.Read(path)
	if err != nil {
		return b, err
	}
	if named["/"+targetScope+"/"+patchHeadScope+"/layer1/weight"] == nil { // A run without losses of patches, or of another method.
		return b, absent
	}
	if err := settings.Check(config); err != nil {
		return b, fmt.Errorf("%s: configuration of the run: %w", path, err)
	}
	b = TargetBranch{ViT: config.vit(), PatchHead: config.PatchHead, Store: model.NewStore()}
	b.ViT.ComputeDType = dtypes.InvalidDType
	for name, value := range named {
		if strings.HasPrefix(name, "/"+targetScope+"/") {
			if _, err := b.Store.CreateVariable(name, value); err != nil {
				b.Store.Finalize()
				return b, err
			}
		}
	}
	return b, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Project maps patch tokens, [N, ViT.Dim], to the projected features that S_t compares, [N, PatchHead.OutDim], of length 1. The seed draws the weights of a
// projector that has none, as they are when a training begins.
func (b TargetBranch) Project(engine compute.Backend, tokens []float32, seed uint64) (projected []float32, err error) {
	rows := tensors.FromFlatDataAndDimensions(tokens, len(tokens)/b.ViT.Dim, b.ViT.Dim)
	defer rows.FinalizeAll()
	trained := b.Store.GetVariable("/"+targetScope+"/"+patchHeadScope+"/layer1/weight") != nil
	program, err := train.NewProgram(engine, b.Store, func(scope *model.Scope, inputs []*Node) []*Node {
		return []*Node{b.PatchHead.Project(scope.At(targetScope).At(patchHeadScope), inputs[0])}
	}, []train.Input{{Shape: rows.Shape()}})
	if err != nil {
		return nil, err
	}
	defer program.Finalize()
	if !trained { // Compiling has created the variables.
		if err := train.Initialize(b.Store, seed); err != nil {
			return nil, err
		}
	}
	return projected, program.Call([]any{rows}, func(out []*tensors.Tensor) { projected = tensors.MustCopyFlatData[float32](out[0]) })
}
