package weights

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tensorSource is a tensor in a file, read on demand.
type tensorSource interface {
	Shape() []int
	Floats() ([]float32, error) // Row-major.
}

// openSources lists the tensors of a file, or of the files of an index, by key. The keys of nested dictionaries are joined with dots. The tensors can be read until close is
// called.
func openSources(path string) (sources map[string]tensorSource, close func(), err error) {
	if strings.HasSuffix(path, indexSuffix) {
		return openIndex(path)
	}
	f, size, err := openFile(path)
	if err != nil {
		return nil, nil, err
	}
	sources = map[string]tensorSource{}
	if filepath.Ext(path) == ".safetensors" {
		err = addEntries(sources, f, size)
	} else {
		var objects any
		if objects, err = openTorch(f, size); err == nil {
			err = flatten(sources, "", objects, 0, new(int))
		}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return sources, func() { f.Close() }, nil
}

func addEntries(into map[string]tensorSource, r io.ReaderAt, size int64) error {
	entries, _, data, err := parseHeader(r, size)
	for name, e := range entries {
		if err := checkKey(name); err != nil {
			return err
		}
		into[name] = inData{e, data}
	}
	return err
}

// inData is a tensor of a safetensors file.
type inData struct {
	entry
	data *io.SectionReader
}

func (s inData) Shape() []int { return s.entry.Shape }

func (s inData) Floats() ([]float32, error) {
	dtype, size, err := s.check()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, size)
	if _, err := s.data.ReadAt(raw, s.Offsets[0]); err != nil {
		return nil, err
	}
	at, err := floatsOf(dtype, raw)
	if err != nil {
		return nil, err
	}
	floats := make([]float32, len(raw)/dtype.Size())
	for i := range floats {
		floats[i] = at(i)
	}
	return floats, nil
}

// checkKey refuses keys that cannot name a tensor, so that names can be printed and joined safely.
func checkKey(name string) error {
	if len(name) > 256 || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("key %.80q is not the name of a tensor", name)
	}
	return nil
}

// flatten collects the tensors of nested dictionaries. It bounds their number and depth, because dictionaries may contain each other or share
// their content.
func flatten(into map[string]tensorSource, prefix string, object any, depth int, seen *int) error {
	d, ok := object.(*dictionary)
	if !ok {
		return nil
	}
	if *seen += len(d.keys); *seen > 1<<15 || depth > 8 {
		return errors.New("too many or too deeply nested dictionaries for a file of weights")
	}
	for i, key := range d.keys {
		name, ok := key.(string)
		if !ok {
			continue // An optimizer's state has numbers for keys.
		}
		v, isTensor := d.values[i].(*view)
		if _, isDictionary := d.values[i].(*dictionary); !isTensor && !isDictionary {
			continue
		}
		name = prefix + name
		if err := checkKey(name); err != nil {
			return err
		}
		switch {
		case !isTensor:
			if err := flatten(into, name+".", d.values[i], depth+1, seen); err != nil {
				return err
			}
		case into[name] != nil:
			return fmt.Errorf("key %.80q is in the file twice", name)
		default:
			into[name] = v
		}
	}
	return nil
}
