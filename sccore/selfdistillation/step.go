package selfdistillation

import (
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// The variable scopes: the two branches, the parts of a branch, what else a method keeps from step to step, and the optimizer's state. The branches and the
// encoder are named as in package sccore, so that each of the two trainers reads the other's checkpoints.
const (
	onlineScope     = "online" // The student.
	targetScope     = "target" // The teacher.
	encoderScope    = "encoder"
	headScope       = "head"
	stateScope      = "state"
	optimizerScope  = "optimizer"
	patchEmbedScope = "optimizer_patch_embed"
	lastLayerScope  = "optimizer_last_layer"
)

// step builds the graph of a training step.
type step struct {
	Config
	vit encoder.ViT
}

// given are the inputs of a step. Nodes that the configuration does not need are nil.
type given struct {
	pixels     *Node // [batch, size, size, 3] of bytes
	globals    *Node // Parameters of the global views, [globals·batch, NumParams], the first views of all images first.
	locals     *Node
	masks      *Node // iBOT: the hidden patches of the global views, [globals, batch, patches] of bool.
	keep       *Node // Stochastic depth of the student's global views, [depth, 2, globals·batch].
	keepLocals *Node

	rate, decay, momentum, classTemperature, patchTemperature, frozen *Node
}

// shapes are the shapes of a step's inputs, in the order of [step.read].
func (s step) shapes() []shapes.Shape {
	globals, locals := s.Views.Globals*s.Batch, s.Views.Locals*s.Batch
	all := []shapes.Shape{
		shapes.Make(dtypes.Uint8, s.Batch, s.ImageSize, s.ImageSize, 3), shapes.Make(dtypes.Float32, globals, views.NumParams),
	}
	if locals > 0 {
		all = append(all, shapes.Make(dtypes.Float32, locals, views.NumParams))
	}
	if s.Method == IBOT {
		all = append(all, shapes.Make(dtypes.Bool, s.Views.Globals, s.Batch, s.patches()))
	}
	if s.DropPath > 0 {
		all = append(all, shapes.Make(dtypes.Float32, s.vit.Depth, 2, globals))
		if locals > 0 {
			all = append(all, shapes.Make(dtypes.Float32, s.vit.Depth, 2, locals))
		}
	}
	return append(all, shapes.Make(dtypes.Float32, 6))
}

// side is the number of patches along a side of a global view, and patches that of all its patches.
func (s step) side() int    { return s.Views.GlobalCropSize / s.vit.PatchSize }
func (s step) patches() int { return s.side() * s.side() }

// read names a step's inputs.
func (s step) read(inputs []*Node) (in given) {
	next := func() (x *Node) {
		x, inputs = inputs[0], inputs[1:]
		return x
	}
	in.pixels, in.globals = next(), next()
	if s.Views.Locals > 0 {
		in.locals = next()
	}
	if s.Method == IBOT {
		in.masks = next()
	}
	if s.DropPath > 0 {
		in.keep = next()
		if s.Views.Locals > 0 {
			in.keepLocals = next()
		}
	}
	scheduled := next()
	for i, scalar := range []**Node{&in.rate, &in.decay, &in.momentum, &in.classTemperature, &in.patchTemperature, &in.frozen} {
		*scalar = Reshape(Slice(scheduled, AxisElem(i)))
	}
	in.frozen = GreaterThan(in.frozen, ZerosLike(in.frozen))
	return in
}

// encoded are the tokens of views of one size.
type encoded struct {
	class   *Node // [views, batch, D]
	patches *Node // [views, batch, patches, D]
	mean    *Node // The mean of the last block's tokens, before the final normalisation, [views, batch, D].
}

// encode encodes the views that params describe by a branch. keep and masks may be nil.
func (s step) encode(branch *model.Scope, pixels, params, keep, masks *Node, size int) encoded {
	shown := views.Apply(pixels, params, size)
	if masks != nil {
		masks = Reshape(masks, -1, s.patches())
	}
	tokens := s.vit.TokensMasked(branch.At(encoderScope), encoder.Standardize(shown), keep, masks)
	byView := func(x *Node) *Node {
		dims := x.Shape().Dimensions
		return Reshape(x, append([]int{dims[0] / s.Batch, s.Batch}, dims[1:]...)...)
	}
	rows := tokens.Patches.Shape().Dimensions
	last := tokens.Blocks[len(tokens.Blocks)-1]
	return encoded{
		class:   byView(tokens.Class),
		patches: byView(Reshape(tokens.Patches, rows[0], rows[1]*rows[2], rows[3])),
		mean:    byView(ConvertDType(ReduceMean(last, 1), tokens.Class.DType())),
	}
}

// seen are the tokens of a step. The student's local views are nil if there are none.
type seen struct {
	student, local, teacher encoded
}

// of joins one kind of token of all views of the student.
func (s seen) of(kind func(encoded) *Node) *Node {
	if s.local.class == nil {
		return kind(s.student)
	}
	return Concatenate([]*Node{kind(s.student), kind(s.local)}, 0)
}

// forward returns the loss of a step and what it reports.
func (s step) forward(scope *model.Scope, in given) (total *Node, report [reports]*Node) {
	online, target := scope.At(onlineScope), scope.At(targetScope)
	var tokens seen
	tokens.teacher = s.encode(target, in.pixels, in.globals, nil, nil, s.Views.GlobalCropSize)
	tokens.student = s.encode(online, in.pixels, in.globals, in.keep, in.masks, s.Views.GlobalCropSize)
	if in.locals != nil {
		tokens.local = s.encode(online, in.pixels, in.locals, in.keepLocals, nil, s.Views.LocalCropSize)
	}
	class := func(e encoded) *Node { return e.class }
	logits := s.Head.Logits(online.At(headScope), tokens.of(class))
	scores := StopGradient(s.Head.Logits(target.At(headScope), tokens.teacher.class))
	targets := s.targets(scope, "center", scores, in.classTemperature, nil)
	report[reportEntropy], report[reportMeanEntropy] = entropies(targets)

	switch s.Method {
	case IBOT:
		report[reportClass], report[reportPatches] = losses.DINO(logits, targets, s.Temperature), s.ofPatches(scope, tokens, in)
		total = Add(report[reportClass], report[reportPatches])
	case Mugs:
		report[reportGroup] = losses.MugsGroup(logits, targets, s.Temperature)
		report[reportInstance], report[reportLocalGroup] = s.discriminations(scope, tokens)
		total = DivScalar(Add(Add(report[reportInstance], report[reportLocalGroup]), report[reportGroup]), 3)
	default:
		total = losses.DINO(logits, targets, s.Temperature)
		report[reportClass] = total
	}
	report[reportTotal] = total
	return total, report
}

// targets are the teacher's distributions of scores, [.., K]. It moves their centre, the state with this name. mask marks the scores that count for
// Sinkhorn–Knopp; nil marks all.
func (s step) targets(scope *model.Scope, name string, scores, temperature, mask *Node) *Node {
	center := scope.At(stateScope).WithInitializer(initializer.Zero).
		VariableWithShape(name, shapes.Make(scores.DType(), scores.Shape().Dim(-1))).SetTrainable(false)
	before := center.NodeValue(scores)
	center.SetNodeValue(losses.DINOCenter(before, scores, s.CenterMomentum))
	if s.Targets == Centred {
		return losses.DINOTargets(scores, before, temperature)
	}
	rows := Reshape(Div(scores, temperature), -1, scores.Shape().Dim(-1))
	return Reshape(losses.SinkhornKnopp(rows, mask, 3), scores.Shape().Dimensions...)
}

// ofPatches is iBOT's loss of hidden patches. The head is that of [CLS] tokens.
func (s step) ofPatches(scope *model.Scope, tokens seen, in given) *Node {
	scores := StopGradient(s.Head.Logits(scope.At(targetScope).At(headScope), tokens.teacher.patches))
	targets := s.targets(scope, "patch_center", scores, in.patchTemperature, Reshape(in.masks, -1))
	logits := s.Head.Logits(scope.At(onlineScope).At(headScope), tokens.student.patches)
	return losses.IBOTPatches(logits, targets, in.masks, s.Temperature)
}

// discriminations are Mugs' losses of instances and of local groups. It moves their queues, and the memories of both branches, which take the mean patch
// tokens of the first view.
func (s step) discriminations(scope *model.Scope, tokens seen) (instance, localGroup *Node) {
	online, target := scope.At(onlineScope), scope.At(targetScope)
	group := func(branch *model.Scope, memory *Node) func(encoded) *Node {
		return func(e encoded) *Node {
			dims := e.mean.Shape().Dimensions
			return Reshape(s.vit.Relate(branch.At(encoderScope), Reshape(e.mean, -1, dims[2]), memory, s.Neighbours), dims...)
		}
	}
	first := func(e encoded) *Node {
		return ReduceMean(Squeeze(SliceAxis(e.patches, 0, AxisRange(0, 1)), 0), 1)
	}
	ofStudent, ofTeacher := s.rows(scope, "memory_online", tokens.student.class, s.vit.Dim), s.rows(scope, "memory_target", tokens.student.class, s.vit.Dim)
	studentGroups := tokens.of(group(online, ofStudent.NodeValue(tokens.student.class)))
	teacherGroups := group(target, ofTeacher.NodeValue(tokens.student.class))(tokens.teacher)
	enqueue := func(queue *model.Variable, rows *Node) {
		queue.SetNodeValue(losses.Enqueue(queue.NodeValue(rows), rows))
	}
	enqueue(ofStudent, first(tokens.student))
	enqueue(ofTeacher, first(tokens.teacher))

	contrast := func(name string, student, teacher *Node) *Node {
		targets := StopGradient(s.Discrimination.Project(target.At("%s", name), teacher))
		queue := s.rows(scope, name, targets, s.Discrimination.OutDim)
		loss := losses.MugsContrast(s.Discrimination.Predict(online.At("%s", name), student), targets, queue.NodeValue(targets), s.ContrastTemperature)
		enqueue(queue, targets)
		return loss
	}
	class := func(e encoded) *Node { return e.class }
	return contrast("instance", tokens.of(class), tokens.teacher.class), contrast("local_group", studentGroups, teacherGroups)
}

// rows is a queue or memory, [Queue, width], which starts with random directions.
func (s step) rows(scope *model.Scope, name string, like *Node, width int) *model.Variable {
	return queueOf(scope.At(stateScope), name, shapes.Make(like.DType(), s.Queue, width))
}

// update takes the optimizer's step and moves the teacher. It returns the norm of the gradient.
func (s step) update(scope *model.Scope, total *Node, in given) (norm *Node) {
	for variable := range scope.At(targetScope).IterVariables() {
		variable.SetTrainable(false)
	}
	var groups [3][]*model.Variable // All others, the patch embedding, and the head's last layer.
	var values []*Node
	for variable := range scope.At(onlineScope).IterVariables() {
		path := variable.Path()
		group := 0
		switch {
		case !variable.Trainable:
			continue
		case strings.Contains(path, "/"+headScope+"/"+heads.DINOLastLayer+"/"):
			group = 2
		case strings.Contains(path, "/patch_embed/"):
			group = 1
		}
		groups[group] = append(groups[group], variable)
	}
	for _, group := range groups {
		for _, variable := range group {
			values = append(values, variable.NodeValue(total))
		}
	}
	gradients := Gradient(total, values...)
	norm = optim.GlobalNorm(gradients)
	if s.GradientClip > 0 {
		gradients = optim.ClipEach(gradients, s.GradientClip)
	}
	adamw, others := optim.DefaultAdamW(), len(groups[0])
	embed := others + len(groups[1])
	adamw.Update(scope.At(optimizerScope), groups[0], gradients[:others], in.rate, in.decay)
	adamw.Update(scope.At(patchEmbedScope), groups[1], gradients[others:embed], MulScalar(in.rate, s.PatchEmbedRate), in.decay)
	adamw.UpdateUnless(in.frozen, scope.At(lastLayerScope), groups[2], gradients[embed:], in.rate, in.decay)
	train.UpdateEMA(scope.At(onlineScope), scope.At(targetScope), in.momentum)
	return norm
}

// entropies are the mean entropy of distributions, [.., K], and the entropy of their mean.
func entropies(distributions *Node) (mean, ofMean *Node) {
	rows := Reshape(distributions, -1, distributions.Shape().Dim(-1))
	entropy := func(x *Node) *Node { return Neg(ReduceSum(Mul(x, Log(MaxScalar(x, 1e-30))), -1)) }
	return ReduceAllMean(entropy(rows)), entropy(ReduceMean(rows, 0))
}
