package study

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/progress"
)

// Run is a running cell, as a worker receives it.
type Run[C comparable, D Data] struct {
	Context context.Context
	Cell    Cell[C]
	Data    D
	Dir     string // The cell's folder, which exists and is locked.

	call     *call[C, D]
	task     *task[C, D]
	recorded recorded
	watched  progress.Bar // Tells those that watch the cell.
	moved    int          // How many of the cell's steps on the bar are done.
	began    time.Time

	efficiency func() Efficiency // Of the training that runs or ran last; nil before.

	earlier float64  // Seconds that earlier calls took.
	skipped []string // Files that the cell has skipped, with the reason, in all calls.
}

// Backend is the backend that computations run on.
func (r *Run[C, D]) Backend() compute.Backend { return r.call.backend }

// Options are the options of the call.
func (r *Run[C, D]) Options() Options { return r.call.options }

// Root is the experiment's folder.
func (r *Run[C, D]) Root() string { return r.call.dir }

// Warnf reports a warning of one line.
func (r *Run[C, D]) Warnf(format string, args ...any) { r.call.options.Warnf(format, args...) }

// Phase shows the current phase of the cell, such as progress.Compiling.
func (r *Run[C, D]) Phase(name string) {
	r.watched.Phase(name)
	r.call.bar.setPhase(r.task.name, name)
}

// Say shows a note beside the bar without moving it.
func (r *Run[C, D]) Say(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	r.watched.Set(r.moved, note)
	r.call.bar.move(0, r.task.name+"  "+note)
}

// Step moves the bar by one step and shows a note.
func (r *Run[C, D]) Step(format string, args ...any) {
	r.moved++
	note := fmt.Sprintf(format, args...)
	if r.efficiency != nil {
		note += r.efficiency().Note()
	}
	r.watched.Set(r.moved, note)
	r.call.bar.move(1, r.task.name+"  "+note)
}

// Resumed moves the bar over the steps of earlier calls.
func (r *Run[C, D]) Resumed(steps int) {
	r.moved += steps
	r.watched.Resumed(steps)
	r.call.bar.resumed(steps)
}

// end moves the bar to the end of the cell's steps, unless the cell has failed or was interrupted.
func (r *Run[C, D]) end(err error) {
	r.Phase("")
	if err == nil && r.moved < r.task.steps {
		r.call.bar.resumed(r.task.steps - r.moved)
	}
}

// Path returns the path of a file in the cell's folder as records name it, relative to the experiment's folder.
func (r *Run[C, D]) Path(file string) (string, error) {
	relative, err := filepath.Rel(r.call.dir, filepath.Join(r.Dir, file))
	return filepath.ToSlash(relative), err
}

// Wants reports whether at least one number of a row is still to be recorded.
func (r *Run[C, D]) Wants(row string) bool {
	return slices.ContainsFunc(r.task.numbers, func(n Number) bool { return n.Row == row && r.wants(n) })
}

func (r *Run[C, D]) wants(n Number) bool {
	return r.task.wanted && !r.recorded[r.task.key(r.call.options.Profile, n)]
}

// versions are those of what computes and of what decodes JPEG files, whose colours depend on it.
var versions = sync.OnceValue(func() map[string]string {
	all := maps.Clone(backend.Versions())
	all["jpeg"] = datasets.JPEGDecoder
	return all
})

