package methods

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/views"
)

func TestFeatureExtractorGivesTheTrainersFeatures(t *testing.T) {
	images := synthetic.Images(20, 32, 1)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		trainer := newTrainer(t, b, images, small(SimCLR))
		begin(t, trainer, 1)
		learn(t, trainer, 2)
		path := filepath.Join(t.TempDir(), "weights.safetensors")
		if err := trainer.SaveOnline(path, nil); err != nil {
			t.Fatal(err)
		}
		flat, _, err := trainer.Features(images)
		if err != nil {
			t.Fatal(err)
		}
		frozen, err := NewFeatureExtractor(b, "conv4-w4", 32, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer frozen.Close()
		if err := frozen.Load(path); err != nil {
			t.Fatal(err)
		}
		still := views.Default()
		still.Crop, still.Blur, still.Grayscale, still.Jitter, still.Flip = views.NoCrop, false, false, false, false
		got, dim, err := frozen.Features(images, still, 0)
		if err != nil {
			t.Fatal(err)
		}
		if dim != 16 || len(got) != 2*len(flat) {
			t.Fatalf("%d numbers of length %d", len(got), dim)
		}
		for i := range 20 {
			for v := range 2 { // Both views are the unchanged image.
				for c := range dim {
					if diff := math.Abs(float64(got[(i*2+v)*dim+c] - flat[i*dim+c])); !(diff <= 1e-4) {
						t.Fatalf("image %d view %d: differs by %g from the trainer's", i, v, diff)
					}
				}
			}
		}
		moved, _, err := frozen.Features(images, views.Default(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if moved[0] == moved[dim] && moved[1] == moved[dim+1] {
			t.Error("two crops of an image have equal features")
		}
	})
}

func TestFeatureExtractorNamesWhatIsWrong(t *testing.T) {
	b := testbackend.Fastest(t)
	for want, make := range map[string]func() error{
		`"vgg"`:   func() error { _, err := NewFeatureExtractor(b, "vgg", 32, 2); return err },
		"0 views": func() error { _, err := NewFeatureExtractor(b, "conv4-w4", 32, 0); return err },
		"variable backbone.": func() error {
			frozen, err := NewFeatureExtractor(b, "conv4-w4", 32, 1)
			if err != nil {
				return err
			}
			defer frozen.Close()
			images := synthetic.Images(8, 32, 1)
			s := small(SimCLR)
			s.Encoder = "conv4-w2"
			trainer := newTrainer(t, b, images, s)
			begin(t, trainer, 1)
			path := filepath.Join(t.TempDir(), "w.safetensors")
			if err := trainer.SaveOnline(path, nil); err != nil {
				return err
			}
			err = frozen.Load(path) // A file with other widths.
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "wants") {
				t.Errorf("got %v", err)
			}
			if err := trainer.Save(path, ""); err != nil { // A checkpoint, with other names.
				return err
			}
			return frozen.Load(path)
		},
		"24×24": func() error {
			frozen, err := NewFeatureExtractor(b, "conv4-w4", 32, 1)
			if err != nil {
				return err
			}
			defer frozen.Close()
			_, _, err = frozen.Features(synthetic.Images(4, 24, 1), views.Default(), 0)
			return err
		},
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Weights that overflow give no features, in training and frozen.
func TestFeaturesThatAreNotFiniteNameTheImage(t *testing.T) {
	b, images := testbackend.Go(t), synthetic.Images(20, 32, 1)
	trainer := newTrainer(t, b, images, small(SimCLR))
	begin(t, trainer, 1)
	for variable := range trainer.Store().Scope("/" + onlineScope).IterVariables() {
		if strings.HasSuffix(variable.Path(), "bn4/bias") {
			bias := make([]float32, variable.Shape().Size())
			bias[0] = float32(math.Inf(1))
			if err := variable.SetValue(tensors.FromValue(bias)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := "image 0 of " + images.Name + ": its features are not finite"
	if _, _, err := trainer.Features(images); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := trainer.SaveOnline(path, nil); err != nil {
		t.Fatal(err)
	}
	frozen, err := NewFeatureExtractor(b, "conv4-w4", 32, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	if err := frozen.Load(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := frozen.Features(images, views.Default(), 0); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
