package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore/experiments"
	"github.com/semcon/semcon/sccore/study"
)

// warnOfBrokenLines names the broken lines among the records of experiments; the other records are used.
func warnOfBrokenLines(w io.Writer, out string, experiments ...study.Experiment) error {
	for _, e := range experiments {
		broken, err := study.BrokenLines(study.Folder(out, e.Name))
		if err != nil {
			return err
		}
		for _, line := range broken {
			fmt.Fprintf(w, "%s (\"semcon doctor --repair --out %s\" moves it aside)\n", line, out)
		}
	}
	return nil
}

// requireFolder returns an error if the folder that a flag names does not exist.
func requireFolder(flag, folder string) error {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("--%s %s: the folder does not exist", flag, folder)
	}
	return nil
}

// requireWritable returns an error if files cannot be written in the folder that a flag names. Verbs call it before they do any work.
func requireWritable(flag, folder string) error {
	if folder == "" {
		return usagef("--%s is empty: want a folder", flag)
	}
	if err := atomicfile.Writable(folder); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// requireWritableFile is [requireWritable] for a file.
func requireWritableFile(flag, file string) error {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("--%s %s: is a folder, want a file", flag, file)
	}
	return requireWritable(flag, filepath.Dir(file))
}

// requireReadableFile returns an error that names the flag if its file is not there or cannot be seen.
func requireReadableFile(flag, file string) error {
	_, err := os.Stat(file)
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return fmt.Errorf("--%s %s: %w", flag, file, err)
	}
	return nil
}

// checkRecords looks for broken lines among the records of all experiments, and moves them aside if asked to.
func checkRecords(out string, repair bool) (findings []finding) {
	for _, e := range experiments.All() {
		dir := study.Folder(out, e.Name)
		broken, err := study.BrokenLines(dir)
		if err == nil && len(broken) > 0 && repair {
			var moved int
			if moved, err = study.Repair(dir); err == nil {
				findings = append(findings, finding{stateOK, "records of " + e.Name, fmt.Sprintf("%s moved to %s", plural.Count(moved, "broken line"), filepath.Join(dir, study.BrokenFile))})
				continue
			}
		}
		switch {
		case err != nil:
			findings = append(findings, finding{state: stateBroken, what: "records of " + e.Name, detail: err.Error()})
		case len(broken) > 0:
			findings = append(findings, finding{state: stateBroken, what: "records of " + e.Name, detail: fmt.Sprintf("%s, %s; doctor --repair moves them aside", plural.Count(len(broken), "broken line"), broken[0])})
		}
	}
	return findings
}
