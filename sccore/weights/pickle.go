package weights

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxPickle and maxOpcodes bound the objects of a PyTorch file, which do not contain the weights themselves. The objects of a whole training
// run take 1 MB and 100,000 opcodes. An opcode makes at most one object, of about 100 bytes including its stack and memo entries.
const (
	maxPickle  = 32 << 20
	maxOpcodes = 1 << 20
)

// mark starts a group on the stack.
type mark struct{}

// list and dictionary are those of Python, which are filled after they are created.
type list struct{ items []any }

type dictionary struct{ keys, values []any }

// global is a name in a pickle, such as "torch.FloatStorage". It is only compared and never looked up or called.
type global string

// Names that make something here.
const (
	orderedDict      global = "collections.OrderedDict"
	rebuildTensor    global = "torch._utils._rebuild_tensor_v2"
	rebuildParameter global = "torch._utils._rebuild_parameter"
)

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

// unpickler interprets the opcodes of protocol 2, which PyTorch writes, and those of protocols 3 and 4 that do not run code. Its methods panic with a
// failure.
type unpickler struct {
	r       *bufio.Reader
	left    int
	stack   []any
	memo    map[uint32]any
	storage func(id any) (any, error) // Returns the object of a persistent id.
}

type failure struct{ error }

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// unpickle reads one object from r and nothing beyond it. It creates only numbers, strings, lists, dictionaries and descriptions of tensors.
func unpickle(r *bufio.Reader, storage func(id any) (any, error)) (object any, err error) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			err = reason.error
		default:
			panic(reason)
		}
	}()
	u := &unpickler{r: r, left: maxPickle, memo: map[uint32]any{}, storage: storage}
	for range maxOpcodes {
		op := u.bytes(1)[0]
		if op == '.' {
			return u.pop(1)[0], nil
		}
		u.do(op)
	}
	return nil, fmt.Errorf("pickle has more than %d opcodes, too many for a file of weights", maxOpcodes)
}

// do interprets one opcode, by its letter in the pickletools documentation.
func (u *unpickler) do(op byte) {
	switch op {
	case '(':
		u.push(mark{})
	case 'N':
		u.push(nil)
	case 0x88, 0x89:
		u.push(op == 0x88)
	case '}':
		u.push(&dictionary{})
	case ']', 0x8f: // A list or a set.
		u.push(&list{})
	case ')':
		u.push([]any{})
	case '0':
		u.pop(1)
	case 0x80: // PROTO and FRAME are not needed.
		u.bytes(1)
	case 0x95:
		u.bytes(8)
	case 'K':
		u.push(u.number(1))
	case 'M':
		u.push(u.number(2))
	case 'J':
		u.push(int(int32(u.number(4))))
	case 0x8a:
		u.push(u.long())
	case 'G':
		u.push(math.Float64frombits(binary.BigEndian.Uint64(u.bytes(8))))
	case 'X', 'T', 'B':
		u.push(string(u.bytes(u.number(4))))
	case 0x8c, 'U', 'C':
		u.push(string(u.bytes(u.number(1))))
	case 0x94: // MEMOIZE
		u.remember(len(u.memo))
	case 'q':
		u.remember(u.number(1))
	case 'r':
		u.remember(u.number(4))
	case 'h':
		u.recall(u.number(1))
	case 'j':
		u.recall(u.number(4))
	case 't':
		u.push(u.group())
	case 0x85, 0x86, 0x87:
		u.push(u.pop(int(op) - 0x84))
	case 'a':
		u.fill(u.pop(1), false)
	case 's':
		u.fill(u.pop(2), true)
	case 'e', 'u', 0x90:
		u.fill(u.group(), op != 'e')
	case 'c':
		u.name(u.line(), u.line())
	case 0x93: // STACK_GLOBAL
		parts := u.pop(2)
		u.name(parts[0], parts[1])
	case 'Q':
		value, err := u.storage(u.pop(1)[0])
		if err != nil {
			fail("%w", err)
		}
		u.push(value)
	case 'b': // The state of an object is not needed. A dictionary's state holds only attributes.
		u.push(u.pop(2)[0])
	case 'R', 0x81:
		u.construct()
	default:
		fail("pickle contains opcode 0x%02x, which a file of weights does not need", op)
	}
}

