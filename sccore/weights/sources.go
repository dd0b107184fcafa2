package weights

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/safetensors"
)

// source is a tensor of a file, or one that is computed from such. Its values are read on demand.
type source struct {
	shape  []int
	floats func() ([]float32, error) // Row-major.
	keys   []string                  // In the file.
	how    string                    // What was done to it, if something was.
}

// key names the tensor in messages.
func (s source) key() string { return strings.Join(s.keys, ", ") }

// finite returns the values, or an error if one of them is not finite.
func (s source) finite() ([]float32, error) {
	values, err := s.floats()
	return values, cmp.Or(err, safetensors.CheckFinite(values))
}

// keysOf lists the keys of tensors in messages.
func keysOf(all ...source) string {
	return strings.Join(lo.FlatMap(all, func(s source, _ int) []string { return s.keys }), ", ")
}

// join stacks tensors along their first axis.
func join(parts []source) (source, error) {
	joined := source{shape: slices.Clone(parts[0].shape), how: "joined"}
	for _, part := range parts {
		if _, err := entries(part.shape); err != nil {
			return source{}, fmt.Errorf("keys %s: %w", keysOf(parts...), err)
		}
		if len(part.shape) == 0 || !slices.Equal(part.shape, parts[0].shape) {
			return source{}, fmt.Errorf("keys %s: have shapes %v and %v, want the same", keysOf(parts...), parts[0].shape, part.shape)
		}
		joined.keys = append(joined.keys, part.keys...)
	}
	joined.shape[0] *= len(parts)
	joined.floats = func() (values []float32, err error) {
		defer try.Handle(&err)
		return lo.FlatMap(parts, func(part source, _ int) []float32 { return try.E1(part.floats()) }), nil
	}
	return joined, nil
}

// cut returns the entries from begin to end along axis.
func (s source) cut(axis, begin, end int, how string) source {
	shape := slices.Clone(s.shape)
	length, inner := shape[axis], lo.Product(shape[axis+1:])
	shape[axis] = end - begin
	return source{shape, func() (values []float32, err error) {
		floats, err := s.floats()
		for at := 0; at < len(floats) && err == nil; at += length * inner {
			values = append(values, floats[at+begin*inner:at+end*inner]...)
		}
		return values, err
	}, s.keys, how}
}

// plus adds a tensor of the same shape.
func (s source) plus(other source, how string) source {
	return source{s.shape, func() ([]float32, error) {
		x, err := s.floats()
		y, otherErr := other.floats()
		out := make([]float32, len(x))
		for i := range min(len(x), len(y)) {
			out[i] = x[i] + y[i]
		}
		return out, cmp.Or(err, otherErr)
	}, slices.Concat(s.keys, other.keys), how}
}

// sources are the tensors of a file, or of several with an index, by key. They can be read until close is called.
type sources struct {
	tensors  map[string]source
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
	s := &sources{tensors: map[string]source{}}
	add := lo.Ternary(filepath.Ext(path) == ".json", s.addIndex, s.addFile)
	if err := add(path); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sources) addFile(path string) (err error) {
	defer try.Handle(&err)
	f, size := try.E2(safetensors.OpenFile(path))
	s.files = append(s.files, f)
	return s.addContent(f, size, filepath.Ext(path) == ".safetensors")
}

// webPage is how what a server sends in place of a file begins.
var webPage = regexp.MustCompile(`(?i)^[\s\x{feff}]*<(!doctype|html|head|body|\?xml|!--)`)

// addContent adds the tensors of a file by what it holds, whatever its name. safe says that the name is a safetensors file's.
func (s *sources) addContent(r io.ReaderAt, size int64, safe bool) (err error) {
	defer try.Handle(&err)
	head := make([]byte, 64)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return err
	}
	head = head[:n]
	var objects any
	switch begins := func(text string) bool { return bytes.HasPrefix(head, []byte(text)) }; {
	case begins("version https://git-lfs"):
		return errors.New("is a Git LFS pointer and not the weights: git lfs pull fetches them")
	case webPage.Match(head):
		return errors.New("is a web page and not weights: the download failed")
	case begins("PK\x03\x04"):
		objects = try.E1(openZip(r, size))
	case begins("\x80") && bytes.Contains(head, []byte(legacyMagic)):
		objects = try.E1(openLegacy(r, size))
	case safe || n > 8 && head[8] == '{':
		return s.addSafetensors(r, size)
	case n < 4:
		return errors.New("neither a PyTorch nor a safetensors file: it is too short")
	case begins("\x80"):
		return errors.New("is a pickle, but not of torch.save")
	default:
		return errors.New("neither a PyTorch nor a safetensors file")
	}
	if whole, ok := objects.(*object); ok && whole.class != dictName && len(whole.keys) == 0 {
		return fmt.Errorf("holds one %.80q, and no vision transformer in a dictionary: want the weights alone, torch.save(model.state_dict(), OUT)", whole.class)
	}
	return s.flatten("", objects, 0, new(int))
}

// add adds a tensor under its key.
func (s *sources) add(key string, t source) (err error) {
	defer try.Handle(&err)
	try.E(checkKey(key))
	if _, twice := s.tensors[key]; twice {
		return fmt.Errorf("key %.80q is there twice", key)
	}
	t.keys = []string{key}
	s.tensors[key] = t
	return nil
}

