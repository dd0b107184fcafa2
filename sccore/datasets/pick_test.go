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
	if picked := pictures.Pick(Spread(4, 2)); picked.Len() != 2 || picked.File(0) != "a" || picked.File(1) != "c" || picked.Identity != "2 spread evenly of (all)" {
		t.Errorf("picked %+v", picked)
	}
	if pictures.Pick(Spread(4, 0)) != pictures {
		t.Error("all of a folder are another folder")
	}
	segmented := NewSegmentation("s", nil, "all", 3, func(i int) (*SegmentedImage, error) { return &SegmentedImage{Height: i}, nil })
	picked := segmented.Pick([]int{2})
	if a, err := picked.Read(0); err != nil || a.Height != 2 || picked.Len() != 1 || picked.Identity != "1 of (all)" {
		t.Errorf("picked %+v, %v", a, err)
	}
}

func TestShare(t *testing.T) {
	set := NewSegmentation("s", nil, "all", 50, func(i int) (*SegmentedImage, error) { return &SegmentedImage{Height: i}, nil })
	var all []int
	for share := range 4 {
		s := set.Share(share, 4)
		if want := 12 + (50%4+3-share)/4; s.Len() != want || s.Identity == set.Identity {
			t.Errorf("share %d has %d images, want %d: %s", share, s.Len(), want, s.Identity)
		}
		var places []int
		for i := range s.Len() {
			a, err := s.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			places = append(places, a.Height)
		}
		if slices.IsSorted(places) {
			t.Errorf("share %d is in order: %v", share, places)
		}
		all = append(all, places...)
	}
	if slices.Sort(all); len(slices.Compact(all)) != 50 {
		t.Errorf("the shares have %d different images of 50", len(slices.Compact(all)))
	}
}

func TestShareOfAFolder(t *testing.T) {
	pictures := &ImageFolder{Name: "p", Identity: "all", files: []string{"a", "b", "c", "d", "e"}}
	var all []string
	for share := range 2 {
		s := pictures.Share(share, 2)
		if s.Len() != 3-share || s.Identity == pictures.Identity || s.Identity == pictures.Share(1-share, 2).Identity {
			t.Errorf("share %d has %d images: %s", share, s.Len(), s.Identity)
		}
		all = append(all, s.files...)
	}
	if slices.Sort(all); !slices.Equal(all, pictures.files) {
		t.Errorf("the shares hold %q", all)
	}
}
