package encoders

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/semcon/semcon/sccore/study"
)

// Synthetic is the dataset of an evaluation without a data folder.
const Synthetic = "synthetic"

// Sources are the datasets that an evaluation reads below --data, as D. Without one it draws images of its own.
type Sources[D any] struct {
	Needed string // What the full profile needs below --data, "DAVIS".
	None   string // The beginning of the error where --data has none of several datasets; the error of a single one's Open says it itself.

	Names []string
	// Open opens a dataset. The error of one that is not there is an [fs.ErrNotExist].
	Open func(dir, name string) (D, error)
	// Without says what a table lacks without a dataset. Optional: the error says enough.
	Without map[string]string
}

// Datasets is the Datasets of a [study.Spec].
func (s Sources[D]) Datasets(o study.Options) (names, missing []string, err error) {
	switch {
	case o.Data != "":
		return s.Present(o.Data)
	case o.Profile == study.Full:
		return nil, nil, fmt.Errorf("the full profile needs --data DIR with %s", s.Needed)
	}
	return []string{Synthetic}, nil, nil
}

// Present lists those of the datasets that a data folder has. Each line of missing says what is left out, and why; that all are is an error.
func (s Sources[D]) Present(dir string) (names, missing []string, err error) {
	for _, name := range s.Names {
		_, err := s.Open(dir, name)
		switch {
		case err == nil:
			names = append(names, name)
		case !errors.Is(err, fs.ErrNotExist) || len(s.Names) == 1:
			return nil, nil, err
		case s.Without[name] != "":
			missing = append(missing, fmt.Sprintf("%s are left out: %v", s.Without[name], err))
		default:
			missing = append(missing, err.Error())
		}
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("%s in %s (\"semcon data\" says what is wanted)", s.None, dir)
	}
	return names, missing, nil
}
