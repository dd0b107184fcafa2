package datasets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"sync"

	"github.com/semcon/semcon/sccore/rle"
)

// crowdFlag is 0 or 1, or false or true.
type crowdFlag bool

func (c *crowdFlag) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "false", "null":
		*c = false
	case "true":
		*c = true
	default:
		number, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || number != 0 && number != 1 {
			return fmt.Errorf("iscrowd is %.20s, want 0 or 1", raw)
		}
		*c = number == 1
	}
	return nil
}

// InstanceMask is the mask of one object as COCO's "segmentation" has it: polygons, or runs as a list of counts or as compressed text. The zero value
// is none.
type InstanceMask struct {
	Polygons [][]float64 // Each x, y, x, y, … in pixels; the object is their union.

	Size   Size     // Of runs.
	Counts []uint32 // As rle.FromCounts takes them, if Text is empty.
	Text   string   // As rle.Parse takes it.

	fault string // What keeps it from being one of these.
}

// UnmarshalJSON reads COCO's "segmentation" and never fails: boxes do not depend on it. What is wrong is the error of [InstanceMask.Runs].
func (m *InstanceMask) UnmarshalJSON(raw []byte) error {
	*m = InstanceMask{}
	switch raw = bytes.TrimSpace(raw); {
	case bytes.HasPrefix(raw, []byte("[")):
		if json.Unmarshal(raw, &m.Polygons) != nil {
			*m = InstanceMask{fault: "the segmentation is not a list of polygons, which are lists of numbers"}
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
		m.fault = "the segmentation is neither a list of polygons nor an object with size, of height and width, and counts"
		return nil
	}
	m.Size = Size{runs.Size[0], runs.Size[1]}
	if json.Unmarshal(runs.Counts, &m.Text) != nil && json.Unmarshal(runs.Counts, &m.Counts) != nil {
		*m = InstanceMask{fault: "the segmentation's counts are neither a string nor a list of whole numbers"}
	}
	return nil
}

// None says that there is no mask.
func (m InstanceMask) None() bool {
	return len(m.Polygons) == 0 && m.Size == Size{} && m.Text == "" && m.Counts == nil && m.fault == ""
}

// dropPolygons leaves out what is no polygon, as long as one is left, and returns how many.
func (m *InstanceMask) dropPolygons() int {
	before := len(m.Polygons)
	drawn := slices.DeleteFunc(slices.Clone(m.Polygons), func(polygon []float64) bool { return rle.CheckPolygon(polygon) != nil })
	if len(drawn) > 0 {
		m.Polygons = drawn
	}
	return before - len(m.Polygons)
}

// Runs returns the mask in an image of the given size. No mask, runs of another size, runs that do not add up, and what is no polygon are errors.
func (m InstanceMask) Runs(size Size) (rle.Mask, error) {
	switch {
	case m.None():
		return rle.Mask{}, errors.New("it has no segmentation")
	case m.fault != "":
		return rle.Mask{}, errors.New(m.fault)
	case size == Size{}:
		return rle.Mask{}, errors.New("the file does not say how large its image is")
	case len(m.Polygons) > 0:
		return rle.FromPolygons(size.Height, size.Width, m.Polygons)
	case m.Size != size:
		return rle.Mask{}, fmt.Errorf("a mask of %d×%d pixels in an image of %d×%d", m.Size.Width, m.Size.Height, size.Width, size.Height)
	case m.Text != "":
		return rle.Parse(size.Height, size.Width, m.Text)
	}
	return rle.FromCounts(size.Height, size.Width, m.Counts)
}

// check finds what Runs would, but for the length of outlines, and draws no polygons.
func (m InstanceMask) check(size Size) error {
	if len(m.Polygons) > 0 && size != (Size{}) {
		for i, polygon := range m.Polygons {
			if err := rle.CheckPolygon(polygon); err != nil {
				return fmt.Errorf("polygon %d: %w", i, err)
			}
		}
		return nil
	}
	_, err := m.Runs(size)
	return err
}

// ID is an id in COCO's format: a whole number, which 1.0 is too, or a text. A text or a negative number has a negative number here, in the order in which the
// process reads them.
type ID int64

// texts are the ids that are texts, in their order.
var texts struct {
	sync.Mutex
	all []string
	of  map[string]ID
}

// String returns the id for messages.
func (id ID) String() string {
	if id < 0 {
		return fmt.Sprintf("%.80q", id.text())
	}
	return strconv.FormatInt(int64(id), 10)
}

func (id ID) text() string {
	texts.Lock()
	defer texts.Unlock()
	return texts.all[-id-1]
}

// CompareIDs orders ids as pycocotools does: numbers by size, texts by their letters.
func CompareIDs(a, b int64) int {
	if a < 0 && b < 0 {
		return cmp.Compare(ID(a).text(), ID(b).text())
	}
	return cmp.Compare(a, b)
}

// UnmarshalJSON reads an id.
func (id *ID) UnmarshalJSON(raw []byte) error {
	text := ""
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil || text == "" {
		number, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			whole, _, err := big.ParseFloat(string(raw), 10, 64, big.ToNearestEven)
			exact := big.Below
			if err == nil && whole.IsInt() {
				number, exact = whole.Int64()
			}
			if exact != big.Exact {
				return fmt.Errorf("the id %.20s is neither a whole number nor a text", raw)
			}
		}
		if *id = ID(number); number >= 0 {
			return nil
		}
		text = strconv.FormatInt(number, 10)
	}
	texts.Lock()
	defer texts.Unlock()
	if texts.of == nil {
		texts.of = map[string]ID{}
	}
	if texts.of[text] == 0 {
		texts.all = append(texts.all, text)
		texts.of[text] = -ID(len(texts.all))
	}
	*id = texts.of[text]
	return nil
}
