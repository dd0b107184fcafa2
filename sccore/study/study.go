// Package study runs experiments: cells × seeds, the queue, locks, resuming, records and the results that tables show, written once for all.
//
// In goes a [Spec], which holds what is specific to an experiment: its cells, its data, its worker, its tables and the quantities of its claims. Out
// come records, one JSON line per number in out/EXPERIMENT/runs.jsonl, and [Results], the records of one profile grouped for tables. Each experiment
// has a folder below sccore/experiments, and a file in the folder about, which says what it is and has the settings of its profiles. A new one starts there with a Spec and
// joins the list in package experiments.
package study

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/analysis/stats"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/progress"
	"github.com/semcon/semcon/sccore/settings"
)

// Info describes an experiment in a list, by its file about/NAME.yaml.
type Info struct {
	Name       string             `yaml:"-"`
	Title      string             // The question that it answers.
	Reproduces string             // The paper's tables and figures.
	Labels     []string           // The labels of the paper's tables and figures that it reproduces, which are other names of the experiment.
	Data       string             // The data that it reads, and what it does without them.
	Reads      []string           // The keys of the datasets that it can read, as in package datasets.
	Needed     string             // The datasets that the full profile needs below --data, such as DAVIS.
	None       string             // The start of the error if --data has none of several datasets.
	Files      []string           // The keys of --set that name the files from which trainings of published encoders start. One key may be of one part of cells' names, as "dino.weights".
	Row        string             // The row of the paper that a warning names if all encoders are random; empty for no warning.
	Cost       map[Profile]string // The measured or estimated time of each profile.
}

// Cell is one run of an experiment. --only addresses cells, and a cell that is recorded does not run again.
type Cell[C any] struct {
	Dataset string   // One of the names that Spec.Datasets lists.
	Path    []string // The parts of the cell's name before the seed, such as dataset, method and row.
	Row     string   // The row that its numbers are of, for experiments that ask for it; it is in no name.
	Seed    int
	Config  C
}

// Name is the name that --only matches, e.g. cifar10/simclr/crop/seed0.
func (c Cell[C]) Name() string {
	return strings.Join(append(c.Path[:len(c.Path):len(c.Path)], fmt.Sprintf("seed%d", c.Seed)), "/")
}

// Hash identifies the cell's configuration.
func (c Cell[C]) Hash() string { return ConfigHash(c.Config) }

// Data is the data that cells run on.
type Data interface {
	// Identity identifies the data in records. Only numbers on the same data are compared.
	Identity() string
	// Title is the name of the data for people.
	Title() string
	// Skipped lists the files that the reader skipped, each with the reason.
	Skipped() []string
}

// Number is one number that a cell records.
type Number struct {
	Row, Column, Metric, Unit string
	Value                     float64
	Protocol                  string             // How the number is measured.
	Data                      string             // Identity of the data that it is measured on; empty for the cell's data.
	Details                   map[string]float64 // Further numbers, by name.
	Images                    stats.ByImage      // Counts of each test image behind Value; may be nil. They are recorded on real images only.
	Curve                     string             // File of the run's curve, relative to the experiment's folder.
	Encoder                   string             // File of the encoder, or of the network or heads on it, that the run has left, relative to the experiment's folder.
	Seconds                   float64            // How long it took; 0 for the time since the run began.
}

// Worker runs cells one after the other. The cells share what the worker has compiled.
type Worker[C comparable, D Data] interface {
	// Run completes one cell and records its numbers. If the run's context is cancelled, it writes a checkpoint and returns the context's error.
	Run(r *Run[C, D]) error
	Close()
}

