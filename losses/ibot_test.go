package losses_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/heads"
)

// viewTokens are the tokens of some views of some images, [views, images, tokens, width].
type viewTokens = [][][][]float64

// TestIBOTFollowsPyTorch trains a head and a small encoder for 20 steps; testdata/ibot.py writes the file.
func TestIBOTFollowsPyTorch(t *testing.T) {
	var golden struct {
		recipe
		Hidden, Bottleneck, Out int
		ClassTemperature        float64
		Tokens, Local           []viewTokens
		Masks                   [][][][]bool // [steps, views, images, patches]
		Runs                    []struct {
			Centred, NormLastLayer bool
			ClassLosses            []float64
			PatchLosses            []float64
			Centers, PatchCenters  matrix
			After                  map[int]weightsOf
			Teacher                weightsOf
		}
	}
	readGolden(t, "ibot.json", &golden)
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		for _, run := range golden.Runs {
			t.Run(fmt.Sprintf("centred %v", run.Centred), func(t *testing.T) {
				head := heads.DINOHead{HiddenDim: golden.Hidden, BottleneckDim: golden.Bottleneck, OutDim: golden.Out, NormLastLayer: run.NormLastLayer}
				store := model.NewStore()
				golden.Weights.set(t, store, "student")
				golden.Weights.set(t, store, "teacher")
				if run.NormLastLayer {
					store.GetVariable("/student/last_layer/weight_g").SetTrainable(false)
				}
				step := model.MustNewExec(b, store, func(scope *model.Scope, inputs []*graph.Node) []*graph.Node {
					tokens, local, masks, temperature, frozen := inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]
					g, student, teacher := tokens.Graph(), scope.At("student"), scope.At("teacher")
					class, patches := parts(head.Logits(student, mixed(student, masked(student, tokens, masks))))
					localClass, _ := parts(head.Logits(student, mixed(student, local)))
					teacherClass, teacherPatches := parts(head.Logits(teacher, mixed(teacher, tokens)))

					center, setCenter := state(scope, g, "center", golden.Out)
					patchCenter, setPatchCenter := state(scope, g, "patch_center", golden.Out)
					classTemperature := graph.Const(g, golden.ClassTemperature)
					targets, patchTargets := losses.DINOTargets(teacherClass, center, classTemperature), losses.DINOTargets(teacherPatches, patchCenter, temperature)
					if !run.Centred {
						sinkhorn := func(logits, temperature, mask *graph.Node) *graph.Node {
							scores := graph.Reshape(graph.Div(logits, temperature), -1, golden.Out)
							return graph.Reshape(losses.SinkhornKnopp(scores, mask, 3), logits.Shape().Dimensions...)
						}
						targets = sinkhorn(teacherClass, classTemperature, nil)
						patchTargets = sinkhorn(teacherPatches, temperature, graph.Reshape(masks, -1))
					}
					next, nextPatch := losses.DINOCenter(center, teacherClass, golden.CenterMomentum), losses.DINOCenter(patchCenter, teacherPatches, golden.CenterMomentum)
					setCenter(next)
					setPatchCenter(nextPatch)

					classLoss := losses.DINO(graph.Concatenate([]*graph.Node{class, localClass}, 0), targets, golden.Student)
					patchLoss := losses.IBOTPatches(patches, patchTargets, masks, golden.Student)
					golden.update(scope, graph.Add(classLoss, patchLoss), frozen)
					return []*graph.Node{classLoss, patchLoss, next, nextPatch}
				})
				defer step.Finalize()
				for i := range golden.Tokens {
					epoch := i / golden.Epoch
					out := step.MustCall(golden.Tokens[i], golden.Local[i], golden.Masks[i],
						losses.TeacherTemperature(epoch, golden.Warmup, golden.Start, golden.Final), epoch == 0)
					near(t, i, "the loss of [CLS]", []float64{out[0].Value().(float64)}, run.ClassLosses[i:i+1])
					near(t, i, "the loss of patches", []float64{out[1].Value().(float64)}, run.PatchLosses[i:i+1])
					near(t, i, "the centre", tensors.MustCopyFlatData[float64](out[2]), run.Centers[i])
					near(t, i, "the centre of patches", tensors.MustCopyFlatData[float64](out[3]), run.PatchCenters[i])
					run.After[i+1].check(t, store, "student", i)
				}
				run.Teacher.check(t, store, "teacher", len(golden.Tokens))
			})
		}
	})
}

