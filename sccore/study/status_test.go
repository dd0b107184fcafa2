package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/filelock"
)

func TestStatusTellsHowFarEachCellIs(t *testing.T) {
	y, out := newToy(), t.TempDir()
	o := Options{Profile: Quick, Out: out}
	states := func() map[string]CellStatus {
		t.Helper()
		cells, err := y.Status(o)
		if err != nil || len(cells) != 4 {
			t.Fatal(cells, err)
		}
		all := map[string]CellStatus{}
		for _, c := range cells {
			all[c.Name] = c
		}
		return all
	}
	recorded := func() string {
		t.Helper()
		done, all, others, err := y.Recorded(o)
		return fmt.Sprint(done, all, others, err)
	}
	if got := recorded(); got != "0 4 0 <nil>" {
		t.Errorf("before any run, recorded are %s", got)
	}
	for name, c := range states() {
		if c.State != ToDo || c.Age != 0 {
			t.Errorf("%s is %+v before any run", name, c)
		}
	}

	y.diverges = "a"
	if err := y.Run(t.Context(), nil, Options{Profile: Quick, Out: out, Only: []string{"a/seed0"}}); err == nil {
		t.Fatal(err)
	}
	y.diverges = ""
	ctx, stop := context.WithCancel(t.Context())
	y.stopAt, y.stop = 2, stop
	if err := y.Run(ctx, nil, Options{Profile: Quick, Out: out, Only: []string{"b/seed0"}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	y.stopAt = 0
	y.run(t, Options{Out: out, Only: []string{"b/seed1"}})
	running := filepath.Join(out, "toy", y.folder(numbers, Cell[toyConfig]{Path: []string{"a"}, Seed: 1, Config: toyConfig{Kind: "a", Steps: 3}}))
	if err := os.MkdirAll(running, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(running, "step-000000120.safetensors"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	unlock, _, err := filelock.Try(filepath.Join(running, LockFile))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	now := states()
	if c := now["a/seed0"]; c.State != Failed || c.Failure != "the loss diverged: it is NaN" {
		t.Errorf("the cell that diverged is %+v", c)
	}
	if c := now["b/seed0"]; c.State != Stopped || c.Failure != "" || c.Age <= 0 {
		t.Errorf("the cell that was stopped is %+v", c)
	}
	if c := now["b/seed1"]; c.State != Done {
		t.Errorf("the recorded cell is %+v", c)
	}
	if c := now["a/seed1"]; c.State != Running || c.Step != 120 {
		t.Errorf("the cell whose lock is held is %+v", c)
	}

	if got := recorded(); got != "1 4 0 <nil>" {
		t.Errorf("after runs, recorded are %s", got)
	}
	o.Set = []string{"steps=5"}
	if got := recorded(); got != "0 4 1 <nil>" {
		t.Errorf("beside a run with other settings, recorded are %s", got)
	}
	o.Set = []string{"unknown=5"}
	if got := recorded(); !strings.HasPrefix(got, "0 0 1 ") || !strings.Contains(got, "unknown") {
		t.Errorf("with an unknown setting, recorded are %s", got)
	}
	o.Set = nil

	// Those that watch read the same from the files alone, also of a process that is silent.
	folder := func(kind string, seed int) string {
		return filepath.Join(out, "toy", y.folder(numbers, Cell[toyConfig]{Path: []string{kind}, Seed: seed, Config: toyConfig{Kind: kind, Steps: 3}}))
	}
	watched := func(name string, want State) CellStatus {
		t.Helper()
		kind, seed, _ := strings.Cut(name, "/seed")
		dir := folder(kind, int(seed[0]-'0'))
		c, err := ReadFolder(dir)
		if err != nil || c.State != want {
			t.Errorf("the files of %s say %+v, %v", name, c, err)
		}
		return c
	}
	watched("a/seed0", Failed)
	watched("b/seed1", Done)
	if c := watched("b/seed0", Stopped); c.Live == nil || c.Live.Title != "b/seed0" || c.Live.Total != 3 || !strings.HasPrefix(c.Live.Call, "toy (quick) on ") {
		t.Errorf("the cell that was stopped has told %+v", c.Live)
	}
	bar, end := Watched(folder("b", 0), "b/seed0", 3, nil)
	bar.Set(2, "loss 0.5")
	if c := watched("b/seed0", Running); c.Live == nil || !strings.HasPrefix(c.Live.Summary, "0/3") {
		t.Errorf("the cell that runs tells %+v", c.Live)
	}
	end(nil)
	if _, err := os.Stat(filepath.Join(folder("b", 0), progressFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a finished run leaves its progress: %v", err)
	}

	// A failure is forgotten when the cell runs again.
	y.run(t, Options{Out: out, Only: []string{"a/seed0"}})
	if c := states()["a/seed0"]; c.State != Done {
		t.Errorf("the cell that ran again is %+v", c)
	}
}

func TestAWaitingCallTakesTheCellOver(t *testing.T) {
	y, out := newToy(), t.TempDir()
	start := Cell[toyConfig]{Path: []string{"start"}, Seed: 0, Config: toyConfig{Kind: "start", Steps: 1, Start: true}}
	dir := filepath.Join(out, "toy", y.folder(numbers, start))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, _, err := filelock.Try(filepath.Join(dir, LockFile))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(300*time.Millisecond, unlock)
	began := time.Now()
	if records := y.run(t, Options{Out: out, Only: []string{"a/seed0"}, Wait: true}); len(records) != 1 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("%d records after %v", len(records), time.Since(began))
	}
}

// TestACellWithoutNumbersIsDoneWithWhatNeedsIt lists the cell that others start from among the cells.
func TestACellWithoutNumbersIsDoneWithWhatNeedsIt(t *testing.T) {
	y, out := newToy(), t.TempDir()
	others := y.Cells
	y.Cells = func(o Options, dataset string) ([]Cell[toyConfig], error) {
		cells, err := others(o, dataset)
		return append(y.Needs(cells[0]), cells...), err
	}
	state := func() State {
		cells, err := y.Status(Options{Profile: Quick, Out: out, Seeds: 1})
		if err != nil || len(cells) != 3 || cells[0].Name != "start/seed0" {
			t.Fatal(cells, err)
		}
		return cells[0].State
	}
	y.run(t, Options{Out: out, Seeds: 1, Only: []string{"a"}})
	if state() == Done {
		t.Error("it is done before a cell that needs it")
	}
	y.run(t, Options{Out: out, Seeds: 1, Only: []string{"b"}})
	if s := state(); s != Done {
		t.Errorf("all that needs it is recorded, and it is %q", s)
	}
}

func TestRunsOnPhotographsBeginFromTheFilesOfRecordedOnes(t *testing.T) {
	out := t.TempDir()
	for _, r := range []Record{
		{Cell: "images/dino/start/seed0", Kind: figures.Real, Profile: Quick, Config: []byte(`{"init":"old","weights":"of dino","teacher":-1}`)},
		{Cell: "images/ibot/start/seed0", Kind: figures.Real, Profile: Quick, Config: []byte(`{"init":"new","weights":""}`)},
		{Cell: "ibot/start/seed0", Kind: figures.Synthetic, Profile: Quick, Config: []byte(`{"init":"drawn"}`)},
		{Cell: "images/dino/start/seed0", Kind: figures.Real, Profile: Smoke, Config: []byte(`{"init":"smoke"}`)},
	} {
		r.Experiment = "toy"
		if err := r.Append(Folder(out, "toy")); err != nil {
			t.Fatal(err)
		}
	}
	e := Experiment{Info: Info{Name: "toy", Files: []string{"init", "teacher", "dino.weights", "ibot.weights", "mugs.weights"}}}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Profile: Quick, Data: "photographs"}, "init=new dino.weights=of dino"},
		{Options{Profile: Quick, Data: "photographs", Set: []string{"init=mine"}}, "init=mine dino.weights=of dino"},
		{Options{Profile: Quick}, ""},
		{Options{Profile: Real}, ""},
	} {
		var warned []string
		given := len(c.o.Set)
		c.o.Out, c.o.Warn = out, func(line string) { warned = append(warned, line) }
		if got := e.FromFiles(c.o); strings.Join(got.Set, " ") != c.want || len(warned) != len(got.Set)-given {
			t.Errorf("%s, %q with %q: %q, said %q", c.o.Profile, c.o.Data, c.o.Set, got.Set, warned)
		}
	}
}
