package train

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/core/tensors/dtensor"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/sccore/backend"
)

// Program is a compiled graph over the variables of a store. On a backend that [backend.OpenDevices] has opened for several devices, XLA divides the work over
// them, as the inputs are divided; each device holds all variables.
type Program struct {
	exec    *model.Exec
	backend compute.Backend
	inputs  []Input
}

// NewProgram returns a graph that is compiled for inputs of these shapes.
func NewProgram(b compute.Backend, store *model.Store, graph func(*model.Scope, []*Node) []*Node, inputs []Input) (_ *Program, err error) {
	defer try.Handle(&err)
	exec := try.E1(model.NewExec(b, store, graph))
	p := &Program{exec, b, inputs}
	all := lo.Map(inputs, func(input Input, _ int) shapes.Shape { return input.Shape })
	if mesh := backend.Mesh(b); mesh != nil {
		var specs []*distributed.ShardingSpec
		for i, input := range inputs {
			specs = append(specs, try.E1(specOf(mesh, input.Shape, input.Divided)))
			all[i] = specs[i].ShardShape(input.Shape)
		}
		// Without a word about the outputs XLA would divide some of them, and GoMLX take the share of a device for a variable's value.
		exec.AutoSharding(mesh).WithInputShardingSpecs(specs...).WithOutputShardingSpecs(distributed.NewReplicatedShardingSpec(mesh))
		all = slices.Repeat(all, mesh.NumDevices())
	}
	_, err = exec.Compile(all...) // The graph stays if it fails: finalizing an Exec whose graph panicked would wait forever.
	return p, err
}

// specOf says how the rows of an input lie on devices. Rows that cannot be divided equally are given to each device.
func specOf(mesh *distributed.DeviceMesh, input shapes.Shape, divided bool) (*distributed.ShardingSpec, error) {
	if !divided || input.Dim(0)%mesh.NumDevices() != 0 {
		return distributed.NewReplicatedShardingSpec(mesh), nil
	}
	axes := make([]distributed.AxisSpec, input.Rank()) // All of them: ShardShape takes a shorter list for none.
	axes[0] = distributed.AxisSpec{backend.BatchAxis}
	return distributed.NewShardingSpec(mesh, axes...)
}

// Call runs the graph on its inputs, passes its outputs to read and frees them.
func (p *Program) Call(inputs []any, read func(outputs []*tensors.Tensor)) (err error) {
	defer try.Handle(&err)
	mesh, placed := backend.Mesh(p.backend), slices.Clone(inputs)
	for i, input := range inputs {
		switch input := input.(type) {
		case Placed:
			placed[i] = input.input
		case Bytes:
			there := try.E1(place(p.backend, input, p.inputs[i].Divided))
			defer there.FinalizeAll()
			placed[i] = there
		case *dtensor.Tensor:
		default:
			if mesh != nil {
				there := try.E1(shard(mesh, input, p.inputs[i].Divided))
				defer there.Finalize()
				placed[i] = there
			}
		}
	}
	return Execute(p.exec, placed, func(outputs []*tensors.Tensor) { read(outputs[:len(outputs)/backend.Devices(p.backend)]) }) // All devices have the same.
}

// Finalize frees the compiled graph.
func (p *Program) Finalize() { p.exec.Finalize() }

// shard divides an input over devices. It leaves the input as it is.
func shard(mesh *distributed.DeviceMesh, input any, divided bool) (_ *dtensor.Tensor, err error) {
	defer try.Handle(&err)
	tensor, ok := input.(*tensors.Tensor)
	if !ok {
		tensor = try.E1(tensors.FromAnyValue(input))
		defer tensor.FinalizeAll()
	}
	spec := try.E1(specOf(mesh, tensor.Shape(), divided))
	return dtensor.ShardTensor(spec, tensor)
}

// onDevice is a tensor on one device or on several.
type onDevice interface{ FinalizeAll() error }

// place moves an input to the devices of a backend, which share its rows if it is divided, and frees it where it was.
func place(b compute.Backend, input any, divided bool) (_ onDevice, err error) {
	defer try.Handle(&err)
	mesh := backend.Mesh(b)
	tensor, _ := input.(*tensors.Tensor)
	switch bytes, isBytes := input.(Bytes); {
	case isBytes && mesh == nil:
		buffer := try.E1(b.BufferFromFlatData(0, bytes.Values, shapes.Make(dtypes.Uint8, bytes.Dimensions...)))
		return tensors.FromBuffer(buffer)
	case isBytes:
		tensor = tensors.FromFlatDataAndDimensions(bytes.Values, bytes.Dimensions...)
	case mesh == nil:
		return tensor, tensor.ToDevice(b, 0)
	}
	placed := try.E1(shard(mesh, tensor, divided))
	for device, part := range placed.Shards() {
		if err := part.ToDevice(b, compute.DeviceNum(device)); err != nil {
			return nil, errors.Join(err, placed.FinalizeAll())
		}
	}
	return placed, tensor.FinalizeAll()
}

// GoMLX says the axes of a product only in the text of its node.
var (
	contracted    = regexp.MustCompile(`lhsContractingAxes=\[([0-9 ]*)\]`)
	outputChannel = regexp.MustCompile(`OutputChannels:\d+ .*OutputChannels:(\d+)`) // The kernel's, then the output's.
)

// Products counts the floating-point operations of matrix products, convolutions and fused attention that nodes depend on, two for a multiplication and an
// addition. Bodies of loops are left out. It is NaN if GoMLX describes a product in other words than those known here.
func Products(roots ...*Node) (flop float64) {
	seen := map[*Node]bool{}
	for len(roots) > 0 {
		node := roots[len(roots)-1]
		if roots = roots[:len(roots)-1]; !seen[node] {
			seen[node] = true
			flop += productOf(node)
			roots = append(roots, node.Inputs()...)
		}
	}
	return flop
}

