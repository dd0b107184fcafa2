package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// module is an optimised program as XLA prints it.
type module struct {
	header       string
	entry        string
	computations map[string][]instruction
}

// instruction is a line of a computation: name = shape op(operands), attributes.
type instruction struct {
	name, shape, op string
	operands        []string
	rest            string // Operands and attributes, as printed.
}

var (
	comments    = regexp.MustCompile(`/\*index=\d+\*/`)
	beginning   = regexp.MustCompile(`^(ENTRY )?%?([\w.\-]+) *\(.*\{\s*$`)
	assignment  = regexp.MustCompile(`^\s+(?:ROOT )?%?([\w.\-]+) = (\([^=]*?\)|\S+) ([a-z\-0-9]+)\((.*)$`)
	operandName = regexp.MustCompile(`%([\w.\-]+)`)
	// attributeValue is the name of a computation, a kind or the like.
	attributeValue = regexp.MustCompile(`^[%.\w\-$]*`)
	arrayShape     = regexp.MustCompile(`\b(pred|bf16|[fsu]\d+)\[([\d,]*)\]`)
)

// parse reads a program.
func parse(text string) (m module, err error) {
	m.computations = map[string][]instruction{}
	current := ""
	for i, line := range strings.Split(comments.ReplaceAllString(text, ""), "\n") {
		if i == 0 {
			m.header = line
		}
		switch head := beginning.FindStringSubmatch(line); {
		case head != nil && line[0] != ' ':
			if current = head[2]; head[1] != "" {
				m.entry = current
			}
		case strings.HasPrefix(line, "}"):
			current = ""
		case current != "" && strings.Contains(line, " = "):
			found := assignment.FindStringSubmatch(line)
			if found == nil {
				return m, fmt.Errorf("line %d is no instruction", i+1)
			}
			m.computations[current] = append(m.computations[current], instruction{found[1], found[2], found[3], operandsOf(found[4]), found[4]})
		}
	}
	if m.entry == "" {
		return m, fmt.Errorf("no entry computation")
	}
	return m, nil
}

// operandsOf are the names before the bracket that ends the operands.
func operandsOf(rest string) (names []string) {
	depth := 1
	end := strings.IndexFunc(rest, func(c rune) bool {
		depth += map[rune]int{'(': 1, ')': -1}[c]
		return depth == 0
	})
	if end >= 0 {
		rest = rest[:end]
	}
	for _, found := range operandName.FindAllStringSubmatch(rest, -1) {
		names = append(names, found[1])
	}
	return names
}

// array is the shape of an array.
type array struct {
	dtype string
	dims  []int
}

// arraysOf are the arrays in a shape, several for a tuple.
func arraysOf(shape string) (all []array) {
	for _, found := range arrayShape.FindAllStringSubmatch(shape, -1) {
		a := array{dtype: found[1]}
		for _, dim := range strings.Split(found[2], ",") {
			if n, err := strconv.Atoi(dim); err == nil {
				a.dims = append(a.dims, n)
			}
		}
		all = append(all, a)
	}
	return all
}

func (a array) size() int {
	size := 1
	for _, dim := range a.dims {
		size *= dim
	}
	return size
}

// bytes is the memory of an array.
func (a array) bytes() float64 {
	bits, err := strconv.Atoi(strings.TrimLeft(a.dtype, "bfsu"))
	if err != nil {
		bits = 8 // pred
	}
	return float64(a.size()) * float64(bits) / 8
}

func bytesOf(shape string) (sum float64) {
	for _, a := range arraysOf(shape) {
		sum += a.bytes()
	}
	return sum
}

// attribute is what follows a name in an instruction, up to a character that is no part of a name.
func (in instruction) attribute(name string) string {
	_, after, _ := strings.Cut(in.rest, name)
	return strings.TrimPrefix(attributeValue.FindString(after), "%")
}
