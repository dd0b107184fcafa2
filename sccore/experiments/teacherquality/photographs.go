package teacherquality

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/recipe"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Photographs is the configuration of a cell on photographs, those of PASCAL VOC, whose masks give labels. A start and a teacher that have learnt something
// from photographs took an hour, so both come from files.
type Photographs struct {
	Init        string        `json:"init,omitzero"`    // A checkpoint that all runs start from: the file first/final.safetensors of a run of pretrain. Only for photographs.
	TeacherFile string        `json:"teacher,omitzero"` // Another one, whose online branch is the frozen third encoder, with its head. Only for photographs.
	Shares      int           `json:"shares,omitzero"`  // The number of shares that the images to train on and to test on are cut into. Seed 0 has the first share, and so on; 1 gives all to every seed. It is 0 for synthetic images.
	Recall      recipe.Recall `json:"recall,omitzero"`  // Measures patches of the test images; zero for synthetic images.
}

// photographs reports whether the configuration is for photographs.
func (c Config) photographs() bool { return c.Recall.Size > 0 }

const (
	voc      = "voc2012" // The dataset of photographs.
	fromFile = -1        // Condition.Teacher of a third encoder from a file.
)

// profileConfig returns the configuration of a profile without a condition and before --set.
func profileConfig(profile study.Profile, photographs bool) Config {
	if !photographs {
		return drawnConfig(profile)
	}
	size := study.Quick
	if profile == study.Smoke {
		size = study.Smoke
	}
	trained := recipe.ProfileConfig(size, true)
	c := Config{Second: trained.Second, Probe: trained.Probe, Photographs: Photographs{Shares: trained.Shares, Recall: trained.Recall}}
	c.Second.Prototypes, c.Second.Lambdas, c.Second.MetricsEvery = 0, losses.Lambdas{PatchAlignment: 1}, 1000
	switch profile {
	case study.Smoke:
		c.Second.Steps = 4
	default:
		c.Second.Steps, c.Second.WarmupSteps = 120, 12
	}
	return c
}

// datasetNames lists PASCAL VOC if there is a data folder, else the synthetic images, which have no name.
func datasetNames(o study.Options) (names, missing []string, err error) {
	if o.Data == "" {
		return []string{""}, nil, nil
	}
	for _, key := range []string{"init", "teacher"} {
		if !settings.Given(o.Set, key) || slices.Contains(o.Set, key+"=") {
			return nil, nil, missingFile{key}
		}
	}
	for _, split := range []datasets.Split{datasets.Train, datasets.Test} {
		if _, err := datasets.VOC(o.Data, split); err != nil {
			return nil, nil, err
		}
	}
	return []string{voc}, nil, nil
}

// missingFile is the error of photographs without one of the files that they need. It is an [fs.ErrNotExist], as that of missing data is.
type missingFile struct{ key string }

func (e missingFile) Error() string {
	return fmt.Sprintf("photographs start from files that pretrain leaves: --set %s=FILE is missing (without --data the images are synthetic)", e.key)
}

// Unwrap returns [fs.ErrNotExist].
func (missingFile) Unwrap() error { return fs.ErrNotExist }

// follow takes the encoders and heads from the files of photographs. It is an error if set has others.
func (c *Config) follow(photographs bool, set []string) error {
	if !photographs {
		if c.Photographs != (Photographs{}) {
			return errors.New("init, teacher, shares and recall are settings of photographs, with --data")
		}
		return nil
	}
	if err := c.checkNotDrawn(set); err != nil {
		return err
	}
	if c.Recall.Classes != "" && !strings.Contains(c.Recall.Classes, ",") {
		return fmt.Errorf("recall.classes %s: one class has nothing that it could be taken for", c.Recall.Classes)
	}
	c.Third.Encoder, c.Third.PatchHead = c.Second.Encoder, c.Second.PatchHead
	if c.Init == "" || c.TeacherFile == "" { // Cells are listed, not run; see datasetNames.
		return nil
	}
	start, err := sccore.TeacherOf(c.Init) // With a head of patches, too: arms from a new one would compare something else.
	if err != nil {
		return fmt.Errorf("--set init=%s: %w", c.Init, err)
	}
	if start.Head != c.Second.PatchHead {
		return fmt.Errorf("second.patch_head: hidden %d and out %d, where the head of init=%s has %d and %d", c.Second.PatchHead.HiddenDim, c.Second.PatchHead.OutDim,
			c.Init, start.Head.HiddenDim, start.Head.OutDim)
	}
	v, err := sccore.EncoderOf(c.Init)
	if err != nil {
		return fmt.Errorf("--set init=%s: %w", c.Init, err)
	}
	teacher, err := sccore.TeacherOf(c.TeacherFile)
	if err != nil {
		return fmt.Errorf("--set teacher=%s: %w", c.TeacherFile, err)
	}
	asked := c.Second
	c.Second = c.Second.Adapt(v)
	for _, s := range []struct{ key, asked, has string }{
		{"second.encoder", asked.Encoder, c.Second.Encoder},
		{"second.positions", string(asked.Positions), string(c.Second.Positions)},
		{"second.views.global_size", fmt.Sprint(asked.Views.GlobalCropSize), fmt.Sprint(c.Second.Views.GlobalCropSize)},
		{"second.views.local_size", fmt.Sprint(asked.Views.LocalCropSize), fmt.Sprint(c.Second.Views.LocalCropSize)},
	} {
		if settings.Given(set, s.key) && s.asked != s.has {
			return fmt.Errorf("--set %s=%s: the encoder of init=%s needs %s", s.key, s.asked, c.Init, s.has)
		}
	}
	c.Third.Encoder, c.Third.PatchHead = teacher.Encoder, teacher.Head
	return nil
}

