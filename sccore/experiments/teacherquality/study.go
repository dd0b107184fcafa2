package teacherquality

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's name.
const Name = "teacher-quality"

// Config is the configuration of a cell.
type Config struct {
	Condition `json:"condition"`

	First  sccore.Config `json:"first"`  // The stage of both alignments, which makes the start.
	Third  sccore.Config `json:"third"`  // The training of the third encoder, of as many steps as the condition says.
	Second sccore.Config `json:"second"` // The stage that is studied, before the condition sets its L_sc.

	Images int                   `json:"images"` // Number of training scenes, and of training objects; there are half as many test scenes. 0 for photographs.
	Probe  evaluation.PatchProbe `json:"probe"`

	Photographs
}

// Condition is what a cell is about.
type Condition struct {
	Loss  string  `json:"loss"`  // What trains: untrained for nothing; start for the first stage alone; alignment; or beside alignment a loss of concentration: cotap, bce, gram, paka, neco, fastap or smoothap.
	Share float64 `json:"share"` // Length of the loss's gradient as a share of alignment's.
	// Teacher is the number of steps that have trained the third encoder, the source of S_t; 0 for labels, and -1 for an encoder from a file.
	Teacher int `json:"teacher"`
	// Errors of labels: "" for none; "pairs", independent ones, where a share Level of pairs of places has a random score; "objects", as a real teacher makes
	// them, where a share Level of the classes in an image is taken for other classes. They are the same in all steps.
	Errors string  `json:"errors"`
	Level  float64 `json:"level"` // Share of the labels that have errors, as errors says.
}

// Values of Loss without patch concentration.
const (
	lossUntrained = "untrained"
	lossStart     = "start"
	lossAlignment = "alignment"
)

// Errors of labels.
const (
	errorsOfPairs   = "pairs"
	errorsOfObjects = "objects"
)

// concentrates reports whether there is patch concentration.
func (c Condition) concentrates() bool {
	return slices.Contains(sccore.PatchConcentrations, c.Loss)
}

// source names where correspondences come from.
func (c Condition) source() string {
	switch {
	case !c.concentrates():
		return "none"
	case c.Teacher == fromFile:
		return "teacher"
	case c.Teacher > 0:
		return fmt.Sprintf("teacher%d", c.Teacher)
	case c.Errors == "":
		return "labels"
	}
	return fmt.Sprintf("%s%g", c.Errors, c.Level)
}

// row names the condition in records.
func (c Condition) row() string { return fmt.Sprintf("%s/share%g/%s", c.Loss, c.Share, c.source()) }

// drawnConfig returns the configuration of a profile for synthetic images, without a condition and before --set.
func drawnConfig(profile study.Profile) Config {
	size := study.Quick // The paper does not train on labels, so the full profile has more runs but no larger ones.
	if profile == study.Smoke {
		size = study.Smoke
	}
	trained := recipe.ProfileConfig(size, false)
	c := Config{First: trained.First, Second: trained.Second, Images: 512, Probe: trained.Probe}
	for _, s := range []*sccore.Config{&c.First, &c.Second} {
		s.Prototypes, s.Lambdas = 0, losses.Lambdas{PatchAlignment: 1}
		s.TargetMomentum = 0.95 // A faster target branch is a better teacher after 500 steps.
		s.MetricsEvery = 1000
	}
	c.First.Lambdas.ImageAlignment = 1
	if profile == study.Smoke {
		c.First.Steps, c.Second.Steps, c.Images = 4, 4, 24
	} else {
		c.Second.Steps, c.Second.WarmupSteps = 120, 12
		c.Probe.Steps = 300
	}
	c.Third = c.First
	return c
}

// third is the configuration of the third encoder's training.
func (c Config) third() sccore.Config {
	t := c.Third
	t.Steps = c.Teacher
	t.WarmupSteps = min(t.WarmupSteps, t.Steps-1)
	return t
}

// second is the configuration of the cell's second stage.
func (c Config) second() sccore.Config {
	s := c.Second
	if !c.concentrates() {
		return s
	}
	s.PatchConcentration, s.Lambdas.PatchConcentration, s.LambdaBy = c.Loss, c.Share, sccore.ByGradient
	if c.Teacher != 0 {
		s.Correspondences.From, s.Teacher = sccore.FromTeacher, sccore.Teacher{Encoder: c.Third.Encoder, Head: c.Third.PatchHead}
		return s
	}
	s.Correspondences.From, s.Correspondences.Fixed = sccore.FromLabels, true
	if c.Errors == errorsOfPairs {
		s.Correspondences.Noise = c.Level
	}
	return s
}