// productOf is the FLOP of a node, 0 if it is no product.
func productOf(node *Node) float64 {
	switch node.Type() {
	case NodeTypeDotGeneral:
		flop := 2 * float64(node.Shape().Size())
		found := contracted.FindStringSubmatch(node.String())
		if found == nil {
			return math.NaN()
		}
		for _, axis := range strings.Fields(found[1]) {
			at, _ := strconv.Atoi(axis) // The pattern takes digits alone.
			flop *= float64(node.Inputs()[0].Shape().Dim(at))
		}
		return flop
	case NodeTypeConvGeneral:
		found := outputChannel.FindStringSubmatch(node.String())
		if found == nil {
			return math.NaN()
		}
		channels, _ := strconv.Atoi(found[1])
		return 2 * float64(node.Shape().Size()) * float64(node.Inputs()[1].Shape().Size()) / float64(node.Shape().Dim(channels))
	case NodeTypeFusedScaledDotProductAttention, NodeTypeFusedScaledDotProductAttentionVJP: // Of queries [n, tokens, heads, size] with as many keys.
		// Backward these are the scores again, and the gradients of both products' factors.
		products := lo.Ternary(node.Type() == NodeTypeFusedScaledDotProductAttentionVJP, 5., 2)
		queries := node.Inputs()[0].Shape()
		return products * 2 * float64(queries.Size()) * float64(queries.Dim(1))
	}
	return 0
}

// feed makes the batches of a run ahead. The zero value is ready.
type feed struct {
	ready  <-chan fed
	stop   func()
	seed   uint64
	number int // Of the part that comes next.
}

type fed struct {
	batch Batch
	err   error
}

// batch returns a part of a run's batches, on the device. It is ready already if the call before asked for the part before.
func (t *Trainer[M]) batch(ctx context.Context, number int) (Batch, error) {
	if !t.task.Ahead {
		for batch, err := range t.task.Batches(ctx, t.at.Seed, number) {
			return batch, err
		}
		return Batch{}, io.ErrUnexpectedEOF
	}
	f := &t.feed
	if f.ready == nil || f.seed != t.at.Seed || f.number != number {
		t.Rewind()
		// What is read ahead belongs to the run, not to this call, so it outlives ctx.
		running, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ready, stop := ahead(t.placed(t.task.Batches(running, t.at.Seed, number)))
		t.feed = feed{ready, func() { cancel(); stop() }, t.at.Seed, number}
	}
	select {
	case next := <-f.ready:
		if next.err != nil {
			t.Rewind()
		}
		f.number++
		return next.batch, next.err
	case <-ctx.Done(): // The next call takes the batch.
		return Batch{}, ctx.Err()
	}
}

// placed moves batches to the devices while it makes those that follow.
func (t *Trainer[M]) placed(batches iter.Seq2[Batch, error]) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		ready, stop := ahead(batches)
		defer stop()
		for next := range ready {
			if next.err == nil {
				if next.err = t.upload(next.batch.Inputs); next.err != nil {
					Free(next.batch.Inputs)
					next.batch = Batch{}
				}
			}
			if !yield(next.batch, next.err) {
				return
			}
		}
	}
}

// ahead makes the next batch while the one before is in use. After the last comes an error. stop waits until none is made any more, and frees what nobody takes.
func ahead(batches iter.Seq2[Batch, error]) (ready <-chan fed, stop func()) {
	made, stopped := make(chan fed), make(chan struct{})
	offer := func(next fed) (taken bool) {
		select {
		case made <- next:
			return true
		case <-stopped:
			Free(next.batch.Inputs)
			return false
		}
	}
	go func() {
		defer close(made)
		err := panics.Catch(func() error {
			for batch, err := range batches {
				if !offer(fed{batch, err}) || err != nil {
					return nil
				}
			}
			return io.ErrUnexpectedEOF
		})
		if err != nil {
			offer(fed{err: err})
		}
	}()
	return made, func() {
		close(stopped)
		for next := range made { // Until it is closed.
			Free(next.batch.Inputs)
		}
	}
}

// Rewind stops making batches ahead, and waits until none is made any more. The next step starts again. Call it before what batches depend on changes.
func (t *Trainer[M]) Rewind() {
	if t.feed.stop != nil {
		t.feed.stop()
	}
	t.feed = feed{}
}

// upload moves the tensors among the inputs of a part to the devices, so that the step need not.
func (t *Trainer[M]) upload(inputs []any) (err error) {
	defer try.Handle(&err)
	for i, input := range inputs {
		switch input.(type) {
		case *tensors.Tensor, Bytes:
			inputs[i] = try.E1(place(t.backend, input, t.task.Inputs[i].Divided))
		}
	}
	return nil
}

// Free frees the tensors among a step's inputs. Go's garbage collector does not see a device's memory, and comes too late.
func Free(inputs []any) {
	for _, input := range inputs {
		if tensor, ok := input.(onDevice); ok {
			if err := tensor.FinalizeAll(); err != nil {
				panic(err)
			}
		}
	}
}

// Bytes are an input in Go's memory, row-major. They move to the device from there, without a tensor between, which would be a copy of all images of a step.
type Bytes struct {
	Values     []uint8
	Dimensions []int
}

// Placed is an input that is on each device already, and stays there from step to step.
type Placed struct{ input onDevice }

// Place moves the whole of an input to each device of a backend.
func Place(b compute.Backend, input *tensors.Tensor) (Placed, error) {
	placed, err := place(b, input, false)
	return Placed{placed}, err
}

// Close frees the device's memory.
func (p Placed) Close() error {
	if p.input == nil {
		return nil
	}
	return p.input.FinalizeAll()
}