func (u *unpickler) bytes(n int) []byte {
	if n < 0 || n > u.left {
		fail("pickle is damaged or larger than %d MiB", maxPickle>>20)
	}
	u.left -= n
	if n <= 1<<12 {
		b := make([]byte, n, max(n, 8))
		if _, err := io.ReadFull(u.r, b); err != nil {
			fail("pickle is truncated")
		}
		return b
	}
	b, err := io.ReadAll(io.LimitReader(u.r, int64(n))) // A false length takes no memory.
	if err == nil && len(b) < n {
		err = errors.New("pickle is truncated")
	}
	if err != nil {
		fail("%w", err)
	}
	return b
}

func (u *unpickler) number(size int) int {
	return int(binary.LittleEndian.Uint64(append(u.bytes(size), make([]byte, 8-size)...)))
}

// long is a number of any length. Sizes and offsets have at most 8 bytes.
func (u *unpickler) long() any {
	b, n := u.bytes(u.number(1)), 0
	if len(b) > 8 {
		return inert{}
	}
	for i, digit := range b {
		n |= int(digit) << (8 * i)
	}
	if shift := 64 - 8*len(b); len(b) > 0 {
		n = n << shift >> shift
	}
	return n
}

func (u *unpickler) line() string {
	var text []byte
	for b := u.bytes(1); b[0] != '\n'; b = u.bytes(1) {
		text = append(text, b[0])
	}
	return string(text)
}

func (u *unpickler) push(value any) { u.stack = append(u.stack, value) }

// pop returns the last n values, the first pushed first.
func (u *unpickler) pop(n int) []any {
	if len(u.stack) < n {
		fail("pickle is damaged: its stack is empty")
	}
	items := append([]any{}, u.stack[len(u.stack)-n:]...)
	u.stack = u.stack[:len(u.stack)-n]
	return items
}

// group pops the values above the last mark.
func (u *unpickler) group() []any {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, ok := u.stack[i].(mark); ok {
			items := u.pop(len(u.stack) - i - 1)
			u.pop(1)
			return items
		}
	}
	fail("pickle is damaged: its stack has no mark")
	return nil
}

func (u *unpickler) remember(i int) {
	value := u.pop(1)[0]
	u.memo[uint32(i)] = value
	u.push(value)
}

func (u *unpickler) recall(i int) {
	value, ok := u.memo[uint32(i)]
	if !ok {
		fail("pickle is damaged: it refers to an object that does not exist")
	}
	u.push(value)
}

// fill puts values into the list or dictionary below them. Those of a dictionary come in pairs.
func (u *unpickler) fill(items []any, pairs bool) {
	into := u.pop(1)[0]
	u.push(into)
	switch into := into.(type) {
	case *list:
		into.items = append(into.items, items...)
	case *dictionary:
		if len(items)%2 != 0 || !pairs {
			fail("pickle is damaged: a key has no value")
		}
		for i := 0; i < len(items); i += 2 {
			into.keys, into.values = append(into.keys, items[i]), append(into.values, items[i+1])
		}
	case inert:
	default:
		fail("pickle is damaged: it fills something other than a list or a dictionary")
	}
}

// name pushes a name of a module.
func (u *unpickler) name(module, name any) {
	m, ok1 := module.(string)
	n, ok2 := name.(string)
	if !ok1 || !ok2 {
		fail("pickle is damaged: a name is not a string")
	}
	g := global(m + "." + n)
	if _, isStorage := storageTypes[g]; !isStorage && !inertGlobals[g] && g != orderedDict && g != rebuildTensor && g != rebuildParameter {
		fail("pickle refers to %.80q, which does not belong in a file of weights", g)
	}
	u.push(g)
}

// construct pushes what Python would return for calling a function with arguments.
func (u *unpickler) construct() {
	parts := u.pop(2)
	arguments, ok := parts[1].([]any)
	if !ok {
		fail("pickle is damaged: arguments are not a tuple")
	}
	switch parts[0] {
	case orderedDict:
		u.push(&dictionary{})
	case rebuildTensor:
		u.push(rebuilt(arguments))
	case rebuildParameter:
		if len(arguments) == 0 {
			fail("pickle is damaged: a parameter has no value")
		}
		u.push(arguments[0])
	default:
		u.push(inert{})
	}
}
