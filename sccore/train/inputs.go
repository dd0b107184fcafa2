package train

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
)

// Upload moves the tensors among a step's inputs to the memory of a backend's devices, so that the step need not. It does nothing without a backend. divided says
// which inputs the devices share.
func Upload(b compute.Backend, inputs []any, divided []bool) error {
	for i, input := range inputs {
		if tensor, ok := input.(*tensors.Tensor); ok && tensor != nil && b != nil {
			placed, err := Place(b, tensor, divided[i])
			if err != nil {
				return err
			}
			inputs[i] = placed
		}
	}
	return nil
}

// Free frees the tensors among a step's inputs. Go's garbage collector does not see a device's memory, and comes too late.
func Free(inputs []any) {
	for _, input := range inputs {
		if tensor, ok := input.(Input); ok {
			if err := tensor.FinalizeAll(); err != nil {
				panic(err)
			}
		}
	}
}
