package synthetic

import (
	"slices"
	"testing"
)

func TestVideosMoveWithTheirMasks(t *testing.T) {
	set := Videos(4, 20, 64, 3)
	if len(set.All) != 4 {
		t.Fatalf("%d videos", len(set.All))
	}
	for _, v := range set.All {
		objects, err := v.Objects()
		if err != nil || objects < 2 || objects > 3 {
			t.Errorf("%s: %d objects, %v", v.Name, objects, err)
		}
		first, _ := v.Mask(0)
		last, _ := v.Mask(v.Frames - 1)
		var before, after [4]int
		moved := 0
		for p := range first {
			before[first[p]]++
			after[last[p]]++
			if first[p] != last[p] {
				moved++
			}
		}
		if moved < 200 || moved > 3800 {
			t.Errorf("%s: %d of 4096 pixels have changed hands", v.Name, moved)
		}
		if before[1] == 0 || after[1] < before[1]*9/10 || after[1] > before[1]*11/10 {
			t.Errorf("%s: the object in front had %d pixels and has %d", v.Name, before[1], after[1])
		}
		start, _ := v.Frame(0)
		end, _ := v.Frame(v.Frames - 1)
		different := 0.0
		for p := range first {
			difference := 0.0
			for k := range 3 {
				difference += max(float64(start[3*p+k])-float64(end[3*p+k]), float64(end[3*p+k])-float64(start[3*p+k]))
			}
			if first[p] != last[p] {
				different += difference / float64(moved)
			}
		}
		if different < 60 {
			t.Errorf("%s: pixels that changed hands differ by %.0f only", v.Name, different)
		}
	}
}

func TestVideosAreTheSameWhateverIsAskedFor(t *testing.T) {
	few, many := Videos(1, 3, 32, 7), Videos(3, 9, 32, 7)
	for i := range 3 {
		a, _ := few.All[0].Frame(i)
		b, _ := many.All[0].Frame(i)
		m, _ := few.All[0].Mask(i)
		n, _ := many.All[0].Mask(i)
		if !slices.Equal(a, b) || !slices.Equal(m, n) {
			t.Errorf("frame %d depends on the number of videos or frames", i)
		}
	}
	other, _ := Videos(1, 3, 32, 8).All[0].Frame(0)
	if a, _ := few.All[0].Frame(0); slices.Equal(a, other) {
		t.Error("two seeds, one video")
	}
}
