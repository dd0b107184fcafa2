package evaluation

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func TestNearestCentroidTakesMeans(t *testing.T) {
	means := make([]centroid, 3) // Class 1 has no features.
	for _, feature := range [][]float32{{0, 0}, {2, 0}} {
		means[0].add(feature)
	}
	means[2].add([]float32{5, 0})
	for want, features := range map[uint8][][]float32{0: {{2.9, 0}, {3, 0}, {0, 9}}, 2: {{3.1, 0}, {6, 9}}} { // {3, 0} is a tie.
		for _, feature := range features {
			if got := nearestOf(means, feature); got != want {
				t.Errorf("%v is of class %d, want %d", feature, got, want)
			}
		}
	}
}

// TestNearestCentroidLooksAtMiddles: nothing but the middle of each patch is annotated, with the class that its colour tells.
func TestNearestCentroidLooksAtMiddles(t *testing.T) {
	frozen := frozenScenes(t, testbackend.Go(t), 4).Extractor
	colours := datasets.NewSegmentation("colours", []string{"black", "white"}, "colours", 1, func(int) (*datasets.SegmentedImage, error) {
		a := &datasets.SegmentedImage{Height: 16, Width: 16, Pixels: make([]uint8, 16*16*3), Mask: slices.Repeat([]uint8{datasets.Ignore}, 16*16)}
		for at := range a.Mask {
			row, column := at/16, at%16
			white := (row/8 + column/8) % 2 // A chessboard, which mirroring turns into the other one.
			for channel := range 3 {
				a.Pixels[3*at+channel] = uint8(255 * white)
			}
			if (row%8 == 3 || row%8 == 4) && (column%8 == 3 || column%8 == 4) {
				a.Mask[at] = uint8(white)
			}
		}
		return a, nil
	})
	r, err := NearestCentroid{Size: 16}.Measure(context.Background(), &Encoder{FeatureExtractor: frozen}, Data{Train: colours, Test: colours})
	if err != nil || len(r.Numbers) != 1 || r.Numbers[0].Value != 100 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestNearestCentroidMeasuresEncoders(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		frozen := frozenScenes(t, b, 8).Extractor
		train, test := synthetic.Scenes(24, 40, 5).Segmentation(), synthetic.Scenes(8, 40, 6).Segmentation()
		measure := func(n NearestCentroid) float64 {
			t.Helper()
			r, err := n.Measure(context.Background(), &Encoder{FeatureExtractor: frozen}, Data{Train: train, Test: test})
			if err != nil {
				t.Fatal(err)
			}
			return r.Numbers[0].Value
		}
		all, again, few := measure(NearestCentroid{Size: 40}), measure(NearestCentroid{Size: 40}), measure(NearestCentroid{Images: 4, Size: 40})
		if all < 20 || all > 100 || all != again || all == few { // Chance is 14 % with seven classes.
			t.Errorf("accuracy %g, once more %g, of few images %g", all, again, few)
		}
	})
}

func TestNearestCentroidRefuses(t *testing.T) {
	frozen := frozenScenes(t, testbackend.Go(t), 4).Extractor
	scenes := synthetic.Scenes(2, 16, 1).Segmentation()
	blank := datasets.NewSegmentation("blank", scenes.Classes, "blank", 1, func(int) (*datasets.SegmentedImage, error) {
		return &datasets.SegmentedImage{Height: 1, Width: 1, Pixels: make([]uint8, 3), Mask: []uint8{datasets.Ignore}}, nil
	})
	for _, c := range []struct {
		NearestCentroid
		train, test *datasets.Segmentation
		want        string
	}{
		{NearestCentroid{Images: -1, Size: 16}, scenes, scenes, "images -1"},
		{NearestCentroid{}, scenes, scenes, "size 0"},
		{NearestCentroid{Size: 20}, scenes, scenes, "20×20 pixels"},
		{NearestCentroid{Size: 16}, blank, scenes, "no pixel"},
		{NearestCentroid{Size: 16}, scenes, blank, "no pixel"},
	} {
		err := settings.Check(c.NearestCentroid)
		if err == nil {
			_, err = c.Measure(context.Background(), &Encoder{FeatureExtractor: frozen}, Data{Train: c.train, Test: c.test})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.NearestCentroid, err, c.want)
		}
	}
}
