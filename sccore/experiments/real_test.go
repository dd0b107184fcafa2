package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/experiments/ablation"
	"github.com/semcon/semcon/sccore/experiments/extendedtraining"
	"github.com/semcon/semcon/sccore/experiments/finetuning"
	"github.com/semcon/semcon/sccore/experiments/overdispersion"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/experiments/teacherquality"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/studytest"
)

// TestRealProfile trains a tiny transformer of DINOv2's layout on annotated images as the real profile trains a large one.
func TestRealProfile(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	b, out, data := testbackend.Go(t), t.TempDir(), studytest.VOC(t)
	file := filepath.Join("..", "weights", "testdata", "families", "dinov2.transformers", "model.safetensors")
	small := []string{
		"init=" + file, "recall.classes=", "recall.size=28", "recall.least=1", "size=28", "probe.steps=3", "second.steps=6", "second.warmup=1", "second.batch=4", "second.views.global_size=28",
		"second.canvas=48", "second.gauge_every=2", "second.image_head.hidden=16", "second.image_head.out=8", "second.patch_head.hidden=16", "second.patch_head.out=8", "second.prototypes=4",
		"second.neighbours=2",
	}
	for name, test := range map[string]struct {
		set, only []string
		rows      string
	}{
		pretrain.Name:       {rows: "alignment, equal steps; full method; initialisation; random init"},
		ablation.Name:       {only: []string{"*/line4", "*/line7"}, rows: "4; 7; 7, before the filter"},
		overdispersion.Name: {set: []string{"evaluate_every=1"}, rows: "2; 5"},
	} {
		e, _, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		var warned []string
		o := study.Options{Profile: study.Real, Out: out, Data: data, Seeds: 1, Set: append(test.set, small...), Only: test.only}
		o.Warn = func(line string) { warned = append(warned, line) }
		if err := e.Run(t.Context(), b, o); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if momentum := "second.momentum=0 follows second.steps=6, unless it is set"; lo.Count(warned, momentum) != 1 {
			t.Errorf("%s: want %q once in %q", name, momentum, warned)
		}
		if states, err := e.Status(o); err != nil || !lo.EveryBy(states, func(s study.CellStatus) bool { return s.State == study.Done }) {
			t.Errorf("%s: after its run: %v, %v", name, states, err)
		}
		rows := map[string]bool{}
		for _, r := range studytest.Records(t, out, name) {
			rows[r.Row] = true
			var counts stats.ByImage
			content, err := os.ReadFile(r.File(out, r.Images))
			if strings.Contains(r.Column, "recall") && r.Unit == "%" && (errors.Join(err, json.Unmarshal(content, &counts)) != nil || math.Abs(counts.Score(nil)-r.Value) > 1e-9) {
				t.Errorf("%s: %s of %s is %g, by image %g of %d images, %v", name, r.Column, r.Row, r.Value, counts.Score(nil), len(counts), err)
			}
			if r.Profile != study.Real || r.Kind != "real" || !strings.Contains(r.Data, "PASCAL VOC") || !strings.Contains(r.Data, "weights model.safetensors, sha256 ") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(rows)), "; "); got != test.rows {
			t.Errorf("%s: rows %s, want %s", name, got, test.rows)
		}
		// The table of these settings is found beside records of another profile, whose synthetic images real does not have.
		all := studytest.Records(t, out, name)
		others := lo.Filter(netRecords(t), func(r study.Record, _ int) bool { return r.Experiment == name })
		if selected, err := e.Selected(slices.Concat(others, all), o); err != nil || len(selected) != len(all) || len(others) == 0 {
			t.Errorf("%s: %d of %d records selected beside %d, %v", name, len(selected), len(all), len(others), err)
		}
		tables, err := e.Tables(all, study.Real)
		if err != nil || len(tables) == 0 {
			t.Errorf("%s: %d tables, %v", name, len(tables), err)
		}
		for _, table := range tables { // Nobody has set the weights of losses.
			if strings.Contains(table.Caption, "lambdas") {
				t.Errorf("%s: %s", name, table.Caption)
			}
		}
	}
	// What follows pretrain: fine-tuning of its encoders, and losses of concentration that train its encoder on, from itself, another encoder and labels.
	start, err := filepath.Glob(filepath.Join(out, pretrain.Name, "cells", "*", "*", "control", "final.safetensors"))
	other, _ := filepath.Glob(filepath.Join(out, overdispersion.Name, "cells", "*", "line2", "final.safetensors"))
	if err != nil || len(start)*len(other) != 1 {
		t.Fatalf("%q, %q, %v", start, other, err)
	}
	taught := []string{"init=" + start[0], "teacher=" + other[0]}
	for name, test := range map[string]struct {
		set  []string
		rows string
	}{
		finetuning.Name: {[]string{"steps=1", "batch=2", "channels=8", "images=4", "augmentation.crop_size=28", "upernet.inference.crop_size=28", "upernet.inference.stride=14",
			"augmentation.scale.long=112", "augmentation.scale.short=28", "inference.scale.long=112", "inference.scale.short=28", "optimizer.warmup=0"},
			"control; init; random; second"},
		teacherquality.Name: {append(taught, lo.Without(small[1:], "size=28")...), "alignment/share0/none; bce/share1/labels; bce/share1/objects0.5; bce/share1/pairs0.5; bce/share1/teacher; " +
			"cotap/share1/backbone; cotap/share1/labels; cotap/share1/objects0.5; cotap/share1/own; cotap/share1/pairs0.5; cotap/share1/teacher; fastap/share1/teacher; gram/share1/own; " +
			"neco/share1/own; paka/share1/own; smoothap/share1/teacher; start/share0/none; untrained/share0/none"},
	} {
		e, _, _ := Find(name)
		if err := e.Run(t.Context(), b, study.Options{Profile: study.Real, Out: out, Data: data, Seeds: 1, Set: test.set}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		rows := map[string]float64{}
		for _, r := range studytest.Records(t, out, name) {
			rows[r.Row] = r.Details["precision_top10"]
			if name == finetuning.Name && r.Images == "" {
				t.Errorf("%s of %s has no counts of images", r.Column, r.Row)
			}
		}
		if got := strings.Join(slices.Sorted(maps.Keys(rows)), "; "); got != test.rows {
			t.Errorf("%s: rows %s, want %s", name, got, test.rows)
		}
		if name == teacherquality.Name && rows["cotap/share1/own"] == rows["cotap/share1/backbone"] {
			t.Errorf("pairs of projected features and of the backbone have the same precision %g", rows["cotap/share1/own"])
		}
	}
	e, _, _ := Find(teacherquality.Name)
	published := study.Options{Profile: study.Real, Out: t.TempDir(), Data: data, Seeds: 1, Only: []string{"*/cotap/share1/teacher"},
		Set: append([]string{"init=" + start[0], "teacher=" + file}, lo.Without(small[1:], "size=28")...)}
	if err := e.Run(t.Context(), b, published); err != nil {
		t.Errorf("a published encoder as the teacher: %v", err)
	}
	published.Set[0] = "init=" + file
	if err := e.Run(t.Context(), b, published); err == nil || !strings.Contains(err.Error(), "it has no head of patches; want a checkpoint") || !strings.Contains(err.Error(), "control/final.safetensors") {
		t.Errorf("a published encoder as the start: %v", err)
	}
	// Continuations of the file with new heads of the baselines, beside the method. There is one kind of images.
	tiny := try.E1(sccore.EncoderOf(file)).Name
	continued := study.Options{Profile: study.Real, Out: out, Data: data, Seeds: 1, Set: append([]string{
		"weights=" + file, "second.encoder=" + tiny, "first.encoder=" + tiny, "own.encoder=" + tiny, "first.canvas=48", "own.canvas=48", "first.batch=4", "own.batch=4", "first.steps=6", "own.steps=6",
		"first.warmup=1", "own.warmup=1", "first.views.global_size=28", "own.views.global_size=28", "own.head.hidden=16", "own.head.bottleneck=8", "own.head.out=8", "evaluate_every=3",
		"mugs.own.queue=32", "mugs.own.discrimination.hidden=16", "mugs.own.discrimination.out=8", "mugs.own.discrimination.predictor=16",
	}, small[1:]...)}
	if err := extendedtraining.Study.Run(t.Context(), b, continued); err != nil {
		t.Fatal(err)
	}
	cells := map[string]bool{}
	for _, r := range studytest.Records(t, out, extendedtraining.Name) {
		cells[r.Cell] = true
		if !strings.Contains(r.Data, "PASCAL VOC") || strings.Contains(r.Cell, "own") != strings.Contains(r.Protocol, "new heads") {
			t.Errorf("%s: %s; %s", r.Cell, r.Protocol, r.Data)
		}
	}
	if got, want := len(cells), 3*len([]string{"start", "own-mixture", "alignment", "method"}); got != want {
		t.Errorf("%d cells, want %d: %v", got, want, cells)
	}
	continuations, err := extendedtraining.Study.Load(study.Options{Out: out, Profile: study.Real})
	if err != nil {
		t.Fatal(err)
	}
	if c24 := continuations.Evidence("", studytest.Claim("C24", ""))[0]; len(c24.Values)+c24.Gated != 1 { // So small an encoder may be below the gate.
		t.Errorf("C24: %v, %d left out", c24.Values, c24.Gated)
	}
	if text := extendedtraining.Study.Tables(continuations)[2].Markdown(); !strings.Contains(text, recipe.ColumnRecall) || !strings.Contains(text, "the method − alignment alone") {
		t.Errorf("table\n%s", text)
	}
	for set, want := range map[string]string{"": "--set init=FILE", "seeds": "--data DIR"} {
		o := study.Options{Profile: study.Real, Out: out, Data: data}
		if set != "" {
			o.Data = ""
		}
		if err := pretrain.Study.Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o := study.Options{Profile: study.Real, Out: out, Data: data, Set: append(small, "recall.size=0")}
	if err := pretrain.Study.Run(t.Context(), b, o); err == nil || !strings.Contains(err.Error(), "recall.size 0: the real profile") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
	if err := teacherquality.Study.Run(t.Context(), b, study.Options{Profile: study.Real, Out: out}); err == nil || !strings.Contains(err.Error(), "--data DIR") {
		t.Error(err)
	}
	theory, _, _ := Find("theory")
	if err := theory.Run(t.Context(), b, study.Options{Profile: study.Real, Out: out}); err == nil || !strings.Contains(err.Error(), "--profile real: theory has none") {
		t.Error(err)
	}
}

// TestMomentumOfRealFollowsTheSteps unless it is set.
func TestMomentumOfRealFollowsTheSteps(t *testing.T) {
	for set, want := range map[string]string{"": "0.97", "second.steps=1200": "0.994", "second.steps=1200 second.momentum=0.9": "0.9"} {
		o := study.Options{Profile: study.Real, Data: "data", Set: append(strings.Fields(set), "init=model.safetensors")}
		c := recipe.ProfileConfig(study.Real, true)
		if err := c.Configure(o, &c, true); err != nil || fmt.Sprint(c.Second.TargetMomentum) != want {
			t.Errorf("%s: momentum %g, %v, want %s", set, c.Second.TargetMomentum, err, want)
		}
	}
}
