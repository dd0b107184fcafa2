package synthetic

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
)

func TestImagesIsDeterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one := Images(40, 32, 7)
	runtime.GOMAXPROCS(8)
	eight := Images(40, 32, 7)
	if one.Identity != eight.Identity || !bytes.Equal(one.Pixels, eight.Pixels) {
		t.Errorf("one worker draws %s, eight draw %s", one.Identity, eight.Identity)
	}
	if shorter := Images(11, 32, 7); !bytes.Equal(shorter.Pixels, one.Pixels[:len(shorter.Pixels)]) {
		t.Error("the first images depend on how many are drawn")
	}
	if other := Images(40, 32, 8); bytes.Equal(other.At(0), one.At(0)) {
		t.Error("two seeds draw the same image")
	}
}

func TestImagesIsBalancedAndNamed(t *testing.T) {
	im := Images(80, 16, 1)
	counts := make([]int, len(im.Classes))
	for _, label := range im.Labels {
		counts[label]++
	}
	if slices.Min(counts) != 10 || slices.Max(counts) != 10 {
		t.Errorf("images of each class: %v", counts)
	}
	if im.Name != "synthetic" || im.Height != 16 || im.Width != 16 || len(im.Pixels) != 80*16*16*3 {
		t.Errorf("%q: %d×%d, %d bytes", im.Name, im.Width, im.Height, len(im.Pixels))
	}
}

// Neither hues nor textures alone determine a class: each pair of hues and each pair of textures belongs to exactly two classes.
func TestClassesShareTheirParts(t *testing.T) {
	hues, textures, both := map[[2]float64]int{}, map[[2]texture]int{}, map[objectClass]int{}
	for _, class := range single.classes {
		hues[[2]float64{class.core.hue, class.rim.hue}]++
		textures[[2]texture{class.core.texture, class.rim.texture}]++
		both[class]++
	}
	for pair, count := range hues {
		if count != 2 {
			t.Errorf("hues %v are in %d classes", pair, count)
		}
	}
	for pair, count := range textures {
		if count != 2 {
			t.Errorf("textures %v are in %d classes", pair, count)
		}
	}
	if len(both) != 8 {
		t.Errorf("%d different classes", len(both))
	}
}

// Every texture but plain is half light, so that the amounts of its two shades do not reveal it.
func TestTexturesAreHalfLight(t *testing.T) {
	const n, copies = 200, 40
	rng := rand.New(rand.NewPCG(1, 0))
	for kind := plain; kind < numTextures; kind++ {
		light := 0
		for range copies {
			p := newPattern(part{texture: kind}, 1, rng)
			p.light, p.dark = rgb{1}, rgb{0}
			for at := range n * n {
				light += int(p.at(0.3*float64(at%n), 0.3*float64(at/n))[0])
			}
		}
		share, want := float64(light)/(n*n*copies), 0.5
		if kind == plain {
			want = 1
		}
		if !(math.Abs(share-want) <= 0.02) {
			t.Errorf("%s: %.3f of the plane is light, want %.1f", kind, share, want)
		}
	}
}

func TestHSV(t *testing.T) {
	for _, test := range []struct {
		hue, saturation, value float64
		want                   rgb
	}{
		{0, 1, 1, rgb{1, 0, 0}}, {1.0 / 6, 1, 1, rgb{1, 1, 0}}, {2.0 / 6, 1, 0.5, rgb{0, 0.5, 0}}, {0.5, 1, 1, rgb{0, 1, 1}},
		{4.0 / 6, 0.5, 1, rgb{0.5, 0.5, 1}}, {5.0 / 6, 1, 1, rgb{1, 0, 1}}, {0.3, 0, 0.7, rgb{0.7, 0.7, 0.7}}, {-1.0 / 3, 1, 1, rgb{0, 0, 1}},
	} {
		got := fromHSV(test.hue, test.saturation, test.value)
		for k := range got {
			if !(math.Abs(got[k]-test.want[k]) <= 1e-9) {
				t.Errorf("hue %.3f, saturation %.1f, value %.1f: %v, want %v", test.hue, test.saturation, test.value, got, test.want)
				break
			}
		}
	}
}

func BenchmarkImages(b *testing.B) {
	for b.Loop() {
		Images(100, 32, 1)
	}
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "images/s")
}
