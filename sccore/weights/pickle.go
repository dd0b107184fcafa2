package weights

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"regexp"

	"github.com/dsnet/try"
	"github.com/samber/lo"
)

// maxPickle and maxOpcodes bound the objects of a PyTorch file, which do not contain the weights themselves. The objects of a whole training
// run take 1 MB and 100,000 opcodes. An opcode makes at most one object, of about 100 bytes including its stack and memo entries.
const (
	maxPickle  = 32 << 20
	maxOpcodes = 1 << 20
	maxSurplus = 1 << 20 // 4 MB of float32.
)

// mark starts a group on the stack.
type mark struct{}

// object is a list, a dictionary or an object of a class. They are filled after they are created. What a class does when Python creates its object is not
// known here, and not needed.
type object struct {
	class        global // "list", "dict" or the name of another class.
	keys, values []any  // A list and a set have no keys.
}

// global is a name in a pickle, such as "torch.FloatStorage". It is only compared and never looked up or called.
type global string

// Names that make something here. All others make an empty object.
const (
	listName    global = "list"
	dictName    global = "dict"
	orderedDict global = "collections.OrderedDict"

	rebuildTensor  global = "torch._utils._rebuild_tensor"
	rebuildTensor2 global = "torch._utils._rebuild_tensor_v2"
	rebuildTyped   global = "torch._tensor._rebuild_from_type_v2" // Of a subclass of tensors: the function, the class, the arguments and the state.
	parameter      global = "torch._utils._rebuild_parameter"
	parameterState global = "torch._utils._rebuild_parameter_with_state"
)

// running are names by which a pickle runs commands. Nothing here would run them, but a file that holds one is no file of weights.
var running = regexp.MustCompile(`^(os|nt|posix|sys|subprocess|socket|shutil|pty|runpy|webbrowser)\.|^(builtins|__builtin__)\.(eval|exec|compile|open|__import__)$`)

// unpickler interprets the opcodes of protocols 2 to 4. Its methods end it by fail.
type unpickler struct {
	r       *bufio.Reader
	left    int
	surplus int // Entries of tensors that may be counted twice, with a stride of 0.
	stack   []any
	memo    map[uint32]any
	storage func(id any) (any, error) // Returns the object of a persistent id.
}

// fail ends [unpickle] with an error.
func fail(format string, args ...any) { try.E(fmt.Errorf(format, args...)) }

// unpickle reads one object from r and nothing beyond it. It creates only numbers, strings, lists, dictionaries and descriptions of tensors.
func unpickle(r *bufio.Reader, storage func(id any) (any, error)) (object any, err error) {
	defer try.Handle(&err)
	u := &unpickler{r: r, left: maxPickle, surplus: maxSurplus, memo: map[uint32]any{}, storage: storage}
	for range maxOpcodes {
		op := u.bytes(1)[0]
		if op == '.' {
			return u.pop(1)[0], nil
		}
		u.do(op)
	}
	return nil, fmt.Errorf("pickle has more than %d opcodes, too many for a file of weights", maxOpcodes)
}

// operands are the sizes in bytes of the number behind an opcode, which is the operand or its length.
var operands = map[byte]int{
	0x80: 1, 0x95: 8, 'K': 1, 'M': 2, 'J': 4, 0x8a: 1, 0x8b: 4, 'X': 4, 'T': 4, 'B': 4, 0x8c: 1, 'U': 1, 'C': 1, 0x8d: 8, 0x8e: 8, 0x96: 8, 'q': 1, 'r': 4, 'h': 1, 'j': 4,
}

