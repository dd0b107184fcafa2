package weights

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxPickle bounds the objects of a PyTorch file, which do not hold the weights themselves: those of a whole training run take 1 MB.
const maxPickle = 32 << 20

// global is a name that a pickle refers to, "torch.FloatStorage". Nothing is ever looked up or called by it.
type global string

// inert is an object that is of no use here, whatever class it was made of.
type inert struct{}

// mark begins a group on the stack.
type mark struct{}

// list and dictionary are Python's: things that are filled after they are made.
type list struct{ items []any }

type dictionary struct {
	keys   []any
	values []any
}

func (d *dictionary) set(key, value any) {
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

// inertGlobals are what official files hold beside tensors: settings, numbers of NumPy, callbacks of a training framework. They are read
// over. Any other name is an error: that is how a pickle runs code.
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

// unpickler interprets the opcodes of protocol 2, which PyTorch writes, and those of 3 and 4 that do not run code either.
type unpickler struct {
	r     *bufio.Reader
	left  int
	stack []any
	memo  map[uint32]any
	// storage returns what a persistent identifier stands for.
	storage func(id any) (any, error)
}

// unpickle reads one object from r and no byte more. It makes numbers, texts, lists, dictionaries and tensors' descriptions only.
func unpickle(r *bufio.Reader, storage func(id any) (any, error)) (any, error) {
	u := &unpickler{r: r, left: maxPickle, memo: map[uint32]any{}, storage: storage}
	for {
		op, err := u.bytes(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			return u.pop()
		}
		if err := u.do(op[0]); err != nil {
			return nil, err
		}
	}
}

func (u *unpickler) bytes(n int) ([]byte, error) {
	if n < 0 || n > u.left {
		return nil, fmt.Errorf("pickle of more than %d MiB, or damaged", maxPickle>>20)
	}
	u.left -= n
	if n <= 1<<12 {
		b := make([]byte, n, max(n, 8))
		if _, err := io.ReadFull(u.r, b); err != nil {
			return nil, errors.New("pickle is cut off")
		}
		return b, nil
	}
	b, err := io.ReadAll(io.LimitReader(u.r, int64(n))) // A length that lies takes no memory.
	if err == nil && len(b) < n {
		err = errors.New("pickle is cut off")
	}
	return b, err
}

func (u *unpickler) number(size int) (int, error) {
	b, err := u.bytes(size)
	if err != nil {
		return 0, err
	}
	return int(binary.LittleEndian.Uint64(append(b, make([]byte, 8-size)...))), nil
}

func (u *unpickler) counted(size int) ([]byte, error) {
	n, err := u.number(size)
	if err != nil {
		return nil, err
	}
	return u.bytes(n)
}

func (u *unpickler) line() (string, error) {
	var text []byte
	for {
		b, err := u.bytes(1)
		if err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(text), nil
		}
		text = append(text, b[0])
	}
}

func (u *unpickler) push(values ...any) { u.stack = append(u.stack, values...) }

func (u *unpickler) pop() (any, error) {
	if len(u.stack) == 0 {
		return nil, errors.New("pickle is damaged: nothing on its stack")
	}
	top := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return top, nil
}

// group pops what lies above the last mark.
func (u *unpickler) group() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, ok := u.stack[i].(mark); ok {
			items := append([]any{}, u.stack[i+1:]...)
			u.stack = u.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("pickle is damaged: no mark on its stack")
}

// last pops n values, the first pushed first.
func (u *unpickler) last(n int) ([]any, error) {
	if len(u.stack) < n {
		return nil, errors.New("pickle is damaged: nothing on its stack")
	}
	items := append([]any{}, u.stack[len(u.stack)-n:]...)
	u.stack = u.stack[:len(u.stack)-n]
	return items, nil
}

// do interprets one opcode, by its letter in the pickletools documentation.
func (u *unpickler) do(op byte) error {
	switch op {
	case '(':
		u.push(mark{})
	case 'N':
		u.push(nil)
	case 0x88, 0x89:
		u.push(op == 0x88)
	case '}':
		u.push(&dictionary{})
	case ']':
		u.push(&list{})
	case ')':
		u.push([]any{})
	case 0x8f: // EMPTY_SET
		u.push(&list{})
	case '0':
		_, err := u.pop()
		return err
	case 0x94: // MEMOIZE
		return u.remember(len(u.memo))
	case 0x80, 0x95: // PROTO and FRAME say nothing that is needed.
		_, err := u.bytes(map[byte]int{0x80: 1, 0x95: 8}[op])
		return err
	case 'K', 'M', 'J', 0x8a, 'G', 'X', 0x8c, 'U', 'T', 'B', 'C':
		return u.literal(op)
	case 'q', 'r':
		i, err := u.number(map[byte]int{'q': 1, 'r': 4}[op])
		if err != nil {
			return err
		}
		return u.remember(i)
	case 'h', 'j':
		i, err := u.number(map[byte]int{'h': 1, 'j': 4}[op])
		if err != nil {
			return err
		}
		value, ok := u.memo[uint32(i)]
		if !ok {
			return errors.New("pickle is damaged: it refers to an object that it has not")
		}
		u.push(value)
	case 't', 0x85, 0x86, 0x87:
		items, err := u.tuple(op)
		u.push(items)
		return err
	case 'a', 'e', 's', 'u', 0x90:
		return u.fill(op)
	case 'c', 0x93, 'R', 0x81, 'b', 'Q':
		return u.object(op)
	default:
		return fmt.Errorf("pickle holds opcode 0x%02x, which weights have no use for", op)
	}
	return nil
}

