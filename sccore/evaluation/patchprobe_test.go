package evaluation_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/settings"
	"gonum.org/v1/gonum/stat"
)

// annotated makes n images of 3×4 patches of 2×2 pixels. Every patch has a class, and its feature is noise plus a component for that class. About a
// tenth of the pixels have another class, and a tenth are ignored.
func annotated(n, dim, classes int, noise float64, seed uint64) evaluation.AnnotatedPatches {
	rng := rand.New(rand.NewPCG(seed, 3))
	set := evaluation.AnnotatedPatches{Rows: 3, Columns: 4, Dim: dim, Height: 6, Width: 8, Truth: make([]uint8, n*6*8)}
	for i := range n * 3 * 4 {
		class := rng.IntN(classes)
		for d := range dim {
			x := noise * rng.NormFloat64()
			if d == class {
				x++
			}
			set.Patches = append(set.Patches, float32(x))
		}
		corner := i/12*48 + i/4%3*16 + i%4*2
		for _, pixel := range []int{corner, corner + 1, corner + 8, corner + 9} {
			set.Truth[pixel] = uint8(class)
			switch rng.IntN(10) {
			case 0:
				set.Truth[pixel] = uint8(rng.IntN(classes))
			case 1:
				set.Truth[pixel] = datasets.Ignore
			}
		}
	}
	return set
}

// standardized shifts and scales each feature so that it has mean 0 and variance 1 over a set.
func standardized(features, over []float32, dim int) []float32 {
	out := make([]float32, len(features))
	for d := range dim {
		var values []float64
		for i := d; i < len(over); i += dim {
			values = append(values, float64(over[i]))
		}
		mean, deviation := stat.PopMeanStdDev(values, nil)
		for i := d; i < len(out); i += dim {
			out[i] = float32((float64(features[i]) - mean) / deviation)
		}
	}
	return out
}

// probeReference is the probe in float64, pixel by pixel.
func probeReference(p evaluation.PatchProbe, train, test evaluation.AnnotatedPatches, classes int, seed uint64) metrics.Segmentation {
	dim := train.Dim
	train.Patches, test.Patches = standardized(train.Patches, train.Patches, dim), standardized(test.Patches, train.Patches, dim)
	size := (dim + 1) * classes // The weights, [dim, classes], and the biases.
	weights, mean, square := make([]float64, size), make([]float64, size), make([]float64, size)
	logits := func(patch []float32) []float64 {
		out := append([]float64(nil), weights[dim*classes:]...)
		for d, x := range patch {
			for c := range out {
				out[c] += float64(x) * weights[d*classes+c]
			}
		}
		return out
	}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[16:], "patch probe")
	random := rand.New(rand.NewChaCha8(key))
	high, wide := train.Height/train.Rows, train.Width/train.Columns
	for step := range p.Steps {
		gradient, pixels := make([]float64, size), 0.0
		for range p.Batch {
			patch := random.IntN(len(train.Patches) / dim)
			features := train.Patches[patch*dim : (patch+1)*dim]
			probabilities, sum := logits(features), 0.0
			for c, x := range probabilities {
				probabilities[c] = math.Exp(x)
				sum += probabilities[c]
			}
			image, row, column := patch/(train.Rows*train.Columns), patch/train.Columns%train.Rows, patch%train.Columns
			for y := range high {
				for x := range wide {
					truth := train.Truth[(image*train.Height+row*high+y)*train.Width+column*wide+x]
					if truth == datasets.Ignore {
						continue
					}
					pixels++
					for c := range classes {
						g := probabilities[c] / sum
						if c == int(truth) {
							g--
						}
						for d, x := range features {
							gradient[d*classes+c] += g * float64(x)
						}
						gradient[dim*classes+c] += g
					}
				}
			}
		}
		rate := p.LearningRate * (1 + math.Cos(math.Pi*float64(step)/float64(p.Steps))) / 2
		for i := range weights {
			g := gradient[i] / pixels
			mean[i] = 0.9*mean[i] + 0.1*g
			square[i] = 0.999*square[i] + 0.001*g*g
			m, v := mean[i]/(1-math.Pow(0.9, float64(step+1))), square[i]/(1-math.Pow(0.999, float64(step+1)))
			weights[i] -= rate * m / (math.Sqrt(v) + 1e-8)
		}
	}
	confusion := metrics.NewConfusion(classes)
	sample := func(at float64, n int) (low, high int, share float64) {
		at = min(max(at, 0), float64(n-1))
		low = int(at)
		return low, min(low+1, n-1), at - float64(low)
	}
	for i := range test.Truth {
		image, y, x := i/(test.Height*test.Width), i/test.Width%test.Height, i%test.Width
		top, bottom, down := sample((float64(y)+0.5)*float64(test.Rows)/float64(test.Height)-0.5, test.Rows)
		left, right, along := sample((float64(x)+0.5)*float64(test.Columns)/float64(test.Width)-0.5, test.Columns)
		sum := make([]float64, classes)
		for _, corner := range []struct {
			row, column int
			share       float64
		}{{top, left, (1 - down) * (1 - along)}, {top, right, (1 - down) * along}, {bottom, left, down * (1 - along)}, {bottom, right, down * along}} {
			patch := (image*test.Rows+corner.row)*test.Columns + corner.column
			for c, value := range logits(test.Patches[patch*dim : (patch+1)*dim]) {
				sum[c] += corner.share * value
			}
		}
		best := 0
		for c := range sum {
			if sum[c] > sum[best] {
				best = c
			}
		}
		if err := confusion.Add(test.Truth[i:i+1], []uint8{uint8(best)}); err != nil {
			panic(err)
		}
	}
	return confusion.Segmentation()
}

