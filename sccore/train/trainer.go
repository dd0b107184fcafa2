package train

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/safetensors"
)

// ErrDiverged says that a loss or its gradient became NaN or infinite. The weights are lost; earlier checkpoints are good.
var ErrDiverged = errors.New("the loss diverged")

// Trainer trains a [Task]. Its step is compiled once and serves any number of runs. A run depends on its task and seed and on the backend, on nothing else.
// A Trainer is not safe for concurrent use.
type Trainer[M any] struct {
	task    Task[M]
	backend compute.Backend
	store   *model.Store
	parts   int
	step    *Program
	update  *Program       // The update after a batch in parts, else nil.
	reports [2][]Report[M] // Of step and update.
	flop    [2]float64     // Of the products in their graphs.
	feed    feed

	begun bool
	at    Position
	saved string // The last checkpoint of the run.

	usage Usage
	warm  bool // The first step is over.
}

// accumulatedScope holds the summed gradients of a batch in parts.
const accumulatedScope = "accumulated"

// compiling keeps trainers from compiling at the same time. A compiler uses all cores for a step, and its memory would add up.
var compiling sync.Mutex

// CheckDevices returns an error unless the devices of a backend can share the images of a batch, or of its parts, equally.
func CheckDevices(b compute.Backend, images int) error {
	if devices := backend.Devices(b); images%devices != 0 {
		return fmt.Errorf("devices %d: they cannot share %d images of a batch equally", devices, images)
	}
	return nil
}

