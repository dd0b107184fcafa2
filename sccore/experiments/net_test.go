package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments/ablation"
	"github.com/semcon/semcon/sccore/experiments/centroid"
	"github.com/semcon/semcon/sccore/experiments/detection"
	"github.com/semcon/semcon/sccore/experiments/effectaug"
	"github.com/semcon/semcon/sccore/experiments/extendedtraining"
	"github.com/semcon/semcon/sccore/experiments/finetuning"
	"github.com/semcon/semcon/sccore/experiments/mainresults"
	"github.com/semcon/semcon/sccore/experiments/noiserate"
	"github.com/semcon/semcon/sccore/experiments/noisetolerance"
	"github.com/semcon/semcon/sccore/experiments/overdispersion"
	"github.com/semcon/semcon/sccore/experiments/patchrecall"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
	"github.com/semcon/semcon/sccore/experiments/teacherquality"
	"github.com/semcon/semcon/sccore/experiments/theory"
	"github.com/semcon/semcon/sccore/experiments/transfer"
	"github.com/semcon/semcon/sccore/experiments/video"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/study"
)

// The net holds what users' folders and tables are made of while the code behind it moves: the names of all cells with the hashes of their
// configurations, and everything that the smoke profiles leave on the pure-Go backend. A change of one of the files under testdata/net is a change
// of behaviour; "go test -run Net -update" writes them.
var update = flag.Bool("update", false, "write the files that the net compares with")

func compareWithNet(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", "net", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old, now := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(old), len(now)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(old) {
			a = old[i]
		}
		if i < len(now) {
			b = now[i]
		}
		if a != b {
			t.Fatalf("%s, line %d:\n%.600s\nwas\n%.600s", file, i+1, b, a)
		}
	}
}

// segmented are the datasets that are annotated by the pixel.
var segmented = []string{"coco", "voc2012", "ade20k", "cityscapes"}

// netDatasets are the datasets of each experiment that decides by them, by profile.
var netDatasets = map[string]map[study.Profile][]string{
	effectaug.Name:         {study.Smoke: {"synthetic", "cifar10"}, study.Quick: {"synthetic", "cifar10", "images"}, study.Full: {"cifar10", "cifar100"}},
	noisetolerance.Name:    {study.Smoke: {""}, study.Quick: {""}, study.Full: {""}},
	pretrain.Name:          {study.Smoke: {"synthetic", "images"}, study.Quick: {"synthetic", "images"}, study.Full: {"images"}},
	patchrecall.Study.Name: {study.Smoke: {"synthetic", "voc2012"}, study.Quick: {"synthetic", "voc2012", "camvid"}, study.Full: {"voc2012"}},
	centroid.Study.Name:    {study.Smoke: {"synthetic", "coco"}, study.Quick: {"synthetic", "coco"}, study.Full: {"coco"}},
	teacherquality.Name:    {study.Smoke: {"", "voc2012"}, study.Quick: {"", "voc2012"}, study.Full: {"", "voc2012"}},
	extendedtraining.Name:  {study.Smoke: {"synthetic", "images"}, study.Quick: {"synthetic", "images"}, study.Full: {"images"}},
	ablation.Name:          {study.Smoke: {"synthetic", "images"}, study.Quick: {"synthetic", "images"}, study.Full: {"images"}},
	mainresults.Study.Name: {study.Smoke: {"synthetic", "imagenet", "coco"}, study.Quick: {"synthetic", "imagenet", "coco"}, study.Full: {"imagenet", "coco"}},
	transfer.Name:          {study.Smoke: {"synthetic", "voc2012"}, study.Quick: append(segmented, "synthetic"), study.Full: segmented},
	finetuning.Name:        {study.Smoke: {"synthetic", "voc2012"}, study.Quick: append(segmented, "synthetic", "camvid"), study.Full: append(segmented, "camvid")},
	video.Name:             {study.Smoke: {"synthetic", "davis"}, study.Quick: {"synthetic", "davis"}, study.Full: {"davis"}},
	noiserate.Name:         {study.Smoke: {"synthetic", "voc2012"}, study.Quick: {"synthetic", "coco", "voc2012"}, study.Full: {"coco", "voc2012"}},
	overdispersion.Name:    {study.Smoke: {""}, study.Quick: {""}, study.Full: {"images"}},
	detection.Name:         {study.Smoke: {"synthetic", "coco"}, study.Quick: {"synthetic", "coco"}, study.Full: {"coco"}},
	theory.Name:            nil, // Its cells are in the records of effect-aug.
}

