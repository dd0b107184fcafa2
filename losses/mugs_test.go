package losses_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
)

// TestMugsFollowsPyTorch trains heads, a local-group module and a small encoder for 20 steps; testdata/mugs.py writes the file.
func TestMugsFollowsPyTorch(t *testing.T) {
	var golden struct {
		recipe
		Hidden, Bottleneck, Out, Predictor, Dim, Width, Heads, Neighbours int
		Temperature                                                       float64
		Tokens, Local                                                     []viewTokens
		Queues, Memories, QueuesAfter, MemoriesAfter                      map[string]matrix
		Losses, Centers                                                   matrix
		After                                                             map[int]weightsOf
		Teacher                                                           weightsOf
	}
	readGolden(t, "mugs.json", &golden)
	vit := encoder.ViT{PatchSize: 1, Dim: golden.Width, Depth: 1, NumHeads: golden.Heads, GridSize: 1, MLPWidth: 2 * golden.Width, Positions: encoder.DINOPositions}
	head := heads.DiscriminationHead{HiddenDim: golden.Hidden, OutDim: golden.Dim, PredictorDim: golden.Predictor}
	groupHead := heads.DINOHead{HiddenDim: golden.Hidden, BottleneckDim: golden.Bottleneck, OutDim: golden.Out}
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		store := model.NewStore()
		golden.Weights.set(t, store, "student")
		golden.Weights.set(t, store, "teacher")
		for _, rows := range []map[string]matrix{golden.Queues, golden.Memories} {
			for name, value := range rows {
				if _, err := store.CreateVariable("/rows/"+name, tensors.FromValue([][]float64(value))); err != nil {
					t.Fatal(err)
				}
			}
		}
		// encode returns the [CLS] tokens, local-group tokens and mean patch tokens of views.
		encode := func(branch *model.Scope, tokens, memory *graph.Node) (class, group, mean *graph.Node) {
			x := mixed(branch.At("encoder"), tokens)
			dims := x.Shape().Dimensions
			rows := graph.Reshape(graph.ReduceMean(x, 2), -1, dims[3])
			group = graph.Reshape(vit.Relate(branch.At("encoder"), rows, memory, golden.Neighbours), dims[0], dims[1], dims[3])
			all := normed(branch.At("encoder"), x)
			class, patches := parts(all)
			return class, group, graph.ReduceMean(patches, 2)
		}
		first := func(x *graph.Node) *graph.Node {
			return graph.Squeeze(graph.SliceAxis(x, 0, graph.AxisRange(0, 1)), 0)
		}
		step := model.MustNewExec(b, store, func(scope *model.Scope, inputs []*graph.Node) []*graph.Node {
			tokens, local, temperature, frozen := inputs[0], inputs[1], inputs[2], inputs[3]
			student, teacher := scope.At("student"), scope.At("teacher")
			rows := map[string]*model.Variable{}
			values := map[string]*graph.Node{}
			for _, name := range []string{"instance", "local_group", "student", "teacher"} {
				rows[name] = store.GetVariable("/rows/" + name).SetTrainable(false)
				values[name] = rows[name].NodeValue(tokens)
			}
			class, group, mean := encode(student, tokens, values["student"])
			localClass, localGroup, _ := encode(student, local, values["student"])
			class, group = graph.Concatenate([]*graph.Node{class, localClass}, 0), graph.Concatenate([]*graph.Node{group, localGroup}, 0)
			teacherClass, teacherGroup, teacherMean := encode(teacher, tokens, values["teacher"])
			instanceTargets := head.Project(teacher.At("instance"), teacherClass)
			localTargets := head.Project(teacher.At("local_group"), teacherGroup)
			scores := groupHead.Logits(teacher.At("group"), teacherClass)

			instance := losses.MugsContrast(head.Predict(student.At("instance"), class), instanceTargets, values["instance"], golden.Temperature)
			localLoss := losses.MugsContrast(head.Predict(student.At("local_group"), group), localTargets, values["local_group"], golden.Temperature)
			center, setCenter := state(scope, tokens.Graph(), "center", golden.Out)
			groupLoss := losses.MugsGroup(groupHead.Logits(student.At("group"), class), losses.DINOTargets(scores, center, temperature), golden.Student)
			next := losses.DINOCenter(center, scores, golden.CenterMomentum)
			setCenter(next)
			for name, added := range map[string]*graph.Node{"instance": instanceTargets, "local_group": localTargets, "student": first(mean), "teacher": first(teacherMean)} {
				rows[name].SetNodeValue(losses.Enqueue(values[name], added))
			}
			golden.update(scope, graph.DivScalar(graph.Add(graph.Add(instance, localLoss), groupLoss), 3), frozen)
			return []*graph.Node{graph.Stack([]*graph.Node{instance, localLoss, groupLoss}, 0), next}
		})
		defer step.Finalize()
		for i := range golden.Tokens {
			epoch := i / golden.Epoch
			out := step.MustCall(golden.Tokens[i], golden.Local[i], losses.TeacherTemperature(epoch, golden.Warmup, golden.Start, golden.Final), epoch == 0)
			near(t, i, "the losses", tensors.MustCopyFlatData[float64](out[0]), golden.Losses[i])
			near(t, i, "the centre", tensors.MustCopyFlatData[float64](out[1]), golden.Centers[i])
			golden.After[i+1].check(t, store, "student", i)
		}
		golden.Teacher.check(t, store, "teacher", len(golden.Tokens))
		for _, rows := range []map[string]matrix{golden.QueuesAfter, golden.MemoriesAfter} {
			for name, want := range rows {
				near(t, len(golden.Tokens), name, tensors.MustCopyFlatData[float64](store.GetVariable("/rows/"+name).MustValue()), slices.Concat(want...))
			}
		}
	})
}