// do interprets one opcode, by its letter in the pickletools documentation.
func (u *unpickler) do(op byte) {
	n := u.number(operands[op])
	switch op {
	case 0x80, 0x95: // PROTO and FRAME are not needed.
	case '(':
		u.push(mark{})
	case 'N':
		u.push(nil)
	case 0x88, 0x89:
		u.push(op == 0x88)
	case '}':
		u.push(&object{class: dictName})
	case ']', 0x8f: // A list or a set.
		u.push(&object{class: listName})
	case ')':
		u.push([]any{})
	case '0':
		u.pop(1)
	case '1':
		u.group()
	case 'K', 'M':
		u.push(n)
	case 'J':
		u.push(int(int32(n)))
	case 0x8a, 0x8b:
		u.push(u.long(n))
	case 'G':
		u.push(math.Float64frombits(binary.BigEndian.Uint64(u.bytes(8))))
	case 'X', 'T', 'B', 0x8c, 'U', 'C', 0x8d, 0x8e, 0x96:
		u.push(string(u.bytes(n)))
	case 0x94: // MEMOIZE
		u.remember(len(u.memo))
	case 'q', 'r':
		u.remember(n)
	case 'h', 'j':
		value, ok := u.memo[uint32(n)]
		if !ok {
			fail("pickle is damaged: it refers to an object that does not exist")
		}
		u.push(value)
	case 't', 0x91: // A tuple or a frozen set.
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
		u.push(try.E1(u.storage(u.pop(1)[0])))
	case 'b': // The state of an object is not needed. A dictionary's state holds only attributes.
		u.push(u.pop(2)[0])
	case 'R', 0x81, 0x92: // The last, NEWOBJ_EX, has keywords, too.
		made := u.pop(lo.Ternary(op == 0x92, 3, 2))
		u.push(u.result(made[0], made[1]))
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
	b := try.E1(io.ReadAll(io.LimitReader(u.r, int64(n)))) // A false length takes no memory.
	if len(b) < n {
		fail("pickle is truncated")
	}
	return b
}

func (u *unpickler) number(size int) int {
	return int(binary.LittleEndian.Uint64(append(u.bytes(size), make([]byte, 8-size)...)))
}

// long is a number of so many bytes. Sizes and offsets have at most 8; a longer number is its bytes.
func (u *unpickler) long(size int) any {
	b, n := u.bytes(size), 0
	if len(b) > 8 {
		return string(b)
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
	at := lo.LastIndexOf(u.stack, any(mark{}))
	if at < 0 {
		fail("pickle is damaged: its stack has no mark")
	}
	items := u.pop(len(u.stack) - at - 1)
	u.pop(1)
	return items
}

func (u *unpickler) remember(i int) {
	value := u.pop(1)[0]
	u.memo[uint32(i)] = value
	u.push(value)
}

// fill puts values into the object below them, in pairs of a key and a value or without keys.
func (u *unpickler) fill(items []any, pairs bool) {
	into, ok := u.pop(1)[0].(*object)
	switch {
	case !ok:
		fail("pickle is damaged: it fills something other than a list or a dictionary")
	case pairs && into.class != listName && len(items)%2 == 0:
		for i := 0; i < len(items); i += 2 {
			into.keys, into.values = append(into.keys, items[i]), append(into.values, items[i+1])
		}
	case len(into.keys) == 0 && into.class != dictName: // A dictionary of another class has no elements beside its values.
		into.values = append(into.values, items...)
	default:
		fail("pickle is damaged: a key has no value")
	}
	u.push(into)
}

// name pushes a name of a module.
func (u *unpickler) name(module, name any) {
	m, ok1 := module.(string)
	n, ok2 := name.(string)
	if !ok1 || !ok2 {
		fail("pickle is damaged: a name is not a string")
	}
	g := global(m + "." + n)
	if running.MatchString(string(g)) {
		fail("pickle calls %.80q when Python loads it, which does not belong in a file of weights", g)
	}
	u.push(g)
}

// result is what Python would return for calling a function with arguments: a tensor, or an object that is empty here.
func (u *unpickler) result(function, arguments any) any {
	name, _ := function.(global)
	given, ok := arguments.([]any)
	if !ok {
		fail("pickle is damaged: arguments are not a tuple")
	}
	switch {
	case name == orderedDict:
		return &object{class: dictName}
	case name == rebuildTensor || name == rebuildTensor2:
		return u.tensor(given)
	case (name == parameter || name == parameterState) && len(given) > 0:
		return given[0]
	case name == rebuildTyped && len(given) > 2 && given[0] != rebuildTyped:
		return u.result(given[0], given[2])
	}
	return &object{class: name}
}