func TestNetHoldsCellsAndHashes(t *testing.T) {
	var text strings.Builder
	for _, e := range All() {
		if _, ok := netDatasets[e.Name]; !ok {
			t.Errorf("add %s to netDatasets: the datasets of its cells in each profile", e.Name)
		}
		if !slices.Contains(slices.Concat(inNet, outsideNet), e.Name) {
			t.Errorf("add %s to inNet, behind the experiments whose runs it reads", e.Name)
		}
		for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full, study.Real} {
			for _, dataset := range datasetsOf(e, profile) {
				options := study.Options{Profile: profile, Out: t.TempDir()}
				if dataset != "" && dataset != "synthetic" || profile == study.Real {
					options.Data = "data"
				}
				if profile == study.Real {
					options.Set = realSettings(t, e.Name)
				}
				if profile == study.Full && (e.Name == pretrain.Name || e.Name == ablation.Name || e.Name == overdispersion.Name) {
					options.Set = []string{"init=start.safetensors"}
				}
				if profile == study.Full && e.Name == extendedtraining.Name { // The hashes are of the content.
					file := filepath.Join(t.TempDir(), "start.safetensors")
					if err := os.WriteFile(file, []byte("weights"), 0o644); err != nil {
						t.Fatal(err)
					}
					options.Set = []string{"dino.weights=" + file, "mugs.weights=" + file}
				}
				fmt.Fprintf(&text, "%s %s %s\n", e.Name, profile, dataset)
				cells, err := e.Cells(options, dataset)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range cells {
					fmt.Fprintf(&text, "\t%s %s\n", c.Name, c.Hash)
				}
			}
		}
	}
	compareWithNet(t, "cells.txt", text.String())
}

// datasetsOf are the datasets of an experiment's cells in a profile. Those of the profile real are photographs.
func datasetsOf(e study.Experiment, profile study.Profile) []string {
	if profile != study.Real {
		return netDatasets[e.Name][profile]
	}
	if e.Cost[study.Real] == "" || e.Name == teacherquality.Name { // Its cells depend on a checkpoint.
		return nil
	}
	if read := lo.Without(netDatasets[e.Name][study.Quick], "synthetic", ""); len(read) > 0 {
		return read
	}
	return []string{recipe.Images}
}

// realSettings are the assignments that the cells of the profile real need.
func realSettings(t *testing.T, experiment string) []string {
	t.Helper()
	switch experiment {
	case extendedtraining.Name:
		file := filepath.Join(t.TempDir(), "start.safetensors")
		if err := os.WriteFile(file, []byte("weights"), 0o644); err != nil { // The hashes are of the content.
			t.Fatal(err)
		}
		return []string{"dino.weights=" + file}
	case pretrain.Name, ablation.Name, overdispersion.Name:
		return []string{"init=start.safetensors"}
	}
	return nil
}

// TestSettingsOfEachProfileAreKnown: a name that a configuration does not have is a panic.
func TestSettingsOfEachProfileAreKnown(t *testing.T) {
	for _, e := range All() {
		for profile := range e.Cost {
			for _, dataset := range netDatasets[e.Name][study.Quick] {
				_, err := e.Cells(study.Options{Profile: profile, Out: t.TempDir(), Data: "data", Set: []string{"init=start.safetensors"}}, dataset)
				t.Log(e.Name, profile, dataset, err) // Datasets and profiles that do not go together are errors.
			}
		}
	}
}

