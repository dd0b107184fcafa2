package study

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"
)

// drawn are data of one identity for all seeds.
type drawn struct {
	Described
	pictures *pictures
}

type pictures struct {
	seed int
	_    [1 << 10]byte // Small objects share blocks of memory, so that one keeps others alive.
}

// seeds is an experiment that draws its data for each seed. Its cells record the seed of their data.
type seeds struct {
	Spec[toyConfig, drawn]

	mu     sync.Mutex
	opened []string                 // Seed and number of cells of each call of Open.
	alive  []weak.Pointer[pictures] // What the calls have drawn.
	most   int                      // The most drawn at a time, as seen by running cells.
	fails  int                      // The seed whose data cannot be opened, if above 0.
}

type seedWorker struct{ of *seeds }

func (seedWorker) Close() {}

func (w seedWorker) Run(r *Run[toyConfig, drawn]) error {
	w.of.mu.Lock()
	runtime.GC()
	held := 0
	for _, p := range w.of.alive {
		if p.Value() != nil {
			held++
		}
	}
	w.of.most = max(w.of.most, held)
	w.of.mu.Unlock()
	return r.Record(Number{Row: "row", Column: "seed of the data", Value: float64(r.Data.pictures.seed)})
}

// newSeeds has three cells of each of five seeds, seed by seed.
func newSeeds() *seeds {
	s := &seeds{}
	s.Spec = Spec[toyConfig, drawn]{
		Name: "toy", Parts: []string{"kind", "seed"},
		Cells: func(o Options, _ string) (cells []Cell[toyConfig], err error) {
			for seed := range 5 {
				for _, kind := range []string{"a", "b", "c"} {
					cells = append(cells, Cell[toyConfig]{Path: []string{kind}, Seed: seed, Config: toyConfig{Kind: kind}})
				}
			}
			return cells, nil
		},
		Open: func(_ Options, _ string, cells []Cell[toyConfig]) (drawn, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			seed := cells[0].Seed
			s.opened = append(s.opened, fmt.Sprint(seed, len(cells)))
			if s.fails > 0 && seed == s.fails {
				return drawn{}, errors.New("no space")
			}
			p := &pictures{seed: seed}
			s.alive = append(s.alive, weak.Make(p))
			return drawn{Described{ID: "drawn", Name: "drawn"}, p}, nil
		},
		Numbers:       func(drawn, Cell[toyConfig]) []Number { return []Number{{Row: "row", Column: "seed of the data"}} },
		Steps:         func(drawn, Cell[toyConfig]) int { return 1 },
		NewWorker:     func(*Run[toyConfig, drawn]) (Worker[toyConfig, drawn], error) { return seedWorker{s}, nil },
		ProfileConfig: func(Record, toyConfig) toyConfig { return toyConfig{} },
		Common:        func(toyConfig, toyConfig) toyConfig { return toyConfig{} },
	}
	return s
}

func TestEachSeedHasItsData(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		s, out := newSeeds(), t.TempDir()
		if err := s.Run(context.Background(), nil, Options{Profile: Smoke, Out: out, Parallel: workers}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(s.opened) // Workers may open seeds in another order.
		if want := []string{"0 3", "1 3", "2 3", "3 3", "4 3"}; !slices.Equal(s.opened, want) {
			t.Errorf("%d workers opened %q, want each seed once", workers, s.opened)
		}
		if s.most > workers {
			t.Errorf("%d workers held the data of %d seeds", workers, s.most)
		}
		records, err := Records(Folder(out, "toy"))
		if err != nil || len(records) != 15 {
			t.Fatal(len(records), err)
		}
		for _, r := range records {
			if r.Value != float64(r.Seed) || r.Data != "drawn" {
				t.Errorf("%s ran on the data %q of seed %v", r.Cell, r.Data, r.Value)
			}
		}
		results, err := s.Load(Options{Out: out, Profile: Smoke})
		if err != nil {
			t.Fatal(err)
		}
		if got := results.Values("row", "seed of the data"); !slices.Equal(got, []float64{0, 1, 2, 3, 4}) { // All seeds are in one table.
			t.Errorf("the table has %v", got)
		}
	}
}

func TestOnlyTheSeedsThatRunAreOpened(t *testing.T) {
	s, out := newSeeds(), t.TempDir()
	o := Options{Profile: Smoke, Out: out}
	statuses, err := s.Status(o)
	if err != nil || len(statuses) != 15 {
		t.Fatal(len(statuses), err)
	}
	if !slices.Equal(s.opened, []string{"0 3"}) {
		t.Errorf("status opened %q", s.opened)
	}
	s.opened, o.Only = nil, []string{"*/seed0", "*/seed1"}
	if err := s.Run(t.Context(), nil, o); err != nil {
		t.Fatal(err)
	}
	s.opened, o.Only = nil, nil
	if err := s.Run(t.Context(), nil, o); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0 3", "2 3", "3 3", "4 3"}; !slices.Equal(s.opened, want) { // Seed 0 tells titles and steps.
		t.Errorf("opened %q, want %q", s.opened, want)
	}
}

func TestDataThatCannotBeOpenedEndTheRun(t *testing.T) {
	s, out := newSeeds(), t.TempDir()
	s.fails = 2
	if err := s.Run(t.Context(), nil, Options{Profile: Smoke, Out: out}); err == nil || !strings.HasSuffix(err.Error(), "seed2: no space") {
		t.Errorf("the error is %v", err)
	}
	records, err := Records(Folder(out, "toy"))
	if err != nil || len(records) != 6 {
		t.Errorf("%d records, %v", len(records), err)
	}
}
