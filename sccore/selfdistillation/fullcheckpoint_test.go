package selfdistillation

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// TestBeginFromAFullCheckpoint writes the student, the teacher, their heads and the centre under the authors' names, in PyTorch's layout, and begins from them.
func TestBeginFromAFullCheckpoint(t *testing.T) {
	b, path := onGo(t), filepath.Join(t.TempDir(), "full.safetensors")
	for _, method := range Names {
		trainer := newTrainer(t, b, tiny(method))
		if err := trainer.Begin(1); err != nil {
			t.Fatal(err)
		}
		learn(t, trainer, 3)
		before := state(trainer)
		if err := weights.ExportModel(path, trainer.Store(), nil, nil); err != nil {
			t.Fatal(err)
		}
		named, _, err := safetensors.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		head, mlp, center := "head.", "mlp.", method+"_loss.center"
		if method == Mugs {
			head, mlp, center = "group_head.", "projector.", "group-sup..center"
		}
		official := map[string]*tensors.Tensor{}
		rename := strings.NewReplacer("online.", "student.module.", "target.", "teacher.", "encoder.", "backbone.", ".head.mlp.", "."+head+mlp, ".head.", "."+head, "instance.", "instance_head.",
			"local_group.", "local_group_head.", "state.center", center, "state.patch_center", method+"_loss.center2")
		for name, value := range named {
			if !strings.HasPrefix(name, "optimizer") && !strings.HasPrefix(name, "state.memory") && name != "state.instance" && name != "state.local_group" {
				official[rename.Replace(name)] = value
			}
		}
		if err := safetensors.Write(path, official, nil); err != nil {
			t.Fatal(err)
		}
		if err := trainer.BeginFrom(path, 7); err != nil {
			t.Fatal(err)
		}
		compared := 0
		for name, value := range state(trainer) {
			if strings.HasPrefix(name, "/online/") || strings.HasPrefix(name, "/target/") && !strings.Contains(name, "masked_embed") {
				if compared++; !slices.Equal(value, before[name]) {
					t.Errorf("%s: %s is not the file's", method, name)
				}
			}
		}
		if !trainer.Continued() || compared < 100 || method == IBOT && !slices.Equal(state(trainer)["/state/patch_center"], before["/state/patch_center"]) {
			t.Errorf("%s: %d variables of the file, heads %t", method, compared, trainer.Continued())
		}
		// The teacher alone stands in for the student.
		teacher := lo.OmitBy(official, func(name string, _ *tensors.Tensor) bool { return strings.HasPrefix(name, "student") })
		if err := errors.Join(safetensors.Write(path, teacher, nil), trainer.BeginFrom(path, 7)); err != nil || !trainer.Continued() {
			t.Errorf("%s: of the teacher alone: heads %t, %v", method, trainer.Continued(), err)
		}
	}
}
