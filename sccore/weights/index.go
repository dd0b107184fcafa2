package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// maxIndex, in bytes, and maxFiles bound an index. That of 10⁴ tensors has 1 MB.
const (
	maxIndex = 4 << 20
	maxFiles = 256
)

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
	for _, name := range names {
		all = append(all, filepath.Join(filepath.Dir(path), name))
	}
	return all, nil
}

// Digest identifies the content of a file of weights and, if it is an index, of the files that it names: the first 16 hexadecimal digits of their SHA-256.
func Digest(path string) (string, error) {
	files, err := Files(path)
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		if _, err := io.Copy(digest, file); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return hex.EncodeToString(digest.Sum(nil)[:8]), nil
}

// readIndex returns the names of the files of an index, in order, and the file of each tensor.
func readIndex(path string) (names []string, fileOf map[string]string, err error) {
	content, err := readSmall(path, maxIndex)
	if err != nil {
		return nil, nil, err
	}
	if fileOf, err = parseIndex(content); err != nil {
		return nil, nil, err
	}
	if names = slices.Compact(slices.Sorted(maps.Values(fileOf))); len(names) > maxFiles {
		return nil, nil, fmt.Errorf("index of %d files, want at most %d", len(names), maxFiles)
	}
	return names, fileOf, nil
}

// addIndex adds the tensors of weights in several .safetensors files, as transformers writes them: an index, model.safetensors.index.json, says which file
// beside it holds which tensor.
func (s *sources) addIndex(path string) error {
	names, fileOf, err := readIndex(path)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.addFile(filepath.Join(filepath.Dir(path), name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for key := range fileOf {
		if s.tensors[key] == nil {
			return fmt.Errorf("key %.80q is in the index, but not in %s", key, fileOf[key])
		}
	}
	if len(fileOf) != len(s.tensors) {
		return fmt.Errorf("the files hold %d tensors, the index lists %d", len(s.tensors), len(fileOf))
	}
	return nil
}

// parseIndex returns the file of each tensor. Files lie in the folder of the index.
func parseIndex(content []byte) (map[string]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, fmt.Errorf("not an index of .safetensors files: %.200w", err)
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("not an index of .safetensors files: it has no weight_map")
	}
	for key, name := range index.WeightMap {
		if err := checkKey(key); err != nil {
			return nil, err
		}
		if err := checkKey(name); err != nil || name != filepath.Base(name) || filepath.Ext(name) != ".safetensors" {
			return nil, fmt.Errorf("key %.80q is said to be in %.80q, which is no .safetensors file beside the index", key, name)
		}
	}
	return index.WeightMap, nil
}