// steps is the number of steps of the cell's second stage.
func (c Config) steps() int {
	if c.Loss == lossStart || c.Loss == lossUntrained {
		return 0
	}
	return c.Second.Steps
}

// check returns an error that names the first value out of range.
func (c Config) check() error {
	third := c.Third
	if c.Teacher > 0 {
		third = c.third()
	}
	if err := cmp.Or(settings.CheckGroup("first", c.First), settings.CheckGroup("third", c.Third), settings.CheckGroup("third", third), settings.CheckGroup("second", c.second())); err != nil {
		return err
	}
	switch {
	case c.First.Encoder != c.Second.Encoder || c.First.PatchHead != c.Second.PatchHead || c.First.ImageSize != c.Second.ImageSize || c.Third.ImageSize != c.Second.ImageSize:
		return errors.New("encoder, patch_head or canvas of the stages differ")
	case c.First.Lambdas.PatchAlignment == 0 || c.Third.Lambdas.PatchAlignment == 0 || c.Second.Lambdas.PatchAlignment == 0:
		return errors.New("lambdas.patch_alignment 0: all stages align patches")
	case c.First.Lambdas.PatchConcentration+c.First.Lambdas.ImageConcentration+c.Third.Lambdas.PatchConcentration+c.Third.Lambdas.ImageConcentration+
		c.Second.Lambdas.PatchConcentration+c.Second.Lambdas.ImageConcentration > 0:
		return errors.New("lambdas.patch_concentration and image_concentration: the cells set them")
	case c.Images < c.First.Batch || c.Images < c.Third.Batch || c.Images < c.Second.Batch:
		return fmt.Errorf("images %d is below the batch size", c.Images)
	}
	return cmp.Or(synthetic.Check("images", c.Images, "second.canvas", c.Second.ImageSize), settings.CheckGroup("probe", c.Probe))
}

// shared is the part of the configuration that must be equal for runs to be compared.
func (c Config) shared() Config {
	c.Condition = Condition{}
	return c
}

// conditions lists those of a profile, for photographs or for synthetic images. Each loss learns from one teacher with a gradient as long as alignment's.
// CoTAP and binary cross-entropy have other shares too, and other sources, of known and unlike quality. On photographs there is one teacher, from a file.
func conditions(profile study.Profile, photographs bool) (all []Condition) {
	teachers, shares, levels := []int{1000, 100}, []float64{0.3, 3}, []float64{0.5}
	compared := sccore.PatchConcentrations
	switch profile {
	case study.Smoke:
		teachers, shares, compared = []int{4}, nil, []string{sccore.WithCoTAP, sccore.WithPaKA}
	case study.Full:
		teachers, shares, levels = []int{1000, 5000, 500, 100}, []float64{0.1, 0.3, 3}, []float64{0.25, 0.5, 0.75}
	}
	if photographs {
		teachers = []int{fromFile}
	}
	all = append(all, Condition{Loss: lossUntrained}, Condition{Loss: lossStart}, Condition{Loss: lossAlignment})
	for _, loss := range compared {
		all = append(all, Condition{Loss: loss, Share: 1, Teacher: teachers[0]})
		if loss != sccore.WithCoTAP && loss != sccore.WithBCE {
			continue
		}
		for _, share := range shares {
			all = append(all, Condition{Loss: loss, Share: share, Teacher: teachers[0]})
		}
		for _, steps := range teachers[1:] {
			all = append(all, Condition{Loss: loss, Share: 1, Teacher: steps})
		}
		all = append(all, Condition{Loss: loss, Share: 1})
		for _, level := range levels {
			all = append(all, Condition{Loss: loss, Share: 1, Errors: errorsOfPairs, Level: level}, Condition{Loss: loss, Share: 1, Errors: errorsOfObjects, Level: level})
		}
	}
	return all
}

