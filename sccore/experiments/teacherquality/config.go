package teacherquality

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Config is the configuration of a cell.
type Config struct {
	Condition `json:"condition"`

	First  sccore.Config `json:"first"`  // The stage of both alignments, which makes the start. None for photographs.
	Third  sccore.Config `json:"third"`  // The training of the third encoder, of as many steps as the condition says; for photographs its encoder and head alone.
	Second sccore.Config `json:"second"` // The stage that is studied, before the condition sets its L_sc.

	Images int                   `json:"images"` // Number of training scenes, and of training objects; there are half as many test scenes. 0 for photographs.
	Probe  evaluation.PatchProbe `json:"probe"`

	// A start and a teacher that have learnt something from photographs took an hour, so both come from files.
	Init        string        `json:"init,omitzero"`    // A checkpoint that all runs start from: the file first/final.safetensors of a run of pretrain. Only for photographs.
	TeacherFile string        `json:"teacher,omitzero"` // Another one, whose online branch is the frozen third encoder, with its head; or an encoder alone, whose patch tokens are compared. Only for photographs.
	Shares      int           `json:"shares,omitzero"`  // The number of shares that the images to train on are cut into. Seed 0 has the first share, and so on; 1 gives all to every seed. It is 0 for synthetic images.
	Recall      recipe.Recall `json:"recall,omitzero"`  // Measures patches of the test images; zero for synthetic images.
}

// OmitPaths omits the paths of the files of photographs, which the data identify.
func (c *Config) OmitPaths() { c.Init, c.TeacherFile = "", "" }

// Condition is what a cell is about.
type Condition struct {
	Loss  string  `json:"loss"`  // What trains: untrained for nothing; start for the first stage alone; alignment; or beside alignment a loss of concentration: cotap, bce, gram, paka, neco, fastap or smoothap.
	Share float64 `json:"share"` // Length of the loss's gradient as a share of alignment's, in the first steps.
	// Teacher is the number of steps that have trained the third encoder, the source of S_t; 0 for labels, -1 for an encoder from a file, -2 for the run's branches,
	// -3 for their patch tokens before the projector.
	Teacher   int     `json:"teacher"`
	Positives float64 `json:"positives,omitzero"` // Share of the pairs that a loss of binary labels takes for positives, those of highest S_t. Others have 0.
	// Errors of labels: "" for none; "pairs", independent ones, where a share Level of pairs of places has a random score; "objects", as a real teacher makes
	// them, where a share Level of the classes in an image is taken for other classes. They are the same in all steps.
	Errors string  `json:"errors"`
	Level  float64 `json:"level"` // Share of the labels that have errors, as errors says.
}

// Values of [Condition] that name no loss of concentration, errors and no number of steps.
const (
	lossUntrained   = "untrained"
	lossStart       = "start"
	lossAlignment   = "alignment"
	errorsOfPairs   = "pairs"
	errorsOfObjects = "objects"
	fromFile        = -1
	own             = -2
	ownBackbone     = -3
)

// concentrates reports whether there is patch concentration.
func (c Condition) concentrates() bool { return slices.Contains(sccore.PatchConcentrations, c.Loss) }

// source names where correspondences come from, in rows and in tables.
func (c Condition) source() (name, title string) {
	switch {
	case !c.concentrates():
		return "none", ""
	case c.Teacher == fromFile:
		return "teacher", "third encoder, from a file"
	case c.Teacher == own:
		return "own", "the run's own branches"
	case c.Teacher == ownBackbone:
		return "backbone", "the run's own branches, backbone"
	case c.Teacher > 0:
		return fmt.Sprintf("teacher%d", c.Teacher), fmt.Sprintf("third encoder, %d steps", c.Teacher)
	case c.Errors == "":
		return "labels", "labels"
	case c.Errors == errorsOfPairs:
		return fmt.Sprintf("pairs%g", c.Level), fmt.Sprintf("labels, %.0f %% of pairs random", 100*c.Level)
	}
	return fmt.Sprintf("objects%g", c.Level), fmt.Sprintf("labels, %.0f %% of objects mistaken", 100*c.Level)
}

