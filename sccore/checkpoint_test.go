package sccore_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/weights"
)

// state is the bytes of a run's checkpoint.
func state(t *testing.T, trainer *sccore.Trainer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.safetensors")
	if err := trainer.Save(path, "note"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestResumedRunEqualsOneThatNeverStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		whole := tinyTrainer(t, b)
		trained(t, whole, 7, 3)
		middle := filepath.Join(t.TempDir(), "middle.safetensors")
		if err := whole.Save(middle, "a note"); err != nil {
			t.Fatal(err)
		}
		more(t, whole, 3)
		want := state(t, whole)

		resumed := whole
		if b == testbackend.Go(t) { // As in another process, and with other workers. On XLA the step would compile for as long again.
			data := tinyData()
			data.Workers = 3
			resumed = newTrainer(t, b, data, tiny())
		}
		trained(t, resumed, 8, 1) // After another run.
		note, err := resumed.Resume(middle)
		if err != nil || note != "a note" || resumed.Done() != 3 {
			t.Fatalf("resumed at step %d with note %q, %v", resumed.Done(), note, err)
		}
		steps := more(t, resumed, 3)
		if state(t, resumed) != want {
			t.Error("the resumed run ended with different bytes")
		}
		if steps[0].Step != 4 || steps[0].Class == nil || steps[1].Class != nil {
			t.Errorf("metrics %+v", steps)
		}
		trained(t, resumed, 7, 6)
		if state(t, resumed) != want {
			t.Error("the same seed ended with different bytes")
		}
		trained(t, resumed, 9, 6)
		if state(t, resumed) == want {
			t.Error("another seed ended with the same bytes")
		}
	})
}

func TestRunsFromFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := onGo(t)
	dir := t.TempDir()
	first := newTrainer(t, b, tinyData(), sccore.Ablations[2].Config(tiny())) // Without the filter.
	trained(t, first, 1, 2)
	checkpoint, target, online := filepath.Join(dir, "run.safetensors"), filepath.Join(dir, "target.safetensors"), filepath.Join(dir, "online.safetensors")
	if err := first.Save(checkpoint, ""); err != nil {
		t.Fatal(err)
	}
	if err := first.SaveEncoder(target, sccore.Target, map[string]string{"run": "first"}); err != nil {
		t.Fatal(err)
	}
	if err := first.SaveEncoder(online, sccore.Online, nil); err != nil {
		t.Fatal(err)
	}
	read := func(path string, prototypes int) string {
		want, err := encoder.ViTByName("vit-tiny")
		if err != nil {
			t.Fatal(err)
		}
		want.Prototypes = prototypes
		im, err := weights.ReadViT(path, want, "")
		if err != nil {
			t.Fatal(err)
		}
		return im.String()
	}
	if report := read(target, 0); !strings.Contains(report, "missing          0") {
		t.Errorf("exported encoder: %s", report)
	}

	// The filter is new and keeps its initial values; the rest is the online branch's, from either file.
	second := newTrainer(t, b, tinyData(), tiny())
	var ends []string
	for _, from := range []string{checkpoint, target, online} {
		if err := second.BeginFrom(from, 5); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(dir, "second.safetensors")
		if err := second.SaveEncoder(out, sccore.Online, nil); err != nil {
			t.Fatal(err)
		}
		read(out, 4)
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, string(content))
		more(t, second, 1)
	}
	if ends[0] != ends[2] || ends[0] == ends[1] {
		t.Errorf("the checkpoint and the online branch's file begin alike: %v, the checkpoint and the target's: %v", ends[0] == ends[2], ends[0] == ends[1])
	}

	if _, err := second.Resume(checkpoint); err == nil || !strings.Contains(err.Error(), checkpoint) {
		t.Errorf("resuming a run of another configuration: %v", err)
	}
	later := sccore.Ablations[2].Config(tiny()) // What a configuration omits as zero counts, too.
	later.LambdaBy = sccore.ByGradient
	if _, err := newTrainer(t, b, tinyData(), later).Resume(checkpoint); err == nil || !strings.Contains(err.Error(), "another configuration") {
		t.Errorf("resuming a run with other weights of losses: %v", err)
	}
	named, metadata, err := safetensors.Read(checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	bias := "/online/encoder/norm/bias"
	values := make([]float32, named[bias].Size())
	values[7] = float32(math.NaN())
	named[bias] = tensors.FromValue(values)
	diverged := filepath.Join(dir, "diverged.safetensors")
	if err := safetensors.Write(diverged, named, metadata); err != nil {
		t.Fatal(err)
	}
	if err := second.BeginFrom(diverged, 1); err == nil || !strings.Contains(err.Error(), diverged) || !strings.Contains(err.Error(), "norm/bias: entry 7 is NaN") {
		t.Errorf("beginning from a checkpoint with NaN: %v", err)
	}
	if err := second.BeginFrom(filepath.Join(dir, "none.pth"), 1); err == nil || !strings.Contains(err.Error(), "none.pth") {
		t.Errorf("beginning from a missing file: %v", err)
	}
}