// cells lists the cells of a dataset, all cells of one seed before the next seed.
func cells(o study.Options, dataset string) ([]study.Cell[Config], error) {
	photographs := dataset == voc
	base := profileConfig(o.Profile, photographs)
	if err := settings.Apply(&base, o.Set...); err != nil {
		return nil, err
	}
	if base != base.shared() {
		return nil, errors.New("--set condition: choose runs with --only 'cotap/share1/labels'")
	}
	if err := base.follow(photographs, o.Set); err != nil {
		return nil, err
	}
	usual := map[study.Profile]int{study.Smoke: 1, study.Quick: 5, study.Full: 10}[o.Profile]
	if photographs {
		usual = min(usual, 5) // A dataset of masks is cut into as many shares.
	}
	seeds := o.SeedsOr(usual)
	if err := study.CheckSeeds(seeds, base.Shares); err != nil {
		return nil, err
	}
	var cells []study.Cell[Config]
	for seed := range seeds {
		for _, condition := range conditions(o.Profile, photographs) {
			c := base
			c.Condition = condition
			check := c.check
			if photographs {
				check = c.checkPhotographs
			}
			if err := check(); err != nil {
				return nil, err
			}
			cell := study.Cell[Config]{Dataset: dataset, Path: []string{c.Loss, fmt.Sprintf("share%g", c.Share), c.source()}, Seed: seed, Config: c}
			if photographs {
				cell.Path = append([]string{dataset}, cell.Path...)
			}
			cells = append(cells, cell)
		}
	}
	return cells, nil
}

// The paths of the cells that train the first stage and third encoders. They are never selected; the other cells of their seed need them.
const (
	startPath   = "first stage"
	teacherPath = "third encoder"
)

func isStart(c study.Cell[Config]) bool   { return c.Path[0] == startPath }
func isTeacher(c study.Cell[Config]) bool { return c.Path[0] == teacherPath }

// needs lists the cells that a cell begins from.
func needs(c study.Cell[Config]) (needed []study.Cell[Config]) {
	if isStart(c) || isTeacher(c) || c.Config.photographs() {
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

// shares names the cells that share a compiled step.
func shares(c study.Cell[Config]) string {
	switch {
	case isStart(c):
		return startPath
	case isTeacher(c):
		return teacherPath
	case !c.Config.concentrates():
		return lossAlignment
	case c.Config.Teacher != 0:
		return c.Config.Loss + " from a teacher"
	}
	return c.Config.Loss + " from labels"
}

// Study is the experiment.
var Study = study.Spec[Config, data]{
	Info: study.Info{
		Name:       Name,
		Title:      "When does patch concentration help: how good must correspondences be, and with which loss?",
		Reproduces: "\"Patch correspondence distillation\"; explains what claim C16 needs",
		Data:       "synthetic scenes and objects, whose labels give correspondences of known quality; with --data PASCAL VOC, from encoders by --set init=FILE and teacher=FILE",
		Cost: map[study.Profile]string{
			study.Smoke: "a minute",
			study.Quick: "half an hour on 2 cores; on photographs an hour and a half",
			study.Full:  "about 4 hours on 2 cores, by an estimate: ten seeds, more shares, teachers and errors",
		},
	},
	DataBySet: true,
	Parts:     []string{"dataset", "loss", "share", "source", "seed"},
	Datasets:  datasetNames,
	Cells:     cells,
	Open:      open,
	BySeed:    study.EachSeed,
	Numbers: func(d data, c study.Cell[Config]) []study.Number {
		switch {
		case isStart(c) || isTeacher(c):
			return nil
		case c.Dataset == voc:
			return d.measured.RecallNumbers(c.Config.row())
		}
		return []study.Number{{Row: c.Config.row(), Column: recipe.ColumnMIoU}}
	},
	Steps: func(_ data, c study.Cell[Config]) int {
		switch {
		case isStart(c):
			return c.Config.First.Steps
		case isTeacher(c):
			return c.Config.Teacher
		}
		return c.Config.steps()
	},
	NewWorker: newWorker,
	Shares:    shares,
	Needs:     needs,
	Folder: func(d data, c study.Cell[Config]) string {
		if isStart(c) || isTeacher(c) {
			return madeFolder(d, c)
		}
		return filepath.Join("cells", filepath.Join(c.Path...), fmt.Sprintf("seed%d-%s", c.Seed, c.Hash()))
	},
	ProfileConfig: func(r study.Record, config Config) Config {
		c := profileConfig(r.Profile, config.photographs())
		c.Condition, c.Init, c.TeacherFile, c.Third = config.Condition, config.Init, config.TeacherFile, config.Third
		if !config.photographs() {
			c.Third = drawnConfig(r.Profile).Third
		} else if v, err := encoder.ViTByName(config.Second.Encoder); err == nil {
			v.Positions = config.Second.Positions
			c.Second = c.Second.Adapt(v) // As follow does.
		}
		return c
	},
	Common: func(config, _ Config) Config {
		config.Init, config.TeacherFile = "", "" // The data of a record identify the files.
		return config.shared()
	},
	Tables:  func(r study.Results) []figures.Table { return Results{r, false}.tables() },
	Figures: drawn,
}
