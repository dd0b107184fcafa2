package datasets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/semcon/semcon/sccore/rle"
)

// InstanceMask is the mask of one object as COCO's "segmentation" has it: polygons, or runs as a list of counts or as compressed text. The zero value
// is none.
type InstanceMask struct {
	Polygons [][]float64 // Each x, y, x, y, … in pixels; the object is their union.

	Size   Size     // Of runs.
	Counts []uint32 // As rle.FromCounts takes them, if Text is empty.
	Text   string   // As rle.Parse takes it.
}

// UnmarshalJSON reads COCO's "segmentation". It checks types; what is within them is checked by [InstanceMask.Runs].
func (m *InstanceMask) UnmarshalJSON(raw []byte) error {
	*m = InstanceMask{}
	switch raw = bytes.TrimSpace(raw); {
	case bytes.HasPrefix(raw, []byte("[")):
		if json.Unmarshal(raw, &m.Polygons) != nil {
			return errors.New("the segmentation is not a list of polygons, which are lists of numbers")
		}
		return nil
	case bytes.Equal(raw, []byte("null")):
		return nil
	}
	var runs struct {
		Size   []int           `json:"size"`
		Counts json.RawMessage `json:"counts"`
	}
	if json.Unmarshal(raw, &runs) != nil || len(runs.Size) != 2 {
		return errors.New("the segmentation is neither a list of polygons nor an object with size, of height and width, and counts")
	}
	m.Size = Size{runs.Size[0], runs.Size[1]}
	if json.Unmarshal(runs.Counts, &m.Text) != nil && json.Unmarshal(runs.Counts, &m.Counts) != nil {
		return errors.New("the segmentation's counts are neither a string nor a list of whole numbers")
	}
	return nil
}

// None says that there is no mask.
func (m InstanceMask) None() bool {
	return len(m.Polygons) == 0 && m.Size == Size{} && m.Text == "" && m.Counts == nil
}

// Runs returns the mask in an image of the given size. No mask, runs of another size, runs that do not add up, and what is no polygon are errors.
func (m InstanceMask) Runs(size Size) (rle.Mask, error) {
	switch {
	case m.None():
		return rle.Mask{}, errors.New("there is no segmentation")
	case len(m.Polygons) > 0:
		return rle.FromPolygons(size.Height, size.Width, m.Polygons)
	case m.Size != size:
		return rle.Mask{}, fmt.Errorf("a mask of %d×%d pixels in an image of %d×%d", m.Size.Width, m.Size.Height, size.Width, size.Height)
	case m.Text != "":
		return rle.Parse(size.Height, size.Width, m.Text)
	}
	return rle.FromCounts(size.Height, size.Width, m.Counts)
}

// check finds what Runs would, but for the length of outlines, and draws nothing.
func (m InstanceMask) check(size Size) error {
	if m.None() {
		return nil
	}
	for i, polygon := range m.Polygons {
		if err := rle.CheckPolygon(polygon); err != nil {
			return fmt.Errorf("polygon %d: %w", i, err)
		}
	}
	if len(m.Polygons) > 0 {
		return nil
	}
	_, err := m.Runs(size)
	return err
}
