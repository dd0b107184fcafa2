package effectaug

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// cifar writes CIFAR-10 batches of noise, brighter in some classes than in others, and returns their folder.
func cifar(t *testing.T, testSeed uint64) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "cifar10", "cifar-10-batches-bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []struct {
		name string
		n    int
		seed uint64
	}{{"data_batch_1.bin", 200, 1}, {"test_batch.bin", 100, testSeed}} {
		random := rand.New(rand.NewPCG(file.seed, 0))
		var batch bytes.Buffer
		for i := range file.n {
			class := byte(i % 10)
			batch.WriteByte(class)
			for range 3 * augmentation.ImageSize * augmentation.ImageSize {
				batch.WriteByte(10*class + byte(random.IntN(100)))
			}
		}
		if err := os.WriteFile(filepath.Join(folder, file.name), batch.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// validated trains one cell with a fifth of the training images held out, and evaluates its initial weights.
func validated(t *testing.T, data string) map[string]study.Record {
	t.Helper()
	options := tiny(t.TempDir())
	options.Data, options.Only = data, []string{"*/simsiam/crop+*", "*/simsiam/untrained"}
	options.Set = append(options.Set, "validation=0.2", "epochs=1")
	if err := Study.Run(context.Background(), testbackend.Go(t), options); err != nil {
		t.Fatal(err)
	}
	return studytest.RecordsByCell(t, options.Out, Name)
}

// TestValidationDoesNotReadTheTestImages replaces the test images: no number changes.
func TestValidationDoesNotReadTheTestImages(t *testing.T) {
	one, other := validated(t, cifar(t, 2)), validated(t, cifar(t, 3))
	if len(one) != 2 || len(other) != 2 {
		t.Fatalf("%d and %d records, want 2", len(one), len(other))
	}
	for cell, r := range one {
		same := other[cell]
		delete(r.Details, "images_per_second")
		delete(same.Details, "images_per_second")
		if r.Data == same.Data {
			t.Fatal("the test images are the same")
		}
		if r.Value != same.Value || fmt.Sprint(r.Details) != fmt.Sprint(same.Details) {
			t.Errorf("%s: %g %v, with other test images %g %v", cell, r.Value, r.Details, same.Value, same.Details)
		}
		if !strings.HasSuffix(r.Protocol, ", on held-out training images: 0.2 of each class") {
			t.Errorf("%s has the protocol %q", cell, r.Protocol)
		}
		// 40 images are held out, and an accuracy is a share of them.
		if n := r.Value * 40 / 100; n != float64(int(n)) {
			t.Errorf("%s: %g %% is no share of 40 images", cell, r.Value)
		}
	}
}

func TestHeldOutImagesAreNoNeighbours(t *testing.T) {
	train, err := datasets.CIFAR10(cifar(t, 2), datasets.Train)
	if err != nil {
		t.Fatal(err)
	}
	d, err := heldOut(augmentation.Data{Train: train}, 0.25) // Without any test images.
	if err != nil {
		t.Fatal(err)
	}
	if d.Train.Len() != 150 || d.Test.Len() != 50 || d.Test.SmallestClass() != 5 || d.Train.SmallestClass() != 15 {
		t.Errorf("%d images, %d held out, at least %d and %d of a class", d.Train.Len(), d.Test.Len(), d.Train.SmallestClass(), d.Test.SmallestClass())
	}
	bank := map[string]bool{}
	for i := range d.Train.Len() {
		bank[string(d.Train.At(i))] = true
	}
	for i := range d.Test.Len() {
		if bank[string(d.Test.At(i))] {
			t.Errorf("image %d is held out and a neighbour", i)
		}
	}
	if same, err := heldOut(augmentation.Data{Train: train}, 0); err != nil || same.Train != train || same.Test != nil {
		t.Errorf("share 0 changes the data: %v", err)
	}
	if _, err := heldOut(augmentation.Data{Train: train}, 0.01); err == nil || !strings.Contains(err.Error(), "validation 0.01 holds out none of the 200") {
		t.Errorf("a share of no image: error %v", err)
	}
}

func TestBadValidation(t *testing.T) {
	for _, set := range []string{"validation=-0.1", "validation=0.6", "validation=some", "validation=null", "simclr.validation=1"} {
		_, err := cells(study.Options{Profile: study.Quick, Set: []string{set}}, "cifar10")
		if err == nil || !strings.Contains(err.Error(), "validation") || strings.Contains(err.Error(), "\n") {
			t.Errorf("--set %s: error %v", set, err)
		}
	}
}

// TestValidationIsNoTestResult: records on held-out images stand back behind those on test images, and alone they say what they are and judge no claim.
func TestValidationIsNoTestResult(t *testing.T) {
	records := madeUp(map[string][]float64{string(augmentation.AllCrops): {40, 41, 42}, string(augmentation.NoCrop): {30, 30, 31}})
	held := make([]study.Record, len(records))
	config := augmentation.ProfileConfig(study.Quick, methods.SimCLR, true)
	config.Validation = 0.2
	for i, r := range records {
		var trained augmentation.Config
		if err := r.DecodeConfig(&trained); err != nil {
			t.Fatal(err)
		}
		trained.Validation = 0.2
		r.Config, r.Value = study.EncodeConfig(trained), 99
		held[i] = r
	}
	both, err := Study.Results(append(append([]study.Record{}, records...), held...), study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	tables := Study.Tables(both)
	if strings.Contains(tables[0].Markdown(), "99") || strings.Contains(tables[0].Caption, "Numbers with validation") || !strings.Contains(tables[0].Caption, "with --set validation=0.2, which shows them") {
		t.Errorf("the table has numbers on held-out images:\n%s", tables[0].Markdown())
	}
	alone, err := Study.Results(held, study.Quick)
	if err != nil {
		t.Fatal(err)
	}
	tables = Study.Tables(alone)
	want := " Settings that differ from the profile's: validation=0.2. Numbers with validation are on held-out training images, not on test images."
	if !strings.HasSuffix(tables[0].Caption, want) {
		t.Errorf("caption %q", tables[0].Caption)
	}
	if evidence := alone.Evidence("", figures.Claim{Quantity: figures.Quantity{Column: records[0].Column, Row: records[0].Row}})[0]; len(evidence.Changed) != 1 { // Which counts for no claim.
		t.Errorf("changed settings %v", evidence.Changed)
	}
	if study.ConfigHash(config) == study.ConfigHash(augmentation.ProfileConfig(study.Quick, methods.SimCLR, true)) {
		t.Error("both configurations have one hash")
	}
}