func TestPatchProbeEqualsReference(t *testing.T) {
	const classes = 4
	train, test := annotated(20, 6, classes, 0.5, 1), annotated(19, 6, classes, 0.5, 2) // 19 is not a multiple of the block.
	probe := evaluation.PatchProbe{Steps: 60, Batch: 32, LearningRate: 0.05}
	want := probeReference(probe, train, test, classes, 7)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		got, err := probe.Evaluate(b, train, test, classes, 7)
		if err != nil {
			t.Fatal(err)
		}
		// Rounding may change one of the 912 pixels.
		if !(math.Abs(got.MIoU-want.MIoU) <= 0.3) || !(math.Abs(got.Accuracy-want.Accuracy) <= 0.15) {
			t.Errorf("mIoU %.3f, accuracy %.3f, reference %.3f, %.3f", got.MIoU, got.Accuracy, want.MIoU, want.Accuracy)
		}
		again, err := probe.Evaluate(b, train, test, classes, 7)
		if err != nil || again.MIoU != got.MIoU || again.Accuracy != got.Accuracy {
			t.Errorf("the same seed gives %v, then %v, %v", got, again, err)
		}
	})
}

// TestPatchProbeLearns: with features that show the class, the probe gets most pixels right; with others, hardly more than chance, 1/4.
func TestPatchProbeLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("it trains")
	}
	const classes, chance = 4, 25.0
	probe := evaluation.PatchProbe{Steps: 100, Batch: 64, LearningRate: 0.05}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		accuracy := func(noise float64) float64 {
			result, err := probe.Evaluate(b, annotated(40, 6, classes, noise, 1), annotated(40, 6, classes, noise, 2), classes, 0)
			if err != nil {
				t.Fatal(err)
			}
			return result.Accuracy
		}
		if got := accuracy(0.1); got < 2.4*chance {
			t.Errorf("accuracy %.1f %% with features that show the class, chance is %g %%", got, chance)
		}
		if got := accuracy(100); got > 1.3*chance {
			t.Errorf("accuracy %.1f %% with noise, chance is %g %%", got, chance)
		}
	})
}

func allIgnored(a *evaluation.AnnotatedPatches) {
	a.Truth = slices.Repeat([]uint8{datasets.Ignore}, len(a.Truth))
}

func TestPatchProbeRefuses(t *testing.T) {
	b := testbackend.Fastest(t)
	good := annotated(2, 6, 4, 1, 1)
	probe := evaluation.DefaultPatchProbe()
	change := func(f func(*evaluation.AnnotatedPatches)) evaluation.AnnotatedPatches {
		set := good
		f(&set)
		return set
	}
	for want, probe := range map[string]evaluation.PatchProbe{"steps 0": {Batch: 1, LearningRate: 1}, "rate NaN": {Steps: 1, Batch: 1, LearningRate: math.NaN()}} {
		if err := settings.Check(probe); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %q", err, want)
		}
	}
	for _, test := range []struct {
		train, test evaluation.AnnotatedPatches
		part        string
	}{
		{change(allIgnored), good, "training set: segmentation: no pixel of the images is annotated"},
		{good, change(allIgnored), "test set: segmentation: no pixel of the images is annotated"},
		{good, evaluation.AnnotatedPatches{}, "test set: segmentation: no pixel of the images is annotated"},
	} {
		if _, err := probe.Evaluate(b, test.train, test.test, 4, 0); err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%v does not contain %q", err, test.part)
		}
	}
}

func ExamplePatchProbe() {
	// Two images of two patches, each two pixels wide, with one feature that tells class 0 from class 1.
	set := evaluation.AnnotatedPatches{
		Rows: 1, Columns: 2, Dim: 1, Patches: []float32{-1, 1, 1, -1},
		Height: 1, Width: 4, Truth: []uint8{0, 0, 1, 1, 1, 1, 0, datasets.Ignore},
	}
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	result, err := evaluation.PatchProbe{Steps: 50, Batch: 8, LearningRate: 0.1}.Evaluate(b, set, set, 2, 0)
	if err != nil {
		panic(err)
	}
	fmt.Printf("mIoU %.0f %%, accuracy %.0f %%\n", result.MIoU, result.Accuracy)
	// Output: mIoU 100 %, accuracy 100 %
}
