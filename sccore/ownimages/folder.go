package ownimages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/sccore"
)

// checkFree returns an error if a folder holds files but no run, so that a run does not mix with photographs or other work.
func checkFree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	other := ""
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == runFile:
			return nil
		case name != checkpoints && name != lockFile && !strings.HasPrefix(name, "."): // These are there if the run was killed before it wrote what it is.
			other = name
		}
	}
	if other != "" {
		return fmt.Errorf("%s: holds %s and no run; name another folder", dir, other)
	}
	return nil
}

// claim writes what the run is, or checks that the folder is of the same run.
func (r *run) claim() error {
	path := r.path(runFile)
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		content, err := json.MarshalIndent(r.about, "", "  ")
		if err != nil {
			return err
		}
		return atomicfile.WriteBytes(path, append(content, '\n'))
	} else if err != nil {
		return err
	}
	var before description
	if err := json.Unmarshal(content, &before); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, part := range []struct{ name, before, now string }{
		{"images", before.Images, r.about.Images}, {"initial weights", before.Init, r.about.Init}, {"ignored keys", fmt.Sprint(before.Ignore), fmt.Sprint(r.about.Ignore)},
		{"seed", fmt.Sprint(before.Seed), fmt.Sprint(r.Seed)}, {"settings", compact(before.Config), compact(r.about.Config)},
	} {
		if part.before != part.now {
			return fmt.Errorf("%s: is the folder of a run with other %s; name another folder", r.Out, part.name)
		}
	}
	r.about.Command = before.Command
	return nil
}

// compact is JSON without spaces.
func compact(raw json.RawMessage) string {
	var config sccore.Config
	if json.Unmarshal(raw, &config) != nil {
		return string(raw)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return string(raw)
	}
	return string(encoded)
}
