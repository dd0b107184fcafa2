package views

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/sccore/settings"
)

// TestBlockMaskDrawsAsIBOT: from the same numbers come the same masks; testdata/blockmask.py writes the file.
func TestBlockMaskDrawsAsIBOT(t *testing.T) {
	raw, err := os.ReadFile("testdata/blockmask.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Rows, Columns int
		Shares        []MaskShare
		Numbers       []float64
		Mask          []string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		used := 0
		got := BlockMask{Shares: c.Shares}.draw(func() float64 { used++; return c.Numbers[used-1] }, c.Rows, c.Columns)
		want := make([]bool, 0, len(got))
		for _, patch := range strings.Join(c.Mask, "") {
			want = append(want, patch == '#')
		}
		if !slices.Equal(got, want) || used != len(c.Numbers) {
			t.Errorf("case %d: mask %v after %d numbers, want %v after %d", i, got, used, want, len(c.Numbers))
		}
	}
	if len(cases) < 40 {
		t.Errorf("only %d cases", len(cases))
	}
}

func TestBlockMaskDraw(t *testing.T) {
	m := BlockMask{Shares: []MaskShare{{0, 0}, {0.3, 0.2}}} // iBOT's: half of the views have none, the others between 10 and 50 % of their patches.
	if err := settings.Check(m); err != nil {
		t.Fatal(err)
	}
	const rows, columns, views = 14, 14, 2
	images := make([]int32, 300)
	for i := range images {
		images[i] = int32(i)
	}
	masks := tensors.MustCopyFlatData[bool](m.Draw(5, 1, images, views, rows, columns))
	empty, total := 0, 0.0
	at := func(view, image int) []bool { return masks[(view*len(images)+image)*rows*columns:][:rows*columns] }
	for view := range views {
		for image := range images {
			masked := 0
			for _, in := range at(view, image) {
				if in {
					masked++
				}
			}
			if masked == 0 {
				empty++
			}
			if share := float64(masked) / (rows * columns); share > 0.5 {
				t.Errorf("view %d of image %d: %.2f of the patches are masked", view, image, share)
			}
			total += float64(masked) / (rows * columns)
		}
	}
	if drawn := float64(views * len(images)); !(math.Abs(float64(empty)/drawn-0.5) <= 0.07) || !(math.Abs(total/drawn-0.15) <= 0.02) {
		t.Errorf("%.2f of the views have no mask, and %.3f of the patches are masked", float64(empty)/drawn, total/drawn)
	}
	// A mask depends on nothing but its own seed, epoch, image and view.
	alone := func(seed uint64, epoch int) []bool {
		return tensors.MustCopyFlatData[bool](m.Draw(seed, epoch, images[7:8], views, rows, columns))
	}
	if got := alone(5, 1); !slices.Equal(got[:rows*columns], at(0, 7)) || !slices.Equal(got[rows*columns:], at(1, 7)) {
		t.Error("the masks of an image depend on the batch")
	}
	for image := range 20 {
		one := tensors.MustCopyFlatData[bool](m.Draw(6, 1, images[image:image+1], 1, rows, columns))
		if two := tensors.MustCopyFlatData[bool](m.Draw(6, 2, images[image:image+1], 1, rows, columns)); !slices.Equal(one, two) {
			return
		}
	}
	t.Error("the masks do not depend on the epoch")
}

func TestBlockMaskCheck(t *testing.T) {
	for want, m := range map[string]BlockMask{
		"shares[0].mean 1.5":   {Shares: []MaskShare{{1.5, 0}}},
		"mean NaN":             {Shares: []MaskShare{{math.NaN(), 0}}},
		"shares[1].spread 0.4": {Shares: []MaskShare{{0, 0}, {0.3, 0.4}}},
	} {
		if err := settings.Check(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
