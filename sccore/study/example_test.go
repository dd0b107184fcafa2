package study_test

import (
	"context"
	"fmt"
	"os"

	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// dice is the configuration of a cell.
type dice struct {
	Sides int `json:"sides"`
}

// An experiment says which cells it has and what a cell records. The engine runs what is not recorded yet.
func ExampleSpec() {
	type run = study.Run[dice, study.Described]
	spec := study.Spec[dice, study.Described]{
		Name:  "dice",
		Parts: []string{"sides", "seed"},
		Cells: func(o study.Options, _ string) (cells []study.Cell[dice], err error) {
			for seed := range o.SeedsOr(2) {
				config := dice{Sides: 6}
				if err := settings.Apply(&config, o.Set...); err != nil {
					return nil, err
				}
				cells = append(cells, study.Cell[dice]{Path: []string{fmt.Sprintf("sides%d", config.Sides)}, Seed: seed, Config: config})
			}
			return cells, nil
		},
		Open: func(study.Options, string, []study.Cell[dice]) (study.Described, error) {
			return study.Described{ID: "dice", Name: "dice"}, nil
		},
		Numbers: func(study.Described, study.Cell[dice]) []study.Number {
			return []study.Number{{Row: "die", Column: "mean"}}
		},
		Steps: func(study.Described, study.Cell[dice]) int { return 1 },
		NewWorker: study.Independent(func(r *run) error {
			fmt.Println("runs", r.Cell.Name())
			r.Step("thrown")
			return r.Record(study.Number{Row: "die", Column: "mean", Metric: "mean", Value: float64(1+r.Cell.Config.Sides) / 2})
		}),
	}
	out, err := os.MkdirTemp("", "study")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(out)
	options := study.Options{Profile: study.Quick, Out: out, Seeds: 1}
	for range 2 { // The second call finds the record and runs nothing.
		if err := spec.Run(context.Background(), nil, options); err != nil {
			panic(err)
		}
	}
	records, err := study.Records(study.Folder(out, "dice"))
	fmt.Println(len(records), "record:", records[0].Cell, records[0].Value, err)
	// Output:
	// runs sides6/seed0
	// 1 record: sides6/seed0 3.5 <nil>
}
