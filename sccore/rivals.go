package sccore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/weights"
)

// The losses that may take CoTAP's place, with the settings of their authors (see package losses) and wired as in their code:
//
//   - WithGram (DINOv3, section 4.2; dinov3_vit7b16_gram_anchor.yaml) compares the encoder's patch tokens of each global view with those that the Gram teacher,
//     the encoder at the beginning of the run, has of the same crop without distortions of colour. In DINOv3 its weight is 2, beside other losses than ours.
//     Left out: DINOv3 replaces the Gram teacher every 10,000 steps and shows it crops of twice the size, and it masks patches of the student and drops paths.
//   - WithPaKA (appendix D.1; dinov31 of lightly-train) compares the overlaps of all pairs of views. The head of its own comes after RoI-Align. The target
//     branch sees its views without distortions of colour. Left out: local views that are drawn inside one global view and paired with it alone, where all
//     our views are paired, and a mask of pairs whose overlap is below one cell.
//   - WithNeCo (src/neco.py) compares the overlaps of all pairs of views at 7×7 places, which come after a head of its own, whose outputs have length 1. They
//     sort 49 places of the target branch, drawn at random from other images of the batch. The code draws from the whole batch, and with DINOv2R from a
//     queue of earlier batches. Left out: the queue, the image's own places, and the student's drop path.
//   - WithFastAP and WithSmoothAP need labels, which their sources have. The [PositiveShare] of the batch's pairs with the highest S_t are positive. Each
//     place of an image ranks the places of its partner, where the sources rank all other items of a batch. Places without a positive, often more than half of
//     them, take no part. Pairs from labels keep their labels.
const (
	WithGram     = "gram"
	WithPaKA     = "paka"
	WithNeCo     = "neco"
	WithFastAP   = "fastap"
	WithSmoothAP = "smoothap"
)

// PatchConcentrations lists the losses of patch concentration.
var PatchConcentrations = []string{WithCoTAP, WithBCE, WithGram, WithPaKA, WithNeCo, WithFastAP, WithSmoothAP}

// PositiveShare is the share of pairs that are positives of [WithFastAP] and [WithSmoothAP].
const PositiveShare = 0.1

// ComparesFeatures reports whether a loss compares features of both branches, and not scores of pairs.
func ComparesFeatures(loss string) bool {
	return slices.Contains([]string{WithGram, WithPaKA, WithNeCo}, loss)
}

// MarshalJSON names the wiring of the losses of other authors, so that their records are not taken for records of an earlier wiring.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config
	if slices.Contains([]string{"", WithCoTAP, WithBCE}, c.PatchConcentration) {
		return json.Marshal(plain(c))
	}
	return json.Marshal(struct {
		plain
		Wiring string `json:"wiring"`
	}{plain(c), lo.Ternary(c.PatchConcentration == WithNeCo, "authors, unit outputs", "authors")})
}

// patchConcentration is L_sc, or a loss in its place.
func (s step) patchConcentration(scope *model.Scope, online []outputs, source outputs, in map[string]*Node, noise *Node) *Node {
	if ComparesFeatures(s.PatchConcentration) {
		return s.compareFeatures(scope, online, source, in[inReferences])
	}
	p, q := s.pairs(online[0], source, in, noise)
	switch s.PatchConcentration {
	case WithCoTAP:
		return s.CoTAP.Loss(p, StopGradient(q))
	case WithBCE:
		return losses.BCE(p, q)
	}
	if !s.learnsFrom(FromLabels) {
		q = losses.TopShare(q, PositiveShare)
	}
	places := online[0].tokens.Shape().Dim(2) * online[0].tokens.Shape().Dim(2) // Each place of an image has a ranking of the partner's places.
	p, q = Reshape(p, -1, places), Reshape(q, -1, places)
	if s.PatchConcentration == WithFastAP {
		return losses.DefaultFastAP().Loss(p, q)
	}
	return losses.DefaultSmoothAP().Loss(p, q)
}

const (
	ownHeadScope   = "own_head"     // The head that PaKA and NeCo have for themselves, of the widths of the head of patches; PaKA's without its normalisation.
	gramScope      = "gram_teacher" // The encoder that Gram anchoring keeps from the beginning of the run.
	necoReferences = 7 * 7          // The number of places of other images that NeCo's patches of an image sort.
)

