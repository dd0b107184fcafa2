package weights

import (
	"errors"
	"os"
	"path/filepath"
)

// tensorSource is a tensor in a file, which takes no memory before it is asked for.
type tensorSource interface {
	Shape() []int
	Floats() ([]float32, error) // Row-major.
}

// openSources lists the tensors of a file by key, nested dictionaries' keys joined with dots.
func openSources(path string) (map[string]tensorSource, func(), error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, nil, err
	}
	sources := map[string]tensorSource{}
	if filepath.Ext(path) == ".safetensors" {
		defer f.Close()
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		entries, _, data, err := parseHeader(content)
		if err != nil {
			return nil, nil, err
		}
		for name, e := range entries {
			sources[name] = stored{e, data}
		}
		return sources, func() {}, nil
	}
	objects, err := openTorch(f, size)
	if err == nil {
		err = flatten(sources, "", objects, 0, new(int))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return sources, func() { f.Close() }, nil
}

// stored is a tensor of a safetensors file.
type stored struct {
	entry
	data []byte
}

func (s stored) Shape() []int { return s.entry.Shape }

func (s stored) Floats() ([]float32, error) {
	tensor, err := s.read(s.data)
	if err != nil {
		return nil, err
	}
	var floats []float32
	err2 := tensor.ConstBytes(func(raw []byte) {
		var entry func(int) float32
		if entry, err = floatsOf(tensor.DType(), raw); err == nil {
			floats = make([]float32, tensor.Size())
			for i := range floats {
				floats[i] = entry(i)
			}
		}
	})
	return floats, errors.Join(err, err2)
}

// flatten collects the tensors of nested dictionaries. Dictionaries that hold each other would never end, hence the bounds.
func flatten(into map[string]tensorSource, prefix string, object any, depth int, seen *int) error {
	d, ok := object.(*dictionary)
	if !ok {
		return nil
	}
	if *seen += len(d.keys); *seen > 1<<18 || depth > 8 {
		return errors.New("dictionaries too many or too deep for a file of weights")
	}
	for i, key := range d.keys {
		name, ok := key.(string)
		if !ok {
			continue // An optimizer's state has numbers for keys.
		}
		if v, ok := d.values[i].(*view); ok {
			into[prefix+name] = v
		} else if err := flatten(into, prefix+name+".", d.values[i], depth+1, seen); err != nil {
			return err
		}
	}
	return nil
}
