package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/backend"
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

// netDatasets are the datasets of each experiment that decides by them, by profile.
var netDatasets = map[string]map[Profile][]string{
	EffectAug:      {Smoke: {"synthetic"}, Quick: {"synthetic", "cifar10", "images"}, Full: {"cifar10", "cifar100"}},
	NoiseTolerance: {Smoke: {""}, Quick: {""}, Full: {""}},
	Pretrain:       {Smoke: {"synthetic", "images"}, Quick: {"synthetic", "images"}, Full: {"images"}},
	TeacherQuality: {Smoke: {""}, Quick: {""}, Full: {""}},
	Ablation:       {Smoke: {"synthetic", "images"}, Quick: {"synthetic", "images"}, Full: {"images"}},
	MainResults:    {Smoke: {"synthetic"}, Quick: {"synthetic", "imagenet", "coco"}, Full: {"imagenet", "coco"}},
	Transfer:       {Smoke: {"synthetic"}, Quick: transferDatasets, Full: transferDatasets[:4]},
	Video:          {Smoke: {"synthetic"}, Quick: {"synthetic", "davis"}, Full: {"davis"}},
}

func netCells(t *testing.T, experiment string, options Options, dataset string) (lines []string) {
	add := func(name, hash string) { lines = append(lines, name+" "+hash) }
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	switch experiment {
	case EffectAug:
		cells, err := effectAugCells(options, dataset)
		fail(err)
		for _, c := range cells {
			add(c.name(), hashOf(configJSON(c.config)))
		}
	case NoiseTolerance:
		cells, err := noiseCells(options)
		fail(err)
		for _, c := range cells {
			add(c.name(), hashOf(configJSON(c.config)))
		}
	case Pretrain:
		cells, err := pretrainCells(options, dataset)
		fail(err)
		for _, c := range cells {
			add(c.name(), hashOf(configJSON(c.config)))
		}
	case TeacherQuality:
		cells, err := qualityCells(options)
		fail(err)
		for _, c := range cells {
			add(c.name(), hashOf(configJSON(c.config)))
		}
	case Ablation:
		config, cells, err := ablationCells(options)
		fail(err)
		for _, c := range cells {
			add(c.name(), hashOf(configJSON(config)))
		}
	case MainResults:
		cells, err := mainCells(options, map[string]mainData{dataset: {}})
		fail(err)
		for _, c := range cells {
			add(c.name(), c.config.hash())
		}
	case Transfer:
		cells, err := transferCells(options, []string{dataset})
		fail(err)
		for _, c := range cells {
			add(c.name(), c.config.hash())
		}
	case Video:
		cells, err := videoCells(options)
		fail(err)
		for _, c := range cells {
			add(c.name(), c.config.hash())
		}
	}
	return lines
}

func TestNetHoldsCellsAndHashes(t *testing.T) {
	var text strings.Builder
	for _, e := range All() {
		for _, profile := range []Profile{Smoke, Quick, Full} {
			for _, dataset := range netDatasets[e.Name][profile] {
				options := Options{Profile: profile, Out: t.TempDir()}
				if dataset != "" && dataset != "synthetic" {
					options.Data = "data"
				}
				if profile == Full && (e.Name == Pretrain || e.Name == Ablation) {
					options.Set = []string{"init=start.safetensors"}
				}
				fmt.Fprintf(&text, "%s %s %s\n", e.Name, profile, dataset)
				for _, line := range netCells(t, e.Name, options, dataset) {
					fmt.Fprintf(&text, "\t%s\n", line)
				}
			}
		}
	}
	compareWithNet(t, "cells.txt", text.String())
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
	var records, tables strings.Builder
	// In the order of needs.
	for _, name := range []string{EffectAug, Theory, NoiseTolerance, Pretrain, TeacherQuality, Ablation, MainResults, Transfer, Video} {
		e, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		options := Options{Profile: Smoke, Out: out, Parallel: 1, CheckpointEvery: time.Hour}
		if err := e.Run(context.Background(), b, options); err != nil {
			t.Fatal(err)
		}
		found, err := Records(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			r.Backend, r.Versions, r.Seconds, r.Finished = "", nil, 0, time.Time{}
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
		made, err := e.Tables(found, Smoke)
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
	claims, err := Claims(out, Smoke)
	if err != nil {
		t.Fatal(err)
	}
	text, err := claims.Format("md")
	if err != nil {
		t.Fatal(err)
	}
	tables.WriteString(text)
	compareWithNet(t, "records.jsonl", records.String())
	compareWithNet(t, "tables.md", tables.String())
	compareWithNet(t, "files.txt", digests(t, out))
}

// digests lists the files below a folder with the digests of their contents: of weights the tensors', since notes beside them may state times.
func digests(t *testing.T, root string) string {
	var lines []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "lock") || strings.HasSuffix(path, "runs.jsonl") {
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
