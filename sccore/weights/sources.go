package weights

import (
	"errors"
	"fmt"
	"github.com/semcon/semcon/sccore/safetensors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tensorSource is a tensor in a file, read on demand.
type tensorSource interface {
	Shape() []int
	Floats() ([]float32, error) // Row-major.
}

// sources are the tensors of a file, or of several with an index, by key. They can be read until close is called.
type sources struct {
	tensors  map[string]tensorSource
	metadata map[string]string // Of a .safetensors file.
	files    []*os.File
}

func (s *sources) close() {
	for _, file := range s.files {
		file.Close()
	}
}

// openSources lists the tensors of a file by key. The keys of nested dictionaries are joined with dots.
func openSources(path string) (*sources, error) {
	s := &sources{tensors: map[string]tensorSource{}}
	add := s.addFile
	if filepath.Ext(path) == ".json" {
		add = s.addIndex
	}
	if err := add(path); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sources) addFile(path string) error {
	f, size, err := safetensors.OpenFile(path)
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	if filepath.Ext(path) == ".safetensors" {
		s.metadata, err = addEntries(s.tensors, f, size)
		return err
	}
	objects, err := openTorch(f, size)
	if err != nil {
		return err
	}
	return flatten(s.tensors, "", objects, 0, new(int))
}

// leaveOut removes the keys that match a pattern, with * for any text, and returns them.
func (s *sources) leaveOut(patterns []string) (keys []string, err error) {
	for _, pattern := range patterns {
		found := len(keys)
		expression := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
		for key := range s.tensors {
			if expression.MatchString(key) {
				keys = append(keys, key)
				delete(s.tensors, key)
			}
		}
		if len(keys) == found {
			return nil, fmt.Errorf("--ignore %.80q matches no key", pattern)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func addEntries(into map[string]tensorSource, r io.ReaderAt, size int64) (metadata map[string]string, err error) {
	entries, metadata, err := safetensors.Open(r, size)
	if err != nil {
		return nil, err
	}
	for name, t := range entries {
		if err := checkKey(name); err != nil {
			return nil, err
		}
		if into[name] != nil {
			return nil, fmt.Errorf("key %.80q is in two files", name)
		}
		into[name] = inFile{t}
	}
	return metadata, nil
}

// inFile is a tensor of a safetensors file.
type inFile struct{ safetensors.Tensor }

func (t inFile) Shape() []int { return t.Tensor.Shape }

func (t inFile) Floats() ([]float32, error) {
	dtype, raw, err := t.Bytes()
	if err != nil {
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
