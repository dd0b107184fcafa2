package evaluation

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/metrics"
)

// goldenDense is what testdata/dense.py computes.
type goldenDense struct {
	InContext      [][]float64 `json:"in_context"`
	Overclustering []struct {
		Labels    []int32  `json:"labels"`
		Majority  float64  `json:"majority"`
		Hungarian *float64 `json:"hungarian"`
	} `json:"overclustering"`
	LOST     []string `json:"lost"`
	TokenCut []string `json:"tokencut"`
	PCK      struct {
		Found    [][][2]float64 `json:"found"`
		PerImage float64        `json:"per_image"`
		PerPoint float64        `json:"per_point"`
	} `json:"pck"`
}

func readDense(t *testing.T) (g goldenDense) {
	t.Helper()
	text, err := os.ReadFile("testdata/dense.json")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// denseValues are the numbers of dense.py.
func denseValues(k, count int) []float32 {
	values := make([]float32, count)
	for i := range values {
		x := math.Sin(12.9898*float64(i)+78.233*float64(k)) * 43758.5453
		values[i] = float32(2*(x-math.Floor(x)) - 1)
	}
	return values
}

// TestMemoryHasPatchesOfAllImages: each of three images is of one class, so that a memory says how many patches it has of each.
func TestMemoryHasPatchesOfAllImages(t *testing.T) {
	vit, store, err := RandomViT("vit-8x1x2p4-grid4", 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(testbackend.Go(t), vit, store, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	images := datasets.NewSegmentation("plain", []string{"a", "b", "c"}, "plain", 3, func(i int) (*datasets.SegmentedImage, error) {
		a := &datasets.SegmentedImage{Height: 16, Width: 16, Pixels: make([]uint8, 3*16*16), Mask: slices.Repeat([]uint8{uint8(i)}, 16*16)}
		return a, nil
	})
	for size, want := range map[int][]float32{1: {1, 0, 0}, 3: {1, 1, 1}, 4: {1, 1, 2}, 5: {1, 2, 2}, 47: {15, 16, 16}, 100: {16, 16, 16}} {
		m, err := InContext{}.Remember(t.Context(), FrozenFeatures{Extractor: e.FeatureExtractor, Images: images, TestSize: 16}, size)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 3)
		for i, share := range m.Labels {
			got[i%3] += share
		}
		if !slices.Equal(got, want) {
			t.Errorf("a memory of %d: %v patches of the images, want %v", size, got, want)
		}
	}
}

func TestInContextIsTheReference(t *testing.T) {
	want := readDense(t).InContext
	m := &Memory{Dim: 8, Classes: 5, Features: denseValues(1, 200*8), Labels: denseValues(3, 200*5)}
	for row := range slices.Chunk(m.Labels, 5) {
		sum := float32(0)
		for i := range row {
			row[i] = float32(math.Abs(float64(row[i])))
			sum += row[i]
		}
		for i := range row {
			row[i] /= sum
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		bank, err := knn.NewBank(b, m.Features, m.Dim)
		if err != nil {
			t.Fatal(err)
		}
		defer bank.Close()
		got, err := InContext{Neighbours: 30, Temperature: 0.02}.Label(t.Context(), bank, m, denseValues(2, 40*8))
		if err != nil || len(got) != 200 {
			t.Fatalf("%d labels, %v", len(got), err)
		}
		for i, x := range got {
			// float32 cosines over a temperature of 0.02 carry errors of 10⁻⁷·50 into weights.
			if !(math.Abs(float64(x)-want[i/5][i%5]) <= 1e-5) {
				t.Errorf("query %d, class %d: %g, want %g", i/5, i%5, x, want[i/5][i%5])
			}
		}
	})
}

func TestOverclusteringIsTheReference(t *testing.T) {
	patches := denseValues(4, 300*6)
	unitLength(patches, 6)
	b := testbackend.Go(t)
	for i, want := range readDense(t).Overclustering {
		o := Overclustering{Clusters: []int{20, 5}[i], Iterations: 50}
		got, err := o.cluster(t.Context(), b, patches, 6, patches[:o.Clusters*6])
		if err != nil || !slices.Equal(got, want.Labels) {
			t.Fatalf("%d clusters: %v\n%v, want\n%v", o.Clusters, err, got, want.Labels)
		}
		counts := make([]int64, o.Clusters*5)
		for p, cluster := range got {
			counts[int(cluster)*5+p*7%11%5]++
		}
		r, err := nameClusters(counts, o.Clusters, 5)
		if err != nil || !(math.Abs(r.Majority.MIoU-want.Majority) <= 1e-6) || (r.Hungarian == nil) != (want.Hungarian == nil) {
			t.Fatalf("%d clusters: %+v, %v, want %+v", o.Clusters, r, err, want)
		}
		if r.Hungarian != nil && math.Abs(r.Hungarian.MIoU-*want.Hungarian) > 1e-6 {
			t.Errorf("matched one to one: %g, want %g", r.Hungarian.MIoU, *want.Hungarian)
		}
	}
}

// TestASinglePatchIsTheObject: an image as small as a patch has no graph to cut.
func TestASinglePatchIsTheObject(t *testing.T) {
	for name, find := range map[string]ObjectDiscovery{"LOST": LOST{Expansion: 20}.find, "TokenCut": TokenCut{Threshold: 0.2}.find} {
		if object, err := find([]float32{1, 2}, 1, 1, 2); err != nil || len(object) != 1 || !object[0] {
			t.Errorf("%s: %v, %v", name, object, err)
		}
	}
}

// TestFirstCentresAreFarApart: of points at three places, each place gives a centre. Of 1 and 3, which follow 0, 3 is drawn nine times of ten.
func TestFirstCentresAreFarApart(t *testing.T) {
	places := slices.Repeat([]float32{0, 0, 9, 0, 0, 9}, 4)
	for seed := range uint64(50) {
		if got := slices.Sorted(slices.Values(firstCentres(places, 2, 3, randomOf(seed)))); !slices.Equal(got, []float32{0, 0, 0, 0, 9, 9}) {
			t.Errorf("seed %d: the numbers of the centres are %v", seed, got)
		}
	}
	after := map[float32]int{}
	for seed := range uint64(3000) {
		if got := firstCentres([]float32{0, 1, 3}, 1, 2, randomOf(seed)); got[0] == 0 {
			after[got[1]]++
		}
	}
	if all := after[1] + after[3]; after[0] != 0 || all < 900 || math.Abs(float64(after[3])-0.9*float64(all)) > 40 { // ± 9.5
		t.Errorf("after 0 come %v", after)
	}
}

func TestObjectDiscoveryIsTheReference(t *testing.T) {
	golden := readDense(t)
	kinds := [2][8]float64{{1, -0.2, 0.1, 0.3, 0, 0, 0.2, -0.1}, {-0.4, 0.9, 0.3, 0, 0.5, 0.1, 0, 0.2}}
	const rows, columns = 9, 12
	for name, test := range map[string]struct {
		find ObjectDiscovery
		want []string
	}{"LOST": {LOST{Expansion: 20}.find, golden.LOST}, "TokenCut": {TokenCut{Threshold: 0.2}.find, golden.TokenCut}} {
		for i, want := range test.want {
			keys := denseValues(90+i, rows*columns*8)
			for p := range rows * columns {
				kind := 0
				if y, x := p/columns, p%columns; y >= 2 && y < 6 && x >= 3 && x < 8 {
					kind = 1
				}
				for d := range 8 {
					keys[p*8+d] = float32(kinds[kind][d] + 0.9*float64(keys[p*8+d]))
				}
			}
			object, err := test.find(keys, rows, columns, 8)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, of := range object {
				got += map[bool]string{true: "1", false: "0"}[of]
			}
			if got != want {
				t.Errorf("%s, scene %d:\n%s, want\n%s", name, i, got, want)
			}
		}
	}
}

func TestBoxes(t *testing.T) {
	object := make([]bool, 12)
	object[5], object[6], object[10] = true, true, true // Of 3 rows of 4: columns 1 to 2, rows 1 to 2.
	if got := BoxOf(object, 4, 16, 40, 60); got != (Box{16, 16, 48, 40}) {
		t.Errorf("box %v", got)
	}
	if got := BoxOf(make([]bool, 12), 4, 16, 40, 60); got != (Box{}) {
		t.Errorf("box of nothing %v", got)
	}
	for _, test := range []struct {
		a, b Box
		want float64
	}{{Box{0, 0, 4, 2}, Box{2, 0, 6, 2}, 1.0 / 3}, {Box{0, 0, 1, 1}, Box{2, 2, 3, 3}, 0}, {Box{}, Box{}, 0}, {Box{1, 1, 3, 3}, Box{1, 1, 3, 3}, 1}} {
		if got := test.a.IoU(test.b); !(math.Abs(got-test.want) <= 1e-12) {
			t.Errorf("%v and %v: %g, want %g", test.a, test.b, got, test.want)
		}
	}
	if !Localized(Box{0, 0, 2, 2}, [][4]float64{{9, 9, 10, 10}, {0, 0, 2, 1}}) || Localized(Box{0, 0, 2, 2}, [][4]float64{{0, 0, 2, 0.9}}) {
		t.Error("an IoU of a half counts, less does not")
	}
}

func TestKeypointsAreTheReference(t *testing.T) {
	golden, k := readDense(t).PCK, Keypoints{Alpha: 0.1}
	var pck PCK
	for pair := range 6 {
		source := FeatureMap{Features: denseValues(20+pair, 9*12*6), Rows: 9, Columns: 12, Dim: 6, Height: 150, Width: 200}
		target := FeatureMap{Features: denseValues(40+pair, 9*12*6), Rows: 9, Columns: 12, Dim: 6, Height: 188, Width: 300}
		for y := 2; y < 7; y++ {
			copy(target.Features[(y*12+3)*6:(y*12+10)*6], source.Features[((y-1)*12+2)*6:((y-1)*12+9)*6])
		}
		xs, ys, noise := denseValues(60+pair, 7), denseValues(70+pair, 7), denseValues(80+pair, 14)
		var points, truth []Point
		for i := range 7 {
			p := Point{5 + 190*math.Abs(float64(xs[i])), 4 + 140*math.Abs(float64(ys[i]))}
			points = append(points, p)
			truth = append(truth, Point{1.5*p[0] + 25 + 9*float64(noise[2*i]), 1.25*p[1] + 20 + 9*float64(noise[2*i+1])})
		}
		found := k.Transfer(source, target, points)
		for i, p := range found {
			if want := golden.Found[pair][i]; !(math.Abs(p[0]-want[0]) <= 1e-6) || !(math.Abs(p[1]-want[1]) <= 1e-6) {
				t.Errorf("pair %d, point %d: %v, want %v", pair, i, p, want)
			}
		}
		if err := k.Add(&pck, found, truth, Box{30, 20, 200 + 10*float64(pair), 150}); err != nil {
			t.Fatal(err)
		}
	}
	if !(math.Abs(pck.PerImage-golden.PerImage) <= 1e-6) || !(math.Abs(pck.PerPoint-golden.PerPoint) <= 1e-6) || pck.Points != 42 || pck.Pairs != 6 {
		t.Errorf("%+v, want %g and %g", pck, golden.PerImage, golden.PerPoint)
	}
	// Two pairs of unlike numbers of points: 1 of 1 and 0 of 3.
	var two PCK
	here, far := []Point{{0, 0}}, []Point{{50, 50}, {60, 60}, {70, 70}}
	if err := k.Add(&two, here, here, Box{0, 0, 10, 10}); err != nil {
		t.Fatal(err)
	}
	if err := k.Add(&two, []Point{{}, {}, {}}, far, Box{0, 0, 10, 10}); err != nil || two.PerImage != 50 || two.PerPoint != 25 {
		t.Errorf("%+v, %v", two, err)
	}
}

func TestRareClassesAreRememberedFirst(t *testing.T) {
	// 90 patches of class 0, 10 of class 1 and one of both; the last has no annotation.
	shares := make([]float32, 102*2)
	for p := range 101 {
		shares[p*2+min(p/90, 1)] = 1
	}
	shares[0], shares[1] = 0.5, 0.5
	counts := [2]int{}
	for seed := range uint64(200) {
		for _, p := range rareFirst(shares, 2, 10, randomOf(seed)) {
			if p == 101 {
				t.Fatal("a patch without annotation is remembered")
			}
			counts[min(p/90, 1)]++
		}
	}
	if counts[0]+counts[1] != 2000 || counts[1] < 900 || counts[0] < 300 {
		t.Errorf("patches of the frequent and of the rare class: %v", counts)
	}
	if got := rareFirst(shares, 2, 1000, randomOf(1)); len(got) != 101 {
		t.Errorf("%d patches of all", len(got))
	}
}

// TestClustersAreMatchedByIoU: the matching with the most pixels right has a lower mIoU where one class is most of the image.
func TestClustersAreMatchedByIoU(t *testing.T) {
	got, err := nameClusters([]int64{61, 20, 40, 0}, 2, 2)
	if want := 50 * (40./101 + 20./81); err != nil || !(math.Abs(got.Hungarian.MIoU-want) < 1e-9) {
		t.Errorf("%+v, %v; want %g", got.Hungarian, err, want)
	}
}

func TestAssignIsTheBest(t *testing.T) {
	for seed := range uint64(50) {
		rng := randomOf(seed)
		const n = 6
		values := make([]float64, n*n)
		for i := range values {
			values[i] = float64(rng.IntN(30))
		}
		best := -1.0
		var try func(row, used int, sum float64)
		try = func(row, used int, sum float64) {
			if row == n {
				best = max(best, sum)
				return
			}
			for c := range n {
				if used>>c&1 == 0 {
					try(row+1, used|1<<c, sum+values[row*n+c])
				}
			}
		}
		try(0, 0, 0)
		got, seen := 0.0, map[int]bool{}
		for row, column := range metrics.Assign(values, n) {
			got += values[row*n+column]
			seen[column] = true
		}
		if got != best || len(seen) != n {
			t.Errorf("seed %d: %g, best is %g", seed, got, best)
		}
	}
}

func randomOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
