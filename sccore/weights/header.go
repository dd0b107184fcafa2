package weights

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a header, which hold its memory far below its size. Its own length is bounded by maxHeader and by the file.
const (
	maxTensors  = 1 << 17
	maxAxes     = 16
	maxName     = 1 << 10
	maxMetadata = 16 << 20 // All of it, in bytes.
)

// readHeader reads the JSON of a safetensors header as a stream: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__":
// {"key": "value"}}. Names are unique.
func readHeader(r io.Reader) (entries map[string]entry, metadata map[string]string, err error) {
	h := headerReader{bufio.NewReaderSize(r, 1<<16)}
	entries = map[string]entry{}
	err = h.object(maxName, func(name string) error {
		if _, twice := entries[name]; twice || name == metadataKey && metadata != nil {
			return fmt.Errorf("%.80q is in the header twice", name)
		}
		if name == metadataKey {
			metadata, err = h.metadata()
			return err
		}
		if len(entries) == maxTensors {
			return fmt.Errorf("it lists more than %d tensors", maxTensors)
		}
		e, err := h.entry()
		if err != nil {
			return fmt.Errorf("%.80q: %w", name, err)
		}
		entries[name] = e
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if _, err := h.next(); err != io.EOF {
		return nil, nil, errors.New("header: more than one JSON object")
	}
	return entries, metadata, nil
}

// headerReader reads the values of a header.
type headerReader struct{ *bufio.Reader }

// next returns the next byte that is not space.
func (h headerReader) next() (byte, error) {
	for {
		c, err := h.ReadByte()
		if err != nil || strings.IndexByte(" \t\r\n", c) < 0 {
			return c, err
		}
	}
}

// expect reads one of the given bytes.
func (h headerReader) expect(wanted string) (byte, error) {
	c, err := h.next()
	switch {
	case err == io.EOF:
		return 0, errors.New("it is not closed")
	case err == nil && strings.IndexByte(wanted, c) < 0:
		err = fmt.Errorf("unexpected %q, want one of %q", c, wanted)
	}
	return c, err
}

// object reads an object. member reads the value of each name.
func (h headerReader) object(longest int, member func(name string) error) error {
	if _, err := h.expect("{"); err != nil {
		return fmt.Errorf("not a JSON object: %w", err)
	}
	for first := true; ; first = false {
		end := `"}`
		if !first {
			end = ",}"
		}
		c, err := h.expect(end)
		if c == ',' && err == nil {
			c, err = h.expect(`"`)
		}
		if err != nil || c == '}' {
			return err
		}
		name, err := h.rest(longest)
		if err == nil {
			_, err = h.expect(":")
		}
		if err == nil {
			err = member(name)
		}
		if err != nil {
			return err
		}
	}
}

// text reads a string of at most so many bytes.
func (h headerReader) text(longest int) (string, error) {
	if _, err := h.expect(`"`); err != nil {
		return "", err
	}
	return h.rest(longest)
}

// rest reads a string after its first quote.
func (h headerReader) rest(longest int) (string, error) {
	literal, escaped := []byte{'"'}, false
	for {
		c, err := h.ReadByte()
		if err != nil {
			return "", errors.New("it is not closed")
		}
		if literal = append(literal, c); len(literal) > longest+2 {
			return "", fmt.Errorf("%.80q… is longer than %d bytes and not the name of a tensor", literal[1:], longest)
		}
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			var text string
			if err := json.Unmarshal(literal, &text); err != nil {
				return "", fmt.Errorf("%.80q is no string: %w", literal, err)
			}
			return text, nil
		}
	}
}

// integers reads a list of at most so many numbers.
func (h headerReader) integers(most int) (numbers []int64, err error) {
	if _, err := h.expect("["); err != nil {
		return nil, err
	}
	var digits []byte
	for {
		c, err := h.next()
		switch {
		case err != nil:
			return nil, errors.New("it is not closed")
		case c == '-' && len(digits) == 0, '0' <= c && c <= '9' && len(digits) < 20:
			digits = append(digits, c)
			continue
		case c == ']' && len(digits) == 0 && len(numbers) == 0:
			return numbers, nil
		case c != ',' && c != ']':
			return nil, fmt.Errorf("unexpected %q in a list of numbers", c)
		}
		n, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is no number of 64 bits", digits)
		}
		if digits, numbers = digits[:0], append(numbers, n); len(numbers) > most {
			return nil, fmt.Errorf("a list of more than %d numbers, an impossible shape", most)
		}
		if c == ']' {
			return numbers, nil
		}
	}
}

// entry reads the description of a tensor.
func (h headerReader) entry() (e entry, err error) {
	var found []string
	err = h.object(maxName, func(name string) error {
		if slices.Contains(found, name) {
			return fmt.Errorf("%q is there twice", name)
		}
		found = append(found, name)
		switch name {
		case "dtype":
			e.DType, err = h.text(maxName)
			return err
		case "shape":
			shape, err := h.integers(maxAxes)
			for _, dim := range shape {
				e.Shape = append(e.Shape, int(dim))
			}
			return err
		case "data_offsets":
			offsets, err := h.integers(2)
			if err == nil && len(offsets) != 2 {
				err = fmt.Errorf("%d data_offsets, want 2 numbers", len(offsets))
			}
			copy(e.Offsets[:], offsets)
			return err
		}
		return fmt.Errorf("unknown field %.80q", name)
	})
	if err == nil && len(found) != 3 {
		err = errors.New("want dtype, shape and data_offsets")
	}
	if dtype := e.DType; err == nil && len(dtype) > 8 {
		e.DType = dtype[:8] // Unknown in any case.
	}
	return e, err
}

// metadata reads an object of strings.
func (h headerReader) metadata() (map[string]string, error) {
	all, left := map[string]string{}, maxMetadata
	err := h.object(maxName, func(name string) error {
		value, err := h.text(left)
		if err != nil {
			return fmt.Errorf("%s: %w", metadataKey, err)
		}
		if _, twice := all[name]; twice {
			return fmt.Errorf("%s: %.80q is there twice", metadataKey, name)
		}
		// A name without a value takes memory too.
		if left -= len(name) + len(value) + 64; left < 0 {
			return fmt.Errorf("%s is larger than %d MiB", metadataKey, maxMetadata>>20)
		}
		all[name] = value
		return nil
	})
	return all, err
}