// row names the condition in records, and in the names of cells.
func (c Condition) row() string {
	source, _ := c.source()
	return fmt.Sprintf("%s/share%g/%s", c.Loss, c.Share, source)
}

// conditions lists a profile's conditions. Losses that compare features learn from the run's own branches, as CoTAP does for comparison; others from one teacher, on
// photographs from a file. CoTAP and binary cross-entropy have other shares of alignment's gradient than 1, too, and other sources.
func conditions(profile study.Profile, photographs bool) (all []Condition) {
	teachers, shares, levels := []int{1000, 100}, []float64{0.3, 3}, []float64{0.5}
	compared := sccore.PatchConcentrations
	all = []Condition{{Loss: lossUntrained}, {Loss: lossStart}, {Loss: lossAlignment}, {Loss: sccore.WithCoTAP, Share: 1, Teacher: own}}
	switch profile {
	case study.Smoke:
		teachers, shares, compared = []int{4}, nil, []string{sccore.WithCoTAP, sccore.WithPaKA}
	case study.Full:
		teachers, shares, levels = []int{1000, 5000, 500, 100}, []float64{0.1, 0.3, 3}, []float64{0.25, 0.5, 0.75}
	case study.Real:
		shares, all = nil, append(all, Condition{Loss: sccore.WithCoTAP, Share: 1, Teacher: ownBackbone})
	}
	if photographs {
		teachers = []int{fromFile}
	}
	for _, loss := range compared {
		c := Condition{Loss: loss, Share: 1, Teacher: lo.Ternary(sccore.ComparesFeatures(loss), own, teachers[0])}
		if loss == sccore.WithFastAP || loss == sccore.WithSmoothAP {
			c.Positives = sccore.PositiveShare
		}
		all = append(all, c)
		if loss != sccore.WithCoTAP && loss != sccore.WithBCE {
			continue
		}
		all = append(all, lo.Map(shares, func(share float64, _ int) Condition { return Condition{Loss: loss, Share: share, Teacher: teachers[0]} })...)
		all = append(all, lo.Map(teachers[1:], func(steps, _ int) Condition { return Condition{Loss: loss, Share: 1, Teacher: steps} })...)
		all = append(all, Condition{Loss: loss, Share: 1})
		for _, level := range levels {
			all = append(all, Condition{Loss: loss, Share: 1, Errors: errorsOfPairs, Level: level}, Condition{Loss: loss, Share: 1, Errors: errorsOfObjects, Level: level})
		}
	}
	return all
}

// profileConfig returns the configuration of a profile without a condition and before --set, for photographs or for synthetic images.
func profileConfig(profile study.Profile, photographs bool) Config {
	trained := recipe.ProfileConfig(trainedAs(profile), photographs)
	c := study.Configured(Name, Config{First: trained.First, Second: trained.Second, Probe: trained.Probe}, string(profile), study.Kind(photographs))
	recipe.FollowSteps(&c.Second, study.Options{Profile: trainedAs(profile)})
	if photographs {
		c.First, c.Shares, c.Recall = sccore.Config{}, trained.Shares, trained.Recall
	} else {
		c.Third = c.First
	}
	return c
}

// trainedAs is the profile that a profile trains like: the full one has more runs than the quick one, but no longer ones.
func trainedAs(profile study.Profile) study.Profile {
	return lo.Ternary(profile == study.Full, study.Quick, profile)
}

// photographs reports whether the configuration is for photographs.
func (c Config) photographs() bool { return c.Recall.Size > 0 }

// shared is the part of the configuration that all cells share.
func (c Config) shared() Config {
	c.Condition = Condition{}
	return c
}

