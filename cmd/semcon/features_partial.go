package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/internal/filelock"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/safetensors"
)

// partialFeatures holds what is computed so far in a folder beside the output, so that a call that is killed goes on where it stopped. Each tensor is a
// file of values that grows by whole batches. The journal has a line for each batch, which is written when its values are on disk.
type partialFeatures struct {
	dir     string
	unlock  func()
	journal *os.File
	tensors []*os.File // In the order of names.
	names   []string

	done    int      // Images that were read or skipped.
	rows    []string // The names of the images with features.
	grids   [][2]int // Rows and columns of the maps of each of them.
	skipped []string // Why others have none.
}

// batchDone is a line of the journal.
type batchDone struct {
	Done    int      `json:"done"` // Images that were read or skipped, from the first batch on.
	Images  []string `json:"images"`
	Grid    [2]int   `json:"grid"`
	Skipped []string `json:"skipped,omitempty"`
	Sizes   []int64  `json:"sizes"` // Of the files of tensors in bytes.
}

// openPartial opens the folder of an output, or makes it. What it holds of other settings is removed.
func openPartial(out string, settings any, names []string) (p *partialFeatures, err error) {
	wanted, err := json.MarshalIndent(settings, "", "  ")
	if err != nil {
		return nil, err
	}
	p = &partialFeatures{dir: out + ".partial", names: names}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return nil, err
	}
	unlock, taken, err := filelock.Try(filepath.Join(p.dir, "lock"))
	if err != nil {
		return nil, err
	}
	if !taken {
		return nil, fmt.Errorf("%s: another process is writing it", out)
	}
	p.unlock = unlock
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	path := filepath.Join(p.dir, "settings.json")
	found, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !bytes.Equal(found, wanted) {
		if found != nil {
			fmt.Fprintf(os.Stderr, "%s is of other settings or images, and is begun anew\n", p.dir)
		}
		for _, file := range append([]string{"journal.jsonl"}, names...) {
			if err := os.Remove(filepath.Join(p.dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		if err := os.WriteFile(path, wanted, 0o644); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		file, err := os.OpenFile(filepath.Join(p.dir, name), os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, err
		}
		p.tensors = append(p.tensors, file)
	}
	if p.journal, err = os.OpenFile(filepath.Join(p.dir, "journal.jsonl"), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	return p, p.resume()
}

// resume reads the journal up to the first line that is not whole, or that files of tensors do not reach, and cuts off what follows.
func (p *partialFeatures) resume() error {
	lines := bufio.NewReader(p.journal)
	var end int64
	sizes := make([]int64, len(p.tensors))
	for {
		line, err := lines.ReadBytes('\n')
		var b batchDone
		if err != nil || json.Unmarshal(line, &b) != nil || len(b.Sizes) != len(p.tensors) || !p.holds(b.Sizes) {
			break
		}
		p.note(b)
		sizes, end = b.Sizes, end+int64(len(line))
	}
	for i, file := range append(p.tensors[:len(p.tensors):len(p.tensors)], p.journal) {
		size := end
		if i < len(sizes) {
			size = sizes[i]
		}
		if err := file.Truncate(size); err != nil {
			return err
		}
		if _, err := file.Seek(size, 0); err != nil {
			return err
		}
	}
	return nil
}

func (p *partialFeatures) holds(sizes []int64) bool {
	for i, file := range p.tensors {
		if info, err := file.Stat(); err != nil || info.Size() < sizes[i] {
			return false
		}
	}
	return true
}

func (p *partialFeatures) note(b batchDone) {
	p.done, p.rows, p.skipped = b.Done, append(p.rows, b.Images...), append(p.skipped, b.Skipped...)
	for range b.Images {
		p.grids = append(p.grids, b.Grid)
	}
}

// add writes a batch: for each tensor the values of its images.
func (p *partialFeatures) add(b batchDone, values [][]float32) error {
	for i, file := range p.tensors {
		content := make([]byte, 4*len(values[i]))
		if _, err := binary.Encode(content, binary.LittleEndian, values[i]); err != nil {
			return err
		}
		if _, err := file.Write(content); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		at, err := file.Seek(0, 1)
		if err != nil {
			return err
		}
		b.Sizes = append(b.Sizes, at)
	}
	line, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if _, err := p.journal.Write(append(line, '\n')); err != nil {
		return err
	}
	p.note(b)
	return p.journal.Sync()
}

// tensorsOf returns the tensors of the file to write. Maps of images of several sizes are one tensor an image, "patches.0".
func (p *partialFeatures) tensorsOf(dim int, each bool, isMap func(name string) bool) map[string]safetensors.RawTensor {
	named := map[string]safetensors.RawTensor{}
	for i, name := range p.names {
		switch {
		case !isMap(name):
			named[name] = safetensors.RawTensor{Shape: []int{len(p.rows), dim}, File: p.tensors[i]}
		case !each:
			named[name] = safetensors.RawTensor{Shape: []int{len(p.rows), p.grids[0][0], p.grids[0][1], dim}, File: p.tensors[i]}
		default:
			var at int64
			for row, grid := range p.grids {
				named[fmt.Sprintf("%s.%d", name, row)] = safetensors.RawTensor{Shape: []int{grid[0], grid[1], dim}, File: p.tensors[i], Offset: at}
				at += int64(4 * grid[0] * grid[1] * dim)
			}
		}
	}
	return named
}

// close ends the work on the folder, which stays.
func (p *partialFeatures) close() {
	for _, file := range append(p.tensors, p.journal) {
		if file != nil {
			file.Close()
		}
	}
	p.unlock()
}

// valuesOf lists the values of one image for each tensor, in the order of names.
func valuesOf(image []evaluation.Features, class bool) (values [][]float32) {
	for _, block := range image {
		if class {
			values = append(values, block.Class)
		}
		if block.Patches != nil {
			values = append(values, block.Patches)
		}
	}
	return values
}