func (u *unpickler) remember(i int) error {
	if len(u.stack) == 0 {
		return errors.New("pickle is damaged: nothing on its stack")
	}
	u.memo[uint32(i)] = u.stack[len(u.stack)-1]
	return nil
}

func (u *unpickler) tuple(op byte) ([]any, error) {
	if op == 't' {
		return u.group()
	}
	return u.last(int(op) - 0x84)
}

// literal pushes a number or a text.
func (u *unpickler) literal(op byte) error {
	switch op {
	case 'K', 'M', 'J':
		n, err := u.number(map[byte]int{'K': 1, 'M': 2, 'J': 4}[op])
		if op == 'J' {
			n = int(int32(n))
		}
		u.push(n)
		return err
	case 'G':
		b, err := u.bytes(8)
		if err == nil {
			u.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
		return err
	case 0x8a: // LONG1
		b, err := u.counted(1)
		if err != nil {
			return err
		}
		if len(b) > 8 {
			u.push(inert{}) // No size or offset is that large.
			return nil
		}
		n := 0
		for i, digit := range b {
			n |= int(digit) << (8 * i)
		}
		if shift := 64 - 8*len(b); len(b) > 0 {
			n = n << shift >> shift
		}
		u.push(n)
		return nil
	}
	b, err := u.counted(map[byte]int{'X': 4, 0x8c: 1, 'U': 1, 'T': 4, 'B': 4, 'C': 1}[op])
	u.push(string(b))
	return err
}

// fill puts values into the list or dictionary below them.
func (u *unpickler) fill(op byte) error {
	var items []any
	var err error
	switch op {
	case 'a':
		items, err = u.last(1)
	case 's':
		items, err = u.last(2)
	default:
		items, err = u.group()
	}
	if err != nil || len(u.stack) == 0 {
		return errors.Join(err, errIf(err == nil, "pickle is damaged: nothing to fill"))
	}
	switch into := u.stack[len(u.stack)-1].(type) {
	case *list:
		into.items = append(into.items, items...)
	case *dictionary:
		if len(items)%2 != 0 || op == 'a' || op == 'e' {
			return errors.New("pickle is damaged: a key without a value")
		}
		for i := 0; i < len(items); i += 2 {
			into.set(items[i], items[i+1])
		}
	case inert:
	default:
		return errors.New("pickle is damaged: it fills what is neither list nor dictionary")
	}
	return nil
}

func errIf(condition bool, text string) error {
	if condition {
		return errors.New(text)
	}
	return nil
}

// object handles names, and what Python would call by them.
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
			return errors.New("pickle is damaged: a name that is no text")
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
	if op == 'b' { // The state of an object: of no use, but a dictionary's is its attributes.
		u.push(parts[0])
		return nil
	}
	arguments, ok := parts[1].([]any)
	if !ok {
		return errors.New("pickle is damaged: arguments that are no tuple")
	}
	made, err := construct(parts[0], arguments)
	u.push(made)
	return err
}

func (u *unpickler) name(name string) error {
	g := global(name)
	if _, isStorage := storageTypes[g]; !isStorage && !inertGlobals[g] && g != orderedDict && g != rebuildTensor && g != rebuildParameter {
		return fmt.Errorf("pickle asks for %.80q, which is no part of weights", name)
	}
	u.push(g)
	return nil
}

const (
	orderedDict      global = "collections.OrderedDict"
	rebuildTensor    global = "torch._utils._rebuild_tensor_v2"
	rebuildParameter global = "torch._utils._rebuild_parameter"
)

// construct makes what Python would by calling function with arguments.
func construct(function any, arguments []any) (any, error) {
	switch function {
	case orderedDict:
		return &dictionary{}, nil
	case rebuildTensor:
		return newView(arguments)
	case rebuildParameter:
		if len(arguments) == 0 {
			return nil, errors.New("pickle is damaged: a parameter without a value")
		}
		return arguments[0], nil
	}
	return inert{}, nil
}
