package pretrain

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore"
)

// Patterns are those of Ignore.
func (c Config) Patterns() []string { return strings.Fields(c.Ignore) }

// Follow takes from Init, if there is one, what set leaves open: the encoder, the resizing of its positions, and the nearest sizes of views and images that
// are made of its patches; drawn images, if drawn is true, are encoded whole. It returns a line that says what became another, or nothing. A set that names
// an encoder leaves nothing open. A file that does not exist is the error of whoever reads it.
func (c *Config) Follow(set []string, drawn bool) (said string, err error) {
	given := func(key string) bool {
		return slices.ContainsFunc(set, func(assignment string) bool {
			name, _, _ := strings.Cut(assignment, "=")
			return name == key
		})
	}
	if c.Init == "" || given("second.encoder") {
		return "", nil
	}
	v, err := sccore.EncoderOf(c.Init, c.Patterns()...)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	before := *c
	c.First = c.First.Adapt(v) // It is not run.
	c.Second = c.Second.Adapt(v)
	for key, restore := range map[string]func(){
		"second.positions":        func() { c.Second.Positions = before.Second.Positions },
		"second.views.GlobalSize": func() { c.Second.Views.GlobalCropSize = before.Second.Views.GlobalCropSize },
		"second.views.LocalSize":  func() { c.Second.Views.LocalCropSize = before.Second.Views.LocalCropSize },
	} {
		if given(key) {
			restore()
		}
	}
	if drawn && !given("second.canvas") {
		c.Second.ImageSize = sccore.Nearest(c.Second.ImageSize, v.PatchSize)
	}
	if !given("size") {
		c.Size = sccore.Nearest(c.Size, v.PatchSize)
	}
	var changes []string
	add := func(name string, from, to int, counts bool) {
		if from != to && counts {
			changes = append(changes, fmt.Sprintf("%s %d instead of %d", name, to, from))
		}
	}
	if before.Second.Encoder != c.Second.Encoder {
		changes = append(changes, "second.encoder "+c.Second.Encoder)
	}
	if before.Second.Positions != c.Second.Positions {
		changes = append(changes, "second.positions "+string(c.Second.Positions))
	}
	add("second.views.GlobalSize", before.Second.Views.GlobalCropSize, c.Second.Views.GlobalCropSize, true)
	add("second.views.LocalSize", before.Second.Views.LocalCropSize, c.Second.Views.LocalCropSize, c.Second.Views.Locals > 0)
	add("second.canvas", before.Second.ImageSize, c.Second.ImageSize, true)
	add("size", before.Size, c.Size, true)
	if len(changes) == 0 {
		return "", nil
	}
	return fmt.Sprintf("%s: %s", c.Init, strings.Join(changes, ", ")), nil
}
