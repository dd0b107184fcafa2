package losses_test

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/backend"
)

// Two images with two views each: the views of an image are parallel, views of different images are orthogonal.
var (
	exampleView1 = [][]float64{{1, 0}, {0, 1}}
	exampleView2 = [][]float64{{2, 0}, {0, 3}}
)

func printLoss(f any, inputs ...any) {
	b, err := backend.OpenConfig(backend.Go)
	if err != nil {
		panic(err)
	}
	var out float64
	switch f := f.(type) {
	case func(x *graph.Node) *graph.Node:
		out = graph.MustExecOnce(b, f, inputs...).Value().(float64)
	case func(x, y *graph.Node) *graph.Node:
		out = graph.MustExecOnce(b, f, inputs...).Value().(float64)
	case func(x, y, z *graph.Node) *graph.Node:
		out = graph.MustExecOnce(b, f, inputs...).Value().(float64)
	}
	fmt.Printf("%.4f\n", out)
}

func ExampleNTXent() {
	printLoss(func(z1, z2 *graph.Node) *graph.Node { return losses.NTXent(z1, z2, 0.5) }, exampleView1, exampleView2)
	// Output: 0.2395
}

func ExampleInfoNCE() {
	queue := [][]float64{{-1, 0}}
	printLoss(func(q, k, queue *graph.Node) *graph.Node { return losses.InfoNCE(q, k, queue, 0.5) }, exampleView1, exampleView2, queue)
	// Output: 0.0725
}

func ExampleBarlowTwins() {
	printLoss(func(z1, z2 *graph.Node) *graph.Node { return losses.BarlowTwins(z1, z2, 0.005) }, exampleView1, exampleView2)
	// Output: 0.0100
}

func ExampleNegativeCosine() {
	printLoss(func(p, z *graph.Node) *graph.Node { return losses.NegativeCosine(p, z) }, exampleView1, exampleView2)
	// Output: -1.0000
}

// A student's two views of one image, and the teacher's of the same.
var (
	exampleStudent = [][][]float64{{{0.2, 0}}, {{0, 0.1}}}
	exampleTeacher = [][][]float64{{{0.1, 0}}, {{0.2, 0.1}}}
)

func ExampleDINO() {
	printLoss(func(student, teacher, center *graph.Node) *graph.Node {
		temperature := graph.Const(student.Graph(), losses.TeacherTemperature(0, 30, 0.04, 0.07))
		return losses.DINO(student, losses.DINOTargets(teacher, center, temperature), 0.1)
	}, exampleStudent, exampleTeacher, []float64{0.1, 0})
	// Output: 0.9701
}

func ExampleDINOTargets() {
	printLoss(func(teacher, center *graph.Node) *graph.Node {
		targets := losses.DINOTargets(teacher, center, graph.Const(teacher.Graph(), 0.1)) // The softmax of (1, 0).
		return graph.Reshape(graph.Slice(targets, graph.AxisElem(0), graph.AxisElem(0)))
	}, [][]float64{{0.2, 0}}, []float64{0.1, 0})
	// Output: 0.7311
}

func ExampleDINOCenter() {
	printLoss(func(center, teacher *graph.Node) *graph.Node {
		next := losses.DINOCenter(center, teacher, 0.9) // 0.9 times the old one and 0.1 times (0.15, 0.05).
		return graph.Reshape(graph.Slice(next, graph.AxisElem(0)))
	}, []float64{0.1, 0}, exampleTeacher)
	// Output: 0.1050
}

func ExampleTeacherTemperature() {
	for _, epoch := range []int{0, 1, 2, 3, 100} {
		fmt.Printf("%.2f ", losses.TeacherTemperature(epoch, 4, 0.04, 0.07))
	}
	// Output: 0.04 0.05 0.06 0.07 0.07
}

func ExampleSinkhornKnopp() {
	printLoss(func(scores *graph.Node) *graph.Node {
		targets := losses.SinkhornKnopp(graph.DivScalar(scores, 0.1), nil, 3)
		return graph.Reshape(graph.Slice(targets, graph.AxisElem(1), graph.AxisElem(0))) // Both rows prefer the first entry; the second gives way.
	}, [][]float64{{0.2, 0}, {0.1, 0}})
	// Output: 0.3774
}

// The scores of four patch pairs: the student p ranks the middle two differently from the teacher q.
var (
	exampleP = []float64{0.9, 0.4, 0.6, 0.1}
	exampleQ = []float64{0.9, 0.6, 0.4, 0.1}
)

func ExampleAP() {
	loss, err := losses.AP(exampleP, exampleQ, 0.5)
	fmt.Printf("%.4f %v\n", loss, err)
	// Output: 0.1667 <nil>
}

func ExampleCoTAPDefinition() {
	loss, err := losses.CoTAPDefinition(exampleP, exampleQ, func(float64) float64 { return 1 })
	fmt.Printf("%.4f %v\n", loss, err)
	// Output: 0.0417 <nil>
}

func ExampleCoTAPBound() {
	bound, err := losses.CoTAPBound(exampleP, exampleQ, func(float64) float64 { return 1 })
	fmt.Printf("%.4f %v\n", bound, err)
	// Output: 0.0903 <nil>
}

