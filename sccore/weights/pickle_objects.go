package weights

import (
	"errors"
	"fmt"
)

// global is a name in a pickle, such as "torch.FloatStorage". It is only compared and never looked up or called.
type global string

// inert stands for an object of any other class, which is not needed here.
type inert struct{}

// inertGlobals lists what official files contain besides tensors: settings, NumPy scalars, and callbacks of a training framework. They are
// ignored. Any other name is an error, because names are how a pickle runs code.
var inertGlobals = map[global]bool{
	"argparse.Namespace": true, "pathlib.PosixPath": true, "pathlib.PurePosixPath": true, "torch.device": true, "torch.Size": true,
	"torch.float32": true, "torch.float16": true, "torch.bfloat16": true, "torch.float64": true,
	"numpy.core.multiarray.scalar": true, "numpy._core.multiarray.scalar": true, "numpy.dtype": true, "_codecs.encode": true,
	"numpy.core.multiarray._reconstruct": true, "numpy._core.multiarray._reconstruct": true, "numpy.ndarray": true,
	"collections.defaultdict": true, "collections.Counter": true, "builtins.set": true, "__builtin__.set": true, "builtins.list": true,
	"__builtin__.list": true, "builtins.dict": true, "__builtin__.dict": true, "builtins.object": true, "__builtin__.object": true,
	"copy_reg._reconstructor": true, "copyreg._reconstructor": true,
	"pytorch_lightning.callbacks.model_checkpoint.ModelCheckpoint": true, "pytorch_lightning.utilities.parsing.AttributeDict": true,
}

// object handles names and the calls of them.
func (u *unpickler) object(op byte) error {
	switch op {
	case 'c':
		module, err := u.line()
		if err != nil {
			return err
		}
		name, err := u.line()
		if err != nil {
			return err
		}
		return u.name(module + "." + name)
	case 0x93: // STACK_GLOBAL
		parts, err := u.last(2)
		if err != nil {
			return err
		}
		module, ok1 := parts[0].(string)
		name, ok2 := parts[1].(string)
		if !ok1 || !ok2 {
			return errors.New("pickle is damaged: a name is not a string")
		}
		return u.name(module + "." + name)
	case 'Q':
		id, err := u.pop()
		if err != nil {
			return err
		}
		value, err := u.storage(id)
		u.push(value)
		return err
	}
	parts, err := u.last(2)
	if err != nil {
		return err
	}
	if op == 'b' { // The state of an object is not needed. A dictionary's state holds only attributes.
		u.push(parts[0])
		return nil
	}
	arguments, ok := parts[1].([]any)
	if !ok {
		return errors.New("pickle is damaged: arguments are not a tuple")
	}
	object, err := construct(parts[0], arguments)
	u.push(object)
	return err
}

func (u *unpickler) name(name string) error {
	g := global(name)
	if _, isStorage := storageTypes[g]; !isStorage && !inertGlobals[g] && g != orderedDict && g != rebuildTensor && g != rebuildParameter {
		return fmt.Errorf("pickle refers to %.80q, which does not belong in a file of weights", name)
	}
	u.push(g)
	return nil
}

const (
	orderedDict      global = "collections.OrderedDict"
	rebuildTensor    global = "torch._utils._rebuild_tensor_v2"
	rebuildParameter global = "torch._utils._rebuild_parameter"
)

// construct returns what Python would return for calling function with arguments.
func construct(function any, arguments []any) (any, error) {
	switch function {
	case orderedDict:
		return &dictionary{}, nil
	case rebuildTensor:
		return newView(arguments)
	case rebuildParameter:
		if len(arguments) == 0 {
			return nil, errors.New("pickle is damaged: a parameter has no value")
		}
		return arguments[0], nil
	}
	return inert{}, nil
}
