package train

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/core/tensors/dtensor"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
)

// DataParallel is an objective whose batches can be divided over several devices.
type DataParallel interface {
	// Divided says which of Graph's inputs have a row for each image of a part, or for each view of one. Each device gets an equal share of their rows, and
	// all of the other inputs. The graph is that of the whole part: what it computes does not depend on the number of devices.
	Divided() []bool
}

// Program is a compiled graph over the variables of a store. On a backend that [backend.OpenDevices] has opened for several devices, XLA divides the work over
// them, as the inputs are divided; each device holds all variables.
type Program struct {
	exec    *model.Exec
	backend compute.Backend
	divided []bool
}

// NewProgram returns a graph that is compiled for inputs of these shapes, of which divided says which ones devices share; nil is for none.
func NewProgram(b compute.Backend, store *model.Store, graph func(*model.Scope, []*Node) []*Node, inputs []shapes.Shape, divided []bool) (*Program, error) {
	exec, err := model.NewExec(b, store, graph)
	if err != nil {
		return nil, err
	}
	p := &Program{exec, b, divided}
	if mesh := backend.Mesh(b); mesh != nil {
		var specs []*distributed.ShardingSpec
		var shards []shapes.Shape
		for i, input := range inputs {
			spec, err := specOf(mesh, input, p.divides(i))
			if err != nil {
				return nil, err
			}
			specs, shards = append(specs, spec), append(shards, spec.ShardShape(input))
		}
		// Without a word about the outputs XLA would divide some of them, and GoMLX take the share of a device for a variable's value.
		exec.AutoSharding(mesh).WithInputShardingSpecs(specs...).WithOutputShardingSpecs(distributed.NewReplicatedShardingSpec(mesh))
		inputs = slices.Repeat(shards, mesh.NumDevices())
	}
	if _, err := exec.Compile(inputs...); err != nil {
		return nil, err // The graph stays: finalizing an Exec whose graph panicked would wait forever.
	}
	return p, nil
}

// divides reports whether devices share the rows of an input.
func (p *Program) divides(input int) bool { return p.divided != nil && p.divided[input] }

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
func (p *Program) Call(inputs []any, read func(outputs []*tensors.Tensor)) error {
	mesh := backend.Mesh(p.backend)
	if mesh == nil {
		return Execute(p.exec, inputs, read)
	}
	placed := slices.Clone(inputs)
	for i, input := range inputs {
		if _, ok := input.(*dtensor.Tensor); ok {
			continue
		}
		var err error
		if placed[i], err = place(mesh, input, p.divides(i)); err != nil {
			return err
		}
		defer placed[i].(*dtensor.Tensor).Finalize()
	}
	return Execute(p.exec, placed, func(outputs []*tensors.Tensor) { read(outputs[:len(outputs)/mesh.NumDevices()]) }) // All devices have the same.
}

// Finalize frees the compiled graph.
func (p *Program) Finalize() { p.exec.Finalize() }

// place divides an input over devices. It leaves the input as it is.
func place(mesh *distributed.DeviceMesh, input any, divided bool) (*dtensor.Tensor, error) {
	tensor, ok := input.(*tensors.Tensor)
	if !ok {
		var err error
		if tensor, err = tensors.FromAnyValue(input); err != nil {
			return nil, err
		}
		defer tensor.FinalizeAll()
	}
	spec, err := specOf(mesh, tensor.Shape(), divided)
	if err != nil {
		return nil, err
	}
	return dtensor.ShardTensor(spec, tensor)
}

// Input is an input of a step that is on its devices already.
type Input interface {
	Shape() shapes.Shape
	FinalizeAll() error
}

// Place moves an input to the devices of a backend, which share its rows if it is divided, and frees it where it was.
func Place(b compute.Backend, input *tensors.Tensor, divided bool) (Input, error) {
	mesh := backend.Mesh(b)
	if mesh == nil {
		return input, input.ToDevice(b, 0)
	}
	placed, err := place(mesh, input, divided)
	if err != nil {
		return nil, err
	}
	for device, shard := range placed.Shards() {
		if err := shard.ToDevice(b, compute.DeviceNum(device)); err != nil {
			return nil, err
		}
	}
	return placed, input.FinalizeAll()
}

// checkDevices returns an error if the devices of a backend cannot share the batches of an objective.
func checkDevices[M any](b compute.Backend, objective Objective[M], parts int) error {
	devices := backend.Devices(b)
	if devices == 1 {
		return nil
	}
	if o, ok := objective.(Workloader); ok {
		if images := o.Workload().Images / parts; images%devices != 0 {
			return fmt.Errorf("devices %d: they cannot share %d images of a batch equally", devices, images)
		}
	}
	return nil
}
