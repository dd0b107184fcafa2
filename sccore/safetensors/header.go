package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Bounds of a header. Published ones have less than 1 MiB; reading one takes a few times its size.
const (
	maxHeader  = 16 << 20 // In bytes.
	maxTensors = 1 << 15
	maxFacts   = 1 << 14 // Of the metadata.
	maxAxes    = 16
	maxName    = 1 << 10
)

// readHeader reads the JSON of a header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "value"}}.
// No object may have a name twice, and nothing is read that does not belong there.
func readHeader(header []byte) (entries map[string]Tensor, metadata map[string]string, err error) {
	h := headerReader{json.NewDecoder(bytes.NewReader(header))}
	h.UseNumber()
	entries = map[string]Tensor{}
	err = h.object(maxTensors, func(name string) (err error) {
		if name == metadataKey {
			metadata = map[string]string{}
			err = h.object(maxFacts, func(name string) (err error) {
				metadata[name], err = h.text(maxHeader)
				return err
			})
		} else {
			entries[name], err = h.entry()
		}
		if err != nil {
			err = fmt.Errorf("%.80q: %w", name, err)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if _, err := h.Token(); err != io.EOF {
		return nil, nil, errors.New("header: more than one JSON object")
	}
	return entries, metadata, nil
}

// headerReader reads the values of a header token by token, so that it finds a name that is there twice.
type headerReader struct{ *json.Decoder }

// object reads an object of at most so many names. member reads the value of each.
func (h headerReader) object(most int, member func(name string) error) error {
	if token, err := h.Token(); err != nil || token != json.Delim('{') {
		return cmp.Or(err, errors.New("not a JSON object"))
	}
	seen := map[string]bool{}
	for h.More() {
		name, err := h.text(maxName)
		switch {
		case err != nil:
			return err
		case seen[name]:
			return fmt.Errorf("%.80q is in the header twice", name)
		case len(seen) == most:
			return fmt.Errorf("it lists more than %d names", most)
		}
		seen[name] = true
		if err := member(name); err != nil {
			return err
		}
	}
	_, err := h.Token()
	return err
}

// text reads a string of at most so many bytes.
func (h headerReader) text(longest int) (string, error) {
	token, err := h.Token()
	text, ok := token.(string)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", errors.New("want a string")
	case len(text) > longest:
		return "", fmt.Errorf("%.80q… is longer than %d bytes and not the name of a tensor", text, longest)
	}
	return text, nil
}

// integers reads a list of at most so many numbers.
func (h headerReader) integers(most int) (numbers []int, err error) {
	if token, err := h.Token(); err != nil || token != json.Delim('[') {
		return nil, cmp.Or(err, errors.New("want a list of numbers"))
	}
	for h.More() {
		token, err := h.Token()
		if err != nil {
			return nil, err
		}
		digits, _ := token.(json.Number)
		n, err := strconv.Atoi(string(digits))
		if err != nil {
			return nil, fmt.Errorf("%.20q is not a number of 64 bits", digits)
		}
		if numbers = append(numbers, n); len(numbers) > most {
			return nil, fmt.Errorf("a list of more than %d numbers, an impossible shape", most)
		}
	}
	_, err = h.Token()
	return numbers, err
}

// entry reads the description of a tensor.
func (h headerReader) entry() (t Tensor, err error) {
	found := 0
	err = h.object(3, func(name string) (err error) {
		found++
		switch name {
		case "dtype":
			t.DType, err = h.text(maxName)
		case "shape":
			t.Shape, err = h.integers(maxAxes)
		case "data_offsets":
			var offsets []int
			if offsets, err = h.integers(2); err == nil && len(offsets) != 2 {
				err = fmt.Errorf("%d data_offsets, want 2 numbers", len(offsets))
			}
			for i, at := range offsets {
				t.offsets[i] = int64(at)
			}
		default:
			err = fmt.Errorf("unknown field %.80q", name)
		}
		return err
	})
	if err == nil && found != 3 {
		err = errors.New("want dtype, shape and data_offsets")
	}
	return t, err
}
