package train

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
)

// Upload moves the tensors among a step's inputs to a device's memory, so that the step need not. It does nothing without a device.
func Upload(device compute.Backend, inputs []any) error {
	for _, input := range inputs {
		if tensor, ok := input.(*tensors.Tensor); ok && tensor != nil && device != nil {
			if err := tensor.ToDevice(device, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// Free frees the tensors among a step's inputs. Go's garbage collector does not see a device's memory, and comes too late.
func Free(inputs []any) {
	for _, input := range inputs {
		if tensor, ok := input.(*tensors.Tensor); ok && tensor != nil {
			tensor.MustFinalizeAll()
		}
	}
}
