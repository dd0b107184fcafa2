package detection

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

// tinyDetector is what testdata/detector.py computes in plain PyTorch.
type tinyDetector struct {
	Variables []struct {
		Name          string
		Dims          []int
		Scale, Offset float64
	}
	Losses          map[string]float64
	FeatureGradient []float64
	Gradients       map[string][2]float64 // Sum with the weights noise(7), and norm.
	Running         map[string][]float64
	Detections      []struct {
		Boxes  [][]float64
		Scores []float64
		Labels []int32
		Masks  [][3]float64 // Mean, one value, and sum with the weights noise(0).
	}
}

var (
	tiny = Config{Classes: 3, Channels: 5, Convolutions: 1, Hidden: 16, AnchorSamples: 32, TrainProposals: 24, TestProposals: 20, BoxSamples: 32,
		Candidates: 50, Detections: 10}
	tinySizes = [][]int32{{96, 128}, {90, 101}}
	tinyBoxes = [][][]float64{
		{{10.3, 8.1, 60.7, 40.2}, {50.9, 30.4, 120.3, 90.6}, {70.2, 4.8, 99.5, 37.3}},
		{{0.2, 30.7, 14.1, 61.9}, {31.7, 33.3, 97.1, 88.8}, {0, 0, 0, 0}},
	}
	tinyLabels = [][]int32{{0, 2, 1}, {2, 0, -1}}
)

// noise returns numbers in [-1, 1), as in testdata/detector.py.
func noise(k, count int) []float64 {
	values := make([]float64, count)
	for i := range values {
		values[i] = float64((31*i*i+7919*i+104729*k)%10007)/10007*2 - 1
	}
	return values
}

// tinyInputs returns the features, the masks, ellipses in the boxes on the whole canvas, and the uniform numbers.
func tinyInputs() (features, masks, uniform *tensors.Tensor) {
	const batch, rows, columns, dim, count = 2, 6, 8, 8, 3
	features = tensors.FromFlatDataAndDimensions(noise(1000, batch*rows*columns*dim), batch, rows, columns, dim)
	var pixels []uint8
	for _, boxes := range tinyBoxes {
		for _, box := range boxes {
			for y := range 96 {
				for x := range 128 {
					dx := (float64(x) + 0.5 - (box[0]+box[2])/2) / (box[2] - box[0]) * 2
					dy := (float64(y) + 0.5 - (box[1]+box[3])/2) / (box[3] - box[1]) * 2
					pixel := uint8(0)
					if dx*dx+dy*dy <= 1 {
						pixel = 1
					}
					pixels = append(pixels, pixel)
				}
			}
		}
	}
	masks = tensors.FromFlatDataAndDimensions(pixels, batch, count, 96, 128)
	numbers := tiny.UniformNumbers(rows, columns, count)
	values := make([]float64, batch*numbers)
	for i := range values {
		values[i] = float64(i*7919%10007) / 10007
	}
	return features, masks, tensors.FromFlatDataAndDimensions(values, batch, numbers)
}

