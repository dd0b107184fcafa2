package evaluation

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/semcon/semcon/internal/testbackend"
)

// wantNumbers compares the numbers of a measurement.
func wantNumbers(t *testing.T, what string, r Result, err error, want map[string]float64) {
	t.Helper()
	got := values(r)
	for name, value := range got {
		got[name] = math.Round(value*1e4) / 1e4
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, %v, want %v", what, got, err, want)
	}
}

// TestInContextSegmentsLayouts: each image takes the labels of its own patches. Borders of stripes lie between patches, where interpolated labels are equal.
func TestInContextSegmentsLayouts(t *testing.T) {
	train := darkAndLight(as("#..."), as("##..", "....", "....", "...."), as("....", "####"), as("#"))
	stripes := darkAndLight(as("#..."), as("#", "#", "#", "."), as("..##"), as("#", ".", ".", "."))
	wrong := darkAndLight(layout{[]string{"#..."}, []string{"##.."}})
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		e := colours(t, b)
		c := InContext{Size: 32, Neighbours: 3, Temperature: 0.02, Memory: []int{8, 1000}}
		r, err := c.Measure(t.Context(), e, Data{Train: train, Test: stripes})
		wantNumbers(t, "stripes", r, err, map[string]float64{"miou@8": 100, "accuracy@8": 100, "miou@1000": 100, "accuracy@1000": 100})
		if all, ok := r.Report.(inContextReport); !ok || len(all) != 2 || all[0].Memory != 8 || all[1].Memory != 64 {
			t.Errorf("memories of 8 and of all 64 patches are %v", r.Report)
		}
		// Half of the image is dark, and half of that is found. Light is the rest, of which 2 in 3 are right: the mean of 1/2 and 2/3.
		c.Memory = []int{1000}
		r, err = c.Measure(t.Context(), e, Data{Train: train, Test: wrong})
		wantNumbers(t, "a wrong annotation", r, err, map[string]float64{"miou": 58.3333, "accuracy": 75})
	})
}

// TestOverclusteringClustersLayouts: the two clusters are the two colours, each pixel is in the cluster of its own patch, and the names are right.
func TestOverclusteringClustersLayouts(t *testing.T) {
	layouts := []layout{as("#...", "#...", "##..", "...."), as("..##", "...#", "....", "#..."), as("....", "####", "####", "...#")}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		e, o := colours(t, b), Overclustering{Size: 32, Clusters: 2, Iterations: 10}
		for e.Seed = range 4 {
			r, err := o.Measure(t.Context(), e, Data{Test: darkAndLight(layouts...)})
			wantNumbers(t, fmt.Sprint("seed ", e.Seed), r, err, map[string]float64{"miou": 100, "miou_matched": 100})
		}
		// A quarter is of the dark cluster, and light in truth. Of the rest, one sixth is dark. The majority names both clusters light, the matching does not.
		r, err := o.Measure(t.Context(), e, Data{Test: darkAndLight(layout{[]string{"#..."}, []string{"..#....."}})})
		wantNumbers(t, "unlike names", r, err, map[string]float64{"miou": 43.75, "miou_matched": 31.25})
	})
}

