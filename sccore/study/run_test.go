package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
)

// toyConfig is the configuration of a toy, which "trains" by counting and records the count.
type toyConfig struct {
	Kind  string `json:"kind"` // Cells of one kind share a worker.
	Steps int    `json:"steps"`
	Start bool   `json:"start"` // The cell that others start from.
}

// numbers are a toy's data.
var numbers = Described{ID: "numbers", Name: "numbers"}

// toy is an experiment whose worker keeps its count in a file.
type toy struct {
	Spec[toyConfig, Described]

	mu       sync.Mutex
	ran      []string // Names of the cells in the order in which they ran.
	workers  int      // Number of workers made.
	stopAt   int      // Number of steps of a cell after which the context is cancelled; 0 for never.
	stop     context.CancelFunc
	diverges string // The kind that diverges.
	skips    string // A file that every cell skips, twice.
}

type toyWorker struct {
	of *toy
}

func (toyWorker) Close() {}

func (w toyWorker) Run(r *Run[toyConfig, Described]) error {
	w.of.mu.Lock()
	w.of.ran = append(w.of.ran, r.Cell.Name())
	w.of.mu.Unlock()
	path, count := filepath.Join(r.Dir, "count"), 0
	if content, err := os.ReadFile(path); err == nil {
		count, _ = strconv.Atoi(string(content))
		r.Resumed(count)
	}
	for count < r.Cell.Config.Steps {
		if err := r.Context.Err(); err != nil {
			return err
		}
		count++
		if err := os.WriteFile(path, []byte(strconv.Itoa(count)), 0o644); err != nil {
			return err
		}
		r.Step("counts")
		if w.of.skips != "" {
			r.Skip(w.of.skips, "truncated")
			r.Skip(w.of.skips, "truncated in measuring")
		}
		if w.of.stopAt > 0 && count == w.of.stopAt {
			w.of.stop()
		}
	}
	if r.Cell.Config.Kind == w.of.diverges {
		return fmt.Errorf("%w: it is NaN", train.ErrDiverged)
	}
	return r.Record(Number{Row: r.Cell.Config.Kind, Column: "count", Metric: "count", Value: float64(count), Details: map[string]float64{"twice": float64(2 * count)}})
}

// newToy has two kinds of cells with two seeds each. They start from a cell that is never selected.
func newToy() *toy {
	t := &toy{}
	t.Spec = Spec[toyConfig, Described]{
		Name:  "toy",
		Parts: []string{"kind", "seed"},
		Cells: func(o Options, _ string) (cells []Cell[toyConfig], err error) {
			for seed := range o.SeedsOr(2) {
				for _, kind := range []string{"a", "b"} {
					config := toyConfig{Kind: kind, Steps: 3}
					if err := settings.Apply(&config, o.Set...); err != nil {
						return nil, err
					}
					cells = append(cells, Cell[toyConfig]{Path: []string{kind}, Seed: seed, Config: config})
				}
			}
			return cells, nil
		},
		Open: func(Options, string, []Cell[toyConfig]) (Described, error) { return numbers, nil },
		Numbers: func(_ Described, c Cell[toyConfig]) []Number {
			if c.Config.Start {
				return nil
			}
			return []Number{{Row: c.Config.Kind, Column: "count"}}
		},
		Steps: func(_ Described, c Cell[toyConfig]) int { return c.Config.Steps },
		NewWorker: func(*Run[toyConfig, Described]) (Worker[toyConfig, Described], error) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.workers++
			return toyWorker{t}, nil
		},
		Shares: func(c Cell[toyConfig]) string { return c.Config.Kind },
		Needs: func(c Cell[toyConfig]) []Cell[toyConfig] {
			if c.Config.Start {
				return nil
			}
			return []Cell[toyConfig]{{Path: []string{"start"}, Seed: c.Seed, Config: toyConfig{Kind: "start", Steps: 1, Start: true}}}
		},
		ProfileConfig: func(_ Record, config toyConfig) toyConfig { config.Steps = 3; return config },
		Common:        func(config, _ toyConfig) toyConfig { config.Kind = ""; return config },
		AcrossColumns: true,
		Tables:        func(Results) []figures.Table { return nil },
	}
	return t
}

