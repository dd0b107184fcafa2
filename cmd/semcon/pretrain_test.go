package main

import (
	"bytes"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/cmd/semcon/internal/fakemachine"
	"github.com/semcon/semcon/sccore/experiments"
)

// tinyPretrain are the arguments of a run of both stages that takes seconds on the Go engine.
var tinyPretrain = []string{"run", "pretrain", "--profile", "smoke", "--checkpoint-every", "0s", "--set", "first.steps=20", "--set", "second.steps=20"}

// TestKilledPretrainingEndsWithTheSameBytes kills a run again and again, in both stages, and compares all that it leaves with what a run leaves
// that nobody killed.
func TestKilledPretrainingEndsWithTheSameBytes(t *testing.T) {
	m := fakemachine.New(t)
	whole, killed := t.TempDir(), t.TempDir()
	begun := time.Now()
	if _, stderr, status := outcome(t, onGo(semcon(t, m, append(tinyPretrain, "--out", whole)...))); status != 0 {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	took := time.Since(begun)
	random := rand.New(rand.NewPCG(uint64(begun.UnixNano()), 0))
	kills := 0
	for attempt := 0; ; attempt++ {
		c := onGo(semcon(t, m, append(tinyPretrain, "--out", killed)...))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// Ten attempts of less than a tenth of a run, then longer and longer ones, so that there is an end.
		limit := time.Duration((0.02 + 0.08*random.Float64() + 0.3*float64(max(attempt-9, 0))) * float64(took))
		timer := time.AfterFunc(limit, func() { c.Process.Kill() })
		err := c.Wait()
		timer.Stop()
		if err == nil {
			break
		}
		if c.ProcessState.ExitCode() != -1 {
			t.Fatalf("attempt %d failed by itself: %v", attempt, err)
		}
		kills++
	}
	want, got := pretrained(t, whole), pretrained(t, killed)
	if len(want) != 9 { // Two stages with two encoders, a final checkpoint and a curve each, and the neighbours.
		t.Errorf("%d files", len(want))
	}
	for file, content := range want {
		if got[file] != content {
			t.Errorf("%s differs after %d kills", file, kills)
		}
	}
	for file := range got {
		if _, ok := want[file]; !ok {
			t.Errorf("%s is left after %d kills", file, kills)
		}
	}
	values := func(out string) map[string]float64 {
		records, err := experiments.Records(filepath.Join(out, experiments.Pretrain))
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, r := range records {
			key := r.Row + "/" + r.Column
			if _, twice := values[key]; twice {
				t.Errorf("%s is recorded twice", key)
			}
			values[key] = r.Value
		}
		return values
	}
	measured := values(killed)
	for key, value := range values(whole) {
		if measured[key] != value {
			t.Errorf("%s is %g after %d kills, %g without", key, measured[key], kills, value)
		}
	}
	if len(measured) != 6 {
		t.Errorf("%d numbers after %d kills, want 6", len(measured), kills)
	}
	t.Logf("killed %d times", kills)
}

// pretrained are the files of a run's cells but for locks.
func pretrained(t *testing.T, out string) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := filepath.Join(out, experiments.Pretrain, "cells")
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" {
			return err
		}
		content, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root)] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestPretrainingOnImages trains on files in the layouts of ImageNet and COCO, one of them broken, and goes on from what it left.
func TestPretrainingOnImages(t *testing.T) {
	m, data, out := fakemachine.New(t), t.TempDir(), t.TempDir()
	for i := range 12 {
		encoded := noisePNG(t, uint64(i), 40+i, 36)
		write(t, encoded, data, "imagenet", "train", "n01440764", string(rune('a'+i))+".png")
		write(t, encoded, data, "coco", "train2017", string(rune('a'+i))+".png")
	}
	write(t, []byte("no JPEG"), data, "coco", "train2017", "broken.jpg")
	args := []string{"run", "pretrain", "--profile", "smoke", "--data", data, "--out", out, "--set", "images=12"}
	if _, stderr, status := outcome(t, onGo(semcon(t, m, args...))); status != 0 || !strings.Contains(stderr, "broken.jpg") {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	records, err := experiments.Records(filepath.Join(out, experiments.Pretrain))
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	file := experiments.PretrainedEncoder(out, records[2], "second")
	if _, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--set", "init="+file)...))); status != 0 {
		t.Fatalf("from %s: exit status %d: %s", file, status, stderr)
	}
	_, stderr, status := outcome(t, onGo(semcon(t, m, append(args, "--set", "init="+filepath.Join(data, "none.pth"))...)))
	if status != 1 {
		t.Errorf("from no file: exit status %d", status)
	}
	wantLine(t, stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:], "semcon run: ", "none.pth")
}

// noisePNG is an image of noise.
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
