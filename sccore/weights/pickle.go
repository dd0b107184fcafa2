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

type dictionary struct {
	keys   []any
	values []any
}

func (d *dictionary) set(key, value any) {
	d.keys, d.values = append(d.keys, key), append(d.values, value)
}

// unpickler interprets the opcodes of protocol 2, which PyTorch writes, and those of protocols 3 and 4 that do not run code.
type unpickler struct {
	r     *bufio.Reader
	left  int
	stack []any
	memo  map[uint32]any
	// storage returns the object of a persistent id.
	storage func(id any) (any, error)
}

// unpickle reads one object from r and nothing beyond it. It creates only numbers, strings, lists, dictionaries and descriptions of tensors.
func unpickle(r *bufio.Reader, storage func(id any) (any, error)) (any, error) {
	u := &unpickler{r: r, left: maxPickle, memo: map[uint32]any{}, storage: storage}
	for range maxOpcodes {
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
	return nil, fmt.Errorf("pickle has more than %d opcodes, too many for a file of weights", maxOpcodes)
}

func (u *unpickler) bytes(n int) ([]byte, error) {
	if n < 0 || n > u.left {
		return nil, fmt.Errorf("pickle is damaged or larger than %d MiB", maxPickle>>20)
	}
	u.left -= n
	if n <= 1<<12 {
		b := make([]byte, n, max(n, 8))
		if _, err := io.ReadFull(u.r, b); err != nil {
			return nil, errors.New("pickle is truncated")
		}
		return b, nil
	}
	b, err := io.ReadAll(io.LimitReader(u.r, int64(n))) // A false length takes no memory.
	if err == nil && len(b) < n {
		err = errors.New("pickle is truncated")
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
		return nil, errors.New("pickle is damaged: its stack is empty")
	}
	top := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return top, nil
}

// group pops the values above the last mark.
func (u *unpickler) group() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, ok := u.stack[i].(mark); ok {
			items := append([]any{}, u.stack[i+1:]...)
			u.stack = u.stack[:i]
			return items, nil
		}
	}
	return nil, errors.New("pickle is damaged: its stack has no mark")
}

// last pops n values, the first pushed first.
func (u *unpickler) last(n int) ([]any, error) {
	if len(u.stack) < n {
		return nil, errors.New("pickle is damaged: its stack is empty")
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
	case 0x80, 0x95: // PROTO and FRAME are not needed.
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
			return errors.New("pickle is damaged: it refers to an object that does not exist")
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
		return fmt.Errorf("pickle contains opcode 0x%02x, which a file of weights does not need", op)
	}
	return nil
}

func (u *unpickler) remember(i int) error {
	if len(u.stack) == 0 {
		return errors.New("pickle is damaged: its stack is empty")
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

// literal pushes a number or a string.
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
			u.push(inert{}) // Sizes and offsets are smaller.
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
		return errors.Join(err, errIf(err == nil, "pickle is damaged: there is nothing to fill"))
	}
	switch into := u.stack[len(u.stack)-1].(type) {
	case *list:
		into.items = append(into.items, items...)
	case *dictionary:
		if len(items)%2 != 0 || op == 'a' || op == 'e' {
			return errors.New("pickle is damaged: a key has no value")
		}
		for i := 0; i < len(items); i += 2 {
			into.set(items[i], items[i+1])
		}
	case inert:
	default:
		return errors.New("pickle is damaged: it fills something other than a list or a dictionary")
	}
	return nil
}

func errIf(condition bool, text string) error {
	if condition {
		return errors.New(text)
	}
	return nil
}
