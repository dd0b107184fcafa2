package rle_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/rle"
)

func TestWrongInputIsAnError(t *testing.T) {
	square := []float64{0, 0, 2, 0, 2, 2}
	parse := func(height, width int, text string) func() (rle.Mask, error) {
		return func() (rle.Mask, error) { return rle.Parse(height, width, text) }
	}
	counts := func(height, width int, counts ...uint32) func() (rle.Mask, error) {
		return func() (rle.Mask, error) { return rle.FromCounts(height, width, counts) }
	}
	polygons := func(polygons ...[]float64) func() (rle.Mask, error) {
		return func() (rle.Mask, error) { return rle.FromPolygons(4, 5, polygons) }
	}
	small, _ := rle.FromCounts(1, 2, []uint32{2})
	large, _ := rle.FromCounts(2, 2, []uint32{4})
	for name, test := range map[string]struct {
		make func() (rle.Mask, error)
		want string
	}{
		"too few pixels":            {counts(4, 5, 3, 4), "the runs have 7 pixels, not the 20 of 5×4"},
		"too many pixels":           {counts(4, 5, 3, 18), "2 runs have more than the 20 pixels of 5×4"},
		"counts beyond 32 bits":     {counts(4, 5, math.MaxUint32, 21), "1 runs have more than the 20 pixels"},
		"no runs":                   {counts(4, 5), "the runs have 0 pixels"},
		"no height":                 {counts(0, 5), "5×0 pixels, want at least 1×1"},
		"negative width":            {counts(4, -5), "-5×4 pixels, want at least 1×1"},
		"huge":                      {counts(math.MaxInt, math.MaxInt, 1), "at most 268435456 in all"},
		"huge text":                 {parse(1<<20, 1<<20, "0"), "at most 268435456 in all"},
		"character":                 {parse(4, 5, "5 6"), "character 1 of the compressed text, ' '"},
		"character above":           {parse(4, 5, "5\x7f"), "character 1 of the compressed text, '\\x7f'"},
		"unended":                   {parse(4, 5, "5o"), "the number at character 1 of the compressed text does not end"},
		"endless":                   {parse(4, 5, "5oooooooooo"), "the number at character 1 of the compressed text does not end"},
		"negative run":              {parse(4, 5, "5O"), "run 1 of the compressed text has -1 pixels"},
		"negative difference":       {parse(4, 5, "111N"), "run 3 of the compressed text has -1 pixels"},
		"text of too many":          {parse(4, 5, "55;"), "run 2 of the compressed text has 11 pixels"},
		"text of too few":           {parse(4, 5, "55"), "the runs have 10 pixels, not the 20"},
		"empty text":                {parse(4, 5, ""), "the runs have 0 pixels"},
		"pixels":                    {func() (rle.Mask, error) { return rle.Encode(4, 5, make([]bool, 19)) }, "19 pixels are not 5×4"},
		"no pixels":                 {func() (rle.Mask, error) { return rle.Encode(0, 0, nil) }, "0×0 pixels"},
		"no polygon":                {polygons(), "there is no polygon"},
		"two corners":               {polygons(square, square[:4]), "polygon 1: 4 numbers, want x and y of at least 3 corners"},
		"odd numbers":               {polygons(append(square, 1)), "polygon 0: 7 numbers"},
		"NaN":                       {polygons([]float64{0, 0, 1, math.NaN(), 2, 2}), "the number NaN is not finite"},
		"infinite":                  {polygons([]float64{0, 0, 1, math.Inf(1), 2, 2}), "the number +Inf is not finite"},
		"far corner":                {polygons([]float64{0, 0, 1e300, 1, 2, 2}), "polygon 0: its outline is too long"},
		"long outline":              {polygons([]float64{0, 0, 1e7, 1, 2, 2}), "polygon 0: its outline is too long"},
		"many long outlines":        {polygons([]float64{0, 0, 3e5, 1, 2, 2}, []float64{0, 0, 3e5, 1, 2, 2}), "polygon 1: its outline is too long"},
		"far box":                   {func() (rle.Mask, error) { return rle.FromBox(4, 5, [4]float64{0, 0, 1e9, 1}) }, "its outline is too long"},
		"union of two sizes":        {func() (rle.Mask, error) { return rle.Union(small, large) }, "one has 2×1 pixels and another 2×2"},
		"intersection of two sizes": {func() (rle.Mask, error) { return rle.Intersection(large, small) }, "one has 2×2 pixels and another 2×1"},
		"union of none":             {func() (rle.Mask, error) { return rle.Union() }, "there is none to merge"},
		"IoU of two sizes":          {func() (rle.Mask, error) { _, err := rle.IoU(small, large, false); return rle.Mask{}, err }, "one has 2×1 pixels and another 2×2"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := test.make()
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if h, w := m.Size(); h != 0 || w != 0 {
				t.Errorf("%d×%d pixels beside an error", w, h)
			}
		})
	}
}

// TestEmptyRuns: runs of 0 pixels anywhere change nothing, also where two masks have one at the same pixel.
func TestEmptyRuns(t *testing.T) {
	m, err := rle.FromCounts(2, 3, []uint32{0, 0, 1, 2, 0, 1, 0, 0, 2, 0})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Counts(); !slices.Equal(got, []uint32{1, 3, 2}) {
		t.Errorf("counts %v", got)
	}
	if got := m.Box(); got != [4]float64{0, 0, 2, 2} {
		t.Errorf("box %v", got)
	}
	empty, err := rle.FromCounts(2, 3, []uint32{3, 0, 3})
	if err != nil || empty.Area() != 0 || empty.Box() != [4]float64{} {
		t.Errorf("an empty mask has area %d, box %v, %v", empty.Area(), empty.Box(), err)
	}
	if iou, err := rle.IoU(empty, empty, false); iou != 0 || err != nil {
		t.Errorf("IoU of empty masks is %g, %v", iou, err)
	}
}

// FuzzParse: any text is a mask that comes back, or an error of one line.
func FuzzParse(f *testing.F) {
	f.Add(4, 5, "55:")
	f.Add(4, 5, "111N")
	f.Add(60, 60, "PPo0oo1")
	f.Add(1<<14, 1<<14, "PPPP8")
	f.Fuzz(func(t *testing.T, height, width int, text string) {
		m, err := rle.Parse(height, width, text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is not one line", err)
			}
			return
		}
		sum := uint64(0)
		for i, count := range m.Counts() {
			if sum += uint64(count); count == 0 && i > 0 {
				t.Errorf("run %d is empty", i)
			}
		}
		if sum != uint64(height)*uint64(width) || m.Area() > height*width {
			t.Errorf("%d pixels, %d inside, of %d×%d", sum, m.Area(), width, height)
		}
		again, err := rle.Parse(height, width, m.String())
		if err != nil || !slices.Equal(again.Counts(), m.Counts()) {
			t.Errorf("%q comes back as %v, %v", m, again.Counts(), err)
		}
		box := m.Box()
		if box[0]+box[2] > float64(width) || box[1]+box[3] > float64(height) || box[2]*box[3] < float64(m.Area()) {
			t.Errorf("box %v around %d of %d×%d pixels", box, m.Area(), width, height)
		}
		if iou, err := rle.IoU(m, m, false); err != nil || iou != 1 && m.Area() > 0 {
			t.Errorf("IoU %g with itself, %v", iou, err)
		}
		if height*width < 1<<12 {
			if back, err := rle.Encode(height, width, m.Pixels()); err != nil || back.String() != m.String() {
				t.Errorf("%q comes back from pixels as %q, %v", m, back, err)
			}
		}
	})
}