// normed is layer normalisation with the weights norm of a branch.
func normed(branch *model.Scope, x *graph.Node) *graph.Node {
	variable := func(name string) *graph.Node {
		value := branch.Store().GetVariable(branch.Scope() + "/norm/" + name).NodeValue(x)
		return graph.ExpandLeftToRank(value, x.Rank())
	}
	centred := graph.Sub(x, graph.ReduceAndKeep(x, graph.ReduceMean, -1))
	variance := graph.ReduceAndKeep(graph.Square(centred), graph.ReduceMean, -1)
	return graph.Add(graph.Mul(graph.Div(centred, graph.Sqrt(graph.AddScalar(variance, 1e-6))), variable("weight")), variable("bias"))
}

// TestMugs compares the losses with their formulas, one pair at a time, and their gradients with finite differences.
func TestMugs(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	const temperature = 0.2
	student, targets, queue := cube(rng, 4, 3, 5), cube(rng, 2, 3, 5), randomMatrix(rng, 6, 5)
	shares := distributionCube(rng, 2, 3, 5)
	// contrastReference is the loss of one pair of views.
	contrastReference := func(v, g int) float64 {
		total := 0.0
		for image, row := range student[v] {
			product := func(other []float64) (sum float64) {
				for d := range row {
					sum += row[d] * other[d] / temperature
				}
				return sum
			}
			scores := []float64{product(targets[g][image])}
			for _, other := range queue {
				scores = append(scores, product(other))
			}
			total += crossEntropy(scores) / float64(len(student[v]))
		}
		return total
	}
	for _, c := range []struct {
		name    string
		globals int // Of the student's four views and the teacher's.
		locals  int
	}{{"both kinds", 2, 2}, {"no local views", 2, 0}, {"one global view", 1, 3}} {
		weighted := func(term func(v, g int) float64) float64 {
			var large, small []float64
			for g := range c.globals {
				for v := range c.globals + c.locals {
					switch {
					case v == g:
					case v < c.globals:
						large = append(large, term(v, g))
					default:
						small = append(small, term(v, g))
					}
				}
			}
			mean := func(terms []float64) (mean float64) {
				for _, term := range terms {
					mean += term / float64(len(terms))
				}
				return mean
			}
			if len(large) == 0 || len(small) == 0 {
				return mean(large) + mean(small)
			}
			return (mean(large) + mean(small)) / 2
		}
		ofStudent, ofTargets, ofShares := student[:c.globals+c.locals], targets[:c.globals], shares[:c.globals]
		wantContrast := weighted(contrastReference)
		wantGroup := weighted(func(v, g int) float64 { return alignmentReference(student[v], shares[g], 0.3) })
		t.Run(c.name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b compute.Backend) {
				out := graph.MustExecOnceN(b, func(student, targets, shares *graph.Node) []*graph.Node {
					contrast := losses.MugsContrast(student, targets, graph.Const(student.Graph(), [][]float64(queue)), temperature)
					group := losses.MugsGroup(student, shares, 0.3)
					return append([]*graph.Node{contrast, group}, graph.Gradient(graph.Add(contrast, group), targets, shares)...)
				}, ofStudent, ofTargets, ofShares)
				for i, want := range []float64{wantContrast, wantGroup} {
					if got := out[i].Value().(float64); !(math.Abs(got-want) <= 1e-12*math.Max(1, want)) {
						t.Errorf("loss %d: %.14g, reference %.14g", i, got, want)
					}
				}
				for _, gradient := range out[2:] {
					for _, entry := range tensors.MustCopyFlatData[float64](gradient) {
						if entry != 0 {
							t.Fatalf("the targets have gradient %g", entry)
						}
					}
				}
				testbackend.CheckGradient(t, b, func(in []*graph.Node) *graph.Node {
					g := in[0].Graph()
					return losses.MugsContrast(in[0], graph.Const(g, ofTargets), graph.Const(g, [][]float64(queue)), temperature)
				}, 1e-6, tensors.FromValue(ofStudent))
			})
		})
	}
}