// third is the configuration of the third encoder's training, of as many steps as the condition says.
func (c Config) third() sccore.Config {
	t := c.Third
	if c.Teacher > 0 {
		t.Steps, t.WarmupSteps = c.Teacher, min(t.WarmupSteps, c.Teacher-1)
	}
	return t
}

// second is the configuration of the cell's second stage.
func (c Config) second() sccore.Config {
	s := c.Second
	if !c.concentrates() {
		return s
	}
	s.PatchConcentration, s.Lambdas.PatchConcentration, s.LambdaBy = c.Loss, c.Share, sccore.ByGradient
	switch {
	case c.Teacher == own:
	case c.Teacher == ownBackbone:
		s.Correspondences.From = sccore.FromBackbone
	case c.Teacher != 0:
		s.Correspondences.From, s.Teacher = sccore.FromTeacher, sccore.Teacher{Encoder: c.Third.Encoder, Head: c.Third.PatchHead}
	default:
		s.Correspondences.From, s.Correspondences.Fixed = sccore.FromLabels, true
		if c.Errors == errorsOfPairs {
			s.Correspondences.Noise = c.Level
		}
	}
	return s
}

// check returns an error that names the first value out of range.
func (c Config) check(photographs bool) error {
	stages := []struct {
		key          string
		runs, shared sccore.Config // With what the condition sets, and without it.
	}{{"first", c.First, c.First}, {"third", c.third(), c.Third}, {"second", c.second(), c.Second}}
	if photographs {
		stages = stages[2:]
	}
	for _, stage := range stages {
		if err := settings.CheckGroup(stage.key, stage.runs); err != nil {
			return err
		}
		switch l := stage.shared.Lambdas; {
		case l.PatchAlignment == 0:
			return fmt.Errorf("%s.lambdas.patch_alignment 0: all stages align patches", stage.key)
		case l.PatchConcentration+l.ImageConcentration > 0:
			return fmt.Errorf("%s.lambdas: the cells set the lambdas of concentration", stage.key)
		case l.ImageAlignment > 0 && photographs:
			return errors.New("second.lambdas.image_alignment: there are no images of single objects to align")
		}
	}
	if photographs {
		vit, err := encoder.ViTByName(c.Second.Encoder)
		return cmp.Or(err, settings.Between("recall.size", c.Recall.Size, 8, 2048), settings.CheckGroup("recall", c.Recall), vit.CheckSize("recall.size", c.Recall.Size),
			settings.Between("shares", c.Shares, 1, 1<<20), settings.CheckGroup("probe", c.Probe))
	}
	switch {
	case c.First.Encoder != c.Second.Encoder || c.First.PatchHead != c.Second.PatchHead || c.First.ImageSize != c.Second.ImageSize || c.Third.ImageSize != c.Second.ImageSize:
		return errors.New("encoder, patch_head or canvas of the stages differ")
	case c.Images < max(c.First.Batch, c.Third.Batch, c.Second.Batch):
		return fmt.Errorf("images %d is below the batch size", c.Images)
	}
	return cmp.Or(synthetic.Check("images", c.Images, "second.canvas", c.Second.ImageSize), settings.CheckGroup("probe", c.Probe))
}

// checkKind returns an error that names the first setting that only the other kind of images has.
func (c Config) checkKind(photographs bool) error {
	others, kind := Config{Init: c.Init, TeacherFile: c.TeacherFile, Shares: c.Shares, Recall: c.Recall}, "photographs, with --data"
	if photographs {
		others, kind = Config{First: c.First, Third: c.Third, Images: c.Images}, "synthetic images: with --data the start and the teacher come from files"
	}
	changed, err := settings.Changed("", Config{}, others)
	if len(changed) > 0 {
		key, _, _ := strings.Cut(changed[0], "=")
		return fmt.Errorf("%s is a setting of %s", settings.Key(key), kind)
	}
	return err
}

