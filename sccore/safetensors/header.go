package safetensors

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/semcon/semcon/internal/jsonstream"
)

// Bounds of a header. Published ones have less than 1 MiB; reading one takes a few times its size.
const (
	maxHeader  = 16 << 20 // In bytes.
	maxField   = 1 << 16  // Of a name, or of a part of a tensor's description.
	maxTensors = 1 << 15
	maxFacts   = 1 << 14 // Of the metadata.
	maxAxes    = 16
)

// readHeader reads the JSON of a header: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"key": "value"}}.
// No object may have a name twice, and nothing is read that does not belong there.
func readHeader(header []byte) (entries map[string]Tensor, metadata map[string]string, err error) {
	json := jsonstream.New(bytes.NewReader(header))
	json.Limit = maxField
	entries = map[string]Tensor{}
	err = unique(json, maxTensors, func(name string) (err error) {
		if name != metadataKey {
			entries[name], err = readTensor(json)
			return err
		}
		metadata = map[string]string{}
		return unique(json, maxFacts, func(name string) error {
			var text string
			json.Limit = maxHeader
			err := json.Decode(&text)
			json.Limit, metadata[name] = maxField, text
			return err
		})
	})
	if err == nil {
		err = json.End()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	return entries, metadata, nil
}

// unique reads an object of at most so many names, none of them twice.
func unique(json *jsonstream.Reader, most int, member func(name string) error) error {
	seen := map[string]bool{}
	return json.Object(func(name string) error {
		switch {
		case seen[name]:
			return fmt.Errorf("%.80q is in the header twice", name)
		case len(seen) == most:
			return fmt.Errorf("it lists more than %d names", most)
		}
		seen[name] = true
		if err := member(name); err != nil {
			return fmt.Errorf("%.80q: %w", name, err)
		}
		return nil
	})
}

// readTensor reads the description of a tensor.
func readTensor(json *jsonstream.Reader) (t Tensor, err error) {
	fields := 0
	var offsets []*int64 // A null is no number.
	err = unique(json, 3, func(name string) error {
		fields++
		switch name {
		case "dtype":
			return json.Decode(&t.DType)
		case "shape":
			return json.Decode(&t.Shape)
		case "data_offsets":
			return json.Decode(&offsets)
		}
		return errors.New("unknown field")
	})
	switch {
	case err != nil:
	case fields != 3 || t.Shape == nil || len(offsets) != 2 || offsets[0] == nil || offsets[1] == nil:
		err = errors.New("want dtype, shape and two data_offsets")
	case len(t.Shape) > maxAxes:
		err = fmt.Errorf("a list of more than %d numbers, an impossible shape", maxAxes)
	default:
		t.offsets = [2]int64{*offsets[0], *offsets[1]}
	}
	return t, err
}
