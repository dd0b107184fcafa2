package study

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
)

// Info is what a list of experiments shows.
type Info struct {
	Name       string
	Title      string             // What it asks.
	Reproduces string             // Tables and figures of the paper.
	Labels     []string           // Of the paper's tables that it reproduces: other names of the experiment.
	Data       string             // What it reads, and what it does without.
	Cost       map[Profile]string // Measured or estimated time of each profile.
}

// Cell is one run of an experiment: what --only addresses, and what a second call finds recorded.
type Cell[C any] struct {
	Dataset string   // Which the cell runs on, as Spec.Datasets names it.
	Path    []string // The parts of the cell's name before the seed, such as dataset, method and row.
	Seed    int
	Config  C
}

// Name is how --only addresses the cell, e.g. cifar10/simclr/crop/seed0.
func (c Cell[C]) Name() string {
	return strings.Join(append(c.Path[:len(c.Path):len(c.Path)], fmt.Sprintf("seed%d", c.Seed)), "/")
}

// Hash names the cell's configuration.
func (c Cell[C]) Hash() string { return ConfigHash(c.Config) }

// Data is what cells run on.
type Data interface {
	// Identity names the data in records: what is compared has the same.
	Identity() string
	// Title is what a person calls the data.
	Title() string
	// Skipped lists the files that the reader left out, each with its reason.
	Skipped() []string
}

// Number is one number that a cell leaves.
type Number struct {
	Row, Column, Metric, Unit string
	Value                     float64
	Protocol                  string             // How the number comes about.
	Data                      string             // Identity of what it is measured on; empty for the cell's data.
	Details                   map[string]float64 // Further numbers, by name.
	Curve                     string             // File of the run's curve, relative to the experiment's folder.
	Seconds                   float64            // What it took; 0 for the time since the run began.
}

// Worker runs cells that share what it has compiled, one after the other.
type Worker[C comparable, D Data] interface {
	// Run brings one cell to its end and records its numbers. When the run's context ends it leaves a checkpoint and returns the context's
	// error.
	Run(r *Run[C, D]) error
	Close()
}

// Spec is an experiment: C is the configuration of a cell, D its data. Fields that are marked optional may be nil.
type Spec[C comparable, D Data] struct {
	Info
	// Parts names the parts of a cell's name, the seed last.
	Parts []string
	// Datasets lists the datasets that the options give. Each line of missing says what is left out, and why. Optional: without it the experiment
	// makes its own data, and refuses --data.
	Datasets func(o Options) (names, missing []string, err error)
	// Cells lists the cells on a dataset in the order in which they are run, --set applied. Its errors are the caller's: of options.
	Cells func(o Options, dataset string) ([]Cell[C], error)
	// Open opens a dataset, of which at least one cell is selected.
	Open func(o Options, dataset string, cells []Cell[C]) (D, error)
	// Numbers lists what the cell leaves, of which rows, columns and data count; without any it is run whenever another cell needs it.
	Numbers func(data D, c Cell[C]) []Number
	// Steps is the cell's share of the bar.
	Steps func(data D, c Cell[C]) int
	// NewWorker makes the worker for a cell, and for all that have the same Shares. Optional: Shares; without, all cells do.
	NewWorker func(r *Run[C, D]) (Worker[C, D], error)
	Shares    func(c Cell[C]) string
	// Serial tells that a cell takes all that there is of the machine: the cells run one after the other, whatever Options.Parallel says.
	Serial bool
	// Needs lists cells that come first, of which some may not be selected: they run all the same and record nothing. Optional.
	Needs func(c Cell[C]) []Cell[C]
	// Folder is where the cell's files stand, below the experiment's folder. Optional.
	Folder func(data D, c Cell[C]) string

	// Own is the profile's configuration of the cell that a record is of, without --set: rows, encoders and all else that a cell says itself are
	// as in config.
	Own func(r Record, config C) C
	// Common is what configurations share whose numbers are compared with each other. Optional: all of it.
	Common func(config, own C) C
	// AcrossColumns tells that numbers of different columns are compared, too, so that all columns share their settings.
	AcrossColumns bool
	// Tables lays results out beside the paper's numbers.
	Tables func(results Results) ([]figures.Table, error)
	// Measure is the quantity of one of the paper's claims; see [Results.Evidence]. Optional.
	Measure func(results Results, claim figures.Claim) Evidence
}

// Experiment is a part of the paper that can be run again.
type Experiment struct {
	Info
	// Run runs what is not yet recorded.
	Run func(ctx context.Context, b compute.Backend, o Options) error
	// Cells lists the names of the cells on a dataset with the hashes of their configurations.
	Cells func(o Options, dataset string) (names, hashes []string, err error)
	// Tables lays the records of one profile out beside the paper's numbers.
	Tables func(records []Record, profile Profile) ([]figures.Table, error)
	// Measure is the quantity of a claim from the records of one profile.
	Measure func(records []Record, profile Profile, claim figures.Claim) (Evidence, error)
	// MakesData tells that the experiment makes its own data and refuses --data.
	MakesData bool
}

// Experiment makes the spec one of a list.
func (s Spec[C, D]) Experiment() Experiment {
	return Experiment{
		Info: s.Info,
		Run:  s.Run,
		Cells: func(o Options, dataset string) (names, hashes []string, err error) {
			cells, err := s.Cells(o, dataset)
			for _, c := range cells {
				names, hashes = append(names, c.Name()), append(hashes, c.Hash())
			}
			return names, hashes, err
		},
		Tables: func(records []Record, profile Profile) ([]figures.Table, error) {
			results, err := s.Results(records, profile)
			if err != nil {
				return nil, err
			}
			return s.Tables(results)
		},
		Measure: func(records []Record, profile Profile, claim figures.Claim) (Evidence, error) {
			if s.Measure == nil {
				return Evidence{}, nil
			}
			results, err := s.Results(records, profile)
			if err != nil {
				return Evidence{}, err
			}
			return s.Measure(results, claim), nil
		},
		MakesData: s.Datasets == nil,
	}
}

// Independent is the NewWorker of cells that share nothing: run runs one of them.
func Independent[C comparable, D Data](run func(r *Run[C, D]) error) func(*Run[C, D]) (Worker[C, D], error) {
	return func(*Run[C, D]) (Worker[C, D], error) { return independent[C, D](run), nil }
}

type independent[C comparable, D Data] func(r *Run[C, D]) error

func (run independent[C, D]) Run(r *Run[C, D]) error { return run(r) }

func (independent[C, D]) Close() {}

// datasets lists the datasets that the options give.
func (s Spec[C, D]) datasets(o Options) (names, missing []string, err error) {
	if s.Datasets == nil {
		return []string{""}, nil, nil
	}
	return s.Datasets(o)
}

// Made is data that an experiment makes itself.
type Made string

// Identity is the data's name.
func (m Made) Identity() string { return string(m) }

// Title is the data's name.
func (m Made) Title() string { return string(m) }

// Skipped is empty.
func (m Made) Skipped() []string { return nil }

// folder is where the cell's files stand.
func (s Spec[C, D]) folder(data D, c Cell[C]) string {
	if s.Folder != nil {
		return s.Folder(data, c)
	}
	return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, Hash(hashedConfig(c.Config), []byte(data.Identity()))))
}