// Spec specifies an experiment. C is the configuration of a cell and D its data. Fields that are marked optional may be nil.
type Spec[C comparable, D Data] struct {
	Name string
	// Parts names the parts of a cell's name, the seed last.
	Parts []string
	// Datasets lists the datasets that the options provide. Each line of missing says what is skipped, and why. Optional: without it the experiment
	// generates its own data and refuses --data.
	Datasets func(o Options) (names, missing []string, err error)
	// Missing returns an [fs.ErrNotExist] if a data folder has not what the experiment needs, where Datasets does not look; nil where it does.
	Missing func(data string) error
	// Cells lists the cells of a dataset in the order in which they run, with --set applied. Its errors are about the options.
	Cells func(o Options, dataset string) ([]Cell[C], error)
	// Open opens a seed's data of a dataset, of one identity for all seeds. cells are the selected cells of the seed that run on it, at least one. It is called when the first of
	// them runs, and the data are dropped when the last has run. Numbers, Steps and Folder get the data of any seed. Workers run cells of several seeds, each with its data.
	Open func(o Options, dataset string, cells []Cell[C]) (D, error)
	// DataBySet says that real data need files that --set names, so that $SEMCON_DATA alone does not choose them.
	DataBySet bool
	// Caches says that Open reads training images through Options.Cache. Others refuse it.
	Caches bool
	// Numbers lists the numbers that the cell records; only their rows, columns and data matter. A cell without numbers runs whenever another cell needs it.
	Numbers func(data D, c Cell[C]) []Number
	// Steps is the number of the cell's steps on the progress bar.
	Steps func(data D, c Cell[C]) int
	// FLOPs is what the trainings of a cell compute in products, by its configuration, without measurements. Optional.
	FLOPs func(c Cell[C]) float64
	// NewWorker makes the worker for a cell and for all other cells with the same value of Shares. Shares is optional: without it all cells share workers.
	NewWorker func(r *Run[C, D]) (Worker[C, D], error)
	Shares    func(c Cell[C]) string
	// Serial says that one cell uses the whole machine, so that cells run one after the other whatever Options.Parallel says.
	Serial bool
	// Needs lists the cells that must run before this one. Those that are not selected run too, but record nothing. Optional.
	Needs func(c Cell[C]) []Cell[C]
	// Folder is the folder of the cell's files, below the experiment's folder. Optional.
	Folder func(data D, c Cell[C]) string

	// Ran returns what a cell runs with, if that is derived from a configuration that all cells share; see [Record.Shared]. Optional.
	Ran func(c Cell[C]) (config C, derived bool)
	// ProfileConfig returns the configuration that the cell behind a record has in its profile without --set. What the cell itself decides, such as
	// the row or the encoder, is as in config.
	ProfileConfig func(r Record, config C) C
	// Common returns the part of a configuration that must be equal for numbers to be compared. Optional: without it the whole configuration.
	Common func(config, profileConfig C) C
	// AcrossColumns says that numbers in different columns are compared, too, so that all columns must share their settings.
	AcrossColumns bool
	// Tables shows results beside the paper's numbers.
	Tables func(results Results) []figures.Table
	// Figures draws results. Optional.
	Figures func(results Results, from FigureSources, drawn *Drawn)
	// Random is the row of random weights, above which a column has to show training for claims to be read from it. Optional.
	Random string
}

// Experiment is a [Spec] without its type parameters, as lists of experiments hold it.
type Experiment struct {
	Info
	// Run runs the cells that are not recorded yet.
	Run func(ctx context.Context, b compute.Backend, o Options) error
	// Status tells how far each selected cell is.
	Status func(o Options) ([]CellStatus, error)
	// Recorded counts the selected cells, and those with records, without opening the data, see [Spec.Recorded].
	Recorded func(o Options) (done, all, others int, err error)
	// Cells lists a dataset's cells.
	Cells func(o Options, dataset string) ([]CellInfo, error)
	// Selected returns the records that a run with the options would find, see [Spec.Selected].
	Selected func(records []Record, o Options) ([]Record, error)
	// Results groups the records of one profile.
	Results func(records []Record, profile Profile) (Results, error)
	// Tables shows the records of one profile beside the paper's numbers.
	Tables func(records []Record, profile Profile) ([]figures.Table, error)
	// Figures draws the records of one profile. It returns what it can draw, with an error for what it cannot.
	Figures func(records []Record, profile Profile, from FigureSources) ([]Figure, error)
	// Measure returns the quantities of claims from the records of one profile on one kind of data, see [Results.Evidence].
	Measure func(records []Record, profile Profile, kind figures.DataKind, claims ...figures.Claim) ([]Evidence, error)
	// GeneratesData says that the experiment generates its own data and refuses --data.
	GeneratesData bool
	// DataBySet says that real data need files that --set names.
	DataBySet bool
	DataFor   func(o Options) string // See [Spec.DataFor].
}

// CellInfo is a [Cell] without its type parameter.
type CellInfo struct {
	Name, Hash string
	Config     any     // A struct, with the settings that --set addresses.
	FLOPs      float64 // Of its trainings; 0 if nobody counts them.
}