func (s *sources) addSafetensors(r io.ReaderAt, size int64) (err error) {
	defer try.Handle(&err)
	entries, metadata := try.E2(safetensors.Open(r, size))
	s.metadata = metadata
	for name, t := range entries {
		try.E(s.add(name, source{shape: t.Shape, floats: func() (_ []float32, err error) {
			defer try.Handle(&err)
			dtype, raw := try.E2(t.Bytes())
			return decodeFloats(dtype, raw, 0, t.Shape, nil)
		}}))
	}
	return nil
}

// flatten adds the tensors of nested dictionaries. It bounds their number and passes over what is deeper than weights are, because dictionaries may
// contain each other or share their content.
func (s *sources) flatten(prefix string, content any, depth int, seen *int) (err error) {
	defer try.Handle(&err)
	d, ok := content.(*object)
	if !ok || depth > 8 {
		return nil
	}
	if *seen += len(d.keys); *seen > 1<<15 {
		return errors.New("too many dictionaries for a file of weights")
	}
	for i, key := range d.keys {
		name, ok := key.(string)
		if !ok || checkKey(prefix+name) != nil {
			continue // An optimizer's state has numbers for keys, and a callback's has paths.
		}
		switch value := d.values[i].(type) {
		case source:
			try.E(s.add(prefix+name, value))
		case *object:
			try.E(s.flatten(prefix+name+".", value, depth+1, seen))
		}
	}
	return nil
}

// checkKey refuses keys that cannot name a tensor, so that names can be printed and joined safely.
func checkKey(name string) error {
	if len(name) > 256 || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("key %.80q is not the name of a tensor", name)
	}
	return nil
}

// leaveOut removes the keys that match a pattern, with * for any text, and returns them.
func (s *sources) leaveOut(patterns []string) (keys []string, err error) {
	for _, pattern := range patterns {
		expression := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
		found := lo.FilterKeys(s.tensors, func(key string, _ source) bool { return expression.MatchString(key) })
		if len(found) == 0 {
			return nil, fmt.Errorf("the pattern %.80q matches no key", pattern)
		}
		s.tensors, keys = lo.OmitByKeys(s.tensors, found), append(keys, found...)
	}
	slices.Sort(keys)
	return keys, nil
}

// addIndex adds the tensors of weights in several .safetensors files, as transformers writes them: an index, model.safetensors.index.json, says which file
// beside it holds which tensor.
func (s *sources) addIndex(path string) (err error) {
	defer try.Handle(&err)
	names, fileOf := try.E2(readIndex(path))
	for _, name := range names {
		if err := s.addFile(filepath.Join(filepath.Dir(path), name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if key, missing := lo.FindKeyBy(fileOf, func(key, _ string) bool { return !lo.HasKey(s.tensors, key) }); missing {
		return fmt.Errorf("key %.80q is in the index, but not in %s", key, fileOf[key])
	}
	if len(fileOf) != len(s.tensors) {
		return fmt.Errorf("the files hold %d tensors, the index lists %d", len(s.tensors), len(fileOf))
	}
	return nil
}

// maxIndex, in bytes, and maxFiles bound an index. An index of 10⁴ tensors has 1 MB.
const (
	maxIndex = 4 << 20
	maxFiles = 256
)

// readIndex returns the names of the files of an index, in order, and the file of each tensor.
func readIndex(path string) (names []string, fileOf map[string]string, err error) {
	defer try.Handle(&err)
	fileOf = try.E1(parseIndex(try.E1(readSmall(path, maxIndex))))
	if names = slices.Compact(slices.Sorted(maps.Values(fileOf))); len(names) > maxFiles {
		err = fmt.Errorf("index of %d files, want at most %d", len(names), maxFiles)
	}
	return names, fileOf, err
}

// parseIndex returns the file of each tensor. Files lie in the folder of the index.
func parseIndex(content []byte) (_ map[string]string, err error) {
	defer try.Handle(&err)
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, fmt.Errorf("not an index of .safetensors files: %.200w", err)
	}
	if len(index.WeightMap) == 0 {
		return nil, errors.New("not an index of .safetensors files: it has no weight_map")
	}
	for key, name := range index.WeightMap {
		try.E(checkKey(key))
		if err := checkKey(name); err != nil || name != filepath.Base(name) || filepath.Ext(name) != ".safetensors" {
			return nil, fmt.Errorf("key %.80q is said to be in %.80q, which is no .safetensors file beside the index", key, name)
		}
	}
	return index.WeightMap, nil
}

// Files lists the files that hold the weights of path: path itself and, if it is an index, those that it names, in order. The error names path.
func Files(path string) ([]string, error) {
	all := []string{path}
	if filepath.Ext(path) != ".json" {
		return all, nil
	}
	names, _, err := readIndex(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return append(all, lo.Map(names, func(name string, _ int) string { return filepath.Join(filepath.Dir(path), name) })...), nil
}

// SHA256 identifies the content of a file of weights and, if it is an index, of the files that it names.
func SHA256(path string) (_ string, err error) {
	defer try.Handle(&err)
	files := try.E1(Files(path))
	digest := sha256.New()
	for _, name := range files {
		file := try.E1(os.Open(name))
		defer file.Close()
		if _, err := io.Copy(digest, file); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}

// Digest is the first 16 hexadecimal digits of [SHA256].
func Digest(path string) (string, error) {
	digest, err := SHA256(path)
	return digest[:min(16, len(digest))], err
}
