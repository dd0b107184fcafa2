package sccore

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
)

// The losses that may take CoTAP's place, with the settings of their authors; see package losses. [WithFastAP] and [WithSmoothAP] rank the places of the
// partner for each place of an image. The others compare features, and take no correspondences from labels. NeCo's references are the first 32 places of
// the partner, each branch's own, since two branches need not share their feature space.
const (
	WithGram     = "gram"
	WithPaKA     = "paka"
	WithNeCo     = "neco"
	WithFastAP   = "fastap"
	WithSmoothAP = "smoothap"
)

// PatchConcentrations lists the losses of patch concentration.
var PatchConcentrations = []string{WithCoTAP, WithBCE, WithGram, WithPaKA, WithNeCo, WithFastAP, WithSmoothAP}

// ComparesFeatures reports whether a loss compares features and not scores of pairs.
func ComparesFeatures(loss string) bool {
	return slices.Contains([]string{WithGram, WithPaKA, WithNeCo}, loss)
}

// Teacher is a third branch that no step changes. With correspondences from [FromTeacher], S_t and the features that the other losses compare are its
// own. [Trainer.SetTeacher] sets its weights.
type Teacher struct {
	Encoder string          `json:"encoder"` // Patches as large as those of the online branch.
	Head    heads.Projector `json:"head"`
}

// teacherScope holds the teacher's variables.
const teacherScope = "teacher"

// fromTeacher reports whether a loss uses the teacher.
func (c Config) fromTeacher() bool {
	return c.Lambdas.PatchConcentration > 0 && c.Correspondences.From == FromTeacher
}

// checkSource returns an error if the loss of patches cannot use its source.
func (c Config) checkSource() error {
	if c.fromLabels() && ComparesFeatures(c.PatchConcentration) {
		return fmt.Errorf("patch_concentration %s compares features, which correspondences.from labels does not have", c.PatchConcentration)
	}
	if !c.fromTeacher() {
		return nil
	}
	vit, err := encoder.ViTByName(c.Teacher.Encoder)
	switch {
	case err != nil:
		return fmt.Errorf("teacher.encoder: %w", err)
	case vit.PatchSize != c.vit().PatchSize:
		return fmt.Errorf("teacher.encoder %s: its patches are of %d pixels, those of %s of %d", vit.Name, vit.PatchSize, c.Encoder, c.vit().PatchSize)
	}
	return nil
}

// teacher is the teacher's step, of which only the branch counts.
func (s step) teacher() step {
	vit, err := encoder.ViTByName(s.Teacher.Encoder)
	if err != nil {
		panic(err) // The configuration has been checked.
	}
	s.vit, s.PatchHead, s.Lambdas = vit, s.Teacher.Head, losses.Lambdas{PatchConcentration: 1}
	return s
}

// compareFeatures is a loss of the features of the places of an overlap, of the first view of the online branch and the second of the source.
func (s step) compareFeatures(online, source outputs, partners *Node) *Node {
	o := overlapOf(online, source, []int{0}, []int{1})
	ours, theirs := o.ofOnline(ofViews(online.patches, 0)), o.ofTarget(ofViews(source.patches, 1))
	switch s.PatchConcentration {
	case WithGram:
		return losses.GramAnchoring(ours, theirs)
	case WithPaKA:
		return losses.PaKA(ours, theirs)
	}
	const most = 32
	references := func(patches *Node) *Node {
		patches = Gather(patches, InsertAxes(partners, -1))
		return SliceAxis(patches, 1, AxisRange(0, min(most, patches.Shape().Dim(1))))
	}
	return losses.DefaultNeCo().LossBetween(ours, references(ours), theirs, references(theirs))
}

// rankings are scores of pairs, [images, (HW)²], as one ranking for each place of an image, [images·HW, HW].
func rankings(scores *Node, places int) *Node { return Reshape(scores, -1, places) }

// TeacherOf returns the teacher that [Trainer.SetTeacher] can read from a checkpoint. The error names the file.
func TeacherOf(path string) (Teacher, error) {
	config, ok, err := configOf(path)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("%s is not a checkpoint, such as first/final.safetensors of a run of pretrain: it has no head of patches", path)
	case config.Prototypes > 0:
		err = fmt.Errorf("%s has an Object-Aware Filter; want a checkpoint without one, such as first/final.safetensors of a run of pretrain", path)
	}
	return Teacher{Encoder: config.Encoder, Head: config.PatchHead}, err
}

// SetTeacher reads the teacher's weights from the online branch of a checkpoint. It comes after [Trainer.Begin] or [Trainer.BeginFrom]; checkpoints of
// the run hold the teacher.
func (t *Trainer) SetTeacher(path string) error {
	if !t.objective.config.fromTeacher() {
		return fmt.Errorf("%s: this run has no teacher", path)
	}
	named, err := readCheckpoint(path)
	if err == nil && named == nil {
		err = fmt.Errorf("%s is not a checkpoint", path)
	}
	if err != nil {
		return err
	}
	return take(t.Store(), path, named, "the teacher "+t.objective.config.Teacher.Encoder, func(variable string) (from string, needed bool) {
		below, ok := strings.CutPrefix(variable, "/"+teacherScope+"/")
		if !ok {
			return "", false
		}
		return "/" + onlineScope + "/" + below, true
	})
}