func TestNetHoldsSmokeRuns(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the recorded numbers are amd64's: other processors round differently")
	}
	if testing.Short() {
		t.Skip("runs all experiments in smoke")
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Finalize()
	out := t.TempDir()
	var records strings.Builder
	for _, name := range inNet {
		e, _, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		options := study.Options{Profile: study.Smoke, Out: out, Parallel: 1, CheckpointEvery: time.Hour}
		if err := e.Run(context.Background(), b, options); err != nil {
			t.Fatal(err)
		}
		found, err := study.Records(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			r.Backend, r.Versions, r.Seconds, r.Finished, r.Efficiency = "", nil, 0, time.Time{}, nil
			for _, speed := range []string{"images_per_second", "crops_per_second", "frames/s"} {
				delete(r.Details, speed)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			// What is found below out is named by where out lies.
			fmt.Fprintf(&records, "%s\n", strings.ReplaceAll(string(line), out, "OUT"))
		}
	}
	compareWithNet(t, "records.jsonl", records.String())
	compareWithNet(t, "tables.md", tablesOf(t, out))
	compareWithNet(t, "files.txt", digests(t, out))
	if drawn := checkFigures(t, out); drawn < 12 {
		t.Errorf("%d figures of numbers", drawn)
	}
}

// inNet are the experiments whose smoke runs the net holds, each after those whose runs it reads. outsideNet are the others: each of their cells compiles a whole
// network, and their own tests run them.
var (
	inNet = []string{effectaug.Name, theory.Name, noisetolerance.Name, pretrain.Name, teacherquality.Name, ablation.Name, extendedtraining.Name, mainresults.Study.Name,
		transfer.Name, video.Name, centroid.Study.Name, noiserate.Name, overdispersion.Name, patchrecall.Study.Name}
	outsideNet = []string{finetuning.Name, detection.Name}
)

// recorded yields the net's experiments with their records below out.
func recorded(t *testing.T, out string) iter.Seq2[study.Experiment, []study.Record] {
	return func(yield func(study.Experiment, []study.Record) bool) {
		for _, name := range inNet {
			e, _, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			records, err := study.Records(study.Folder(out, name))
			if err != nil {
				t.Fatal(err)
			}
			if !yield(e, records) {
				return
			}
		}
	}
}

// tablesOf makes all tables and the scoreboard of claims from the records below out.
func tablesOf(t *testing.T, out string) string {
	var tables strings.Builder
	for e, records := range recorded(t, out) {
		made, err := e.Tables(records, study.Smoke)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range made {
			markdown, err := table.Format("md")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&tables, "%s\n", markdown)
		}
	}
	claims, err := Claims(out, study.Smoke)
	if err != nil {
		t.Fatal(err)
	}
	text, err := claims.Format("md")
	if err != nil {
		t.Fatal(err)
	}
	return tables.String() + text
}

// TestNetHoldsTables makes the net's tables from its records, in a second: what shows numbers is tested without measuring them.
func TestNetHoldsTables(t *testing.T) {
	out := t.TempDir()
	for _, r := range netRecords(t) {
		if err := r.Append(study.Folder(out, r.Experiment)); err != nil {
			t.Fatal(err)
		}
	}
	compareWithNet(t, "tables.md", tablesOf(t, out))
	checkFigures(t, out)
}

// checkFigures draws what can be drawn of the records below out, and counts the figures with numbers. Each says that they are of synthetic data.
func checkFigures(t *testing.T, out string) (drawn int) {
	for e, records := range recorded(t, out) {
		all, err := e.Figures(records, study.Smoke, study.FigureSources{Out: out})
		if err != nil {
			t.Logf("%s: %v", e.Name, err) // There may be records without curves.
		}
		for _, f := range all {
			if figures.CSV(f.Figure) == "" {
				continue
			}
			drawn++
			if svg, _, err := figures.Render(f.Figure); err != nil || !strings.Contains(string(svg), "synthetic") {
				t.Errorf("%s: the figure %s does not say which images it is of: %v", e.Name, f.Name, err)
			}
		}
	}
	return drawn
}

// digests lists the files below a folder with the digests of their contents: of weights the tensors', since notes beside them may state times.
func digests(t *testing.T, root string) string {
	var lines []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "lock") || filepath.Base(path) == "seconds" || strings.HasSuffix(path, "runs.jsonl") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".safetensors") {
			content = content[8+binary.LittleEndian.Uint64(content):]
		}
		name, err := filepath.Rel(root, path)
		lines = append(lines, fmt.Sprintf("%s %x", filepath.ToSlash(name), sha256.Sum256(content)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
