package sccore

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// Scopes: of the two branches, of what stands below each, of what the optimizer keeps, and of the sums of gradients of a batch in parts.
const (
	onlineScope      = "online"
	targetScope      = "target"
	encoderScope     = "encoder"
	imageHeadScope   = "image_head"
	patchHeadScope   = "patch_head"
	optimizerScope   = "optimizer"
	accumulatedScope = "accumulated"
)

// step builds the graph of a training step.
type step struct {
	Config
	vit             encoder.ViT
	objects, scenes int  // Images in a part of a batch.
	labelled        bool // Whether label maps come with the images.
	dtype           dtypes.DType
}

// newStep is the step of a configuration that has been checked, on batches of objects and of scenes, each or not, with or without labels.
func newStep(c Config, hasObjects, hasScenes, labelled bool) step {
	s := step{Config: c, vit: c.vit(), dtype: dtypes.Float32, labelled: labelled}
	part := c.Batch / c.Accumulate
	switch {
	case !hasScenes:
		s.objects = part
	case !hasObjects:
		s.scenes = part
	default:
		s.objects, s.scenes = part/2, part/2
	}
	return s
}

// images is the number of images of which the step makes views: without a loss of patches, scenes have no part in it.
func (s step) images() int {
	if s.hasPatchLoss() {
		return s.objects + s.scenes
	}
	return s.objects
}

// positives is the number of images that come with the batch as positives.
func (s step) positives() int {
	if s.Lambdas.ImageConcentration > 0 {
		return s.objects
	}
	return 0
}

// scheduled are the scalars of [inScheduled].
type scheduled struct {
	rate, decay, momentum, noise *Node
	lambdas                      [5]*Node // In the order of losses.Lambdas.
}

func readScheduled(x *Node) scheduled {
	at := func(i int) *Node { return Reshape(SliceAxis(x, 0, AxisElem(i))) }
	read := scheduled{rate: at(0), decay: at(1), momentum: at(2), noise: at(8)}
	for i := range read.lambdas {
		read.lambdas[i] = at(3 + i)
	}
	return read
}

// shown are views of one size of some images.
type shown struct {
	pixels  *Node // [views·images, size, size, 3] in [0, 1], the first views of all images first.
	params  *Node // Where they are from, [views·images, NumParams].
	images  int
	objects int // How many object-centric images are first among them.
}

// outputs are what a branch makes of views. Nodes that no loss uses are nil.
type outputs struct {
	params *Node // [views, images, NumParams]

	class  *Node // [CLS] tokens, [views, images, D].
	tokens *Node // Patch tokens, [views, images, rows, columns, D].

	image   *Node // f̄, projected [CLS] tokens of the object-centric images, [views, objects, Out].
	patches *Node // f, projected patch tokens, [views, images, rows, columns, Out].

	prototypes *Node // U, [Prototypes, 3, 3, D].
}

// show makes the views of images, bytes, that params describe.
func (s step) show(images, params *Node, size, objects int) shown {
	pixels := ConvertDType(views.Apply(images, params, size), s.dtype)
	return shown{pixels: pixels, params: params, images: images.Shape().Dim(0), objects: objects}
}

// branch runs a branch once on all views, which are of one size.
func (s step) branch(scope *model.Scope, all ...shown) []outputs {
	var pixels []*Node
	for _, views := range all {
		pixels = append(pixels, views.pixels)
	}
	tokens := s.vit.Tokens(scope.At(encoderScope), encoder.Standardize(Concatenate(pixels, 0)))
	var made []outputs
	from := 0
	for _, views := range all {
		until := from + views.pixels.Shape().Dim(0)
		part := func(x *Node) *Node { return byView(SliceAxis(x, 0, AxisRange(from, until)), views.images) }
		out := outputs{params: byView(views.params, views.images), class: part(tokens.Class), tokens: part(tokens.Patches), prototypes: tokens.Prototypes}
		if s.hasImageLoss() && views.objects > 0 {
			out.image = s.ImageHead.Project(scope.At(imageHeadScope), SliceAxis(out.class, 1, AxisRange(0, views.objects)))
		}
		if s.hasPatchLoss() {
			out.patches = s.PatchHead.Project(scope.At(patchHeadScope), out.tokens)
		}
		made = append(made, out)
		from = until
	}
	return made
}

// byView gives rows, [views·images, ...], an axis for the views.
func byView(x *Node, images int) *Node {
	dims := x.Shape().Dimensions
	return Reshape(x, append([]int{dims[0] / images, images}, dims[1:]...)...)
}

// ofViews returns some views of what [byView] made, one after the other: [len(numbers)·images, ...].
func ofViews(x *Node, numbers ...int) *Node {
	var parts []*Node
	for _, number := range numbers {
		parts = append(parts, Reshape(SliceAxis(x, 0, AxisElem(number)), x.Shape().Dimensions[1:]...))
	}
	return Concatenate(parts, 0)
}