// Experiment returns the specified experiment.
func (s Spec[C, D]) Experiment() Experiment {
	return Experiment{
		Info:     InfoOf(s.Name),
		Run:      s.Run,
		Status:   s.Status,
		Recorded: s.Recorded,
		Selected: s.Selected,
		Cells: func(o Options, dataset string) (infos []CellInfo, err error) {
			defer try.Handle(&err)
			try.E(s.has(o.Profile))
			for _, c := range try.E1(s.Cells(o, dataset)) {
				info := CellInfo{Name: c.Name(), Hash: c.Hash(), Config: c.Config}
				if s.FLOPs != nil {
					info.FLOPs = s.FLOPs(c)
				}
				infos = append(infos, info)
			}
			return infos, nil
		},
		Results: s.Results,
		Tables: func(records []Record, profile Profile) (_ []figures.Table, err error) {
			defer try.Handle(&err)
			return s.Tables(try.E1(s.Results(records, profile))), nil
		},
		Figures: func(records []Record, profile Profile, from FigureSources) ([]Figure, error) {
			results, err := s.Results(records, profile)
			if s.Figures == nil || err != nil || results.Empty() {
				return nil, err
			}
			var drawn Drawn
			s.Figures(results, from, &drawn)
			return drawn.figures, errors.Join(drawn.errs...)
		},
		Measure: func(records []Record, profile Profile, kind figures.DataKind, claims ...figures.Claim) ([]Evidence, error) {
			results, err := s.Results(records, profile)
			return results.On(kind).Evidence(s.Random, claims...), err
		},
		GeneratesData: s.Datasets == nil,
		DataBySet:     s.DataBySet,
		DataFor:       s.DataFor,
	}
}

// DataFor returns the data folder of the options if the experiment can run on it. Where it generates its own data, or has none of its datasets there and can
// do without in the profile, it returns "".
func (s Spec[C, D]) DataFor(o Options) string {
	if s.Datasets == nil || o.Data == "" {
		return ""
	}
	_, _, err := s.Datasets(o)
	if err == nil && s.Missing != nil {
		err = s.Missing(o.Data)
	}
	if without := o; errors.Is(err, fs.ErrNotExist) {
		without.Data = ""
		if _, _, err := s.datasets(without); err == nil {
			return ""
		}
	}
	return o.Data // An error of damaged data shows in the run.
}

// Independent returns the NewWorker of cells that share nothing; run runs one cell.
func Independent[C comparable, D Data](run func(r *Run[C, D]) error) func(*Run[C, D]) (Worker[C, D], error) {
	return func(*Run[C, D]) (Worker[C, D], error) { return independent[C, D](run), nil }
}

type independent[C comparable, D Data] func(r *Run[C, D]) error

func (run independent[C, D]) Run(r *Run[C, D]) error { return run(r) }

func (independent[C, D]) Close() {}

// has returns an error for the real profile of an experiment without one.
func (s Spec[C, D]) has(profile Profile) error {
	if profile == Real && InfoOf(s.Name).Cost[Real] == "" {
		return BadOption{fmt.Errorf("--profile real: %s has none", s.Name)}
	}
	return nil
}

// datasets lists the datasets that the options provide.
func (s Spec[C, D]) datasets(o Options) (names, missing []string, err error) {
	defer try.Handle(&err)
	try.E(s.has(o.Profile))
	if s.Datasets == nil {
		return []string{""}, nil, nil
	}
	return s.Datasets(o)
}

// folder is the folder of the cell's files.
func (s Spec[C, D]) folder(data D, c Cell[C]) string {
	if s.Folder != nil {
		return s.Folder(data, c)
	}
	return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, Hash(hashedConfig(c.Config), []byte(data.Identity()))))
}