// follow takes the encoders and heads from the files of photographs. It is an error if set has others, or if the start has another head of patches: alignment from a
// new head and concentration from a trained one would not compare.
func (c *Config) follow(set []string) error {
	if c.Recall.Classes != "" && !strings.Contains(c.Recall.Classes, ",") {
		return fmt.Errorf("recall.classes %s: one class has nothing that it could be taken for", c.Recall.Classes)
	}
	c.Third.Encoder, c.Third.PatchHead = c.Second.Encoder, c.Second.PatchHead
	if c.Init == "" || c.TeacherFile == "" { // Cells are listed, not run; see datasetNames.
		return nil
	}
	v, err := sccore.EncoderOf(c.Init)
	var start sccore.Teacher
	if err == nil {
		start, err = sccore.TeacherOf(c.Init)
	}
	if err == nil && !start.HasHead() {
		err = errors.New("it has no head of patches; want a checkpoint, such as first/final.safetensors of a run of pretrain (control/final.safetensors of one with --set init)")
	}
	if err != nil {
		return fmt.Errorf("--set init=%s: %w", c.Init, err)
	}
	teacher, err := sccore.TeacherOf(c.TeacherFile)
	if err != nil {
		return fmt.Errorf("--set teacher=%s: %w", c.TeacherFile, err)
	}
	c.Second = c.Second.Adapt(v)
	needed := c.Second
	needed.PatchHead = start.Head
	if err := settings.Apply(c, set...); err != nil {
		return err
	}
	changed, err := settings.Changed("second.", c.Second, needed)
	if len(changed) > 0 {
		key, value, _ := strings.Cut(changed[0], "=")
		return fmt.Errorf("init=%s needs %s=%s", c.Init, settings.Key(key), value)
	}
	c.Third.Encoder, c.Third.PatchHead = teacher.Encoder, teacher.Head
	return err
}

// The names of stages, and the paths of the cells that make what others begin from, the first stage and third encoders. These are never selected; the other cells of
// their seed need them.
const (
	startPath   = "first stage"
	teacherPath = "third encoder"
)

// makes reports whether a cell makes what others begin from.
func makes(c study.Cell[Config]) bool { return c.Path[0] == startPath || c.Path[0] == teacherPath }

// stage is what a cell trains. The compiled step has the same name.
func stage(c study.Cell[Config]) recipe.Stage {
	s := recipe.Stage{Name: lossAlignment, Config: c.Config.second(), Untrained: c.Config.Loss == lossUntrained || c.Config.Loss == lossStart}
	switch { // Cells that make what others begin from have no condition.
	case c.Path[0] == startPath:
		return recipe.Stage{Name: startPath, Config: c.Config.First}
	case c.Path[0] == teacherPath:
		return recipe.Stage{Name: teacherPath, Config: c.Config.third()}
	case c.Config.concentrates() && c.Config.Teacher == own:
		s.Name = c.Config.Loss
	case c.Config.concentrates() && c.Config.Teacher == ownBackbone:
		s.Name = c.Config.Loss + " from the backbone"
	case c.Config.concentrates() && c.Config.Teacher != 0:
		s.Name = c.Config.Loss + " from a teacher"
	case c.Config.concentrates():
		s.Name = c.Config.Loss + " from labels"
	}
	return s
}

// needs lists the cells that a cell begins from.
func needs(c study.Cell[Config]) (needed []study.Cell[Config]) {
	if makes(c) || c.Config.photographs() {
		return nil
	}
	shared := c.Config.shared()
	needed = append(needed, study.Cell[Config]{Path: []string{startPath}, Seed: c.Seed, Config: shared})
	if c.Config.Teacher > 0 {
		shared.Teacher = c.Config.Teacher
		needed = append(needed, study.Cell[Config]{Path: []string{teacherPath, fmt.Sprint(shared.Teacher)}, Seed: c.Seed, Config: shared})
	}
	return needed
}
