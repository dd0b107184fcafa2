// Package studytest has what the tests of experiments share: runs of smoke profiles, the records that a run has left, and claims.
package studytest

import (
	"errors"
	"fmt"
	"image"
	"image/color/palette"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/study"
)

// Smoke runs what is left of an experiment in the smoke profile and returns all its records.
func Smoke(t testing.TB, experiment study.Experiment, b compute.Backend, options study.Options) []study.Record {
	t.Helper()
	defer try.F(t.Fatal)
	options.Profile = study.Smoke
	try.E(experiment.Run(t.Context(), b, options))
	return Records(t, options.Out, experiment.Name)
}

// Records reads an experiment's records.
func Records(t testing.TB, out, experiment string) []study.Record {
	t.Helper()
	defer try.F(t.Fatal)
	return try.E1(study.Records(study.Folder(out, experiment)))
}

// RecordsByCell reads an experiment's records, one a cell.
func RecordsByCell(t testing.TB, out, experiment string) map[string]study.Record {
	t.Helper()
	cells := map[string]study.Record{}
	for _, r := range Records(t, out, experiment) {
		if _, twice := cells[r.Cell]; twice {
			t.Errorf("%s is recorded twice", r.Cell)
		}
		cells[r.Cell] = r
	}
	return cells
}

// ValuesByCell are the values of an experiment's records, one a cell.
func ValuesByCell(t testing.TB, out, experiment string) map[string]float64 {
	t.Helper()
	return lo.MapValues(RecordsByCell(t, out, experiment), func(r study.Record, _ string) float64 { return r.Value })
}

// Claim returns the part of a claim; an unknown one is a panic.
func Claim(id, part string) figures.Claim {
	claims := figures.Claims()
	return claims[slices.IndexFunc(claims, func(c figures.Claim) bool { return c.ID == id && c.Part == part })]
}

// VOC writes drawn scenes in the layout of PASCAL VOC below a new folder, 24 images to train on and 12 to test on.
func VOC(t testing.TB) (dir string) {
	t.Helper()
	defer try.F(t.Fatal)
	dir = t.TempDir()
	root := filepath.Join(dir, "VOCdevkit", "VOC2012")
	for _, folder := range []string{"JPEGImages", "SegmentationClass", filepath.Join("ImageSets", "Segmentation")} {
		try.E(os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	for split, n := range map[string]int{"train": 24, "val": 12} {
		var names []string
		scenes := synthetic.Scenes(n, 48, uint64(n))
		for i := range n {
			names = append(names, fmt.Sprintf("%s_%d", split, i))
			mask := image.NewPaletted(image.Rect(0, 0, 48, 48), palette.Plan9)
			copy(mask.Pix, scenes.ClassMask[i*48*48:])
			picture := try.E1(os.Create(filepath.Join(root, "JPEGImages", names[i]+".jpg")))
			masks := try.E1(os.Create(filepath.Join(root, "SegmentationClass", names[i]+".png")))
			try.E(errors.Join(jpeg.Encode(picture, scenes.Image(i), nil), png.Encode(masks, mask), picture.Close(), masks.Close()))
		}
		list := filepath.Join(root, "ImageSets", "Segmentation", split+".txt")
		try.E(os.WriteFile(list, []byte(strings.Join(names, "\n")), 0o644))
	}
	return dir
}
