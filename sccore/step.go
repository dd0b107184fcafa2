package sccore

import (
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/metrics"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// The variable scopes: the two branches, the parts of a branch, and the optimizer's state.
const (
	onlineScope    = "online"
	targetScope    = "target"
	encoderScope   = "encoder"
	imageHeadScope = "image_head"
	patchHeadScope = "patch_head"
	optimizerScope = "optimizer"
)

// step builds the graph of a training step.
type step struct {
	Config
	vit             encoder.ViT
	objects, scenes int  // Images in one part of a batch.
	labelled        bool // Whether label maps come with the images.
	background      uint8
	paired          bool // Whether partners come with them also without L_sc.
	lengths         bool // Whether diagnostics have the lengths of gradients.
	taught          bool // Whether correspondences from labels have label maps of their own.
	dtype           dtypes.DType
}

// newStep returns the step of a checked configuration, for batches with or without objects, scenes and labels.
func newStep(c Config, hasObjects, hasScenes, labelled bool) step {
	s := step{Config: c, vit: c.ViT(), dtype: dtypes.Float32, labelled: labelled}
	s.ImageHead.ComputeDType, s.PatchHead.ComputeDType = s.vit.ComputeDType, s.vit.ComputeDType
	part := c.Batch / c.AccumulationSteps
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

// images is the number of images that the step makes views of: without a loss of patches, scenes are left out.
func (s step) images() int { return lo.Ternary(s.hasPatchLoss(), s.objects+s.scenes, s.objects) }

// positives is the number of images that are added to the batch as positives.
func (s step) positives() int { return lo.Ternary(s.Lambdas.ImageConcentration > 0, s.objects, 0) }

// scheduled are the scalars of [inScheduled].
type scheduled struct {
	rate, decay, momentum, noise *Node
	lambdas                      [len(Losses)]*Node
}

func readScheduled(x *Node) scheduled {
	at := func(i int) *Node { return Reshape(SliceAxis(x, 0, AxisElem(i))) }
	read := scheduled{rate: at(0), decay: at(1), momentum: at(2), noise: at(3 + len(Losses))}
	for i := range read.lambdas {
		read.lambdas[i] = at(3 + i)
	}
	return read
}

// shown are views of one size of some images.
type shown struct {
	pixels  *Node // [views·images, size, size, 3] in [0, 1], the first views of all images first.
	params  *Node // The views' parameters, [views·images, NumParams].
	images  int
	objects int // The number of object-centric images, which come first.
}

// outputs are a branch's outputs for some views. Nodes that no loss uses are nil.
type outputs struct {
	params *Node // [views, images, NumParams]

	class  *Node // [CLS] tokens, [views, images, D].
	tokens *Node // Patch tokens, [views, images, rows, columns, D].

	image   *Node // f̄, projected [CLS] tokens of the object-centric images, [views, objects, Out].
	patches *Node // f, projected patch tokens, [views, images, rows, columns, Out].

	prototypes *Node // U, [Prototypes, 3, 3, D].
}

// show makes the views of images, given as bytes, that params describe.
func (s step) show(images, params *Node, size, objects int) shown {
	dtype := lo.Ternary(s.BF16, dtypes.BFloat16, dtypes.Float32) // As in params.
	pixels := ConvertDType(views.ApplyIn(dtype, images, params, size), s.dtype)
	return shown{pixels: pixels, params: params, images: images.Shape().Dim(0), objects: objects}
}

// branch runs a branch once on each group of views; the views of a group have one size.
func (s step) branch(scope *model.Scope, all ...shown) []outputs {
	pixels := lo.Map(all, func(views shown, _ int) *Node { return views.pixels })
	tokens := s.vit.Tokens(scope.At(encoderScope), encoder.Standardize(Concatenate(pixels, 0)))
	var groups []outputs
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
		groups = append(groups, out)
		from = until
	}
	return groups
}

// byView splits the first axis of rows, [views·images, ...], into views and images.
func byView(x *Node, images int) *Node {
	dims := x.Shape().Dimensions
	return Reshape(x, append([]int{dims[0] / images, images}, dims[1:]...)...)
}

// ofViews selects views from a result of [byView] and concatenates them: [len(numbers)·images, ...].
func ofViews(x *Node, numbers ...int) *Node {
	return Concatenate(lo.Map(numbers, func(number, _ int) *Node {
		return Reshape(SliceAxis(x, 0, AxisElem(number)), x.Shape().Dimensions[1:]...)
	}), 0)
}

// pass is what a step computes before it weights its losses.
type pass struct {
	online, target []outputs          // By size of the views, global views first; target's second are the positives.
	source         outputs            // The branch that S_t comes from.
	losses         [len(Losses)]*Node // Without their λ; nil for those that are off.
	read           scheduled
	reports        []train.Report[StepMetrics]
}

// pass runs both branches and computes the losses that are on.
func (s step) pass(scope *model.Scope, in map[string]*Node) pass {
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

	made := pass{online: online, target: target, source: target[0], read: readScheduled(in[inScheduled])}
	if s.hasImageLoss() {
		targets := s.imageTargets(target[0])
		made.report("image entropy", entropy(Reshape(targets, -1, s.ImageHead.OutDim)), func(m *StepMetrics) *float64 { return &m.ImageEntropy })
		if s.Lambdas.ImageAlignment > 0 {
			made.losses[imageAlignment] = s.meanOverViews(online, targets, func(view, target int) bool { return view != target })
		}
	}
	if positives > 0 {
		made.losses[imageConcentration] = s.meanOverViews(online, s.imageTargets(target[1]), func(int, int) bool { return true })
	}
	if s.Lambdas.PatchAlignment > 0 {
		loss, targetEntropy := s.patchAlignment(online, target[0])
		made.losses[patchAlignment] = loss
		made.report("patch entropy", targetEntropy, func(m *StepMetrics) *float64 { return &m.PatchEntropy })
	}
	if s.Lambdas.PatchConcentration > 0 {
		if third, name, ok := s.third(); ok {
			seen := globals
			if ComparesFeatures(s.PatchConcentration) {
				seen = s.show(pixels, views.Undistorted(in[inGlobals]), s.Views.GlobalCropSize, s.objects)
			}
			made.source = third.branch(scope.At("%s", name), seen)[0]
		}
		made.losses[patchConcentration] = s.patchConcentration(scope, online, made.source, in, made.read.noise)
	}
	if s.Lambdas.Prototypes > 0 {
		made.losses[prototypes] = s.prototypeLoss(online[0].prototypes, target[0], s.objects)
	}
	return made
}

func (p *pass) report(name string, scalar *Node, field func(*StepMetrics) *float64) {
	p.reports = append(p.reports, train.Mean(name, scalar, field))
}

// forward returns the total loss of a step and everything else that it reports: scalars and spreads.
func (s step) forward(scope *model.Scope, in map[string]*Node) (total *Node, reports []train.Report[StepMetrics]) {
	made := s.pass(scope, in)
	total = weightedSum(made.losses, made.read.lambdas, s.Lambdas)
	made.report("total", total, func(m *StepMetrics) *float64 { return &m.Total })
	for i, loss := range made.losses {
		if loss != nil {
			made.report(Losses[i].Name, loss, Losses[i].metric)
		}
	}
	spread := func(name string, of *Node, read func(*StepMetrics, *tensors.Tensor)) {
		made.reports = append(made.reports, train.Report[StepMetrics]{Name: name, Node: of, Read: func(m *StepMetrics, _ train.At, value *tensors.Tensor) string {
			read(m, value)
			return ""
		}})
	}
	class, patches := ofViews(made.online[0].class, 0), ofViews(made.online[0].tokens, 0)
	spread("class spread", metrics.Covariance(class), func(m *StepMetrics, value *tensors.Tensor) { m.Class = metrics.SpreadOf(value) })
	spread("patch spread", metrics.Covariance(patches), func(m *StepMetrics, value *tensors.Tensor) { m.Patches = metrics.SpreadOf(value) })
	if s.labelled {
		labels := labelsOfPatches(in[inLabels], ofViews(made.online[0].params, 0), patches.Shape().Dim(1))
		parts := metrics.SpreadOfClasses(Reshape(patches, -1, patches.Shape().Dim(-1)), Reshape(labels, -1))
		spread("spread of classes", parts, func(m *StepMetrics, value *tensors.Tensor) {
			parts := tensors.MustCopyFlatData[float32](value)
			m.Classes = &metrics.ClassSpread{Within: float64(parts[0]), Between: float64(parts[1])}
		})
	}
	return total, made.reports
}

// Image-level losses see object-centric images only ("Datasets"). The target branch sees the global views, the online branch all views.

// imageTargets are q̄, the targets of the object-centric images in all their global views, [views, objects, Out]. One Sinkhorn–Knopp runs over all of them.
func (s step) imageTargets(target outputs) *Node {
	x := target.image
	rows := Reshape(x, -1, s.ImageHead.OutDim)
	return Reshape(s.Sinkhorn.Targets(rows), x.Shape().Dimensions...)
}

// meanOverViews is the mean alignment of views with targets, [views, objects, Out], over the pairs that counts selects. Views are numbered consecutively, global
// views first. L̄_align ("Cross-view alignment") has all pairs of a view of the online branch and another, global view of the target branch. L̄_sc ("Explicit semantic
// concentration for image-level SSL") aligns every view of an image with one view of its positive, a neighbour.
func (s step) meanOverViews(online []outputs, targets *Node, counts func(view, target int) bool) *Node {
	var terms []*Node
	number := 0
	for _, views := range online {
		for view := range views.image.Shape().Dim(0) {
			for target := range targets.Shape().Dim(0) {
				if counts(number, target) {
					terms = append(terms, losses.Alignment(ofViews(views.image, view), ofViews(targets, target), s.Temperature))
				}
			}
			number++
		}
	}
	return ReduceAllMean(Stack(terms, 0))
}

// prototypeLoss is L_proto ("Object prototypes learning"): it pulls the online branch's prototypes U towards the target branch's patch tokens of
// object-centric images, taken from their first view and downsampled to the prototypes' size.
func (s step) prototypeLoss(prototypes *Node, target outputs, objects int) *Node {
	count, side, dim := prototypes.Shape().Dim(0), prototypes.Shape().Dim(1), prototypes.Shape().Dim(-1)
	tokens := SliceAxis(ofViews(target.tokens, 0), 0, AxisRange(0, objects))
	g := tokens.Graph()
	whole := BroadcastToDims(ConvertDType(Const(g, [][]float64{{0, 0, 1, 1}}), s.dtype), objects, 4)
	features := layers.RoIAlign{OutputSize: side}.Pool(tokens, whole, ZerosLike(Reshape(SliceAxis(whole, 1, AxisElem(0)), objects)))
	return losses.PrototypeEntropy(Reshape(prototypes, count, side*side*dim), Reshape(features, objects, side*side*dim), s.PrototypeTemperature)
}

const (
	inPixels    = "pixels"    // Images, positives last, [images + positives, size, size, 3] of bytes.
	inGlobals   = "globals"   // Parameters of the global views, [globals·images, NumParams].
	inLocals    = "locals"    // Parameters of the local views.
	inPositives = "positives" // Parameters of one view of each positive, [positives, NumParams].
	inPartners  = "partners"  // The partner x' of each image x, [images].
	inLabels    = "labels"    // Label maps, [images, size, size] of bytes.
	inNoiseKey  = "noise key" // The key that label noise is drawn from.
	inImages    = "images"    // The numbers of the images, [images].
	// Label maps that correspondences from labels are made of, if they are not inLabels.
	inTeacherLabels = "teacher labels"
	inReferences    = "references" // Of NeCo, [images, necoReferences]: numbers of a place among the places of all images.
	inScheduled     = "scheduled"  // Learning rate, weight decay, β, the five λ, and the share of noise.
)

// inputs lists the inputs of the step.
func (s step) inputs() (all []train.Input) {
	images, positives := s.images(), s.positives()
	add := func(needed bool, name string, dtype dtypes.DType, dims ...int) {
		if needed {
			all = append(all, train.Input{Name: name, Shape: shapes.Make(dtype, dims...), Divided: name != inNoiseKey && name != inScheduled})
		}
	}
	add(true, inPixels, dtypes.Uint8, images+positives, s.ImageSize, s.ImageSize, 3)
	add(true, inGlobals, dtypes.Float32, s.Views.Globals*images, views.NumParams)
	add(s.Views.Locals > 0, inLocals, dtypes.Float32, s.Views.Locals*images, views.NumParams)
	add(positives > 0, inPositives, dtypes.Float32, positives, views.NumParams)
	add(s.Lambdas.PatchConcentration > 0 || s.paired, inPartners, dtypes.Int32, images)
	add(s.uses(WithNeCo), inReferences, dtypes.Int32, images, necoReferences)
	add(s.labelled, inLabels, dtypes.Uint8, images, s.ImageSize, s.ImageSize)
	add(s.learnsFrom(FromLabels) && s.taught, inTeacherLabels, dtypes.Uint8, images, s.ImageSize, s.ImageSize)
	add(s.learnsFrom(FromLabels) && s.Correspondences.Fixed, inImages, dtypes.Int32, images)
	add(s.learnsFrom(FromLabels) && !s.Correspondences.Fixed, inNoiseKey, dtypes.Uint32)
	add(true, inScheduled, dtypes.Float32, 4+len(Losses))
	return all
}

// inputs builds a step's inputs from a batch or a part of one.
func (t *Trainer) inputs(s step, batch *datasets.Batch, seed uint64, scheduled []float32) ([]any, error) {
	images := s.images()
	draws, size := batch.Step, t.config.ImageSize*t.config.ImageSize
	// Without a loss of patches the scenes, which lie between objects and positives, are left out.
	first := batch.Objects + batch.Scenes
	pixels := batch.Pixels
	if images != first {
		pixels = slices.Concat(pixels[:images*size*3], pixels[first*size*3:])
	}
	named := map[string]any{
		inPixels:    train.Bytes{Values: pixels, Dimensions: []int{images + s.positives(), t.config.ImageSize, t.config.ImageSize, 3}},
		inScheduled: scheduled,
	}
	globals, locals := t.config.Views.Draw(seed, draws, batch.Images[:images], batch.Sizes[:images])
	named[inGlobals], named[inLocals] = globals, locals
	if s.positives() > 0 {
		// Positives take their second view: the first view of a positive that is itself in the batch is the online branch's.
		theirs := t.config.Views
		theirs.Locals = 0
		all, _ := theirs.Draw(seed, draws, batch.Images[first:], batch.Sizes[first:])
		flat := tensors.MustCopyFlatData[float32](all)
		row := len(flat) / (theirs.Globals * s.positives())
		named[inPositives] = tensors.FromFlatDataAndDimensions(flat[s.positives()*row:2*s.positives()*row], s.positives(), row)
	}
	if s.Lambdas.PatchConcentration > 0 || s.paired {
		named[inPartners] = partners(seed, draws, images)
	}
	if s.uses(WithNeCo) {
		named[inReferences] = tensors.FromFlatDataAndDimensions(drawReferences(seed, draws, images, s.necoSide()*s.necoSide()), images, necoReferences)
	}
	maps := map[string]func(image int32, labels []uint8, size int) error{}
	if s.labelled {
		maps[inLabels] = t.data.Labels
	}
	if s.taught {
		maps[inTeacherLabels] = t.data.TeacherLabels
	}
	for name, read := range maps {
		labels := make([]uint8, images*size)
		for i := range images {
			if err := read(batch.Images[i], labels[i*size:(i+1)*size], t.config.ImageSize); err != nil {
				return nil, err
			}
		}
		named[name] = tensors.FromFlatDataAndDimensions(labels, images, t.config.ImageSize, t.config.ImageSize)
	}
	if s.learnsFrom(FromLabels) {
		named[inImages] = slices.Clone(batch.Images[:images])
		named[inNoiseKey] = rand.New(rand.NewPCG(seed, uint64(draws))).Uint32()
	}
	return train.InOrder(s.inputs(), named), nil
}

// partners draws another image for each of n images, the paper's x': a cycle through all of them in random order.
func partners(seed uint64, step, n int) []int32 {
	order := rand.New(rand.NewPCG(seed, uint64(step)+1<<63)).Perm(n)
	drawn := make([]int32, n)
	for i, image := range order {
		drawn[image] = int32(order[(i+1)%n])
	}
	return drawn
}
