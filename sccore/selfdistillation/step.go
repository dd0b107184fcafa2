package selfdistillation

import (
	"slices"
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

// The inputs of a step. A configuration has those that it needs.
const (
	inPixels     = "pixels"     // [batch, size, size, 3] of bytes.
	inGlobals    = "globals"    // Parameters of the global views, [globals·batch, NumParams], the first views of all images first.
	inLocals     = "locals"     // Parameters of the local views.
	inMasks      = "masks"      // iBOT: the hidden patches of the global views, [globals, batch, patches] of bool.
	inKeep       = "keep"       // Stochastic depth of the student's global views, [depth, 2, globals·batch].
	inKeepLocals = "keep local" // Stochastic depth of the student's local views.
)

// inputs are the inputs of a step but the scheduled ones. Devices share images and views. Masks and dropped paths, whose rows are no images, are small.
func (s step) inputs() (all []train.Input) {
	globals, locals := s.Views.Globals*s.Batch, s.Views.Locals*s.Batch
	add := func(needed bool, name string, divided bool, dtype dtypes.DType, dims ...int) {
		if needed {
			all = append(all, train.Input{Name: name, Shape: shapes.Make(dtype, dims...), Divided: divided})
		}
	}
	add(true, inPixels, true, dtypes.Uint8, s.Batch, s.ImageSize, s.ImageSize, 3)
	add(true, inGlobals, true, dtypes.Float32, globals, views.NumParams)
	add(locals > 0, inLocals, true, dtypes.Float32, locals, views.NumParams)
	add(s.Method == IBOT, inMasks, false, dtypes.Bool, s.Views.Globals, s.Batch, s.patches())
	add(s.DropPath > 0, inKeep, false, dtypes.Float32, s.vit.Depth, 2, globals)
	add(s.DropPath > 0 && locals > 0, inKeepLocals, false, dtypes.Float32, s.vit.Depth, 2, locals)
	return all
}

// side is the number of patches along a side of a global view, and patches is the number of all its patches.
func (s step) side() int    { return s.Views.GlobalCropSize / s.vit.PatchSize }
func (s step) patches() int { return s.side() * s.side() }

// scheduled are the numbers of [Config.scheduled].
type scheduled struct{ rate, decay, momentum, classTemperature, patchTemperature, frozen *Node }

func readScheduled(numbers *Node) (s scheduled) {
	for i, scalar := range []**Node{&s.rate, &s.decay, &s.momentum, &s.classTemperature, &s.patchTemperature, &s.frozen} {
		*scalar = Reshape(Slice(numbers, AxisElem(i)))
	}
	s.frozen = GreaterThan(s.frozen, ZerosLike(s.frozen))
	return s
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
	tokens := s.vit.TokensInTraining(branch.At(encoderScope), encoder.Standardize(shown), keep, masks)
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

// seen are the tokens of a step. The student's local views are nil in a training without them.
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

// loss is the loss of a step.
func (s step) loss(scope *model.Scope, inputs []*Node) (total *Node, reports []train.Report[StepMetrics]) {
	in, read := train.ByName(s.inputs(), inputs), readScheduled(inputs[len(inputs)-1])
	report := func(name string, scalar *Node, field func(m *StepMetrics) *float64) {
		reports = append(reports, train.Mean(name, scalar, field))
	}
	online, target := scope.At(onlineScope), scope.At(targetScope)
	var tokens seen
	tokens.teacher = s.encode(target, in[inPixels], in[inGlobals], nil, nil, s.Views.GlobalCropSize)
	tokens.student = s.encode(online, in[inPixels], in[inGlobals], in[inKeep], in[inMasks], s.Views.GlobalCropSize)
	if in[inLocals] != nil {
		tokens.local = s.encode(online, in[inPixels], in[inLocals], in[inKeepLocals], nil, s.Views.LocalCropSize)
	}
	class := func(e encoded) *Node { return e.class }
	logits := s.Head.Logits(online.At(headScope), tokens.of(class))
	scores := StopGradient(s.Head.Logits(target.At(headScope), tokens.teacher.class))
	targets := s.targets(scope, "center", scores, read.classTemperature, nil)
	entropy, ofMean := entropies(targets)
	report("entropy", entropy, func(m *StepMetrics) *float64 { return &m.Entropy })
	report("entropy of the mean", ofMean, func(m *StepMetrics) *float64 { return &m.MeanEntropy })

	switch s.Method {
	case IBOT:
		class, patches := losses.DINO(logits, targets, s.Temperature), s.ofPatches(scope, tokens, in[inMasks], read.patchTemperature)
		report("loss of [CLS] tokens", class, func(m *StepMetrics) *float64 { return &m.Class })
		report("loss of patches", patches, func(m *StepMetrics) *float64 { return &m.Patches })
		total = Add(class, patches)
	case Mugs:
		group := losses.MugsGroup(logits, targets, s.Temperature)
		instance, localGroup := s.discriminations(scope, tokens)
		report("loss of groups", group, func(m *StepMetrics) *float64 { return &m.Group })
		report("loss of instances", instance, func(m *StepMetrics) *float64 { return &m.Instance })
		report("loss of local groups", localGroup, func(m *StepMetrics) *float64 { return &m.LocalGroup })
		total = DivScalar(Add(Add(instance, localGroup), group), 3)
	default:
		total = losses.DINO(logits, targets, s.Temperature)
		report("loss of [CLS] tokens", total, func(m *StepMetrics) *float64 { return &m.Class })
	}
	report("loss", total, func(m *StepMetrics) *float64 { return &m.Total })
	return total, reports
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

// ofPatches is iBOT's loss of hidden patches. [CLS] tokens and patches share the head.
func (s step) ofPatches(scope *model.Scope, tokens seen, masks, temperature *Node) *Node {
	scores := StopGradient(s.Head.Logits(scope.At(targetScope).At(headScope), tokens.teacher.patches))
	targets := s.targets(scope, "patch_center", scores, temperature, Reshape(masks, -1))
	logits := s.Head.Logits(scope.At(onlineScope).At(headScope), tokens.student.patches)
	return losses.IBOTPatches(logits, targets, masks, s.Temperature)
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

// rows is a queue or memory of rows of Euclidean norm 1, [Queue, width], which start in random directions.
func (s step) rows(scope *model.Scope, name string, like *Node, width int) *model.Variable {
	scope = scope.At(stateScope)
	normal := initializer.RandomNormalFn(scope, 1)
	directions := func(g *Graph, shape shapes.Shape) *Node { return losses.Unit(normal(g, shape)) }
	return scope.WithInitializer(directions).VariableWithShape(name, shapes.Make(like.DType(), s.Queue, width)).SetTrainable(false)
}

// update takes the optimizer's step and moves the teacher. It reports the norm of the gradient.
func (s step) update(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []train.Report[StepMetrics] {
	in := readScheduled(schedule)
	groups := []struct { // All others, the patch embedding, and the head's last layer.
		scope     string
		factor    float64
		variables []*model.Variable
		gradients []*Node
	}{{scope: optimizerScope, factor: 1}, {scope: patchEmbedScope, factor: s.PatchEmbedRate}, {scope: lastLayerScope, factor: 1}}
	for i, variable := range variables {
		group := &groups[0]
		switch path := variable.Path(); {
		case strings.Contains(path, "/"+headScope+"/"+heads.DINOLastLayer+"/"):
			group = &groups[2]
		case strings.Contains(path, "/patch_embed/"):
			group = &groups[1]
		}
		group.variables, group.gradients = append(group.variables, variable), append(group.gradients, gradients[i])
	}
	norm := optim.GlobalNorm(slices.Concat(groups[0].gradients, groups[1].gradients, groups[2].gradients))
	for i, group := range groups {
		if s.GradientClip > 0 {
			group.gradients = optim.ClipEach(group.gradients, s.GradientClip)
		}
		state, rate := scope.At("%s", group.scope), in.rate
		if group.factor != 1 {
			rate = MulScalar(rate, group.factor)
		}
		adamw := optim.DefaultAdamW()
		if i == 2 {
			adamw.Frozen = in.frozen
		}
		adamw.Update(state, group.variables, group.gradients, rate, in.decay)
	}
	train.UpdateEMA(scope.At(onlineScope), scope.At(targetScope), in.momentum)
	return []train.Report[StepMetrics]{train.Mean("norm of the gradient", norm, func(m *StepMetrics) *float64 { return &m.GradientNorm })}
}

// entropies are the mean entropy of distributions, [.., K], and the entropy of their mean.
func entropies(distributions *Node) (mean, ofMean *Node) {
	rows := Reshape(distributions, -1, distributions.Shape().Dim(-1))
	entropy := func(x *Node) *Node { return Neg(ReduceSum(Mul(x, Log(MaxScalar(x, 1e-30))), -1)) }
	return ReduceAllMean(entropy(rows)), entropy(ReduceMean(rows, 0))
}