// Record records those of the numbers that are still to be recorded.
func (r *Run[C, D]) Record(numbers ...Number) (err error) {
	defer try.Handle(&err)
	for _, n := range numbers {
		n.Data = cmp.Or(n.Data, r.Data.Identity())
		if !r.wants(n) {
			continue
		}
		record := Record{
			Experiment: r.call.Name, Cell: r.task.name, Row: n.Row, Column: n.Column, Metric: n.Metric, Unit: n.Unit, Value: n.Value,
			Seed: r.Cell.Seed, Profile: r.call.options.Profile, Config: EncodeConfig(r.Cell.Config), ConfigHash: r.task.hash,
			Protocol: n.Protocol, Data: n.Data, Details: n.Details, Curve: n.Curve, Encoder: n.Encoder, Skipped: append(slices.Clone(r.Data.Skipped()), r.skipped...),
			Backend: backend.Name(), Versions: versions(), Seconds: n.Seconds, Finished: time.Now().UTC().Truncate(time.Second),
		}
		if r.call.Ran != nil {
			if ran, derived := r.call.Ran(r.Cell); derived {
				record.Config, record.Shared = EncodeConfig(ran), record.Config
			}
		}
		record.place(r.Cell.Dataset)
		if n.Images != nil && record.Dataset != Synthetic { // A file of the number beside the model. Each seed draws its own synthetic images.
			name := fmt.Sprintf("images-%s.json", Hash(fmt.Append(nil, r.task.key(r.call.options.Profile, n))))
			path, err := r.Path(name)
			try.E(cmp.Or(err, atomicfile.WriteBytes(filepath.Join(r.Dir, name), EncodeConfig(n.Images))))
			record.Images = path
		}
		record.Seconds = cmp.Or(record.Seconds, r.seconds())
		if r.efficiency != nil {
			record.Efficiency = new(r.efficiency())
		}
		try.E(record.Append(r.call.dir))
		r.recorded[r.task.key(r.call.options.Profile, n)] = true
	}
	return nil
}

// Files in a cell's folder that outlive a call: the seconds that all calls have taken so far, the files that were skipped, and the error that ended the
// last call. A running cell holds its lock.
const (
	LockFile = "lock" // Every run has it, also one on photographs.

	secondsFile = "seconds"
	skippedFile = "skipped"
	failureFile = "failure"
)

// load reads the state that earlier calls left behind, and removes what they were writing when they were killed.
func (r *Run[C, D]) load() (err error) {
	defer try.Handle(&err)
	try.E(atomicfile.Sweep(r.Dir))
	try.E(os.RemoveAll(filepath.Join(r.Dir, failureFile)))
	seconds := try.E1(readIfThere(filepath.Join(r.Dir, secondsFile)))
	r.earlier, _ = strconv.ParseFloat(strings.TrimSpace(string(seconds)), 64) // A broken time does not justify an error.
	skipped := try.E1(readIfThere(filepath.Join(r.Dir, skippedFile)))
	r.skipped = strings.FieldsFunc(string(skipped), func(c rune) bool { return c == '\n' })
	return nil
}

// seconds is the time that this call and earlier ones have taken.
func (r *Run[C, D]) seconds() float64 { return r.earlier + time.Since(r.began).Seconds() }

// saveSeconds saves that time for later calls.
func (r *Run[C, D]) saveSeconds() error {
	return atomicfile.WriteBytes(filepath.Join(r.Dir, secondsFile), fmt.Appendf(nil, "%g\n", r.seconds()))
}

// saveFailure saves the error that ends the cell, as one line, for [Spec.Status].
func (r *Run[C, D]) saveFailure(err error) error {
	line := strings.Join(strings.Fields(err.Error()), " ")
	return atomicfile.WriteBytes(filepath.Join(r.Dir, failureFile), []byte(line+"\n"))
}

// Skip records a skipped file with the first reason, and warns once per call. Training and measuring may give unlike reasons.
func (r *Run[C, D]) Skip(file, reason string) {
	file = strings.ReplaceAll(file, "\n", " ")
	line := file + ": " + strings.ReplaceAll(reason, "\n", " ")
	r.call.warnOnce("file "+file, "skipped "+line)
	if slices.ContainsFunc(r.skipped, func(other string) bool { return strings.HasPrefix(other, file+": ") }) {
		return
	}
	r.skipped = append(r.skipped, line)
	if err := atomicfile.WriteBytes(filepath.Join(r.Dir, skippedFile), []byte(strings.Join(r.skipped, "\n")+"\n")); err != nil {
		r.Warnf("%v", err)
	}
}

// recorded is the set of numbers that have a record.
type recorded map[recordKey]bool

// recordKey identifies a number: a row and column of a cell with its configuration and data. It includes the profile, because a run whose --set happens
// to give another profile's configuration does not appear in that profile's tables.
type recordKey struct {
	profile                       Profile
	cell, hash, row, column, data string
}

