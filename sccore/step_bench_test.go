package sccore_test

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/usage"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
)

// BenchmarkStep measures whole training steps, including images.
//
//   - toy: vit-tiny on 48² views of 32 images, with every loss.
//   - vit-s16: the paper's step on two images, with 2 global views of 224² and 4 local ones of 96². Steps with and without L_sc alternate, so that
//     the share of CoTAP comes from one run. Between them the benchmark decodes JPEG files onto the paper's canvas of 512²: COCO's if SEMCON_DATA
//     has them, else synthetic scenes of 512². A step of n images needs 1.5 n of them: half are objects, each with a positive. Times are CPU
//     times, which depend little on other processes.
func BenchmarkStep(b *testing.B) {
	b.Run("toy", func(b *testing.B) {
		config := tiny()
		config.Views.GlobalCropSize, config.ImageSize, config.Batch, config.Prototypes = 48, 64, 32, 16
		config.Views.Locals = 0
		config.ImageHead, config.PatchHead = heads.Projector{HiddenDim: 256, OutDim: 64}, heads.Projector{HiddenDim: 256, OutDim: 64}
		trainer := begun(b, config, 64)
		for b.Loop() {
			if _, err := trainer.Step(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(config.Batch*b.N)/b.Elapsed().Seconds(), "images/s")
	})
	b.Run("input", func(b *testing.B) { // Of images in memory, on canvases of the full profile.
		config := tiny()
		config.Views.GlobalCropSize, config.ImageSize, config.Batch, config.Prototypes = 48, 512, 128, 16
		config.Views.Locals = 0
		config.ImageHead, config.PatchHead = heads.Projector{HiddenDim: 256, OutDim: 64}, heads.Projector{HiddenDim: 256, OutDim: 64}
		trainer, parts := begun(b, config, 512), 0
		b.ResetTimer()
		used := costs(b, func() (err error) { parts, err = trainer.Read(b.Context(), b.N, time.Hour); return err })
		b.ReportMetric(float64(config.Batch*parts)/b.Elapsed().Seconds(), "images/s")
		b.ReportMetric(float64(config.Batch*parts)/used.Seconds(), "images/CPU-s")
	})
	b.Run("vit-s16", func(b *testing.B) {
		config := sccore.Default()
		config.ImageSize, config.Batch = 256, 2
		without := config
		without.Lambdas.PatchConcentration = 0
		trainers := []*sccore.Trainer{begun(b, config, 256), begun(b, without, 256)}
		files := photographs(b)
		canvas := make([]uint8, 512*512*3)
		var steps [2]time.Duration
		var reading time.Duration
		read, images := 0, 0
		for b.Loop() {
			for i, trainer := range trainers {
				steps[i] += costs(b, func() error { _, err := trainer.Step(b.Context()); return err })
				for range 4 * config.Batch {
					reading += costs(b, func() error { _, err := files.Read(read%files.Len(), canvas, 512); return err })
					read++
				}
			}
			images += config.Batch
		}
		step, decoding := steps[0].Seconds()/(1.5*float64(images)), reading.Seconds()/float64(read)
		b.ReportMetric(steps[0].Seconds()/float64(b.N), "CPU-s/step")
		b.ReportMetric(steps[1].Seconds()/float64(b.N), "CPU-s/step-without-CoTAP")
		b.ReportMetric(1/step, "images-wanted/CPU-s")
		b.ReportMetric(1/decoding, "images-decoded/CPU-s")
		b.ReportMetric(step/decoding, "decoded/wanted")
		b.ReportMetric(100*(1-steps[1].Seconds()/steps[0].Seconds()), "%-of-CoTAP")
	})
}

// costs is the CPU time of work.
func costs(b *testing.B, work func() error) time.Duration {
	b.Helper()
	before := usage.CPU()
	if err := work(); err != nil {
		b.Fatal(err)
	}
	return usage.CPU() - before
}

// photographs are JPEG files, COCO's or synthetic scenes.
func photographs(b *testing.B) *datasets.ImageFolder {
	b.Helper()
	if dir := os.Getenv("SEMCON_DATA"); dir != "" {
		pictures, err := datasets.COCO(dir, datasets.Train)
		if err != nil {
			b.Fatal(err)
		}
		b.Logf("%d images of COCO", pictures.Len())
		return pictures
	}
	const side = 512
	dir, scenes := b.TempDir(), synthetic.Scenes(8, side, 1)
	for i := range scenes.Len() {
		picture := image.NewRGBA(image.Rect(0, 0, side, side))
		for p, pixels := 0, scenes.At(i); p < side*side; p++ {
			copy(picture.Pix[4*p:], pixels[3*p:3*p+3])
			picture.Pix[4*p+3] = 255
		}
		var encoded bytes.Buffer
		if err := jpeg.Encode(&encoded, picture, &jpeg.Options{Quality: 90}); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.jpg", i)), encoded.Bytes(), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	pictures, err := datasets.OpenImageFolder(dir)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d synthetic scenes of %d²", pictures.Len(), side)
	return pictures
}

// BenchmarkMemory takes steps of ViT-S/16 on two images and reports the most memory that the process holds in the first and in the second half of them, the
// first two steps apart, and what Go's heap holds, garbage collected, after the third step and after the last. Weights, moments and images of steps that are over
// must not add up: -benchtime 30x takes 30 steps.
func BenchmarkMemory(b *testing.B) {
	config := sccore.Default()
	config.ImageSize, config.Batch = 256, 2
	trainer := begun(b, config, 256)
	live := func() float64 {
		var heap runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&heap)
		return float64(heap.HeapAlloc) / 1e6
	}
	var peaks []int64
	early := 0.0
	for b.Loop() {
		if len(peaks) == 3 {
			early = live()
		}
		peaks = append(peaks, usage.PeakResident(func() {
			if _, err := trainer.Step(b.Context()); err != nil {
				b.Fatal(err)
			}
		}))
	}
	if b.N < 10 {
		return // The first call of a benchmark takes one step.
	}
	late := live()
	peaks = peaks[2:]
	b.ReportMetric(early, "MB-live-early")
	b.ReportMetric(late, "MB-live-late")
	b.ReportMetric(float64(slices.Max(peaks[:len(peaks)/2]))/1e6, "MB-first-half")
	b.ReportMetric(float64(slices.Max(peaks[len(peaks)/2:]))/1e6, "MB-second-half")
}

// begun returns a trainer that has taken a step, and so compiled it.
func begun(b *testing.B, config sccore.Config, side int) *sccore.Trainer {
	b.Helper()
	const images = 64
	neighbours := &knn.Neighbours{K: 1}
	for i := range int32(images) {
		neighbours.Indices = append(neighbours.Indices, (i+1)%images)
	}
	config.Steps = 1_000_000
	data := sccore.Data{Objects: synthetic.Objects(images, side, 1), Scenes: synthetic.Scenes(images, side, 2), Neighbours: neighbours}
	if config.Batch < 4 { // A part of a batch needs two of a kind.
		data.Scenes = nil
	}
	start := time.Now()
	trainer := newTrainer(b, testbackend.Fastest(b), data, config)
	if err := trainer.Begin(1); err != nil {
		b.Fatal(err)
	}
	if _, err := trainer.Step(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Logf("compiled, with the first step, in %.1f s", time.Since(start).Seconds())
	return trainer
}
