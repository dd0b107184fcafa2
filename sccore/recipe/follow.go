package recipe

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/settings"
)

// Patterns are those of Ignore.
func (c Config) Patterns() []string { return strings.Fields(c.Ignore) }

// CheckInit returns the error of a file that [Config.Follow] cannot follow. It is for those who open the data: before anything is compiled.
func (c Config) CheckInit(set []string) error {
	if c.Init == "" || settings.Given(set, "second.encoder") {
		return nil
	}
	_, err := sccore.EncoderOf(c.Init, c.Patterns()...)
	return err
}

// Follow takes from Init, if there is one, what set leaves open: the encoder, the resizing of its positions, and the nearest sizes of views and images that
// are made of its patches; drawn images, if drawn is true, are encoded whole. It returns a line that says what became another, or nothing. A set that names
// an encoder leaves nothing open, and a file that cannot be read says nothing.
func (c *Config) Follow(set []string, drawn bool) (said string) {
	if c.Init == "" || settings.Given(set, "second.encoder") {
		return ""
	}
	v, err := sccore.EncoderOf(c.Init, c.Patterns()...)
	if err != nil {
		return ""
	}
	before := *c
	c.First = c.First.Adapt(v) // It is not run.
	c.Second = c.Second.Adapt(v)
	for key, restore := range map[string]func(){
		"second.positions":         func() { c.Second.Positions = before.Second.Positions },
		"second.views.global_size": func() { c.Second.Views.GlobalCropSize = before.Second.Views.GlobalCropSize },
		"second.views.local_size":  func() { c.Second.Views.LocalCropSize = before.Second.Views.LocalCropSize },
	} {
		if settings.Given(set, key) {
			restore()
		}
	}
	if drawn && !settings.Given(set, "second.canvas") {
		c.Second.ImageSize = v.NearestSize(c.Second.ImageSize)
	}
	if !settings.Given(set, "size") {
		c.Size = v.NearestSize(c.Size)
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
	add("second.views.global_size", before.Second.Views.GlobalCropSize, c.Second.Views.GlobalCropSize, true)
	add("second.views.local_size", before.Second.Views.LocalCropSize, c.Second.Views.LocalCropSize, c.Second.Views.Locals > 0)
	add("second.canvas", before.Second.ImageSize, c.Second.ImageSize, true)
	add("size", before.Size, c.Size, true)
	if len(changes) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", c.Init, strings.Join(changes, ", "))
}