// TestFilesAreWhatTheyHold: an archive of torch.save may have the name of a safetensors file, and a damaged checkpoint keeps its error.
func TestFilesAreWhatTheyHold(t *testing.T) {
	content, err := os.ReadFile("weights/testdata/families/dinov3.pth")
	path := filepath.Join(t.TempDir(), "archive.safetensors")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v, err := sccore.EncoderOf(path); err != nil || v.RoPE.Base == 0 {
		t.Errorf("read %+v, %v", v, err)
	}
	value := map[string]*tensors.Tensor{"x": tensors.FromValue([]float32{1})}
	if err := safetensors.Write(path, value, map[string]string{"position": "1", "config": "{}"}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, whole[:len(whole)-1], 0o600)
	}
	_, _, want := safetensors.Read(path)
	if _, got := sccore.EncoderOf(path); err != nil || want == nil || got == nil || got.Error() != want.Error() {
		t.Errorf("%v, %v; want %v", err, got, want)
	}
}

func TestDivergedRunNamesItsCheckpoint(t *testing.T) {
	b := onGo(t)
	config := tiny()
	config.LearningRate, config.FinalLearningRate, config.WeightDecay, config.FinalWeightDecay, config.GradientClip = 1e6, 1e6, 1e6, 1e6, 0
	trainer := newTrainer(t, b, tinyData(), config)
	if err := trainer.Begin(1); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "good.safetensors")
	if err := trainer.Save(path, ""); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		_, err := trainer.Step(t.Context())
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") || trainer.Done() == 6 {
			t.Errorf("error %v", err)
		}
		return
	}
	t.Error("the largest learning rate did not diverge")
}

// TestReadTarget: an encoder's target branch is that of the end of its training, with the projector of patches.
func TestReadTarget(t *testing.T) {
	b := testbackend.Go(t)
	dir := t.TempDir()
	encoderFile, end := filepath.Join(dir, "online.safetensors"), filepath.Join(dir, "final.safetensors")
	if _, err := sccore.ReadTarget(encoderFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the end of a training: %v", err)
	}
	trainer := tinyTrainer(t, b)
	if err := trainer.Begin(3); err != nil {
		t.Fatal(err)
	}
	if err := trainer.Save(end, ""); err != nil {
		t.Fatal(err)
	}
	branch, err := sccore.ReadTarget(encoderFile)
	if err != nil {
		t.Fatal(err)
	}
	defer branch.Store.Finalize()
	tokens := make([]float32, 3*branch.ViT.Dim)
	for i := range tokens {
		tokens[i] = float32(i%7) - 3
	}
	projected, err := branch.Project(b, tokens, 0)
	if err != nil || len(projected) != 3*branch.PatchHead.OutDim {
		t.Fatal(len(projected), err)
	}
	drawn := sccore.TargetBranch{ViT: branch.ViT, PatchHead: branch.PatchHead, Store: model.NewStore()}
	defer drawn.Store.Finalize()
	for seed := range uint64(2) {
		other, err := drawn.Project(b, tokens, seed)
		if err != nil || slices.Equal(other, projected) {
			t.Errorf("a projector of the seed %d is the training's: %v", seed, err)
		}
		for i := range 3 {
			for _, of := range [][]float32{projected, other} {
				square := 0.0
				for _, x := range of[i*branch.PatchHead.OutDim : (i+1)*branch.PatchHead.OutDim] {
					square += float64(x) * float64(x)
				}
				if !(math.Abs(square-1) <= 1e-5) {
					t.Errorf("feature %d has the squared length %g", i, square)
				}
			}
		}
	}
}