// Options are the options of one call of an experiment.
type Options struct {
	Profile  Profile
	Data     string   // Folder of the datasets; empty for synthetic images.
	Cache    string   // Folder that keeps training images of Data as they are read, decoded and shrunk; empty for none.
	Out      string   // Folder of the records, e.g. "out".
	Seeds    int      // Number of seeds; 0 for the profile's default.
	Set      []string // "key=value" changes to the configuration.
	Only     []string // Patterns of the cells to run; all if empty.
	Parallel int      // Number of cells that run at a time; 1 if not positive.

	// Wait says that a cell that another process is running is waited for. Otherwise it is skipped, with all cells that need it.
	Wait bool

	// CheckpointEvery is the time between a run's checkpoints, and so the most work that a kill can lose. 0 writes one after every step.
	CheckpointEvery time.Duration

	// Bar opens the progress bar; nil for none.
	Bar func(title string, total int) progress.Bar
	// Watch, if not nil, is called whenever the curve of a run has grown, from several goroutines.
	Watch func(cell string, curve []Point)
	// Warn, if not nil, receives each warning as one line, such as a skipped image.
	Warn func(line string)
}

// SeedsOr returns the number of seeds: the requested one, or else the profile's.
func (o Options) SeedsOr(profile int) int { return lo.Ternary(o.Seeds > 0, o.Seeds, profile) }

// Warnf reports a warning of one line.
func (o Options) Warnf(format string, args ...any) {
	if o.Warn != nil {
		o.Warn(fmt.Sprintf(format, args...))
	}
}

// SharesOf returns the number of shares that real data are cut into, of which each seed has its own: those asked for, or 1, with a warning, if there are fewer
// of what is cut, such as "images", so that every seed has all.
func (o Options) SharesOf(dataset string, count int, what string, shares int) int {
	if count >= shares {
		return shares
	}
	o.Warnf("%s is too small for %d shares: every seed has all of its %s", dataset, shares, what)
	return 1
}

// IdentityOfShares identifies in records data that are cut into shares, of whatever seed.
func IdentityOfShares(identity string, shares int) string {
	return lo.Ternary(shares == 1, identity, fmt.Sprintf("%s; of each %d shares, one for a seed", identity, shares))
}

// CheckSeeds returns an error if real data, cut into shares of which each seed has its own, have none for one of the seeds.
func CheckSeeds(seeds, shares int) error {
	if shares > 1 && seeds > shares {
		return fmt.Errorf("%d seeds and %d shares: each seed needs a share of its own; --set shares=%[1]d, or 1 to give all to every seed", seeds, shares)
	}
	return nil
}

// CheckShared returns an error for the first setting in which cells differ although the data that they share depend on it. keys are those of such settings, or of groups of them.
func CheckShared[C any](cells []Cell[C], keys ...string) (err error) {
	defer try.Handle(&err)
	first := cells[0].Config
	for _, cell := range cells {
		changed := slices.Concat(try.E1(settings.Changed("", first, cell.Config)), try.E1(settings.Changed("", cell.Config, first))) // Either may leave out a group.
		for _, assignment := range changed {
			key, _, _ := strings.Cut(assignment, "=")
			if slices.ContainsFunc(keys, func(shared string) bool { return strings.HasPrefix(key+".", shared+".") }) {
				return BadOption{fmt.Errorf("--set %s: runs of one call share what depends on it: set it without a prefix, or choose runs with --only", key)}
			}
		}
	}
	return nil
}

// BadOption is the error for an invalid option. Its text names the option and the value.
type BadOption struct{ Err error }

// Error returns the text of Err.
func (e BadOption) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e BadOption) Unwrap() error { return e.Err }

// badCells is the error for options that give no cells. A profile's settings are valid, so an invalid one comes from --set.
func badCells(err error) error {
	if errors.As(err, new(settings.Invalid)) {
		err = fmt.Errorf("--set %w", err)
	}
	return BadOption{err}
}

// Folder is the folder of an experiment's records and files.
func Folder(out, experiment string) string { return filepath.Join(out, experiment) }

// Profile is the size at which an experiment runs.
type Profile string

// The profiles.
const (
	Smoke Profile = "smoke" // Runs everything once in seconds; its numbers mean nothing.
	Quick Profile = "quick" // Shows the sign of the claims on two CPU cores.
	Real  Profile = "real"  // Trains a published transformer, from a file, on real photographs: hours on two CPU cores.
	Full  Profile = "full"  // The paper's setting.
)

// Profiles lists the profiles in the order of lists. Not every experiment has a real one.
var Profiles = []Profile{Smoke, Quick, Real, Full}

// ParseProfile returns the profile with the given name.
func ParseProfile(name string) (Profile, error) {
	if p := Profile(name); slices.Contains(Profiles, p) {
		return p, nil
	}
	return "", fmt.Errorf("profile %q is unknown; the profiles are smoke, quick, real and full", name)
}