// readRecorded reads which numbers are recorded in an experiment's folder.
func readRecorded(dir string) (recorded, error) {
	records, err := Records(dir)
	return lo.SliceToMap(records, func(r Record) (recordKey, bool) {
		return recordKey{r.Profile, r.Cell, r.ConfigHash, r.Row, r.Column, r.Data}, true
	}), err
}

// key returns the key of one of the task's numbers, whose data are identified.
func (t *task[C, D]) key(profile Profile, n Number) recordKey {
	return recordKey{profile, t.name, t.hash, n.Row, n.Column, n.Data}
}

// complete reports whether all numbers of the task are recorded.
func (t *task[C, D]) complete(done recorded, profile Profile) bool {
	missing := slices.ContainsFunc(t.numbers, func(n Number) bool { return !done[t.key(profile, n)] })
	return len(t.numbers) > 0 && !missing
}

// bar is a progress bar that several cells share.
type bar struct {
	progress.Bar
	mu     sync.Mutex
	done   int
	phases map[string]string // The phase of each running cell.
	shown  string
}

func (b *bar) move(steps int, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += steps
	b.Set(b.done, note)
}

func (b *bar) resumed(steps int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += steps
	b.Resumed(steps)
}

// setPhase sets the phase of a cell; empty when it ends. The bar shows training while any cell trains, because its rate then counts training steps.
func (b *bar) setPhase(cell, phase string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if phase == "" {
		delete(b.phases, cell)
	} else {
		b.phases[cell] = phase
	}
	show := phase
	for _, other := range b.phases {
		if other == progress.Training || show == "" {
			show = other
		}
	}
	if show != b.shown {
		b.Phase(show)
		b.shown = show
	}
}

// Described says what data are; the data of experiments embed it.
type Described struct {
	ID, Name string   // Their identity and their title.
	Unread   []string // The files that the reader skipped, each with the reason.
}

// Identity is the data's identity.
func (d Described) Identity() string { return d.ID }

// Title is the data's title.
func (d Described) Title() string { return d.Name }

// Skipped lists the skipped files.
func (d Described) Skipped() []string { return d.Unread }

// opened is the data that the cells of a seed share, from the first of them that runs until the last has run.
type opened[C comparable, D Data] struct {
	cells []Cell[C] // The selected ones.
	once  sync.Once
	data  D
	err   error
	left  int // Number of tasks that wait or run.
}

// dropUnused drops data that no task needs.
func (o *opened[C, D]) dropUnused() {
	if o.left == 0 {
		o.data = *new(D)
	}
}

// shared returns what holds the data of a cell.
func (c *call[C, D]) shared(cell Cell[C]) *opened[C, D] {
	key := fmt.Sprintf("%s/seed%d", cell.Dataset, cell.Seed)
	if c.opened[key] == nil {
		c.opened[key] = &opened[C, D]{}
	}
	return c.opened[key]
}

// dataOf returns the data of a cell. The first call for one of the cells that share them opens them; calls meanwhile wait for it.
func (c *call[C, D]) dataOf(cell Cell[C], shared *opened[C, D]) (D, error) {
	shared.once.Do(func() {
		shared.err = panics.Catch(func() (err error) {
			options := c.options
			options.Warn = func(line string) { c.warnOnce(line, line) }
			cells := shared.cells
			if cells == nil { // The cell is not selected, but a selected one needs it.
				cells = []Cell[C]{cell}
			}
			if shared.data, err = c.Open(options, cell.Dataset, cells); err != nil {
				return err
			}
			for _, skipped := range shared.data.Skipped() {
				c.warnOnce("skipped "+skipped, "skipped "+skipped)
			}
			return nil
		})
	})
	return shared.data, shared.err
}

// release says that a task has run.
func (c *call[C, D]) release(t *task[C, D]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.data.left--
	t.data.dropUnused()
}

// warnOnce reports a warning unless this call has reported one of the same subject.
func (c *call[C, D]) warnOnce(subject, line string) {
	c.mu.Lock()
	known := c.warned[subject]
	c.warned[subject] = true
	c.mu.Unlock()
	if !known {
		c.options.Warnf("%s", line)
	}
}