// tinyStore returns a store with the weights of the golden file.
func tinyStore(t *testing.T, golden tinyDetector) *model.Store {
	store := model.NewStore()
	for k, v := range golden.Variables {
		count := 1
		for _, d := range v.Dims {
			count *= d
		}
		values := noise(k, count)
		for i := range values {
			values[i] = v.Offset + v.Scale*values[i]
		}
		if _, err := store.CreateVariable("/"+v.Name, tensors.FromFlatDataAndDimensions(values, v.Dims...)); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// tinyObjects returns the objects of the golden file, with masks of the whole canvas.
func tinyObjects(g *Graph, masks *Node) Objects {
	canvas := BroadcastToDims(Const(g, [][][]float64{{{0, 0, 128, 96}}}), 2, 3, 4)
	return Objects{Boxes: Const(g, tinyBoxes), Labels: Const(g, tinyLabels), Masks: masks, Frames: canvas}
}

func lossesByName(l Losses) (names []string, values []*Node) {
	names, values = []string{"anchorClass", "anchorBox"}, []*Node{l.AnchorClass, l.AnchorBox}
	for i, stage := range []string{"0", "1", "2"} {
		names = append(names, "class"+stage, "box"+stage, "mask"+stage)
		values = append(values, l.Class[i], l.Box[i], l.Mask[i])
	}
	return names, values
}

func TestLossesAgreeWithPyTorch(t *testing.T) {
	var golden tinyDetector
	readGolden(t, "detector.json", &golden)
	if len(golden.Losses) != 11 || len(golden.Variables) != 83 {
		t.Fatalf("%d losses, %d variables", len(golden.Losses), len(golden.Variables))
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		features, masks, uniform := tinyInputs()
		store := tinyStore(t, golden)
		checked := golden.Variables
		if b != testbackend.Go(t) {
			checked = checked[:10] // All of them take XLA seconds to compile.
		}
		var names []string
		exec := model.MustNewExec(b, store, func(scope *model.Scope, features, masks, uniform, boxes, labels *Node) []*Node {
			g := features.Graph()
			objects := tinyObjects(g, masks)
			objects.Boxes, objects.Labels = boxes, labels
			losses := tiny.Losses(scope, features, Const(g, tinySizes), objects, uniform)
			var out []*Node
			names, out = lossesByName(losses)
			variables := []*Node{features}
			for _, v := range checked {
				variables = append(variables, store.GetVariable("/"+v.Name).NodeValue(features))
			}
			return append(out, Gradient(losses.Total(), variables...)...)
		})
		defer exec.Finalize()
		out := exec.MustCall(features, masks, uniform, tinyBoxes, tinyLabels)
		for i, name := range names {
			agree(t, name, out[i], []float64{golden.Losses[name]}, 1e-9)
		}
		agree(t, "gradient of the features", out[len(names)], golden.FeatureGradient, 1e-7)
		for i, v := range checked {
			gradient := tensors.MustCopyFlatData[float64](out[len(names)+1+i])
			sum, square := 0.0, 0.0
			for j, weight := range noise(7, len(gradient)) {
				sum, square = sum+weight*gradient[j], square+gradient[j]*gradient[j]
			}
			want := golden.Gradients[v.Name]
			agree(t, "gradient of "+v.Name, []float64{sum, math.Sqrt(square)}, want[:], 1e-8)
		}
		for name, want := range golden.Running {
			agree(t, name, store.GetVariable("/"+name).MustValue(), want, 1e-9)
		}

		// What is in the place of padding does not matter.
		odd := [][][]float64{tinyBoxes[0], {tinyBoxes[1][0], tinyBoxes[1][1], {10, 10, 90, 70}}}
		for i, loss := range exec.MustCall(features, masks, uniform, odd, tinyLabels)[:len(names)] {
			agree(t, names[i]+" with other padding", loss, out[i], 0)
		}
		// Images without objects.
		for i, values := range exec.MustCall(features, masks, uniform, odd, [][]int32{{-1, -1, -1}, {-1, -1, -1}}) {
			for _, v := range flat(values) {
				if math.IsNaN(v) || math.IsInf(v, 0) || i < len(names) && (v != 0) != strings.Contains(strings.ToLower(names[i]), "class") {
					t.Fatalf("output %d without objects: %g", i, v)
				}
			}
		}
		store = tinyStore(t, golden)
		for name, want := range golden.Running {
			if _, err := store.CreateVariable("/"+name, tensors.FromValue(want)); err != nil {
				t.Fatal(err)
			}
		}

		detect := model.MustNewExec(b, store, func(scope *model.Scope, features *Node) []*Node {
			d := tiny.Detect(scope, features, Const(features.Graph(), tinySizes))
			return []*Node{d.Boxes, d.Scores, d.Labels, d.Present, d.Masks}
		})
		defer detect.Finalize()
		out = detect.MustCall(features)
		labels, present := tensors.MustCopyFlatData[int32](out[2]), tensors.MustCopyFlatData[bool](out[3])
		var boxes [][]float64
		var scores []float64
		var sums []float64
		at := 0
		for _, d := range golden.Detections {
			boxes, scores = append(boxes, d.Boxes...), append(scores, d.Scores...)
			for i, label := range d.Labels {
				if labels[at] != label || !present[at] {
					t.Errorf("detection %d has class %d, present %v, want %d", at, labels[at], present[at], label)
				}
				at++
				sums = append(sums, d.Masks[i][:]...)
			}
		}
		agree(t, "boxes", out[0], boxes, 1e-9)
		agree(t, "scores", out[1], scores, 1e-9)
		var got []float64
		weights := noise(0, MaskSize*MaskSize)
		values := tensors.MustCopyFlatData[float64](out[4])
		for ; len(values) > 0; values = values[len(weights):] {
			mean, weighted := 0.0, 0.0
			for i, weight := range weights {
				mean, weighted = mean+values[i]/float64(len(weights)), weighted+weight*values[i]
			}
			got = append(got, mean, values[3*MaskSize+20], weighted)
		}
		agree(t, "masks", got, sums, 1e-9)
	})
}
