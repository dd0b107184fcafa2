package study

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// drawn are data of one identity for all seeds.
type drawn struct {
	GeneratedData
	seed int
}

// seedWorker records the seed of its data.
type seedWorker struct{}

func (seedWorker) Close() {}

func (seedWorker) Run(r *Run[toyConfig, drawn]) error {
	return r.Record(Number{Row: "row", Column: "seed of the data", Value: float64(r.Data.seed)})
}

func TestEachSeedHasItsData(t *testing.T) {
	var opened []string
	spec := Spec[toyConfig, drawn]{
		Info: Info{Name: "toy"}, Parts: []string{"kind", "seed"},
		Cells: func(o Options, _ string) (cells []Cell[toyConfig], err error) {
			for seed := range 3 {
				cells = append(cells, Cell[toyConfig]{Path: []string{"a"}, Seed: seed, Config: toyConfig{Kind: "a"}}, Cell[toyConfig]{Path: []string{"b"}, Seed: seed, Config: toyConfig{Kind: "b"}})
			}
			return cells, nil
		},
		Open: func(_ Options, _ string, cells []Cell[toyConfig]) (drawn, error) {
			opened = append(opened, fmt.Sprint(cells[0].Seed, len(cells)))
			return drawn{"drawn", cells[0].Seed}, nil
		},
		BySeed:        func(string) bool { return true },
		Numbers:       func(drawn, Cell[toyConfig]) []Number { return []Number{{Row: "row", Column: "seed of the data"}} },
		Steps:         func(drawn, Cell[toyConfig]) int { return 1 },
		NewWorker:     func(*Run[toyConfig, drawn]) (Worker[toyConfig, drawn], error) { return seedWorker{}, nil },
		ProfileConfig: func(Record, toyConfig) toyConfig { return toyConfig{} },
		Common:        func(toyConfig, toyConfig) toyConfig { return toyConfig{} },
	}
	out := t.TempDir()
	if err := spec.Run(context.Background(), nil, Options{Profile: Smoke, Out: out}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(opened, []string{"0 2", "1 2", "2 2"}) {
		t.Errorf("opened %q", opened)
	}
	results, err := spec.Load(out, Smoke)
	if err != nil {
		t.Fatal(err)
	}
	if got := results.Values("row", "seed of the data"); !slices.Equal(got, []float64{0, 1, 2}) { // All seeds are in one table.
		t.Errorf("cells ran on the data of seeds %v", got)
	}
}
