package evaluation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/internal/testvalues"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
)

// pixelPatches replaces an encoder: a patch's features are its pixels, standardised.
func pixelPatches(patch int) func(*model.Scope, *Node) *Node {
	return func(_ *model.Scope, images *Node) *Node {
		rows, columns := images.Shape().Dim(1)/patch, images.Shape().Dim(2)/patch
		x := Reshape(encoder.Standardize(images), rows, patch, columns, patch, 3)
		return Reshape(TransposeAllAxes(x, 0, 2, 1, 3, 4), 1, rows, columns, patch*patch*3)
	}
}

func newTracker(t *testing.T, b compute.Backend, p evaluation.LabelPropagation, patch int) *evaluation.Tracker {
	t.Helper()
	tracker, err := p.NewTracker(b, model.NewStore(), patch, pixelPatches(patch))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tracker.Close)
	return tracker
}

// still is a video of equal frames with one mask.
func still(name string, frames int, size datasets.Size, frame, mask []uint8) datasets.Video {
	return datasets.Video{
		Name: name, Frames: frames, Size: size,
		Frame: func(int) ([]uint8, error) { return frame, nil }, Mask: func(int) ([]uint8, error) { return mask, nil },
	}
}

// TestTrackFollowsDINO compares with DINO's label propagation in PyTorch; testdata/propagation.py writes the file.
func TestTrackFollowsDINO(t *testing.T) {
	raw, err := os.ReadFile("testdata/propagation.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		evaluation.LabelPropagation
		Patch  int
		Videos []struct {
			Height, Width        int
			Frames, First, Found string
		}
	}
	if err := json.Unmarshal(raw, &golden); err != nil || len(golden.Videos) != 2 {
		t.Fatalf("%d videos, %v", len(golden.Videos), err)
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		tracker := newTracker(t, b, golden.LabelPropagation, golden.Patch)
		for _, v := range golden.Videos {
			frames := testvalues.Unpacked(t, v.Frames, v.Height*3*v.Width)
			first, want := testvalues.Unpacked(t, v.First, v.Height*v.Width)[0], testvalues.Unpacked(t, v.Found, v.Height*v.Width)
			found, err := tracker.Track(context.Background(), datasets.Video{
				Name: "recorded", Frames: len(frames), Size: datasets.Size{Height: v.Height, Width: v.Width},
				Frame: func(i int) ([]uint8, error) { return frames[i], nil }, Mask: func(int) ([]uint8, error) { return first, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				different := 0
				for p := range want[i] {
					if found[i][p] != want[i][p] {
						different++
					}
				}
				if different > len(want[i])/1000 { // float32 and float64 differ where two labels are nearly equal.
					t.Errorf("%d×%d, frame %d: %d of %d pixels differ", v.Width, v.Height, i, different, len(want[i]))
				}
			}
			last := want[len(want)-1]
			if !slices.Contains(last, 1) || !slices.Contains(last, 2) || slices.Equal(last, first) {
				t.Errorf("%d×%d: nothing to follow in the last frame", v.Width, v.Height)
			}
		}
	})
}

// TestTrackFollowsSyntheticObjects compares tracking by pixels with keeping the first mask.
func TestTrackFollowsSyntheticObjects(t *testing.T) {
	set := synthetic.Videos(3, 12, 64, 5)
	p := evaluation.DefaultLabelPropagation()
	p.ShortSide, p.PreviousFrames, p.Radius = 64, 3, 4
	tracker := newTracker(t, testbackend.Fastest(t), p, 4)
	var tracked, kept []metrics.JF
	for _, v := range set.All {
		found, err := tracker.Track(context.Background(), v)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := v.Objects()
		if err != nil {
			t.Fatal(err)
		}
		var truth, first [][]uint8
		for i := range v.Frames {
			mask, err := v.Mask(i)
			if err != nil {
				t.Fatal(err)
			}
			truth = append(truth, mask)
			first = append(first, truth[0])
		}
		for _, x := range []struct {
			into  *[]metrics.JF
			masks [][]uint8
		}{{&tracked, found}, {&kept, first}} {
			measured, err := metrics.EvaluateJF(truth, x.masks, v.Height, v.Width, objects)
			if err != nil {
				t.Fatal(err)
			}
			*x.into = append(*x.into, measured...)
		}
	}
	if a, b := metrics.MeanJF(tracked), metrics.MeanJF(kept); a.Mean() < b.Mean()+0.05 {
		t.Errorf("J&F %.3f, with the first mask kept %.3f", a.Mean(), b.Mean())
	}
}

func TestTrackDegenerateVideos(t *testing.T) {
	size := datasets.Size{Height: 64, Width: 64}
	black, all, corner := make([]uint8, 64*64*3), slices.Repeat([]uint8{1}, 64*64), make([]uint8, 64*64)
	corner[0] = 3 // This pixel is lost at the resolution of patches.
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		p := evaluation.DefaultLabelPropagation()
		p.ShortSide, p.K, p.Radius, p.PreviousFrames = 64, 9, 0, 1 // Fewer patches than K.
		tracker := newTracker(t, b, p, 16)
		for name, c := range map[string]struct{ mask, want []uint8 }{
			"an object everywhere": {all, all},
			"an object of a pixel": {corner, make([]uint8, 64*64)},
		} {
			found, err := tracker.Track(context.Background(), still(name, 4, size, black, c.mask))
			if err != nil || len(found) != 4 || !slices.Equal(found[3], c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestTrackBadInput(t *testing.T) {
	b := testbackend.Fastest(t)
	p := evaluation.DefaultLabelPropagation()
	for want, change := range map[string]func(p *evaluation.LabelPropagation){
		"short 0":        func(p *evaluation.LabelPropagation) { p.ShortSide = 0 },
		"k 0":            func(p *evaluation.LabelPropagation) { p.K = 0 },
		"previous -1":    func(p *evaluation.LabelPropagation) { p.PreviousFrames = -1 },
		"radius -1":      func(p *evaluation.LabelPropagation) { p.Radius = -1 },
		"temperature 0 ": func(p *evaluation.LabelPropagation) { p.Temperature = 0 },
		"patches of 16":  func(p *evaluation.LabelPropagation) { p.ShortSide = 100 },
		"short 100 ":     func(p *evaluation.LabelPropagation) { p.ShortSide = 100 },
	} {
		wrong := p
		change(&wrong)
		err := settings.Check(wrong)
		if err == nil {
			_, err = wrong.NewTracker(b, model.NewStore(), 16, pixelPatches(16))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	p.ShortSide = 64
	tracker := newTracker(t, b, p, 16)
	size, frame, mask := datasets.Size{Height: 64, Width: 64}, make([]uint8, 64*64*3), make([]uint8, 64*64)
	_, err := tracker.Track(context.Background(), still("dark", 3, size, frame, mask))
	if err == nil || !strings.Contains(err.Error(), "dark: no object") {
		t.Errorf("a first mask without an object: %v", err)
	}
	mask[0] = 1
	broken := datasets.Video{
		Name: "torn", Frames: 3, Size: size,
		Frame: func(int) ([]uint8, error) { return nil, errors.New("00001.jpg: is empty") }, Mask: func(int) ([]uint8, error) { return mask, nil },
	}
	if _, err := tracker.Track(context.Background(), broken); err == nil || !strings.Contains(err.Error(), "torn: 00001.jpg") {
		t.Errorf("a broken frame: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tracker.Track(ctx, still("long", 3, size, frame, mask)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
}

// TestTrackNormalises: the encoder sees frames with the mean and deviation of its own preprocessing, as files from elsewhere need.
func TestTrackNormalises(t *testing.T) {
	vit, store, err := evaluation.RandomViT("vit-tiny", 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := evaluation.NewEncoder(testbackend.Soonest(t), vit, store, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	p, video := evaluation.LabelPropagation{ShortSide: 64, PreviousFrames: 1, K: 3, Radius: 4, Temperature: 0.1}, synthetic.Videos(1, 4, 64, 1).All
	tracked := func() (all [][]uint8) {
		if err := p.TrackAll(t.Context(), e, video[:1], func(_ datasets.Video, masks [][]uint8) error { all = masks; return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	usual := tracked()
	e.Preprocessing.Mean = [3]float64{0.5, 0.5, 0.5}
	if fmt.Sprint(usual) == fmt.Sprint(tracked()) {
		t.Error("another mean gives the same masks")
	}
}

func ExampleLabelPropagation_NewTracker() {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	p := evaluation.DefaultLabelPropagation()
	p.ShortSide = 64
	tracker, err := p.NewTracker(b, model.NewStore(), 8, pixelPatches(8))
	if err != nil {
		panic(err)
	}
	defer tracker.Close()
	masks, err := tracker.Track(context.Background(), synthetic.Videos(1, 3, 64, 1).All[0])
	fmt.Println(len(masks), "masks of", len(masks[2]), "pixels,", err)
	// Output: 3 masks of 4096 pixels, <nil>
}