// masked puts the learnt token of a branch in the place of masked patches. tokens are [views, images, 1 + patches, width], [CLS] first.
func masked(branch *model.Scope, tokens, masks *graph.Node) *graph.Node {
	class, patches := graph.SliceAxis(tokens, 2, graph.AxisRange(0, 1)), graph.SliceAxis(tokens, 2, graph.AxisRange(1))
	learnt := branch.Store().GetVariable(branch.Scope() + "/masked_embed").NodeValue(tokens)
	learnt = graph.BroadcastToShape(graph.Reshape(learnt, 1, 1, 1, -1), patches.Shape())
	hidden := graph.BroadcastToDims(graph.InsertAxes(masks, -1), patches.Shape().Dimensions...)
	return graph.Concatenate([]*graph.Node{class, graph.Where(hidden, learnt, patches)}, 2)
}

// mixed adds to each token a function of the mean of all tokens, in the place of an encoder.
func mixed(branch *model.Scope, tokens *graph.Node) *graph.Node {
	dims := tokens.Shape().Dimensions
	mean := graph.ReduceMean(tokens, 2)
	weight, bias := branch.Store().GetVariable(branch.Scope()+"/mix/weight"), branch.Store().GetVariable(branch.Scope()+"/mix/bias")
	y := graph.MatMul(graph.Reshape(mean, -1, dims[3]), weight.NodeValue(tokens))
	y = activation.Gelu(graph.Add(y, graph.InsertAxes(bias.NodeValue(tokens), 0)))
	return graph.Add(tokens, graph.Reshape(y, dims[0], dims[1], 1, dims[3]))
}

// parts splits logits, [views, images, 1 + patches, K], into the logits of [CLS] and of patches.
func parts(logits *graph.Node) (class, patches *graph.Node) {
	return graph.Squeeze(graph.SliceAxis(logits, 2, graph.AxisRange(0, 1)), 2), graph.SliceAxis(logits, 2, graph.AxisRange(1))
}

// TestIBOTPatches compares with the formula, patch by patch, and its gradient with finite differences.
func TestIBOTPatches(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const temperature = 0.3
	student := [][][][]float64{cube(rng, 3, 4, 5), cube(rng, 3, 4, 5)}
	targets := [][][][]float64{distributionCube(rng, 3, 4, 5), distributionCube(rng, 3, 4, 5)}
	masks := [][][]bool{{{true, false, true, true}, {false, false, false, false}, {true, true, true, true}}, {{false, true, false, false}, {true, false, false, true}, {false, false, false, false}}}
	want := 0.0
	for v := range student {
		for i := range student[v] {
			sum, count := 0.0, 0.0
			for n, hidden := range masks[v][i] {
				if hidden {
					sum += alignmentReference(student[v][i][n:n+1], targets[v][i][n:n+1], temperature)
					count++
				}
			}
			want += sum / math.Max(count, 1) / 6
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := graph.MustExecOnceN(b, func(student, targets, masks *graph.Node) []*graph.Node {
			loss := losses.IBOTPatches(student, targets, masks, temperature)
			return append([]*graph.Node{loss}, graph.Gradient(loss, targets)...)
		}, student, targets, masks)
		if got := out[0].Value().(float64); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("%.14g, reference %.14g", got, want)
		}
		for _, entry := range tensors.MustCopyFlatData[float64](out[1]) {
			if entry != 0 {
				t.Fatalf("the targets have gradient %g", entry)
			}
		}
		testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
			return losses.IBOTPatches(in[0], graph.Const(in[0].Graph(), targets), graph.Const(in[0].Graph(), masks), temperature)
		}, 1e-6, tensors.FromValue(student))
	})
}
