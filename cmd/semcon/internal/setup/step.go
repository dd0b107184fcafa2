package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/semcon/semcon/internal/atomicfile"
	"github.com/semcon/semcon/internal/filelock"
)

// step is a part of set-up that is done completely or not at all. Its stamp is written after its last task.
type step struct {
	name     string
	inputs   []string // Everything that its result depends on.
	products []string // Patterns of the files that it creates. If one is missing, the step is done again.
	within   string   // The step that creates the folder of its products. If that step is done again, so is this one.
	tasks    []task
}

// task is one unit of the bar.
type task struct {
	name string
	run  func(ctx context.Context, out *transcript) error
}

// hash returns a hash of the step's inputs. The length of each input makes the hash unambiguous.
func (s step) hash() string {
	h := sha256.New()
	for _, input := range s.inputs {
		fmt.Fprintf(h, "%d:%s", len(input), input)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (in Install) stampFile(s step) string {
	return in.Dir("stamps", strings.ReplaceAll(s.name, " ", "-"))
}

func (in Install) stamp(s step) error {
	return atomicfile.WriteBytes(in.stampFile(s), []byte(s.hash()+"\n"))
}

func (in Install) unstamp(s step) error {
	if err := os.Remove(in.stampFile(s)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// pending returns the steps whose stamp is missing or has another hash, or whose products are missing.
func (in Install) pending(steps []step) []step {
	var todo []step
	isPending := map[string]bool{}
	for _, s := range steps {
		stamp, err := os.ReadFile(in.stampFile(s))
		current := err == nil && strings.TrimSpace(string(stamp)) == s.hash() && !isPending[s.within]
		for _, product := range s.products {
			found, err := filepath.Glob(product)
			current = current && err == nil && len(found) > 0 && exists(found[0])
		}
		if !current {
			todo = append(todo, s)
			isPending[s.name] = true
		}
	}
	return todo
}

// exists follows links, because a link in a Python environment may point to an interpreter that is gone.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lock keeps two set-ups of one checkout from running at the same time. The lock is released when the process ends, however it ends.
func (in Install) lock(ctx context.Context, w io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(in.Dir(), 0o755); err != nil {
		return nil, err
	}
	unlock, _, err = filelock.Wait(ctx, in.Dir("lock"), func() { fmt.Fprintln(w, "waiting for another set-up of this checkout") })
	return unlock, err
}

// readAll returns the concatenated content of several files.
func readAll(paths ...string) (string, error) {
	var all strings.Builder
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		all.Write(content)
	}
	return all.String(), nil
}
