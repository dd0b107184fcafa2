package study

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
)

// Figure is a figure of an experiment.
type Figure struct {
	Name    string // Of its files, such as "crop-drop".
	Caption string // What it shows, in a sentence or two.
	figures.Figure
}

// FigureSources are what figures are drawn from, beside the records.
type FigureSources struct {
	Out  string // Folder of the records, with the curves and models that they name.
	Data string // Folder of the datasets; empty for synthetic images.
	// Backend computes what models make of images. Without it such figures are left out.
	Backend compute.Backend
}

// Drawn collects the figures of an experiment and the errors of those that cannot be drawn.
type Drawn struct {
	figures []Figure
	errs    []error
}

// Add adds a figure, or the error instead of it. The parts of its name are joined, in small letters.
func (d *Drawn) Add(figure figures.Figure, err error, caption string, name ...string) {
	joined := strings.ToLower(strings.ReplaceAll(strings.Join(name, "-"), " ", "-"))
	if err != nil {
		d.errs = append(d.errs, fmt.Errorf("figure %s: %w", joined, err))
		return
	}
	d.figures = append(d.figures, Figure{joined, caption, figure})
}

// All returns the figures, with the errors joined.
func (d *Drawn) All() ([]Figure, error) { return d.figures, errors.Join(d.errs...) }
