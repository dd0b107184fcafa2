package study

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

// progressFile is in the folder of a run that has begun and not finished. It says how far the run is, and is written anew every second while a process runs it.
const progressFile = "progress.json"

// silence is the age of progressFile from which on no process runs the run.
const silence = 15 * time.Second

// Live is how far a run is, as its process tells those that watch it.
type Live struct {
	Title   string `json:"title"`
	Done    int    `json:"done"` // Steps.
	Total   int    `json:"total"`
	Summary string `json:"summary"`        // With the rate, the time left and the last losses; see [progress.State.Summary].
	Call    string `json:"call,omitempty"` // The title and the summary of all cells that the process runs.
	Process int    `json:"process"`
	Memory  int64  `json:"memory"` // The most that the process has held, in bytes; 0 if unknown.
}

// MemoryNote is the memory as it stands behind the summary, empty if it is unknown.
func (l Live) MemoryNote() string {
	if l.Memory == 0 {
		return ""
	}
	return fmt.Sprintf("  %.1f GiB", float64(l.Memory)/(1<<30))
}

// Watched returns a bar that keeps its state in the folder of a run, for [ReadFolder]. call, if not nil, is asked for the summary of all runs of the process. The run ends with a
// call of end, with its error.
func Watched(dir, title string, total int, call func() string) (bar progress.Bar, end func(error)) {
	file := filepath.Join(dir, progressFile)
	bar = progress.Draw(title, total, time.Second, func(s *progress.State) {
		live := Live{Title: s.Title, Done: s.Done, Total: s.Total, Summary: s.Summary(), Process: os.Getpid(), Memory: peakMemory()}
		if call != nil {
			live.Call = call()
		}
		content, err := json.Marshal(live)
		// Without a sync and without an error: it is for the next second only, and a full disk is reported by what matters.
		if temp := filepath.Join(dir, ".writing-"+progressFile); err == nil && os.WriteFile(temp, content, 0o666) == nil {
			_ = os.Rename(temp, file)
		}
	})
	return bar, func(err error) {
		if bar.Close(); err == nil {
			_ = os.Remove(file)
			return
		}
		ended := time.Now().Add(-silence)
		_ = os.Chtimes(file, ended, ended)
	}
}

// ReadFolder tells how far a run is from the files in its folder: a cell, or a training on photographs. It takes no lock, so that it keeps no run from
// starting. The folder may be a copy, and another host may be writing it.
func ReadFolder(dir string) (c CellStatus, err error) {
	err = c.readFiles(dir)
	switch {
	case err != nil || c.State != Stopped:
	case c.Live == nil && c.Step == 0:
		c.State = Done
	case c.Live != nil:
		if info, failed := os.Stat(filepath.Join(dir, progressFile)); failed == nil && time.Since(info.ModTime()) < silence {
			c.State = Running
		}
	}
	return c, err
}
