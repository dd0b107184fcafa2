package train

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/distributed"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/core/tensors/dtensor"
	"github.com/gomlx/gomlx/ml/model"
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
func NewProgram(b compute.Backend, store *model.Store, graph func(*model.Scope, []*Node) []*Node, inputs []Input) (*Program, error) {
	exec, err := model.NewExec(b, store, graph)
	if err != nil {
		return nil, err
	}
	p := &Program{exec, b, inputs}
	var all []shapes.Shape
	if mesh := backend.Mesh(b); mesh != nil {
		var specs []*distributed.ShardingSpec
		for _, input := range inputs {
			spec, err := specOf(mesh, input.Shape, input.Divided)
			if err != nil {
				return nil, err
			}
			specs, all = append(specs, spec), append(all, spec.ShardShape(input.Shape))
		}
		// Without a word about the outputs XLA would divide some of them, and GoMLX take the share of a device for a variable's value.
		exec.AutoSharding(mesh).WithInputShardingSpecs(specs...).WithOutputShardingSpecs(distributed.NewReplicatedShardingSpec(mesh))
		all = slices.Repeat(all, mesh.NumDevices())
	} else {
		for _, input := range inputs {
			all = append(all, input.Shape)
		}
	}
	if _, err := exec.Compile(all...); err != nil {
		return nil, err // The graph stays: finalizing an Exec whose graph panicked would wait forever.
	}
	return p, nil
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
func (p *Program) Call(inputs []any, read func(outputs []*tensors.Tensor)) error {
	mesh, placed := backend.Mesh(p.backend), slices.Clone(inputs)
	for i, input := range inputs {
		switch input := input.(type) {
		case Placed:
			placed[i] = input.input
		case Bytes:
			there, err := place(p.backend, input, p.inputs[i].Divided)
			if err != nil {
				return err
			}
			defer there.FinalizeAll()
			placed[i] = there
		}
	}
	if mesh == nil {
		return Execute(p.exec, placed, read)
	}
	for i, input := range placed {
		if _, ok := input.(*dtensor.Tensor); ok {
			continue
		}
		var err error
		if placed[i], err = shard(mesh, input, p.inputs[i].Divided); err != nil {
			return err
		}
		defer placed[i].(*dtensor.Tensor).Finalize()
	}
	return Execute(p.exec, placed, func(outputs []*tensors.Tensor) { read(outputs[:len(outputs)/mesh.NumDevices()]) }) // All devices have the same.
}

// Finalize frees the compiled graph.
func (p *Program) Finalize() { p.exec.Finalize() }

// shard divides an input over devices. It leaves the input as it is.
func shard(mesh *distributed.DeviceMesh, input any, divided bool) (*dtensor.Tensor, error) {
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

// onDevice is a tensor on one device or on several.
type onDevice interface{ FinalizeAll() error }

// place moves an input to the devices of a backend, which share its rows if it is divided, and frees it where it was.
func place(b compute.Backend, input any, divided bool) (onDevice, error) {
	mesh := backend.Mesh(b)
	tensor, _ := input.(*tensors.Tensor)
	switch bytes, isBytes := input.(Bytes); {
	case isBytes && mesh == nil:
		buffer, err := b.BufferFromFlatData(0, bytes.Values, shapes.Make(dtypes.Uint8, bytes.Dimensions...))
		if err != nil {
			return nil, err
		}
		return tensors.FromBuffer(buffer)
	case isBytes:
		tensor = tensors.FromFlatDataAndDimensions(bytes.Values, bytes.Dimensions...)
	case mesh == nil:
		return tensor, tensor.ToDevice(b, 0)
	}
	placed, err := shard(mesh, tensor, divided)
	if err != nil {
		return nil, err
	}
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
		products := 2.0
		if node.Type() == NodeTypeFusedScaledDotProductAttentionVJP { // The scores again, and the gradients of both products' factors.
			products = 5
		}
		queries := node.Inputs()[0].Shape()
		return products * 2 * float64(queries.Size()) * float64(queries.Dim(1))
	}
	return 0
}
