package losses_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/heads"
)

// TestDINOFollowsPyTorch trains the head for 20 steps; testdata/dino.py writes the file.
func TestDINOFollowsPyTorch(t *testing.T) {
	var golden struct {
		recipe
		Hidden, Bottleneck, Out int
		Views                   [][][][]float64 // [steps, views, images, width]
		Runs                    []struct {
			Centred, NormLastLayer bool
			Losses                 []float64
			Centers                matrix
			After                  map[int]weightsOf
			Teacher                weightsOf
		}
	}
	readGolden(t, "dino.json", &golden)
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
				step := model.MustNewExec(b, store, func(scope *model.Scope, views, temperature, frozen *graph.Node) (loss, center *graph.Node) {
					student := head.Logits(scope.At("student"), views)
					teacher := head.Logits(scope.At("teacher"), graph.Slice(views, graph.AxisRange(0, golden.Globals)))
					center, setCenter := state(scope, views.Graph(), "center", golden.Out)
					targets := losses.DINOTargets(teacher, center, temperature)
					if !run.Centred {
						scores := graph.Reshape(graph.Div(teacher, temperature), -1, golden.Out)
						targets = graph.Reshape(losses.SinkhornKnopp(scores, nil, 3), teacher.Shape().Dimensions...)
					}
					next := losses.DINOCenter(center, teacher, golden.CenterMomentum)
					setCenter(next)
					loss = losses.DINO(student, targets, golden.Student)
					golden.update(scope, loss, frozen)
					return loss, next
				})
				defer step.Finalize()
				for i, views := range golden.Views {
					epoch := i / golden.Epoch
					out := step.MustCall(views, losses.TeacherTemperature(epoch, golden.Warmup, golden.Start, golden.Final), epoch == 0)
					near(t, i, "the loss", []float64{out[0].Value().(float64)}, run.Losses[i:i+1])
					near(t, i, "the centre", tensors.MustCopyFlatData[float64](out[1]), run.Centers[i])
					run.After[i+1].check(t, store, "student", i)
				}
				run.Teacher.check(t, store, "teacher", len(golden.Views))
			})
		}
	})
}

func TestTeacherTemperature(t *testing.T) {
	for _, c := range []struct {
		epoch, warmup int
		want          float64
	}{{-3, 4, 0.04}, {0, 4, 0.04}, {1, 4, 0.05}, {3, 4, 0.07}, {4, 4, 0.07}, {0, 0, 0.07}, {0, 1, 0.04}, {1, 1, 0.07}} {
		if got := losses.TeacherTemperature(c.epoch, c.warmup, 0.04, 0.07); !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("epoch %d of a warm-up of %d: %g, want %g", c.epoch, c.warmup, got, c.want)
		}
	}
}

func cube(rng *rand.Rand, n, rows, columns int) [][][]float64 {
	all := make([][][]float64, n)
	for i := range all {
		all[i] = randomMatrix(rng, rows, columns)
	}
	return all
}

func distributionCube(rng *rand.Rand, n, rows, columns int) [][][]float64 {
	all := make([][][]float64, n)
	for i := range all {
		all[i] = distributions(rng, rows, columns)
	}
	return all
}

// TestDINO compares one loss with the formula, one pair at a time, and its gradient with finite differences.
func TestDINO(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	student, targets := cube(rng, 4, 3, 5), distributionCube(rng, 2, 3, 5)
	want := 0.0
	for i := range targets {
		for v := range student {
			if v != i {
				want += alignmentReference(student[v], targets[i], 0.3) / 6
			}
		}
	}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		out := graph.MustExecOnceN(b, func(student, targets *graph.Node) []*graph.Node {
			loss := losses.DINO(student, targets, 0.3)
			return append([]*graph.Node{loss}, graph.Gradient(loss, targets)...)
		}, student, targets)
		if got := out[0].Value().(float64); !(math.Abs(got-want) <= 1e-12) {
			t.Errorf("%.14g, reference %.14g", got, want)
		}
		for _, entry := range tensors.MustCopyFlatData[float64](out[1]) {
			if entry != 0 {
				t.Fatalf("the targets have gradient %g", entry)
			}
		}
		testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
			return losses.DINO(in[0], graph.Const(in[0].Graph(), targets), 0.3)
		}, 1e-6, tensors.FromValue(student))
		teacherGradient := graph.MustExecOnce(b, func(teacher *graph.Node) *graph.Node {
			center := graph.Const(teacher.Graph(), make([]float64, 5))
			weighted := graph.Mul(losses.DINOTargets(teacher, center, graph.Const(teacher.Graph(), 0.04)), teacher)
			return graph.Sub(graph.Gradient(graph.ReduceAllSum(weighted), teacher)[0], losses.DINOTargets(teacher, center, graph.Const(teacher.Graph(), 0.04)))
		}, student)
		for _, entry := range tensors.MustCopyFlatData[float64](teacherGradient) {
			if entry != 0 {
				t.Fatalf("a gradient passes through the teacher: %g", entry)
			}
		}
	})
}

// TestSinkhornKnoppOfSomeRows: rows outside the mask, whatever their scores, do not move the targets of those inside.
func TestSinkhornKnoppOfSomeRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	inside, others := randomMatrix(rng, 4, 6), randomMatrix(rng, 3, 6)
	for _, row := range others {
		for j := range row {
			row[j] *= 100
		}
	}
	all := matrix{others[0], inside[0], inside[1], others[1], inside[2], others[2], inside[3]}
	mask := []bool{false, true, true, false, true, false, true}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		want := graph.MustExecOnce(b, func(x *graph.Node) *graph.Node { return losses.SinkhornKnopp(x, nil, 3) }, [][]float64(inside)).Value().([][]float64)
		got := graph.MustExecOnce(b, func(x, mask *graph.Node) *graph.Node { return losses.SinkhornKnopp(x, mask, 3) }, [][]float64(all), mask).Value().([][]float64)
		i := 0
		for row, in := range mask {
			for j := range got[row] {
				if in && math.Abs(got[row][j]-want[i][j]) > 1e-12 {
					t.Errorf("row %d entry %d: %g, alone %g", row, j, got[row][j], want[i][j])
				}
				if math.IsNaN(got[row][j]) {
					t.Errorf("row %d is not a number", row)
				}
			}
			if in {
				i++
			}
		}
		none := graph.MustExecOnce(b, func(x, mask *graph.Node) *graph.Node { return losses.SinkhornKnopp(x, mask, 3) }, [][]float64(all), make([]bool, 7))
		for _, entry := range tensors.MustCopyFlatData[float64](none) {
			if math.IsNaN(entry) {
				t.Fatal("an empty mask gives NaN")
			}
		}
	})
}