// New compiles the step of a task, which creates its variables. A run starts with Begin or Resume.
func New[M any](b compute.Backend, task Task[M]) (_ *Trainer[M], err error) {
	defer try.Handle(&err)
	t := &Trainer[M]{task: task, backend: b, store: model.NewStore(), parts: max(task.Parts, 1)}
	try.E(CheckDevices(b, task.Workload.Images/t.parts))
	compiling.Lock()
	defer compiling.Unlock()
	began := time.Now()
	err = backend.Catch(func() (err error) {
		schedule := Input{Shape: shapes.Make(dtypes.Float32, len(task.Schedule(0)))}
		if t.step, err = NewProgram(b, t.store, inPlace(&t.flop[0], t.stepGraph), append(slices.Clone(task.Inputs), schedule)); err != nil || t.parts == 1 {
			return err
		}
		t.update, err = NewProgram(b, t.store, inPlace(&t.flop[1], t.updateGraph), []Input{schedule})
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

// stepGraph computes a batch, or one part of it: forward and backward, and the update unless the batch comes in parts.
func (t *Trainer[M]) stepGraph(scope *model.Scope, inputs []*Node) []*Node {
	loss, reports := t.task.Loss(scope, inputs)
	if i := slices.IndexFunc(reports, func(r Report[M]) bool { return r.Node == loss }); i > 0 { // So that the error of a run that diverges names the loss.
		reports = slices.Concat(reports[i:i+1], reports[:i], reports[i+1:])
	}
	variables, gradients := Gradients(scope, loss, t.task.Learnt)
	if t.parts > 1 {
		optim.Accumulate(scope.At(accumulatedScope), variables, gradients)
	} else {
		reports = append(reports, t.task.Update(scope, variables, gradients, inputs[len(inputs)-1])...)
	}
	return t.report(0, reports, loss)
}

// updateGraph applies the gradients of all parts of a batch.
func (t *Trainer[M]) updateGraph(scope *model.Scope, inputs []*Node) []*Node {
	variables, schedule := Learnt(scope, t.task.Learnt), inputs[0]
	gradients := optim.Accumulated(scope.At(accumulatedScope), schedule.Graph(), variables, t.parts)
	return t.report(1, t.task.Update(scope, variables, gradients, schedule), schedule)
}

// report keeps what reads the outputs of a graph, which has at least one.
func (t *Trainer[M]) report(program int, reports []Report[M], other *Node) (outputs []*Node) {
	t.reports[program] = slices.Clone(reports)
	for i, report := range reports {
		outputs = append(outputs, report.Node)
		t.reports[program][i].Node = nil // So that the graph can be freed.
	}
	return lo.Ternary(len(outputs) == 0, []*Node{other}, outputs)
}

// Close frees the device's memory and stops making batches.
func (t *Trainer[M]) Close() {
	t.Rewind()
	t.step.Finalize()
	if t.update != nil {
		t.update.Finalize()
	}
	t.store.Finalize()
}

// Store holds the task's variables and the optimizer's state.
func (t *Trainer[M]) Store() *model.Store { return t.store }

// Steps is the number of steps of a run.
func (t *Trainer[M]) Steps() int { return t.task.Steps() }

// Done is the number of steps done.
func (t *Trainer[M]) Done() int { return t.at.Done }

// Seed is the seed of the run.
func (t *Trainer[M]) Seed() uint64 { return t.at.Seed }

// StateBytes is the memory of the weights, the optimizer's state and the gradients. A step needs more, for activations.
func (t *Trainer[M]) StateBytes() (bytes int64) {
	for v := range t.store.IterVariables() {
		bytes += int64(v.Shape().ByteSize())
		if v.Trainable && t.parts == 1 { // Summed gradients of parts are variables.
			bytes += int64(v.Shape().ByteSize())
		}
	}
	return bytes
}

// Begin sets the variables to the initial values of a seed, the same on every backend, and the run to step 0. It is an error if they do not fit in memory.
func (t *Trainer[M]) Begin(seed uint64) (err error) {
	defer try.Handle(&err)
	t.Rewind()
	need, limit, allow := t.StateBytes(), backend.Memory(), ""
	if t.task.Memory != nil {
		limit = cmp.Or(t.task.Memory(), limit)
		allow = fmt.Sprintf(" (--set memory_gb=%.0f takes that for granted)", math.Ceil(float64(need)/1e9))
	}
	if limit > 0 && need > limit {
		return fmt.Errorf("memory: weights, gradients and the optimizer's state take %.1f GB, more than the %.1f GB that there are%s", float64(need)/1e9, float64(limit)/1e9, allow)
	}
	if t.task.Initialize == nil {
		try.E(Initialize(t.store, seed))
	} else {
		try.E(t.task.Initialize(t.store, seed))
	}
	t.begun, t.at, t.saved = true, Position{Seed: seed}, ""
	return nil
}

// Step trains one step. If ctx has ended, the step is not taken and the error is ctx's. An [ErrDiverged] names the last good checkpoint.
func (t *Trainer[M]) Step(ctx context.Context) (metrics M, err error) {
	defer try.Handle(&err)
	try.E(ctx.Err())
	began, waited, diverged := time.Now(), time.Duration(0), ""
	schedule := t.task.Schedule(t.at.Done)
	at := At{Step: t.at.Done, Parts: t.parts}
	if t.task.Describe != nil {
		t.task.Describe(&metrics, at.Step)
	}
	for at.Part = range t.parts {
		waiting := time.Now()
		batch, err := t.batch(ctx, at.Step*t.parts+at.Part)
		waited += time.Since(waiting)
		try.E(err)
		if batch.Taken != nil {
			batch.Taken()
		}
		err = t.run(t.step, append(slices.Clone(batch.Inputs), schedule), t.reports[0], at, &metrics, &diverged)
		Free(batch.Inputs)
		try.E(err)
		ctx = context.WithoutCancel(ctx) // A step that has begun runs to its end.
	}
	if t.update != nil {
		try.E(t.run(t.update, []any{schedule}, t.reports[1], At{Step: at.Step, Parts: 1}, &metrics, &diverged))
	}
	if diverged != "" {
		state := lo.Ternary(t.saved == "", "no checkpoint yet", "the last good checkpoint is "+t.saved)
		return metrics, fmt.Errorf("%w: %s at step %d; %s", ErrDiverged, diverged, t.at.Done+1, state)
	}
	t.at.Done++
	if t.warm { // The first step counts for nothing.
		t.usage.Steps++
		t.usage.Stepping += time.Since(began)
		t.usage.Waiting += waited
	}
	t.warm = true
	return metrics, nil
}

// Take is [Trainer.Step] without its report.
func (t *Trainer[M]) Take(ctx context.Context) error {
	_, err := t.Step(ctx)
	return err
}

// run executes a program and reads its reports. diverged is the first one that shows so.
func (t *Trainer[M]) run(program *Program, inputs []any, reports []Report[M], at At, metrics *M, diverged *string) error {
	return program.Call(inputs, func(outputs []*tensors.Tensor) {
		for i, report := range reports {
			*diverged = cmp.Or(*diverged, report.Read(metrics, at, outputs[i]))
		}
	})
}

// Usage is where the time went since the trainer was made.
func (t *Trainer[M]) Usage() Usage { return t.usage }

// Workload is what a step computes.
func (t *Trainer[M]) Workload() Workload { return t.task.Workload }

// Products is the number of floating-point operations of the products in the graphs of a step, see the function [Products]. It has what the workload leaves out,
// such as what is computed twice to save memory. It is NaN if they cannot be counted.
func (t *Trainer[M]) Products() float64 { return float64(t.parts)*t.flop[0] + t.flop[1] }

// Read makes parts of the batches that come next, moves them to the devices and frees them: as many as most, or at least one in the given time. It measures
// what steps would wait for, takes none, and returns how many parts it has made.
func (t *Trainer[M]) Read(ctx context.Context, most int, within time.Duration) (parts int, err error) {
	defer try.Handle(&err)
	t.Rewind() // Or batches would also be made ahead of the next step.
	began := time.Now()
	for batch, err := range t.placed(t.task.Batches(ctx, t.at.Seed, t.at.Done*t.parts)) {
		Free(batch.Inputs)
		try.E(err)
		if parts++; parts >= most || time.Since(began) >= within {
			break
		}
	}
	return parts, nil
}

// Execute runs a graph, passes its outputs to read and frees them.
func Execute(exec *model.Exec, inputs []any, read func(outputs []*tensors.Tensor)) error {
	return backend.Catch(func() (err error) {
		defer try.Handle(&err)
		outputs := try.E1(exec.Call(inputs...))
		read(outputs)
		for _, output := range outputs {
			try.E(output.FinalizeAll())
		}
		return nil
	})
}

// Save writes the whole state of the run to path, atomically, with a note from the caller.
func (t *Trainer[M]) Save(path, note string) (err error) {
	defer try.Handle(&err)
	metadata, err := t.metadata()
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	metadata["note"] = note
	try.E(safetensors.SaveCheckpoint(path, t.store, metadata))
	t.saved = path
	return nil
}

// metadata describes the run and where it stands.
func (t *Trainer[M]) metadata() (metadata map[string]string, err error) {
	defer try.Handle(&err)
	metadata = map[string]string{"position": string(try.E1(json.Marshal(t.at)))}
	if t.task.Config != nil {
		metadata["config"] = string(try.E1(json.Marshal(t.task.Config())))
	}
	if t.task.Save != nil {
		try.E(t.task.Save(t.at, metadata))
	}
	return metadata, nil
}

// Resume restores what Save wrote and returns its note. Training continues as if it had never stopped, bit for bit on the same backend. The file must
// be of this task; the error names the file.
func (t *Trainer[M]) Resume(path string) (note string, err error) {
	defer try.Handle(&err)
	t.Rewind()
	if !t.begun { // The variables must exist before the file's values replace them.
		try.E(t.Begin(0))
	}
	metadata := try.E1(safetensors.LoadCheckpoint(path, t.store))
	at, err := t.restore(metadata)
	if err == nil && (at.Done < 0 || at.Done > t.Steps()) {
		err = fmt.Errorf("stands at step %d of %d", at.Done, t.Steps())
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	t.at, t.saved = at, path
	return metadata["note"], nil
}

// restore is the reverse of metadata. A key that Save does not write is an error: a damaged name of the checksum would leave the file unchecked.
func (t *Trainer[M]) restore(metadata map[string]string) (at Position, err error) {
	defer try.Handle(&err)
	at = t.at
	known := try.E1(t.metadata())
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if _, ok := known[key]; !ok && key != "note" {
			return at, fmt.Errorf("damaged, or of another program: unknown metadata %q", key)
		}
	}
	if _, ok := known["position"]; ok {
		if err := json.Unmarshal([]byte(metadata["position"]), &at); err != nil {
			return at, fmt.Errorf("position in the run: %w", err)
		}
	}
	if t.task.Config != nil {
		config := t.task.Config()
		saved := reflect.New(reflect.TypeOf(config))
		if err := json.Unmarshal([]byte(metadata["config"]), saved.Interface()); err != nil {
			return at, fmt.Errorf("configuration of the run: %w", err)
		}
		if saved.Elem().Interface() != config {
			return at, errors.New("belongs to a run with another configuration")
		}
	}
	if t.task.Restore != nil {
		err = t.task.Restore(metadata, &at)
	}
	return at, err
}
