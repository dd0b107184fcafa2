package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// tinyPretrain holds the arguments of a run of both stages that takes seconds on the Go engine.
var tinyPretrain = []string{"run", "pretrain", "--profile", "smoke", "--checkpoint-every", "0s", "--set", "first.steps=20", "--set", "second.steps=20",
	"--set", "first.encoder=vit-16x2x2p8-grid6", "--set", "second.encoder=vit-16x2x2p8-grid6"}

// TestKilledPretrainingEndsWithTheSameBytes kills a run ten times, each time after another step of the two stages and some more time, and compares its files
// with the files of an uninterrupted run.
func TestKilledPretrainingEndsWithTheSameBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	const kills, steps = 10, 40
	m := newMachine(t)
	whole, killed := t.TempDir(), t.TempDir()
	begun := time.Now()
	if _, stderr, status := outcome(t, onGo(semcon(t, m, append(tinyPretrain, "--out", whole)...))); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	took := time.Since(begun)
	random := rand.New(rand.NewPCG(7, 0))
	moments := random.Perm(steps - 1)[:kills] // Before the last step, after which little is left to kill.
	slices.Sort(moments)
	for _, moment := range moments {
		c := onGo(semcon(t, m, append(tinyPretrain, "--out", killed)...))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		more := time.Duration(random.Float64() / steps * float64(took))
		var err error
		for running := true; running; {
			select {
			case err = <-ended:
				running = false
			case <-time.After(time.Millisecond):
				if stepsDone(t, killed) >= moment {
					time.Sleep(more)
					c.Process.Kill()
				}
			}
		}
		if err == nil || c.ProcessState.ExitCode() != -1 {
			t.Fatalf("the run that was to be killed after step %d ended by itself: %v", moment, err)
		}
	}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, append(tinyPretrain, "--out", killed)...))); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	result, err := compareRuns(whole, killed)
	if err != nil {
		t.Fatal(err)
	}
	for _, difference := range result.Differences {
		t.Errorf("after %d kills: %s", kills, difference)
	}
	// Two stages and the control with three encoders, a final checkpoint, a curve and a model card each, the neighbours and the correspondences at the start.
	if result.Files != 20 || result.Records != 8 {
		t.Errorf("%d files and %d records, want 20 and 8", result.Files, result.Records)
	}
}

// stepsDone returns the number of steps of both stages for which a run has written checkpoints.
func stepsDone(t *testing.T, out string) (done int) {
	t.Helper()
	for _, stage := range []string{"first", "second"} {
		checkpoints, err := filepath.Glob(filepath.Join(out, pretrain.Name, "cells", "*", "*", stage, "*.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		last := 0
		for _, path := range checkpoints {
			step := 0
			if fmt.Sscanf(filepath.Base(path), "step-%d.safetensors", &step); filepath.Base(path) == "final.safetensors" {
				step = 20
			}
			last = max(last, step)
		}
		done += last
	}
	return done
}

// TestPretrainingOnImages trains on files in the layouts of ImageNet and COCO, one of them broken, and resumes.
func TestPretrainingOnImages(t *testing.T) {
	m, data, out := newMachine(t), t.TempDir(), t.TempDir()
	for i := range 12 {
		encoded := noisePNG(t, uint64(i), 40+i, 36)
		write(t, encoded, data, "imagenet", "train", "n01440764", string(rune('a'+i))+".png")
		write(t, encoded, data, "coco", "train2017", string(rune('a'+i))+".png")
	}
	write(t, []byte("no JPEG"), data, "coco", "train2017", "broken.jpg")
	args := []string{"run", "pretrain", "--profile", "smoke", "--data", data, "--out", out}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, args...))); status != 0 || !strings.Contains(stderr, "broken.jpg") {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	records, err := study.Records(filepath.Join(out, pretrain.Name))
	if err != nil || len(records) != 4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	file := recipe.EncoderFile(out, records[3], "second")
	if _, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--set", "init="+file)...))); status != 0 {
		t.Fatalf("from %s: exit status %d: %s", file, status, stderr)
	}
	_, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--set", "init="+filepath.Join(data, "none.pth"))...)))
	if status != 2 {
		t.Errorf("from no file: exit status %d", status)
	}
	wantLine(t, stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:], "semcon run: ", "none.pth")
}

// noisePNG returns an image of noise.
func noisePNG(t *testing.T, seed uint64, width, height int) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	picture := image.NewGray(image.Rect(0, 0, width, height))
	for p := range picture.Pix {
		picture.Pix[p] = uint8(random.IntN(256))
	}
	var encoded bytes.Buffer
	if err := png.Encode(&encoded, picture); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}