// TestObjectsAreDiscovered: of three photographs with a light object at the edge, the box of the last is elsewhere.
func TestObjectsAreDiscovered(t *testing.T) {
	dir := t.TempDir()
	photograph := func(name string, width, height int, object image.Rectangle, xml string) {
		t.Helper()
		picture := image.NewRGBA(image.Rect(0, 0, width, height))
		for p := range width * height {
			at := image.Pt(p%width, p/width)
			picture.SetRGBA(at.X, at.Y, paints['#'])
			if at.In(object) {
				picture.SetRGBA(at.X, at.Y, paints['.'])
			}
		}
		var file bytes.Buffer
		if err := jpeg.Encode(&file, picture, &jpeg.Options{Quality: 100}); err != nil {
			t.Fatal(err)
		}
		// Boxes belong to the photograph as it is stored: its orientation, a quarter turn, does not count.
		turned := "\xff\xe1\x00\x22Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00\x00"
		writeFile(t, slices.Concat(file.Bytes()[:2], []byte(turned), file.Bytes()[2:]), dir, "VOC2012", "JPEGImages", name+".jpg")
		writeFile(t, []byte("<annotation>"+xml+"</annotation>"), dir, "VOC2012", "Annotations", name+".xml")
	}
	box := func(b [4]int) string {
		return fmt.Sprintf("<object><bndbox><xmin>%d</xmin><ymin>%d</ymin><xmax>%d</xmax><ymax>%d</ymax></bndbox></object>", b[0], b[1], b[2], b[3])
	}
	// Patches of 8 pixels cover 64×40 of 60×36 pixels. Boxes begin at 1.
	photograph("wide", 60, 36, image.Rect(40, 16, 60, 36), box([4]int{1, 1, 8, 8})+box([4]int{41, 17, 60, 36}))
	photograph("tall", 36, 60, image.Rect(16, 40, 36, 60), box([4]int{17, 41, 36, 60}))
	photograph("wrong", 60, 36, image.Rect(40, 16, 60, 36), box([4]int{1, 17, 20, 36}))
	writeFile(t, []byte("wide\ntall\nwrong\n"), dir, "VOC2012", "ImageSets", "Main", "trainval.txt")
	e := colours(t, testbackend.Go(t))
	if err := e.store.GetVariable("/norm/weight").SetValue(tensors.FromValue(make([]float32, 6))); err != nil { // Patch tokens are 0, and keys are as before.
		t.Fatal(err)
	}
	for name, evaluated := range map[string]Evaluation{"LOST": LOST{Expansion: 100}, "TokenCut": TokenCut{Threshold: 0.2}} {
		for images, want := range map[int]float64{0: 66.6667, 1: 100} {
			d, err := evaluated.Open(Source{Dir: dir, Images: images})
			if err != nil {
				t.Fatal(err)
			}
			r, err := evaluated.Measure(t.Context(), e, d)
			wantNumbers(t, name, r, err, map[string]float64{"corloc": want})
		}
	}
}

// TestLargePhotographsAreRefused: the similarities of all patches of a photograph have to fit in memory. The error names the file.
func TestLargePhotographsAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.png")
	writeFile(t, pngOf(t, painted(1100, 1000, "r")), file)
	_, err := objectIn(colours(t, testbackend.Go(t)), file, LOST{Expansion: 100}.find)
	if want := file + ": the similarities of 17250 patches: an array of 2.22 GiB, more than 2"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestKeypointsAreTransferred: nine cells of different colours, in photographs of two shapes. Points lie in the middles of cells. In the second pair, one of
// two points is not where its colour is.
func TestKeypointsAreTransferred(t *testing.T) {
	dir, rows := t.TempDir(), []string{"rgb", "ymc", "#.o"}
	writeFile(t, pngOf(t, painted(72, 36, rows...)), dir, "SPair-71k", "JPEGImages", "cat", "wide.png")
	writeFile(t, pngOf(t, painted(48, 96, rows...)), dir, "SPair-71k", "JPEGImages", "cat", "tall.png")
	pair := func(name, from, to string) {
		writeFile(t, fmt.Appendf(nil, `{"src_imname": "wide.png", "trg_imname": "tall.png", "category": "cat", "trg_bndbox": [0, 16, 40, 90], "src_kps": %s, "trg_kps": %s}`, from, to),
			dir, "SPair-71k", "PairAnnotation", "test", name+".json")
	}
	// Cells of 24×12 and of 16×32 pixels. A point may be off by 0.1·74 pixels.
	pair("a", "[[12, 6], [60, 6], [36, 18], [12, 30], [60, 30]]", "[[8, 16], [40, 16], [24, 48], [8, 80], [40, 87.3]]")
	pair("b", "[[60, 18], [36, 30]]", "[[40, 48], [24, 72.5]]")
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		k := Keypoints{Size: 24, Alpha: 0.1}
		d, err := k.Open(Source{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		e := colours(t, b)
		r, err := k.Measure(t.Context(), e, d)
		wantNumbers(t, "both pairs", r, err, map[string]float64{"per_image": 75, "per_point": 85.7143})
		d.Pairs = d.Pairs[:1]
		r, err = k.Measure(t.Context(), e, d)
		wantNumbers(t, "the first pair", r, err, map[string]float64{"per_image": 100, "per_point": 100})
	})
}