// compareFeatures is a loss of features of the online branch and the source.
func (s step) compareFeatures(scope *model.Scope, online []outputs, source outputs, references *Node) *Node {
	if s.PatchConcentration == WithGram {
		ofImages := func(tokens *Node) *Node { return Reshape(tokens, s.Views.Globals*s.images(), -1, s.vit.Dim) }
		return losses.GramAnchoring(ofImages(online[0].tokens), ofImages(source.tokens))
	}
	head := func(branch string) *model.Scope { return scope.At("%s", branch).At(ownHeadScope) }
	var all []*Node
	count := 0
	for i, group := range online {
		numbers, others := viewPairs(i, group, source)
		count += len(numbers)
		atATime := lo.Ternary(s.PatchConcentration == WithNeCo, 1, len(numbers))
		for pair := 0; pair < len(numbers); pair += atATime {
			number, other := numbers[pair:pair+atATime], others[pair:pair+atATime]
			o := overlapOf(group, source, number, other)
			ours, theirs := ofViews(group.tokens, number...), ofViews(source.tokens, other...)
			if s.PatchConcentration == WithPaKA {
				ours, theirs = s.PatchHead.Outputs(head(onlineScope), o.ofOnline(ours)), s.PatchHead.Outputs(head(targetScope), o.ofTarget(theirs))
				all = append(all, MulScalar(losses.PaKA(ours, theirs), float64(atATime)))
				continue
			}
			o.size = s.necoSide()
			ours, theirs = o.ofOnline(s.PatchHead.Project(head(onlineScope), ours)), o.ofTarget(s.PatchHead.Project(head(targetScope), theirs))
			sorted := Gather(Reshape(theirs, -1, s.PatchHead.OutDim), InsertAxes(references, -1))
			all = append(all, atOnce(losses.DefaultNeCo().Loss(ours, theirs, sorted), ours))
		}
	}
	return DivScalar(ReduceAllSum(Stack(all, 0)), float64(count))
}

// atOnce is a loss whose gradient in x, all that it is differentiable in, is computed with it. The backward pass keeps it alone: NeCo's matrices of one
// pair of views take gigabytes, and are free before those of the next pair.
func atOnce(loss, x *Node) *Node {
	gradient := StopGradient(Gradient(loss, x)[0])
	return Add(StopGradient(loss), ReduceAllSum(Mul(gradient, Sub(x, StopGradient(x))))) // The sum is zero; it carries the gradient.
}

// necoSide is the side of the grid of places that NeCo compares: 7, or fewer if a global view has fewer patches.
func (s step) necoSide() int { return min(7, s.Views.GlobalCropSize/s.vit.PatchSize) }

// drawReferences draws, for each of n images, places of other images: numbers of a place among those of all. They differ if the others have enough places.
func drawReferences(seed uint64, step, n, places int) (drawn []int32) {
	order := rand.New(rand.NewPCG(seed, uint64(step)+1<<62)).Perm((n - 1) * places)
	for image := range n {
		for i := range necoReferences {
			at := order[(image*necoReferences+i)%len(order)] // Counted from the next image on.
			drawn = append(drawn, int32((image+1+at/places)%n*places+at%places))
		}
	}
	return drawn
}

// uses reports whether a loss takes CoTAP's place.
func (c Config) uses(loss string) bool {
	return c.Lambdas.PatchConcentration > 0 && c.PatchConcentration == loss
}

// third is what the loss of patch concentration learns from in place of the target branch as it is, if ok: the scope of a branch, and the step to run it.
func (s step) third() (of step, scope string, ok bool) {
	switch {
	case s.learnsFrom(FromTeacher):
		return s.teacher(), teacherScope, true
	case s.uses(WithPaKA):
		return s, targetScope, true
	case s.uses(WithGram):
		s.Lambdas = losses.Lambdas{} // Without heads.
		return s, gramScope, true
	}
	return s, "", false
}

// Teacher is a third branch that no step changes. With correspondences from [FromTeacher], S_t is its own. [Trainer.SetTeacher] sets its weights.
type Teacher struct {
	Encoder string          `json:"encoder"`       // Patches as large as those of the online branch, whose resizing of position embeddings it has.
	Head    heads.Projector `json:"head,omitzero"` // None for a published encoder: S_t then compares patch tokens.
}