// checkNotDrawn returns an error that names the first of set that only synthetic images have, before files have filled in the third encoder.
func (c Config) checkNotDrawn(set []string) error {
	if c.First == (sccore.Config{}) && c.Third == (sccore.Config{}) && c.Images == 0 {
		return nil
	}
	for _, assignment := range set {
		key, _, _ := strings.Cut(assignment, "=")
		if group, _, _ := strings.Cut(key, "."); group == "first" || group == "third" || group == "images" {
			return fmt.Errorf("%s is a setting of synthetic images: with --data the start and the teacher come from files", key)
		}
	}
	return nil
}

// checkPhotographs returns an error that names the first value out of range.
func (c Config) checkPhotographs() error {
	if err := settings.CheckGroup("second", c.second()); err != nil {
		return err
	}
	switch {
	case c.Second.Lambdas.PatchAlignment == 0:
		return errors.New("second.lambdas.patch_alignment 0: all cells align patches")
	case c.Second.Lambdas.PatchConcentration+c.Second.Lambdas.ImageConcentration+c.Second.Lambdas.ImageAlignment > 0:
		return errors.New("second.lambdas: the cells set those of concentration, and there are no images of single objects to align")
	}
	vit, err := encoder.ViTByName(c.Second.Encoder)
	return cmp.Or(err, settings.Between("recall.size", c.Recall.Size, 8, settings.MaxImageSize), settings.CheckGroup("recall", c.Recall), vit.CheckSize("recall.size", c.Recall.Size),
		settings.Between("shares", c.Shares, 1, 1<<20), settings.CheckGroup("probe", c.Probe))
}

// OmitPaths omits the paths of the files of photographs, which the data identify.
func (c *Config) OmitPaths() { c.Init, c.TeacherFile = "", "" }

// openPhotographs opens a seed's share of PASCAL VOC's training images with their labels, and what measures recall.
func openPhotographs(o study.Options, c Config, seed int) (d data, err error) {
	start, err := weights.Digest(c.Init)
	if err != nil {
		return d, err
	}
	teacher, err := weights.Digest(c.TeacherFile)
	if err != nil {
		return d, err
	}
	if start == teacher {
		return d, study.BadOption{Err: fmt.Errorf("--set teacher=%s has the same content as init=%s, want another encoder", c.TeacherFile, c.Init)}
	}
	images, err := datasets.VOC(o.Data, datasets.Train)
	if err != nil {
		return d, err
	}
	if c.Recall.Classes != "" {
		if images, err = images.Only(strings.Split(c.Recall.Classes, ",")...); err != nil {
			return d, study.BadOption{Err: fmt.Errorf("--set recall.classes=%s: %w", c.Recall.Classes, err)}
		}
	}
	shares := o.SharesOf(images.Name, images.Len(), "images", c.Shares)
	d.identity = study.IdentityOfShares(images.Identity, shares) + fmt.Sprintf("; start sha256 %s; teacher sha256 %s", start, teacher)
	d.title = "photographs of " + images.Name
	scenes, err := images.Share(seed, shares).AnnotatedScenes(c.Second.ImageSize)
	if err != nil {
		return d, err
	}
	d.train = sccore.Data{Scenes: scenes, Labels: scenes.Labels}
	d.classes = len(scenes.Classes)
	d.measured, err = recipe.OpenRecall(o, c.Recall, seed, c.Shares, d.identity)
	d.identity = d.measured.Identity()
	return d, err
}
