package encoders

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/semcon/semcon/sccore/study"
)

// Synthetic is the dataset of an evaluation without --data.
const Synthetic = "synthetic"

// Drawn reports whether a dataset is drawn, for each seed anew: BySeed of a [study.Spec].
func Drawn(dataset string) bool { return dataset == Synthetic }

// Sources are the datasets that an evaluation reads below --data, as values of type D. Without --data it runs on synthetic images.
type Sources[D any] struct {
	Needed string // The datasets that the full profile needs below --data, e.g. "DAVIS".
	None   string // The start of the error if --data has none of several datasets. For a single dataset, the error comes from Open.

	Names []string
	// Open opens a dataset. If the dataset does not exist, the error is an [fs.ErrNotExist].
	Open func(dir, name string) (D, error)
	// Without says what tables lack if a dataset is missing. Optional: without it the warning is the error alone.
	Without map[string]string
}

// Datasets implements Datasets of a [study.Spec].
func (s Sources[D]) Datasets(o study.Options) (names, missing []string, err error) {
	switch {
	case o.Data != "":
		return s.Present(o.Data)
	case o.Profile == study.Full:
		return nil, nil, fmt.Errorf("the full profile needs --data DIR with %s", s.Needed)
	}
	return []string{Synthetic}, nil, nil
}

// absent is the error for a folder without any dataset, as opposed to a damaged one. It is an [fs.ErrNotExist].
type absent string

func (a absent) Error() string        { return string(a) }
func (a absent) Is(target error) bool { return target == fs.ErrNotExist }

// Present lists the datasets that a data folder has. Each line of missing says what is skipped, and why. If there is no dataset at all, that is an
// error.
func (s Sources[D]) Present(dir string) (names, missing []string, err error) {
	for _, name := range s.Names {
		_, err := s.Open(dir, name)
		switch {
		case err == nil:
			names = append(names, name)
		case !errors.Is(err, fs.ErrNotExist) || len(s.Names) == 1:
			return nil, nil, err
		case s.Without[name] != "":
			missing = append(missing, fmt.Sprintf("skipped %s: %v", s.Without[name], err))
		default:
			missing = append(missing, err.Error())
		}
	}
	if len(names) == 0 {
		return nil, nil, absent(fmt.Sprintf("%s in %s (\"semcon data --data %[2]s\" lists the expected folders)", s.None, dir))
	}
	return names, missing, nil
}