// HasHead reports whether the teacher projects its patch tokens.
func (t Teacher) HasHead() bool { return t.Head != (heads.Projector{}) }

// teacherScope holds the teacher's variables.
const teacherScope = "teacher"

// learnsFrom reports whether a loss uses correspondences from a source, such as [FromTeacher].
func (c Config) learnsFrom(source string) bool {
	return c.Lambdas.PatchConcentration > 0 && c.Correspondences.From == source
}

// checkSource returns an error if the loss of patches cannot use its source.
func (c Config) checkSource() error {
	if c.uses(c.PatchConcentration) && ComparesFeatures(c.PatchConcentration) && c.Correspondences != (Correspondences{From: FromHead}) {
		const want = "patch_concentration %s compares features of both branches: want correspondences.from head, same_view false, noise 0 and fixed false"
		return fmt.Errorf(want, c.PatchConcentration)
	}
	if c.uses(WithNeCo) && c.Batch == c.AccumulationSteps {
		return fmt.Errorf("patch_concentration neco sorts patches of other images: batch %d in accumulate %d parts has none", c.Batch, c.AccumulationSteps)
	}
	if from := c.Correspondences.From; from != FromLabels && (c.Correspondences.Noise > 0 || c.Correspondences.Fixed) {
		return fmt.Errorf("correspondences.noise %g and fixed %t: only pairs of labels are made wrong, want correspondences.from labels, not %s", c.Correspondences.Noise, c.Correspondences.Fixed, from)
	}
	if !c.learnsFrom(FromTeacher) {
		return nil
	}
	vit, err := encoder.ViTByName(c.Teacher.Encoder)
	switch {
	case err != nil:
		return fmt.Errorf("teacher.encoder: %w", err)
	case vit.PatchSize != c.ViT().PatchSize:
		return fmt.Errorf("teacher.encoder %s: its patches are of %d pixels, those of %s of %d", vit.Name, vit.PatchSize, c.Encoder, c.ViT().PatchSize)
	}
	return nil
}

// teacher is the teacher's step, of which only the branch counts.
func (s step) teacher() step {
	vit, err := encoder.ViTByName(s.Teacher.Encoder)
	if err != nil {
		panic(err) // The configuration has been checked.
	}
	vit.Positions = s.vit.Positions
	s.vit, s.PatchHead, s.Lambdas = vit, s.Teacher.Head, losses.Lambdas{}
	if s.Teacher.HasHead() {
		s.Lambdas.PatchConcentration = 1
	}
	return s
}

// TeacherOf returns the teacher that [Trainer.SetTeacher] can read from a file: a checkpoint, or an encoder alone, which has no head. The error names the file.
func TeacherOf(path string) (Teacher, error) {
	config, ok, err := configOf(path)
	if err == nil && !ok {
		var vit encoder.ViT
		vit, err = weights.Identify(path)
		config.Encoder, config.Prototypes = vit.Name, vit.Prototypes
	}
	err = cmp.Or(err, weights.CheckColours(path, datasets.DefaultPreprocessing()))
	if err == nil && config.Prototypes > 0 {
		err = fmt.Errorf("%s has an Object-Aware Filter; want a checkpoint without one, such as first/final.safetensors of a run of pretrain", path)
	}
	return Teacher{Encoder: config.Encoder, Head: config.PatchHead}, err
}

// SetTeacher reads the teacher's weights from the online branch of a checkpoint, or those of a teacher without a head from an encoder's file. It comes after
// [Trainer.Begin] or [Trainer.BeginFrom]; checkpoints of the run hold the teacher.
func (t *Trainer) SetTeacher(path string) error {
	if !t.config.learnsFrom(FromTeacher) {
		return fmt.Errorf("%s: this run has no teacher", path)
	}
	_, checkpoint, err := configOf(path)
	switch {
	case err != nil:
		return err
	case !checkpoint && t.config.Teacher.HasHead():
		return fmt.Errorf("%s is not a checkpoint: it has no head of patches", path)
	}
	vit := t.step.teacher().vit
	return read(t.Store(), path, "the teacher "+vit.Name, vit, teacherScope, nil, func(variable string) (from string, needed bool) {
		below, ok := strings.CutPrefix(variable, "/"+teacherScope+"/")
		if !ok {
			return "", false
		}
		return "/" + onlineScope + "/" + below, true
	})
}
