package rle_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/semcon/semcon/internal/testvalues"
	"github.com/semcon/semcon/sccore/rle"
)

// TestGolden compares with pycocotools. testdata/rle.py draws the same inputs and prints the same lines.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/rle.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases  int
		SHA256 string
		Shown  [][]string
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	if golden.Cases < 1000 || len(golden.Shown) < 10 {
		t.Fatalf("%d cases, %d of them shown", golden.Cases, len(golden.Shown))
	}
	digest := sha256.New()
	for seed := range golden.Cases {
		lines := goldenCase(t, seed)
		io.WriteString(digest, strings.Join(lines, "\n")+"\n")
		for i := range lines {
			if seed < len(golden.Shown) && lines[i] != golden.Shown[seed][i] {
				t.Errorf("case %d (%s), line %d: %s, pycocotools has %s", seed, lines[0], i, lines[i], golden.Shown[seed][i])
			}
		}
	}
	if got := hex.EncodeToString(digest.Sum(nil)); got != golden.SHA256 {
		t.Errorf("the digest of %d cases is %s, pycocotools has %s", golden.Cases, got, golden.SHA256)
	}
}

func drawPolygon(r *testvalues.Integers, height, width int) (polygon []float64) {
	unit := []int{1, 10, 20, 50, 100}[r.Below(5)]
	for range 3 + r.Below(8) {
		x := float64(r.Below(2*width*100/unit+1)*unit-width*50) / 100
		y := float64(r.Below(2*height*100/unit+1)*unit-height*50) / 100
		for range 1 + r.Below(8)/7 {
			polygon = append(polygon, x, y)
		}
	}
	return polygon
}

func goldenCase(t *testing.T, seed int) []string {
	t.Helper()
	r := testvalues.Integers(seed)
	height, width := 1+r.Below(60), 1+r.Below(60)
	var masks []rle.Mask
	keep := func(m rle.Mask, err error) {
		if err != nil {
			t.Fatalf("case %d: %v", seed, err)
		}
		masks = append(masks, m)
	}
	var polygons [][]float64
	for range 1 + r.Below(3) {
		polygons = append(polygons, drawPolygon(&r, height, width))
	}
	keep(rle.FromPolygons(height, width, polygons))
	x, y := float64(r.Below(width*10))/10, float64(r.Below(height*10))/10
	w, h := float64(r.Below(width*10))/10, float64(r.Below(height*10))/10
	keep(rle.FromBox(height, width, [4]float64{x, y, w, h}))
	share := r.Below(5)
	pixels := make([]bool, height*width)
	for p := range pixels {
		pixels[p] = r.Below(4) < share
	}
	keep(rle.Encode(height, width, pixels))

	lines := []string{fmt.Sprintf("%d %d %d", seed, height, width)}
	for _, m := range masks {
		back, err := rle.Parse(height, width, m.String())
		if again, errAgain := rle.Encode(height, width, m.Pixels()); err != nil || errAgain != nil || back.String() != m.String() || again.String() != m.String() {
			t.Fatalf("case %d: %s comes back as %s (%v) and %s (%v)", seed, m, back, err, again, errAgain)
		}
		box := m.Box()
		lines = append(lines, fmt.Sprintf("%s %d %.0f %.0f %.0f %.0f", m, m.Area(), box[0], box[1], box[2], box[3]))
	}
	for _, merge := range []func(...rle.Mask) (rle.Mask, error){rle.Union, rle.Intersection} {
		merged, err := merge(masks...)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, merged.String())
	}
	for _, crowd := range []bool{false, true} {
		for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
			iou, err := rle.IoU(masks[pair[0]], masks[pair[1]], crowd)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%.13f", iou))
		}
	}
	return lines
}
