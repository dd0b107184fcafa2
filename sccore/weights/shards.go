package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// indexSuffix is how the index of weights in several files ends, as transformers names it: model.safetensors.index.json.
const indexSuffix = ".safetensors.index.json"

// maxShards bounds the number of files that are open at a time.
const maxShards = 256

// Files lists the files that hold the weights of path: path itself and, if it is the index of weights in several files, those in the order of their
// names. The error names the index and what is wrong with it.
func Files(path string) ([]string, error) {
	if !strings.HasSuffix(path, indexSuffix) {
		return []string{path}, nil
	}
	_, shards, err := readIndex(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	all := []string{path}
	for _, shard := range shards {
		all = append(all, filepath.Join(filepath.Dir(path), shard))
	}
	return all, nil
}

// readIndex reads which file beside an index holds which tensor, and the files in order. The index cannot lead out of its folder.
func readIndex(path string) (fileOf map[string]string, files []string, err error) {
	f, size, err := openFile(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if size > maxConfig {
		return nil, nil, fmt.Errorf("is larger than %d MiB", maxConfig>>20)
	}
	content, err := io.ReadAll(f)
	if err != nil {
		return nil, nil, err
	}
	var index struct {
		FileOf map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, nil, err
	}
	if len(index.FileOf) == 0 {
		return nil, nil, errors.New("not an index of weights: it has no weight_map")
	}
	files = slices.Compact(slices.Sorted(maps.Values(index.FileOf)))
	if len(files) > maxShards {
		return nil, nil, fmt.Errorf("names %d files, more than %d", len(files), maxShards)
	}
	for _, file := range files {
		if filepath.Ext(file) != ".safetensors" || !filepath.IsLocal(file) || strings.ContainsAny(file, `/\`) {
			return nil, nil, fmt.Errorf("names %.80q, which is not a .safetensors file beside it", file)
		}
	}
	return index.FileOf, files, nil
}

// openIndex is [openSources] for the index of weights in several files. Each file holds the tensors that the index says, and no others.
func openIndex(path string) (sources map[string]tensorSource, closeAll func(), err error) {
	fileOf, files, err := readIndex(path)
	if err != nil {
		return nil, nil, err
	}
	var closers []func()
	closeAll = func() {
		for _, f := range closers {
			f()
		}
	}
	sources = map[string]tensorSource{}
	for _, file := range files {
		shard, closeShard, err := openSources(filepath.Join(filepath.Dir(path), file))
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("file %s of the index: %w", file, err)
		}
		closers = append(closers, closeShard)
		for key, source := range shard {
			if fileOf[key] != file {
				closeAll()
				return nil, nil, fmt.Errorf("file %s of the index holds %.80q, which the index does not say", file, key)
			}
			sources[key] = source
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fileOf)) {
		if sources[key] == nil {
			closeAll()
			return nil, nil, fmt.Errorf("file %s of the index does not hold %.80q", fileOf[key], key)
		}
	}
	return sources, closeAll, nil
}