func (y *toy) run(t *testing.T, o Options) []Record {
	t.Helper()
	if o.Profile == "" {
		o.Profile = Quick
	}
	if err := y.Run(t.Context(), nil, o); err != nil {
		t.Fatal(err)
	}
	records, err := Records(Folder(o.Out, "toy"))
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestRunDoesWhatIsNotRecorded(t *testing.T) {
	y, out := newToy(), t.TempDir()
	if records := y.run(t, Options{Out: out, Only: []string{"b/seed1"}}); len(records) != 1 || records[0].Cell != "b/seed1" || records[0].Value != 3 {
		t.Fatalf("records %+v", records)
	}
	if want := []string{"start/seed1", "b/seed1"}; !slices.Equal(y.ran, want) {
		t.Errorf("ran %v, want %v: what a cell needs comes first", y.ran, want)
	}
	y.ran = nil
	if records := y.run(t, Options{Out: out}); len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	if want := []string{"start/seed0", "start/seed1", "a/seed0", "a/seed1", "b/seed0"}; !slices.Equal(y.ran, want) {
		t.Errorf("ran %v, want %v: cells that share a worker one after the other, none twice", y.ran, want)
	}
	y.ran = nil
	complete := filepath.Join(out, "toy", y.folder(numbers, Cell[toyConfig]{Path: []string{"b"}, Seed: 1, Config: toyConfig{Kind: "b", Steps: 3}}))
	left := []string{progressFile, progressWriting, "step-000000002.safetensors"} // By a process that was killed after its last record.
	for _, name := range left {
		if err := os.WriteFile(filepath.Join(complete, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if records := y.run(t, Options{Out: out}); len(records) != 4 || len(y.ran) > 0 {
		t.Errorf("%d records, and ran %v again", len(records), y.ran)
	}
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(complete, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left in the folder of a complete cell: %v", name, err)
		}
	}
	// The same configuration in another profile is not recorded.
	if records := y.run(t, Options{Out: out, Profile: Full}); len(records) != 8 {
		t.Errorf("%d records of two profiles", len(records))
	}
}

func TestAnyNumberOfWorkersLeavesTheSame(t *testing.T) {
	values := func(parallel int) string {
		var lines []string
		for _, r := range newToy().run(t, Options{Out: t.TempDir(), Parallel: parallel, Seeds: 5}) {
			lines = append(lines, fmt.Sprint(r.Cell, r.Value, r.ConfigHash))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if one, four := values(1), values(4); one != four || strings.Count(one, "\n") != 9 {
		t.Errorf("one worker:\n%s\nfour:\n%s", one, four)
	}
}

// recordingBar knows how many steps it shows as done, and the phases that it has shown.
type recordingBar struct {
	done   int
	note   string // The last one.
	phases []string
}

func (b *recordingBar) Set(done int, note string) { b.done, b.note = done, note }
func (b *recordingBar) Resumed(steps int)         { b.done += steps }
func (b *recordingBar) Phase(name string)         { b.phases = append(b.phases, name) }
func (b *recordingBar) Close()                    {}

func TestAStoppedRunGoesOn(t *testing.T) {
	y, out := newToy(), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	y.stopAt, y.stop = 2, stop
	var bar recordingBar
	o := Options{Profile: Quick, Out: out, Only: []string{"a/seed0"}, Bar: func(string, int) progress.Bar { return &bar }}
	if err := y.Run(ctx, nil, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped: %v", err)
	}
	if want := 1 + 2; bar.done != want { // The start, and two steps of the cell.
		t.Errorf("the bar stops at %d, want %d", bar.done, want)
	}
	if want := []string{"measuring", "", "measuring", ""}; !slices.Equal(bar.phases, want) { // It compiles nothing.
		t.Errorf("the bar says %q, want %q", bar.phases, want)
	}
	y.stopAt = 0
	if records := y.run(t, Options{Out: out, Only: []string{"a/seed0"}}); len(records) != 1 || records[0].Value != 3 {
		t.Errorf("records %+v", records)
	}
}

func TestACellThatAnotherProcessRunsIsSkippedWithWhatNeedsIt(t *testing.T) {
	y, out := newToy(), t.TempDir()
	start := Cell[toyConfig]{Path: []string{"start"}, Seed: 0, Config: toyConfig{Kind: "start", Steps: 1, Start: true}}
	dir := filepath.Join(out, "toy", y.folder(numbers, start))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, taken, err := filelock.Try(filepath.Join(dir, "lock"))
	if err != nil || !taken {
		t.Fatalf("lock taken: %v, %v", taken, err)
	}
	if _, taken, err := filelock.Try(filepath.Join(dir, "lock")); err != nil || taken {
		t.Errorf("second lock taken: %v, %v", taken, err)
	}
	var warned []string
	var bar recordingBar
	o := Options{Out: out, Only: []string{"a"}, Warn: func(line string) { warned = append(warned, line) }, Bar: func(string, int) progress.Bar { return &bar }}
	records := y.run(t, o)
	want := []string{"skipped start/seed0: another process is running it", "skipped a/seed0: it starts from start/seed0, which diverged, was skipped or is being run by another process"}
	if len(records) != 1 || records[0].Cell != "a/seed1" || !slices.Equal(warned, want) {
		t.Errorf("records %v, warned of %q", records, warned)
	}
	if strings.HasPrefix(bar.note, "recorded") {
		t.Errorf("a cell was skipped, and the bar says %q", bar.note)
	}
	unlock()
	if records := y.run(t, o); len(records) != 2 || bar.note != "recorded: 2 of 2 runs" {
		t.Errorf("after the lock %d records, and the bar says %q", len(records), bar.note)
	}
}

func TestADivergedRunDoesNotStopTheOthers(t *testing.T) {
	y, out := newToy(), t.TempDir()
	y.diverges = "a"
	err := y.Run(t.Context(), nil, Options{Profile: Quick, Out: out, Seeds: 1})
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 2 runs diverged: a/seed0: the loss diverged") {
		t.Errorf("error %v", err)
	}
	if records, err := Records(Folder(out, "toy")); err != nil || len(records) != 1 || records[0].Row != "b" {
		t.Errorf("records %v, %v", records, err)
	}
}

func TestOptionsThatAreWrong(t *testing.T) {
	for want, o := range map[string]Options{
		`no key "speed"`: {Set: []string{"speed=1"}},
		`no kind "c"`:    {Only: []string{"c"}},
		"--data photos":  {Data: "photos"},
		"--cache kept: toy does not train on a folder of images": {Cache: "kept"},
	} {
		o.Profile, o.Out = Quick, t.TempDir()
		err := newToy().Run(t.Context(), nil, o)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(BadOption)) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestNumbersOfUnlikeSettingsAreNotCompared(t *testing.T) {
	y, out := newToy(), t.TempDir()
	y.run(t, Options{Out: out, Set: []string{"steps=5"}, Seeds: 1, Only: []string{"a"}})
	y.run(t, Options{Out: out, Seeds: 1, Only: []string{"b"}})
	results, err := y.Load(Options{Out: out, Profile: Quick})
	if err != nil {
		t.Fatal(err)
	}
	if len(results.Of("a", "count")) != 0 || results.Values("b", "count")[0] != 3 {
		t.Errorf("a run with other settings stands beside the profile's own: %v, %v", results.Values("a", "count"), results.Values("b", "count"))
	}
	table := figures.Table{Columns: []string{"count"}, Rows: []figures.Row{{Cells: []figures.Cell{{Ours: results.Values("b", "count")}}}}}
	results.Describe(&table, "%", "count")
	if want := " Left out, as they cannot be compared with the rest: 1 number with --set steps=5, which shows them."; table.Caption != want {
		t.Errorf("caption %q, want %q", table.Caption, want)
	}
	for _, c := range []struct {
		set  []string
		want string
	}{{[]string{"steps=5"}, "[5] []"}, {[]string{"steps=3"}, "[] [3]"}, {[]string{"steps=6"}, "[] []"}} {
		asked, err := y.Load(Options{Out: out, Profile: Quick, Set: c.set})
		if got := fmt.Sprint(asked.Values("a", "count"), asked.Values("b", "count")); err != nil || got != c.want {
			t.Errorf("--set %v shows %s, %v, want %s", c.set, got, err, c.want)
		}
	}
	if _, err := y.Load(Options{Out: out, Profile: Quick, Set: []string{"speed=1"}}); !errors.As(err, new(BadOption)) {
		t.Errorf("an unknown key: %v", err)
	}
	alone := results.Where(func(r Record) bool { return r.Row == "a" })
	claim := figures.Claim{Quantity: figures.Quantity{Column: "count", Row: "a"}}
	if e := alone.Evidence("", claim)[0]; len(e.Values) != 1 || !slices.Equal(e.Changed, []string{"steps=5"}) || !slices.Equal(e.Data, []string{"numbers"}) {
		t.Errorf("evidence %+v", e)
	}
	if e := results.Evidence("", claim)[0]; e.Data != nil {
		t.Errorf("data %v behind no values", e.Data)
	}
	table = figures.Table{Columns: []string{"count"}, Rows: []figures.Row{{Cells: []figures.Cell{{Ours: alone.Values("a", "count")}}}}}
	if alone.Describe(&table, "%", "count"); !strings.Contains(table.Caption, "Settings that differ from the profile's: steps=5.") {
		t.Errorf("caption %q", table.Caption)
	}
	of := func(version string) Record { return Record{Versions: map[string]string{"semcon": version}} }
	mixed := Results{runs: map[[2]string][]Record{{"a", "count"}: {of("x")}, {"b", "count"}: {of("y")}, {"b", "others"}: {of("z")}}}
	table.Caption = ""
	if mixed.Describe(&table, "%", "count"); table.Caption != " Measured by 2 versions of semcon: x, y." {
		t.Errorf("caption %q", table.Caption)
	}
	if twice := results.Details("b", "count", "twice"); !slices.Equal(twice, []float64{6}) {
		t.Errorf("details %v", twice)
	}
}

func TestARecordTellsOfAllCalls(t *testing.T) {
	y, out := newToy(), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	y.stopAt, y.stop = 2, stop
	y.skips = "photo.jpg"
	var warned []string
	o := Options{Profile: Quick, Out: out, Only: []string{"a"}, Warn: func(line string) { warned = append(warned, line) }}
	if err := y.Run(ctx, nil, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c := Cell[toyConfig]{Path: []string{"a"}, Config: toyConfig{Kind: "a", Steps: 3}}
	dir := filepath.Join(out, "toy", y.folder(numbers, c))
	if err := os.WriteFile(filepath.Join(dir, secondsFile), []byte("1000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	y.stopAt, y.skips = 0, ""
	for _, r := range y.run(t, o) {
		if r.Cell == "a/seed0" && (r.Seconds < 1000 || !slices.Equal(r.Skipped, []string{"photo.jpg: truncated"})) {
			t.Errorf("record of %g seconds, skipped %q; want the sums over both calls", r.Seconds, r.Skipped)
		}
	}
	// A kill while a complete cell saves its time would leave a file that no later call sweeps.
	if kept, err := os.ReadFile(filepath.Join(dir, secondsFile)); err != nil || string(kept) != "1000\n" {
		t.Errorf("a complete cell has saved its time, %q, %v", kept, err)
	}
	if want := []string{"skipped photo.jpg: truncated"}; !slices.Equal(warned, want) {
		t.Errorf("warned of %q, want %q", warned, want)
	}
}

// TestAPanicBesideAWorkerIsAnError panics in the goroutine of the workers, outside of them.
func TestAPanicBesideAWorkerIsAnError(t *testing.T) {
	y := newToy()
	y.Shares = func(Cell[toyConfig]) string { panic("index out of range") } // The queue calls it.
	err := y.Run(t.Context(), nil, Options{Profile: Quick, Out: t.TempDir()})
	if err == nil || !strings.HasSuffix(err.Error(), "internal error: index out of range") {
		t.Errorf("error %v", err)
	}
}

func TestAPanicOfAWorkerIsAnError(t *testing.T) {
	y := newToy()
	y.NewWorker = Independent(func(*Run[toyConfig, Described]) error { panic("index out of range\ngoroutine 1") })
	err := y.Run(t.Context(), nil, Options{Profile: Quick, Out: t.TempDir(), Parallel: 2})
	if err == nil || !strings.HasSuffix(err.Error(), ": internal error: index out of range") {
		t.Errorf("error %v", err)
	}
}
