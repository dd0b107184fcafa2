package experiments_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/experiments/mainresults"
	"github.com/semcon/semcon/sccore/experiments/transfer"
	"github.com/semcon/semcon/sccore/experiments/video"
	"github.com/semcon/semcon/sccore/study"
)

var three = []study.Experiment{mainresults.Study.Experiment(), transfer.Study.Experiment(), video.Study.Experiment()}

func TestFrozenCells(t *testing.T) {
	content, err := os.ReadFile("testdata/net/cells.txt")
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]map[study.Profile][]string{
		"main":     {study.Smoke: {"synthetic"}, study.Quick: {"synthetic", "imagenet", "coco"}, study.Full: {"imagenet", "coco"}},
		"transfer": {study.Smoke: {"synthetic"}, study.Quick: {"coco", "voc2012", "ade20k", "cityscapes", "synthetic"}, study.Full: {"coco", "voc2012", "ade20k", "cityscapes"}},
		"video":    {study.Smoke: {"synthetic"}, study.Quick: {"synthetic", "davis"}, study.Full: {"davis"}},
	}
	var text strings.Builder
	for _, e := range three {
		for _, profile := range []study.Profile{study.Smoke, study.Quick, study.Full} {
			for _, dataset := range sets[e.Name][profile] {
				o := study.Options{Profile: profile, Out: t.TempDir()}
				if dataset != "synthetic" {
					o.Data = "data"
				}
				fmt.Fprintf(&text, "%s %s %s\n", e.Name, profile, dataset)
				names, hashes, err := e.Cells(o, dataset)
				if err != nil {
					t.Fatal(err)
				}
				for i := range names {
					fmt.Fprintf(&text, "\t%s %s\n", names[i], hashes[i])
				}
			}
		}
	}
	if !strings.HasSuffix(string(content), text.String()) {
		t.Errorf("other cells:\n%s", text.String())
	}
}

func TestFrozenRecords(t *testing.T) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("testdata/net/records.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadFile("testdata/net/files.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	if from := os.Getenv("PRETRAINED"); from != "" {
		if err := os.CopyFS(out, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range three {
		if err := e.Run(context.Background(), b, study.Options{Profile: study.Smoke, Out: out, Parallel: 1, CheckpointEvery: time.Hour}); err != nil {
			t.Fatal(err)
		}
		records, err := study.Records(study.Folder(out, e.Name))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Count(string(content), `"experiment":"`+e.Name); want != len(records) {
			t.Logf("%s: %d records of %d", e.Name, len(records), want)
		}
		for _, r := range records {
			r.Backend, r.Versions, r.Seconds, r.Finished = "", nil, 0, time.Time{}
			for _, speed := range []string{"images_per_second", "crops_per_second", "frames/s"} {
				delete(r.Details, speed)
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(line), out, "OUT") + "\n"
			if !strings.Contains(string(content), text) {
				t.Errorf("no such record: %s", text)
			}
		}
		tables, err := e.Tables(records, study.Smoke)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile("testdata/net/tables.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range tables {
			if text := table.Markdown(); !strings.Contains(string(want), text) {
				t.Logf("no such table (rows of pretrain are missing here):\n%s", text)
			}
		}
	}
	var got []string
	filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if entry.IsDir() || strings.HasSuffix(path, "lock") || strings.HasSuffix(path, "runs.jsonl") {
			return err
		}
		content, _ := os.ReadFile(path)
		if strings.HasSuffix(path, ".safetensors") {
			content = content[8+binary.LittleEndian.Uint64(content):]
		}
		name, _ := filepath.Rel(out, path)
		line := fmt.Sprintf("%s %x", filepath.ToSlash(name), sha256.Sum256(content))
		got = append(got, line)
		if !strings.Contains(string(files), line) {
			t.Errorf("other file %s", line)
		}
		return nil
	})
	t.Logf("%d files", len(got))
}
