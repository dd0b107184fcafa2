package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/safetensors"
)

// ErrDiverged says that a loss or its gradient became NaN or infinite. The weights are lost; earlier checkpoints are good.
var ErrDiverged = errors.New("the loss diverged")

// Trainer trains an [Objective]. Its step is compiled once and serves any number of runs. A run depends on its objective and seed and on the backend,
// on nothing else. A Trainer is not safe for concurrent use.
type Trainer[M any] struct {
	objective Objective[M]
	store     *model.Store
	step      *Program
	update    *Program // The update after a batch in parts, else nil.
	parts     int

	begun bool
	at    Position
	saved string // The last checkpoint of the run.

	usage  Usage
	warm   bool          // The first step is over.
	waited time.Duration // The time that the running step has waited for inputs.
}

// compiling keeps trainers from compiling at the same time. A compiler uses all cores for a step, and its memory would add up.
var compiling sync.Mutex

// New compiles the step of an objective, which creates its variables. A run starts with Begin or Resume.
func New[M any](b compute.Backend, objective Objective[M]) (*Trainer[M], error) {
	t := &Trainer[M]{objective: objective, store: model.NewStore(), parts: 1}
	inParts, _ := objective.(GradientAccumulator)
	if inParts != nil {
		t.parts = inParts.Parts()
	}
	if err := checkDevices(b, objective, t.parts); err != nil {
		return nil, err
	}
	var divided []bool
	if o, ok := objective.(DataParallel); ok {
		divided = o.Divided()
	}
	compiling.Lock()
	defer compiling.Unlock()
	began := time.Now()
	err := try(func() (err error) {
		if t.step, err = NewProgram(b, t.store, inPlace(objective.Graph), objective.Shapes(), divided); err != nil || t.parts == 1 {
			return err
		}
		t.update, err = NewProgram(b, t.store, inPlace(inParts.Update), inParts.UpdateShapes(), nil)
		return err
	})
	if err != nil {
		t.store.Finalize()
		return nil, err
	}
	backend.Trim()
	t.usage.Compiling = time.Since(began)
	return t, nil
}

// Close frees the device's memory.
func (t *Trainer[M]) Close() {
	for _, exec := range []*Program{t.step, t.update} {
		if exec != nil {
			exec.Finalize()
		}
	}
	t.store.Finalize()
}

// Store holds the objective's variables and the optimizer's state.
func (t *Trainer[M]) Store() *model.Store { return t.store }

// Steps is the number of steps of a run.
func (t *Trainer[M]) Steps() int { return t.objective.Steps() }

// Done is the number of steps done.
func (t *Trainer[M]) Done() int { return t.at.Done }

// Seed is the seed of the run.
func (t *Trainer[M]) Seed() uint64 { return t.at.Seed }

// Begin sets the variables to the initial values of a seed, the same on every backend, and the run to step 0.
func (t *Trainer[M]) Begin(seed uint64) (err error) {
	if o, ok := t.objective.(Initializer); ok {
		err = o.Initialize(t.store, seed)
	} else {
		err = Initialize(t.store, seed)
	}
	if err != nil {
		return err
	}
	t.begun, t.at, t.saved = true, Position{Seed: seed}, ""
	return nil
}

// Step trains one step. If ctx has ended, the step is not taken and the error is ctx's. An [ErrDiverged] names the last good checkpoint.
func (t *Trainer[M]) Step(ctx context.Context) (metrics M, err error) {
	var none M
	if err := ctx.Err(); err != nil {
		return none, err
	}
	began := time.Now()
	t.waited = 0
	at := At{Seed: t.at.Seed, Step: t.at.Done}
	for at.Part = range t.parts {
		if err := t.run(ctx, t.step, at, &metrics); err != nil {
			return none, err
		}
		ctx = context.WithoutCancel(ctx) // A step that has begun runs to its end.
	}
	if t.update != nil {
		at.Part = t.parts
		if err := t.run(ctx, t.update, at, &metrics); err != nil {
			return none, err
		}
	}
	if how := t.objective.Diverged(metrics); how != "" {
		state := "no checkpoint yet"
		if t.saved != "" {
			state = "the last good checkpoint is " + t.saved
		}
		return metrics, fmt.Errorf("%w: %s at step %d; %s", ErrDiverged, how, t.at.Done+1, state)
	}
	t.at.Done++
	t.stepped(time.Since(began))
	return metrics, nil
}

