package weights

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a header, which hold its memory far below its size. Its own length is bounded by maxHeader and by the file.
const (
	maxTensors = 1 << 16
	maxFacts   = 1 << 14 // Of the metadata.
	maxAxes    = 16
	maxName    = 1 << 10
)

// readHeader reads the JSON of a safetensors header as a stream: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__":
// {"key": "value"}}. Names are unique.
func readHeader(section *io.SectionReader) (entries map[string]entry, metadata map[string]string, err error) {
	read := &counter{r: section}
	h := headerReader{bufio.NewReaderSize(read, 1<<16), read, section}
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
type headerReader struct {
	*bufio.Reader
	read    *counter
	section *io.SectionReader
}

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
	length, err := h.ahead(longest)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.Grow(length) // A builder that grew would take several times the header.
	var half rune     // The first half of a surrogate pair.
	for {
		c, err := h.ReadByte()
		switch {
		case err != nil:
			return "", err
		case c == '"' && half == 0:
			if !utf8.ValidString(text.String()) {
				return "", fmt.Errorf("%.80q is not UTF-8", text.String())
			}
			return text.String(), nil
		case c < ' ' || half != 0 && c != '\\':
			return "", fmt.Errorf("unexpected %q in the string %.80q", c, text.String())
		case c != '\\':
			text.WriteByte(c)
			continue
		}
		r, err := h.escape()
		switch {
		case err != nil:
			return "", err
		case half != 0:
			text.WriteRune(utf16.DecodeRune(half, r))
			half = 0
		case utf16.IsSurrogate(r):
			half = r
		default:
			text.WriteRune(r)
		}
	}
}

// ahead returns the length of the string that comes, with its escapes.
func (h headerReader) ahead(longest int) (int, error) {
	window, err := h.Peek(h.Buffered())
	if err != nil {
		return 0, err
	}
	at, length, escaped := h.read.read, 0, false
	for {
		for _, c := range window {
			switch {
			case length > longest:
				start, _ := h.Peek(min(h.Buffered(), 80))
				return 0, fmt.Errorf("%.80q… is longer than %d bytes and not the name of a tensor", start, longest)
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				return length, nil
			}
			length++
		}
		window = make([]byte, 1<<16)
		n, _ := h.section.ReadAt(window, at)
		if n == 0 {
			return 0, errors.New("it is not closed")
		}
		window, at = window[:n], at+int64(n)
	}
}

// escape reads what follows a backslash.
func (h headerReader) escape() (rune, error) {
	c, err := h.ReadByte()
	if err != nil {
		return 0, err
	}
	if c != 'u' {
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			return rune("\"\\/\b\f\n\r\t"[i]), nil
		}
		return 0, fmt.Errorf("unexpected %q after a backslash", c)
	}
	var digits [4]byte
	if _, err := io.ReadFull(h, digits[:]); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(digits[:]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("unexpected %q after \\u", digits[:])
	}
	return rune(n), nil
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
			return nil, fmt.Errorf("%q is not a number of 64 bits", digits)
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
	all := map[string]string{}
	err := h.object(maxName, func(name string) error {
		if _, twice := all[name]; twice || len(all) == maxFacts {
			return fmt.Errorf("%s: %.80q is there twice, or comes after %d others", metadataKey, name, maxFacts)
		}
		value, err := h.text(maxHeader)
		if err != nil {
			return fmt.Errorf("%s: %w", metadataKey, err)
		}
		all[name] = value
		return nil
	})
	return all, err
}
