package effectaug

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/methods"
	"github.com/semcon/semcon/sccore/recipe/augmentation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// black writes CIFAR-10 batches of black images, as many of each class, and returns the data folder.
func black(t *testing.T, counts map[string]int) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "cifar10", "cifar-10-batches-bin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, count := range counts {
		const record = 1 + 3*augmentation.ImageSize*augmentation.ImageSize
		batch := make([]byte, count*record)
		for i := range count {
			batch[i*record] = byte(i % 10)
		}
		if err := os.WriteFile(filepath.Join(folder, name), batch, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestQuickTakesAtMostItsImages: more images would make more steps than quick's epochs are for, and hours of them with all of CIFAR-10.
func TestQuickTakesAtMostItsImages(t *testing.T) {
	dir := black(t, map[string]int{"data_batch_1.bin": 10_000, "data_batch_2.bin": 500, "test_batch.bin": 30})
	d, err := augmentation.Open(study.Options{Profile: study.Quick, Data: dir}, "cifar10", 1, 0)
	if err != nil || d.Train.Len() != 10_000 || d.Train.SmallestClass() != 1000 || d.Test.Len() != 30 {
		t.Errorf("%d training and %d test images, %v", d.Train.Len(), d.Test.Len(), err)
	}
}

// TestEachSeedHasItsShare opens the shares of two seeds: the same number of images for each, none twice, under one identity.
func TestEachSeedHasItsShare(t *testing.T) {
	dir := cifar(t, 2)
	seen := map[string]bool{}
	var identities []string
	for seed := range 2 {
		d, err := augmentation.Open(study.Options{Profile: study.Quick, Data: dir}, "cifar10", 2, seed)
		if err != nil {
			t.Fatal(err)
		}
		if d.Train.Len() != 100 || d.Test.Len() != 50 || d.Train.SmallestClass() != 10 || d.Test.SmallestClass() != 5 {
			t.Errorf("%d training and %d test images", d.Train.Len(), d.Test.Len())
		}
		for i := range 100 {
			seen[string(d.Train.At(i))] = true
		}
		for i := range 50 {
			seen[string(d.Test.At(i))] = true
		}
		identities = append(identities, d.Identity())
	}
	if len(seen) != 300 || identities[0] != identities[1] || !strings.HasSuffix(identities[0], "; of each 2 shares, one for a seed") {
		t.Errorf("%d of 300 images, identities %q", len(seen), identities)
	}
}

// TestASmallSetIsNotCut: a class of three images cannot have five shares.
func TestASmallSetIsNotCut(t *testing.T) {
	var warned []string
	options := study.Options{Profile: study.Quick, Data: black(t, map[string]int{"data_batch_1.bin": 60, "test_batch.bin": 30}), Warn: func(line string) { warned = append(warned, line) }}
	d, err := augmentation.Open(options, "cifar10", 5, 4)
	if err != nil || d.Train.Len() != 60 || d.Test.Len() != 30 || strings.Contains(d.Identity(), "shares") {
		t.Errorf("%d training and %d test images, %v, %q", d.Train.Len(), d.Test.Len(), err, d.Identity())
	}
	if want := []string{"CIFAR-10 is too small for 5 shares: every seed has all of its images"}; !slices.Equal(warned, want) {
		t.Errorf("warnings %q, want %q", warned, want)
	}
}

// TestShortSetsAreRepeatedInAnEpoch trains on shares of 100 images with epochs of 128, so of two batches of 64, and without, so of one.
func TestShortSetsAreRepeatedInAnEpoch(t *testing.T) {
	options := tiny(t.TempDir())
	options.Data, options.Seeds, options.Only = cifar(t, 2), 2, []string{"*/simsiam/crop+*"}
	plain := options
	plain.Out = t.TempDir()
	options.Set = append(slices.Clone(options.Set), "shares=2", "epoch_images=128")
	plain.Set = append(slices.Clone(plain.Set), "shares=2")
	for want, o := range map[int]study.Options{4: options, 2: plain} {
		if err := Study.Run(context.Background(), testbackend.Go(t), o); err != nil {
			t.Fatal(err)
		}
		records := studytest.RecordsByCell(t, o.Out, Name)
		if len(records) != 2 {
			t.Errorf("%d records, want one for each seed", len(records))
		}
		for _, r := range records {
			curve, err := study.ReadCurve[study.Point](filepath.Join(study.Folder(o.Out, Name), filepath.FromSlash(r.Curve)))
			if err != nil || curve[len(curve)-1].Step != want {
				t.Errorf("%s: %d steps, want %d, %v", r.Cell, curve[len(curve)-1].Step, want, err)
			}
		}
	}
}

func TestBadShares(t *testing.T) {
	dir := black(t, map[string]int{"data_batch_1.bin": 60, "test_batch.bin": 30})
	for set, want := range map[string]string{
		"shares=-1": "shares -1", "simclr.shares=3": "--set shares: runs of one call share", "shares=2": "3 seeds and 2 shares", "epoch_images=-1": "epoch_images -1",
	} {
		options := study.Options{Profile: study.Quick, Data: dir, Out: t.TempDir(), Seeds: 3, Set: []string{set}}
		if err := Study.Run(t.Context(), nil, options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	if err := Study.Run(t.Context(), nil, study.Options{Profile: study.Quick, Out: t.TempDir(), Set: []string{"shares=2"}}); err == nil || !strings.Contains(err.Error(), "synthetic images are drawn") {
		t.Errorf("shares of synthetic images: %v", err)
	}
	if c := augmentation.ProfileConfig(study.Full, methods.SimCLR, true); c.Shares != 0 || c.EpochImages != 0 {
		t.Errorf("the paper's setting has shares %d and epochs of %d images", c.Shares, c.EpochImages)
	}
}
