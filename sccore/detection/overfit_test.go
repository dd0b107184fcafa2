package detection

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/optim"
)

// scene is an image of side×side grey pixels with a bright rectangle, class 0, on the left and a dark ellipse, class 1, on the right of a noisy ground.
type scene struct {
	pixels []float32
	boxes  [][]float32
	labels []int32
	masks  [][]bool
}

const side = 96

func drawScene(rng *rand.Rand) scene {
	s := scene{pixels: make([]float32, side*side)}
	for i := range s.pixels {
		s.pixels[i] = 0.2 * float32(rng.NormFloat64())
	}
	for label := range int32(2) {
		w, h := 24+rng.Float64()*22, 24+rng.Float64()*28
		x, y := float64(label)*side/2+rng.Float64()*(side/2-w), rng.Float64()*(side-h)
		mask := make([]bool, side*side)
		for i := range mask {
			dx := (float64(i%side) + 0.5 - x - w/2) / w * 2
			dy := (float64(i/side) + 0.5 - y - h/2) / h * 2
			mask[i] = max(math.Abs(dx), math.Abs(dy)) <= 1
			if label == 1 {
				mask[i] = dx*dx+dy*dy <= 1
			}
			if mask[i] {
				s.pixels[i] += 1 - 2*float32(label)
			}
		}
		s.boxes = append(s.boxes, []float32{float32(x), float32(y), float32(x + w), float32(y + h)})
		s.labels, s.masks = append(s.labels, label), append(s.masks, mask)
	}
	return s
}

func TestMain(m *testing.M) {
	testbackend.Trains = true
	m.Run()
}

// TestOverfitting trains a small detector on 8 images, with their pixels as features. It has to find 14 of the 16 objects, with class, box and mask, and
// at most one that is not there.
func TestOverfitting(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a detector")
	}
	if !testbackend.HasXLA() {
		t.Skip("takes minutes on the Go engine")
	}
	const batch, grid, steps = 8, side / PatchSize, 100
	b := testbackend.Fastest(t)
	rng := rand.New(rand.NewPCG(1, 2))
	c := Config{Classes: 2, Channels: 12, Convolutions: 0, Hidden: 48, AnchorSamples: 32, TrainProposals: 32, TestProposals: 16, BoxSamples: 16,
		Candidates: 32, Detections: 10}
	var scenes []scene
	var patches []float32
	var boxes [][][]float32
	var labels [][]int32
	var masks []uint8
	for range batch {
		s := drawScene(rng)
		scenes, boxes, labels = append(scenes, s), append(boxes, s.boxes), append(labels, s.labels)
		for i := range grid * grid * PatchSize * PatchSize {
			patch, pixel := i/(PatchSize*PatchSize), i%(PatchSize*PatchSize)
			y, x := patch/grid*PatchSize+pixel/PatchSize, patch%grid*PatchSize+pixel%PatchSize
			patches = append(patches, s.pixels[y*side+x])
		}
		for _, mask := range s.masks {
			for _, inside := range mask {
				pixel := uint8(0)
				if inside {
					pixel = 1
				}
				masks = append(masks, pixel)
			}
		}
	}
	features := tensors.FromFlatDataAndDimensions(patches, batch, grid, grid, PatchSize*PatchSize)
	canvas := func(g *Graph) (sizes, frames *Node) {
		sizes = BroadcastToDims(Const(g, [][]int32{{side, side}}), batch, 2)
		return sizes, BroadcastToDims(Const(g, [][][]float32{{{0, 0, side, side}}}), batch, 2, 4)
	}

	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(1); err != nil {
		t.Fatal(err)
	}
	train := model.MustNewExec(b, store, func(scope *model.Scope, features, boxes, labels, masks, uniform, rate *Node) *Node {
		sizes, frames := canvas(features.Graph())
		loss := c.Losses(scope, features, sizes, Objects{boxes, labels, masks, frames}, uniform).Total()
		var variables []*model.Variable
		var values []*Node
		for v := range scope.IterVariables() {
			if v.Trainable {
				variables, values = append(variables, v), append(values, v.NodeValue(features))
			}
		}
		gradients := Gradient(loss, values...)
		optim.DefaultAdamW().Update(scope.At("optimizer"), variables, gradients, rate, Scalar(rate.Graph(), dtypes.Float32, 0))
		return loss
	})
	defer train.Finalize()
	count := c.UniformNumbers(grid, grid, 2)
	pixels := tensors.FromFlatDataAndDimensions(masks, batch, 2, side, side)
	for i := range steps {
		rate := float32(optim.Cosine(i, steps, 5, 6e-3, 1e-5))
		loss := train.MustCall(features, boxes, labels, pixels, Uniform(1, uint64(i), batch, count), rate)[0]
		if i%40 == 0 || i == steps-1 {
			t.Logf("step %d: loss %.3f", i, loss.Value())
		}
	}

	detect := model.MustNewExec(b, store, func(scope *model.Scope, features *Node) []*Node {
		sizes, _ := canvas(features.Graph())
		d := c.Detect(scope, features, sizes)
		return []*Node{d.Boxes, d.Scores, d.Labels, d.Present, d.Masks}
	})
	defer detect.Finalize()
	out := detect.MustCall(features)
	found, scores := out[0].Value().([][][]float32), out[1].Value().([][]float32)
	classes, present, pasted := out[2].Value().([][]int32), out[3].Value().([][]bool), tensors.MustCopyFlatData[float32](out[4])
	right, wrong := 0, 0
	for i, s := range scenes {
		matched := make([]bool, len(s.labels))
		for j := range c.Detections {
			if !present[i][j] || scores[i][j] < 0.5 {
				continue
			}
			from := (i*c.Detections + j) * MaskSize * MaskSize
			mask := Paste(pasted[from:from+MaskSize*MaskSize], MaskSize, [4]float32(found[i][j]), side, side)
			both, either := 0, 0
			class := classes[i][j]
			for k, inside := range s.masks[class] {
				if inside && mask[k] {
					both++
				}
				if inside || mask[k] {
					either++
				}
			}
			overlap := float64(both) / float64(either)
			t.Logf("image %d: class %d, score %.2f, IoU of the mask %.2f", i, class, scores[i][j], overlap)
			if overlap < 0.75 || matched[class] {
				wrong++
			} else {
				right, matched[class] = right+1, true
			}
		}
	}
	if right < 14 || wrong > 1 {
		t.Errorf("%d of 16 objects found, %d detections of nothing", right, wrong)
	}
}