// run executes one part of a step, or its update.
func (t *Trainer[M]) run(ctx context.Context, program *Program, at At, metrics *M) error {
	began := time.Now()
	inputs, err := t.objective.Inputs(ctx, at)
	t.waited += time.Since(began)
	if err != nil {
		return err
	}
	return program.Call(inputs, func(outputs []*tensors.Tensor) { t.objective.Metrics(metrics, at, outputs) })
}

// Execute runs a graph, passes its outputs to read and frees them.
func Execute(exec *model.Exec, inputs []any, read func(outputs []*tensors.Tensor)) error {
	return try(func() error {
		outputs, err := exec.Call(inputs...)
		if err != nil {
			return err
		}
		read(outputs)
		for _, output := range outputs {
			if err := output.FinalizeAll(); err != nil {
				return err
			}
		}
		return nil
	})
}

// try returns a panic of graph building as an error.
func try(f func() error) (err error) {
	if caught := exceptions.TryCatch[error](func() { err = f() }); caught != nil {
		return caught
	}
	return err
}

// Save writes the whole state of the run to path, atomically, with a note from the caller.
func (t *Trainer[M]) Save(path, note string) error {
	metadata, err := t.recorder().Metadata(t.at)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	metadata = maps.Clone(metadata)
	metadata["note"] = note
	if err := safetensors.SaveCheckpoint(path, t.store, metadata); err != nil {
		return err
	}
	t.saved = path
	return nil
}

// Resume restores what Save wrote and returns its note. Training continues as if it had never stopped, bit for bit on the same backend. The file must
// be of this objective; the error names the file.
func (t *Trainer[M]) Resume(path string) (note string, err error) {
	if !t.begun { // The variables must exist before the file's values replace them.
		if err := t.Begin(0); err != nil {
			return "", err
		}
	}
	metadata, err := safetensors.LoadCheckpoint(path, t.store)
	if err != nil {
		return "", err
	}
	if err := t.checkKeys(metadata); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	at, err := t.recorder().Restore(metadata, t.at)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if at.Done < 0 || at.Done > t.Steps() {
		return "", fmt.Errorf("%s: stands at step %d of %d", path, at.Done, t.Steps())
	}
	t.at, t.saved = at, path
	return metadata["note"], nil
}

// checkKeys returns an error if metadata has a key that Save does not write: a damaged name of the checksum would leave the file unchecked.
func (t *Trainer[M]) checkKeys(metadata map[string]string) error {
	known, err := t.recorder().Metadata(t.at)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if _, ok := known[key]; !ok && key != "note" {
			return fmt.Errorf("damaged, or of another program: unknown metadata %q", key)
		}
	}
	return nil
}

func (t *Trainer[M]) recorder() Checkpointer {
	if o, ok := t.objective.(Checkpointer); ok {
		return o
	}
	return byPosition{}
}

// byPosition is the [Checkpointer] of objectives that have none.
type byPosition struct{}

// Metadata stores the position alone.
func (byPosition) Metadata(at Position) (map[string]string, error) {
	encoded, err := json.Marshal(at)
	return map[string]string{"position": string(encoded)}, err
}

// Restore returns the stored position.
func (byPosition) Restore(metadata map[string]string, _ Position) (at Position, err error) {
	if err := json.Unmarshal([]byte(metadata["position"]), &at); err != nil {
		return at, fmt.Errorf("position in the run: %w", err)
	}
	return at, nil
}