// forward is the total loss of a step and everything else that it reports, by name.
func (s step) forward(scope *model.Scope, in map[string]*Node) (total *Node, reports map[string]*Node) {
	images, positives := s.images(), s.positives()
	pixels := SliceAxis(in[inPixels], 0, AxisRange(0, images))
	globals := s.show(pixels, in[inGlobals], s.Views.GlobalCropSize, s.objects)
	toTarget := []shown{globals}
	if positives > 0 {
		theirs := SliceAxis(in[inPixels], 0, AxisRange(images))
		toTarget = append(toTarget, s.show(theirs, in[inPositives], s.Views.GlobalCropSize, positives))
	}
	target := s.branch(scope.At(targetScope), toTarget...)
	online := s.branch(scope.At(onlineScope), globals)
	if in[inLocals] != nil {
		online = append(online, s.branch(scope.At(onlineScope), s.show(pixels, in[inLocals], s.Views.LocalCropSize, s.objects))...)
	}

	reports = map[string]*Node{}
	var terms losses.Terms
	if s.hasImageLoss() {
		targets := s.imageTargets(target[0])
		reports[reportImageEntropy] = entropy(Reshape(targets, -1, s.ImageHead.OutDim))
		if s.Lambdas.ImageAlignment > 0 {
			terms.ImageAlignment = s.imageAlignment(online, targets)
		}
	}
	if positives > 0 {
		terms.ImageConcentration = s.imageConcentration(online, s.imageTargets(target[1]))
	}
	if s.Lambdas.PatchAlignment > 0 {
		terms.PatchAlignment, reports[reportPatchEntropy] = s.patchAlignment(online, target[0])
	}
	read := readScheduled(in[inScheduled])
	if s.Lambdas.PatchConcentration > 0 {
		terms.PatchConcentration = s.patchConcentration(online[0], target[0], in[inPartners], in[inLabels], read.noise, in[inNoiseKey])
	}
	if s.Lambdas.Prototypes > 0 {
		terms.Prototypes = s.prototypeLoss(online[0].prototypes, target[0], s.objects)
	}
	total = losses.Total(s.weighted(terms, read.lambdas, reports), s.shape().Lambdas)
	reports[reportTotal] = total
	reports[reportClassSpread] = metrics.Covariance(ofViews(online[0].class, 0))
	reports[reportPatchSpread] = metrics.Covariance(ofViews(online[0].tokens, 0))
	if s.labelled {
		patches := ofViews(online[0].tokens, 0)
		labels := labelsOfPatches(in[inLabels], ofViews(online[0].params, 0), patches.Shape().Dim(1))
		reports[reportSpreadOfClasses] = metrics.SpreadOfClasses(Reshape(patches, -1, patches.Shape().Dim(-1)), Reshape(labels, -1))
	}
	return total, reports
}

// weighted multiplies the terms there are by their λ, which are inputs of the step, and reports them as they were.
func (s step) weighted(terms losses.Terms, lambdas [5]*Node, reports map[string]*Node) losses.Terms {
	for i, term := range []struct {
		loss   **Node
		report string
	}{
		{&terms.PatchAlignment, reportPatchAlignment}, {&terms.ImageAlignment, reportImageAlignment},
		{&terms.PatchConcentration, reportPatchConcentration}, {&terms.ImageConcentration, reportImageConcentration},
		{&terms.Prototypes, reportPrototypes},
	} {
		if *term.loss != nil {
			reports[term.report] = *term.loss
			*term.loss = Mul(*term.loss, ConvertDType(lambdas[i], s.dtype))
		}
	}
	return terms
}

// learnt are the variables of the online branch.
func learnt(scope *model.Scope) (variables []*model.Variable) {
	for variable := range scope.At(onlineScope).IterVariables() {
		if variable.Trainable {
			variables = append(variables, variable)
		}
	}
	return variables
}

// backward is forward and the gradients of the online branch.
func (s step) backward(scope *model.Scope, in map[string]*Node) (gradients []*Node, reports map[string]*Node) {
	total, reports := s.forward(scope, in)
	for variable := range scope.At(targetScope).IterVariables() {
		variable.SetTrainable(false)
	}
	var values []*Node
	for _, variable := range learnt(scope) {
		values = append(values, variable.NodeValue(total))
	}
	return Gradient(total, values...), reports
}

// update takes the optimizer's step and moves the target branch. It returns the length of the gradient.
func (s step) update(scope *model.Scope, gradients []*Node, read scheduled) *Node {
	norm := optim.GlobalNorm(gradients)
	if s.Clip > 0 {
		gradients, norm = optim.ClipByGlobalNorm(gradients, s.Clip)
	}
	optim.DefaultAdamW().Update(scope.At(optimizerScope), learnt(scope), gradients, read.rate, read.decay)
	train.UpdateEMA(scope.At(onlineScope), scope.At(targetScope), read.momentum)
	return norm
}
