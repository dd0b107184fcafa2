package datasets

import (
	"slices"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		n, most int
		want    []int
	}{{4, 0, []int{0, 1, 2, 3}}, {4, 9, []int{0, 1, 2, 3}}, {10, 4, []int{0, 2, 5, 7}}, {0, 3, []int{}}} {
		if got := Spread(c.n, c.most); !slices.Equal(got, c.want) {
			t.Errorf("%d of %d: %v, want %v", c.most, c.n, got, c.want)
		}
	}
}

func TestPick(t *testing.T) {
	pictures := &ImageFolder{Name: "p", Identity: "all", files: []string{"a", "b", "c", "d"}}
	if picked := pictures.Pick(Spread(4, 2)); picked.Len() != 2 || picked.File(0) != "a" || picked.File(1) != "c" || picked.Identity == "all" {
		t.Errorf("picked %+v", picked)
	}
	if pictures.Pick(Spread(4, 0)) != pictures {
		t.Error("all of a folder are another folder")
	}
	segmented := NewSegmentation("s", nil, "all", 3, func(i int) (*SegmentedImage, error) { return &SegmentedImage{Height: i}, nil })
	picked := segmented.Pick([]int{2})
	if a, err := picked.Read(0); err != nil || a.Height != 2 || picked.Len() != 1 || picked.Identity == "all" {
		t.Errorf("picked %+v, %v", a, err)
	}
}

func TestResample(t *testing.T) {
	set := NewSegmentation("s", nil, "all", 50, func(i int) (*SegmentedImage, error) { return &SegmentedImage{Height: i}, nil })
	draw := func(seed uint64) (drawn []int) {
		s := set.Resample(seed)
		if s.Identity == set.Identity || s.Len() != set.Len() {
			t.Errorf("%d images, %s", s.Len(), s.Identity)
		}
		for i := range s.Len() {
			a, err := s.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			drawn = append(drawn, a.Height)
		}
		return drawn
	}
	first := draw(1)
	if !slices.Equal(draw(1), first) || slices.Equal(draw(2), first) {
		t.Error("the seed does not decide what is drawn")
	}
	slices.Sort(first)
	// Of n images, 1 − 1/e are expected to be drawn at least once: 32 of 50.
	if different := len(slices.Compact(first)); different < 25 || different > 39 {
		t.Errorf("%d of 50 images are drawn", different)
	}
}