func ExampleCoTAP_Loss() {
	printLoss(losses.DefaultCoTAP().Loss, exampleP, exampleQ)
	// Output: 0.1369
}

func ExampleCoTAP_Evaluate() {
	loss, gradient, err := losses.DefaultCoTAP().Evaluate(exampleP, exampleQ)
	fmt.Printf("%.4f %.3f %v\n", loss, gradient, err)
	// Output: 0.1369 [-0.327 -0.143 0.429 0.041] <nil>
}

func ExampleCorrespondence() {
	patches := [][][]float64{{{1, 0}, {0, 2}}}
	printLoss(func(u, v *graph.Node) *graph.Node { return graph.ReduceAllSum(losses.Correspondence(u, v)) }, patches, patches)
	// Output: 3.0000
}

func ExampleBCE() {
	printLoss(losses.BCE, exampleP, exampleQ)
	// Output: 0.5396
}

func ExampleAlignment() {
	printLoss(func(logits, targets *graph.Node) *graph.Node { return losses.Alignment(logits, targets, 0.1) },
		[][]float64{{0.1, 0}, {0, 0}}, [][]float64{{1, 0}, {0.5, 0.5}})
	// Output: 0.5032
}

func ExamplePrototypeEntropy() {
	printLoss(func(prototypes, features *graph.Node) *graph.Node {
		return losses.PrototypeEntropy(prototypes, features, 0.1)
	},
		[][]float64{{1, 1}}, [][]float64{{1, 0}, {0, 1}})
	// Output: 0.3466
}

// One image of three patches: the student's third patch has left the first for the second.
var (
	patchStudent = [][][]float64{{{1, 0}, {0, 1}, {0, 2}}}
	patchTeacher = [][][]float64{{{1, 0}, {0, 1}, {2, 0}}}
)

func ExampleGramAnchoring() {
	printLoss(losses.GramAnchoring, patchStudent, patchTeacher)
	// Output: 0.4444
}

func ExamplePaKA() {
	printLoss(losses.PaKA, patchStudent, patchTeacher)
	// Output: 0.8276
}

func ExampleNeCo() {
	neco := losses.DefaultNeCo().Loss
	references := [][][]float64{{{3, 4}, {4, 3}, {1, 0}}}
	printLoss(neco, patchStudent, patchTeacher, references)
	printLoss(neco, patchTeacher, patchTeacher, references)
	// Output:
	// 1.3296
	// 0.1293
}

func ExampleFastAP() {
	printLoss(losses.DefaultFastAP().Loss, exampleP, exampleQ)
	// Output: 0.1667
}

func ExampleSmoothAP() {
	printLoss(losses.DefaultSmoothAP().Loss, exampleP, exampleQ)
	// Output: 0.1667
}

func ExampleTopShare() {
	printLoss(func(q *graph.Node) *graph.Node { return graph.ReduceAllSum(losses.TopShare(q, 0.5)) }, exampleQ) // Two of the four are marked.
	// Output: 2.0000
}

func ExampleUnit() {
	printLoss(func(x *graph.Node) *graph.Node {
		return graph.Reshape(graph.Slice(losses.Unit(x), graph.AxisElem(0), graph.AxisElem(0))) // Of (0.6, 0.8).
	}, [][]float64{{3, 4}})
	// Output: 0.6000
}

// Two patches of one view of one image, of which the second is hidden from the student.
func ExampleIBOTPatches() {
	student, teacher := [][][][]float64{{{{0.3, 0}, {0, 0.1}}}}, [][][][]float64{{{{0.1, 0}, {0.2, 0.1}}}}
	printLoss(func(student, teacher, center *graph.Node) *graph.Node {
		targets := losses.DINOTargets(teacher, center, graph.Const(student.Graph(), 0.07))
		masks := graph.Const(student.Graph(), [][][]bool{{{false, true}}})
		return losses.IBOTPatches(student, targets, masks, 0.1)
	}, student, teacher, []float64{0.1, 0})
	// Output: 0.8133
}

// The student's two views of two images find the teacher's other view among it and one row of the queue.
func ExampleMugsContrast() {
	views := [][][]float64{exampleView1, exampleView1}
	printLoss(func(student, targets, queue *graph.Node) *graph.Node {
		return losses.MugsContrast(student, targets, queue, 0.2)
	}, views, views, [][]float64{{-1, 0}})
	// Output: 0.0034
}

func ExampleMugsGroup() {
	printLoss(func(student, teacher, center *graph.Node) *graph.Node {
		return losses.MugsGroup(student, losses.DINOTargets(teacher, center, graph.Const(student.Graph(), 0.04)), 0.1)
	}, exampleStudent, exampleTeacher, []float64{0.1, 0})
	// Output: 0.9701
}

func ExampleEnqueue() {
	printLoss(func(queue, rows *graph.Node) *graph.Node {
		next := losses.Enqueue(queue, rows) // {3}, {5}: the oldest row has made place.
		return graph.Reshape(graph.Slice(next, graph.AxisElem(1)))
	}, [][]float64{{1}, {3}}, [][]float64{{5}})
	// Output: 5.0000
}
