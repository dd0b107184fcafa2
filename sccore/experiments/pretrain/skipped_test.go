package pretrain

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// TestPretrainRecordsWhatItSkips damages images after the run has listed them. A run that is stopped in its second stage and resumed ends with the same
// lists and the same weights as one that ran through, and with the time of both calls.
func TestPretrainRecordsWhatItSkips(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b := testbackend.Go(t)
	var want []string // Of the records, in their order.
	var encoder []byte
	for _, stops := range []bool{false, true} {
		out, data := t.TempDir(), t.TempDir()
		writeImages(t, data, 12)
		var warned []string
		ctx, stop := context.WithCancel(t.Context())
		options := study.Options{
			Profile: study.Smoke, Data: data, Out: out, Set: append([]string{"first.steps=4", "second.steps=4", "second.momentum=0.9", "second.gauge_every=1"}, small...),
			Warn: func(line string) {
				if !strings.Contains(line, "recall over patches") { // There is no PASCAL VOC.
					warned = append(warned, line)
				}
			},
			Watch: func(cell string, curve []study.Point) {
				if stops && strings.HasSuffix(cell, "/second") && len(curve) == 2 {
					stop()
				}
			},
		}
		experiment := Study
		experiment.Open = func(o study.Options, dataset string, cells []study.Cell[recipe.Config]) (recipe.Data, error) {
			d, err := Study.Open(o, dataset, cells)
			damage(t, data, "imagenet/train/n01440764/3.png", "imagenet/train/n01440764/4.png", "coco/train2017/7.png")
			return d, err
		}
		err := experiment.Run(ctx, b, options)
		if stops {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("stopped: %v", err)
			}
			folders, _ := filepath.Glob(filepath.Join(out, Name, "cells", "images", "seed0-*"))
			if len(folders) != 1 {
				t.Fatalf("folders %q", folders)
			}
			if err := os.WriteFile(filepath.Join(folders[0], "seconds"), []byte("1000\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			err = experiment.Run(t.Context(), b, options)
		}
		stop()
		if err != nil {
			t.Fatal(err)
		}
		records := studytest.Records(t, out, Name)
		if len(records) != 4 {
			t.Fatalf("%d records", len(records))
		}
		var lists []string
		for _, r := range records {
			slices.Sort(r.Skipped)
			lists = append(lists, strings.Join(r.Skipped, "; "))
		}
		content, err := os.ReadFile(recipe.EncoderFile(out, records[3], "second"))
		if err != nil {
			t.Fatal(err)
		}
		content = content[8+binary.LittleEndian.Uint64(content):]
		if !stops {
			scene := "train2017/7.png: is neither JPEG nor PNG"
			objects := "train/n01440764/3.png: is neither JPEG nor PNG; train/n01440764/4.png: is neither JPEG nor PNG; "
			want, encoder = []string{scene, objects + scene, objects + scene, objects + scene}, content // Random weights are measured on scenes alone.
			slices.Sort(warned)
			if all := strings.ReplaceAll(strings.Join(warned, "; "), "skipped ", ""); all != want[2] {
				t.Errorf("warned of %q, want each image once over both stages", warned)
			}
		}
		if !slices.Equal(lists, want) {
			t.Errorf("stopped %v: skipped %q, want %q", stops, lists, want)
		}
		if !bytes.Equal(content, encoder) {
			t.Errorf("stopped and resumed, the run ends with other weights")
		}
		if stops && records[3].Seconds < 1000 {
			t.Errorf("record of %g seconds, want the sum over both calls", records[2].Seconds)
		}
	}
}

// damage replaces files by text of the same length, so that the folder's identity stays.
func damage(t *testing.T, data string, files ...string) {
	t.Helper()
	for _, file := range files {
		path := filepath.Join(data, filepath.FromSlash(file))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), int(info.Size())), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
