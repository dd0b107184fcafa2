package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Pretraining is the experiment whose encoders others evaluate.
const Pretraining = "pretrain"

// Config is the configuration of training with the method in two stages, and of what measures it.
type Config struct {
	// Init is a file of weights to start from: an official checkpoint or the encoder of an earlier run. It replaces the first stage.
	Init   string        `json:"init"`
	Ignore string        `json:"ignore,omitzero"` // Patterns of the keys in the file of init that are left out, with spaces between them.
	First  sccore.Config `json:"first"`           // The stage of alignment.
	Second sccore.Config `json:"second"`          // The stage of semantic concentration.

	Images int                   `json:"images" range:"[1,2^31)"` // Number of synthetic scenes, and of synthetic objects, per split.
	Size   int                   `json:"size" range:"[8,2048]"`   // Height and width in pixels at which images are encoded, for evaluation and for finding neighbours.
	Probe  evaluation.PatchProbe `json:"probe"`
	KNN    knn.Classifier        `json:"knn"`

	// Shares is the number of shares that the real images to train on, and to classify, are cut into. Seed 0 has the first share, and so on, so that no such image
	// serves two seeds. The images that recall is measured on serve all seeds, and so does a start from a file. 1 gives all images to every seed. It is 0 for
	// synthetic images, which are drawn for each seed.
	Shares int    `json:"shares,omitzero" range:"[0,2^20]"`
	Recall Recall `json:"recall,omitzero"` // Measures patches of real images; zero for synthetic ones.

	// EvaluateEvery is the number of steps between evaluations during training: with labels by the linear probe and k-NN, without by the spread of patch
	// features. 0 means none. Evaluations do not change the training.
	EvaluateEvery int `json:"evaluate_every,omitzero" range:"[0,2^31)"`
	// Evaluate names further evaluations that run with these, with commas between them: those of "semcon evaluate", such as in-context,patches. After a colon may
	// stand a dataset, as in patches:camvid; by default it is the first that is in the data folder, or drawn images without one.
	Evaluate string `json:"evaluate,omitzero"`
	// GradientsEvery is the number of steps between measurements of each loss's gradient, and with labels of the precision of correspondences.
	// 0 means none. They do not change the training.
	GradientsEvery int `json:"gradients_every,omitzero" range:"[0,2^31)"`
	// WithoutControl leaves out the control of the second stage, which goes on with both alignments alone for as many steps.
	WithoutControl bool `json:"without_control,omitzero"`
}

// The experiment's rows.
const (
	RowRandom    = "random init"
	RowInit      = "initialisation" // A file of weights.
	RowAlignment = "alignment"      // After the first stage.
	RowControl   = "alignment, equal steps"
	RowMethod    = "full method" // After the second.
)

// Control is the configuration of the control of the second stage: it continues from the same initialisation with both alignments alone, for as many steps on
// as many images. So the full method's gain over it is not due to longer training.
func (c Config) Control() sccore.Config { return sccore.Ablations[2].Config(c.Second) }

// The experiment's columns.
const (
	ColumnMIoU = "linear mIoU"
	ColumnKNN  = "object k-NN"
	ColumnRank = "effective rank" // Effective rank of patch features, for images without labels.
)

// ProfileConfig returns the configuration of a profile before --set, for real images if read is true, else for synthetic ones, which the real profile does not have.
func ProfileConfig(profile study.Profile, read bool) Config {
	kind := study.Kind(read || profile == study.Real)
	c := study.Configured(Pretraining, Config{Second: sccore.Default(), Probe: evaluation.DefaultPatchProbe()}, string(profile), kind, "second")
	FollowSteps(&c.Second, study.Options{Profile: profile})
	c.First = sccore.Ablations[2].Config(c.Second)
	return study.Configured(Pretraining, c, string(profile), kind, "first")
}

// horizons are the horizons of the target branch, as shares of the steps of the second stage. The paper's β of 0.9997 over 100,000 steps is a thirtieth. A
// short run has a larger share, since the target branch must average over some tens of steps.
var horizons = map[study.Profile]float64{study.Smoke: 1. / 6, study.Quick: 1. / 6, study.Real: 0.139, study.Full: 1. / 30}

// FollowSteps sets the momentum of the target branch by the steps of the second stage and the profile, unless --set sets it. It warns of a change.
func FollowSteps(second *sccore.Config, o study.Options) {
	if settings.Given(o.Set, "second.momentum") {
		return
	}
	usual := second.TargetMomentum
	if second.TargetMomentum = sccore.MomentumOver(horizons[o.Profile], second.Steps); second.TargetMomentum != usual {
		o.Warnf("second.momentum=%g follows second.steps=%d, unless it is set", second.TargetMomentum, second.Steps)
	}
}

// Rules returns an error that names the first settings that contradict each other; see [settings.Check].
func (c Config) Rules() (err error) {
	defer try.Handle(&err)
	switch {
	case c.First.Correspondences.From == sccore.FromLabels:
		return errors.New("first.correspondences.from: this experiment trains without labels")
	case c.Second.Correspondences.From == sccore.FromLabels:
		return errors.New("second.correspondences.from: this experiment trains without labels")
	case c.First.Correspondences.From == sccore.FromTeacher || c.Second.Correspondences.From == sccore.FromTeacher:
		return errors.New("correspondences.from teacher: only teacher-quality has a third encoder")
	case c.First.Encoder != c.Second.Encoder:
		return fmt.Errorf("first.encoder %s is not second.encoder %s", c.First.Encoder, c.Second.Encoder)
	case c.First.Lambdas.ImageConcentration > 0:
		return errors.New("first.lambdas.image_concentration: neighbours are found with the first stage's features")
	case c.Ignore != "" && c.Init == "":
		return errors.New("ignore: there is no init whose keys it could match")
	}
	try.E1(c.evaluations())
	if !c.WithoutControl {
		if err := settings.CheckGroup("second", c.Control()); err != nil {
			return fmt.Errorf("control (--set without_control=true leaves it out): %w", err)
		}
	}
	vit := try.E1(encoder.ViTByName(c.Second.Encoder))
	return cmp.Or(vit.CheckSize("size", c.Size), vit.CheckSize("recall.size", c.Recall.Size))
}

// Check returns an error that names the first value that is out of range for real images, if read is true, or for synthetic ones; or the first value that
// matters only for the other kind of images and differs from the profile.
func (c Config) Check(profile study.Profile, read bool) (err error) {
	defer try.Handle(&err)
	try.E(settings.Check(c))
	usual := ProfileConfig(profile, read)
	if profile == study.Real && c.Recall.Size == 0 {
		return fmt.Errorf("recall.size 0: the real profile measures recall over patches; want 8 or more, such as %d", usual.Recall.Size)
	}
	if read {
		if c.Images != usual.Images {
			return fmt.Errorf("images %d: only synthetic images have a number; a run takes all images of --data", c.Images)
		}
		return settings.Between("shares", c.Shares, 1, 1<<20)
	}
	size := usual.Size
	if vit, err := encoder.ViTByName(c.Second.Encoder); err == nil {
		size = vit.NearestSize(size) // As [Config.Configure] does.
	}
	switch {
	case c.Images < c.First.Batch || c.Images < c.Second.Batch || c.Images <= c.Second.Neighbours:
		return fmt.Errorf("images %d is below the batch size or the number of neighbours; --set images=%d fits", c.Images, max(c.First.Batch, c.Second.Batch, c.Second.Neighbours+1))
	case c.Size != size:
		return fmt.Errorf("size %d: synthetic images are encoded at their own size, second.canvas", c.Size)
	case c.Shares != 0:
		return errors.New("shares: synthetic images are drawn for each seed")
	}
	return synthetic.Check("images", c.Images, "second.canvas", c.Second.ImageSize)
}

// Configure applies --set to a profile's configuration and checks it. What --set leaves open comes from the file Init, if there is one: the encoder, the resizing of
// its positions, and the nearest sizes of views and images that are whole numbers of its patches. Synthetic images are encoded whole. It warns of sizes
// that change. A --set that names an encoder leaves nothing open, and a file that cannot be read changes nothing. config points to the configuration that
// has c in it. The profiles real and full need a file. The momentum of the target branch follows the steps, unless --set sets it.
func (c *Config) Configure(o study.Options, config checked, read bool) (err error) {
	defer try.Handle(&err)
	try.E(settings.Apply(config, o.Set...))
	if c.follows(o.Set) {
		try.E(c.follow(o, config, read))
	}
	FollowSteps(&c.Second, o)
	try.E(config.Check(o.Profile, read))
	switch {
	case c.Init != "":
	case o.Profile == study.Full:
		return errors.New("the full profile starts from an official checkpoint: --set init=FILE")
	case o.Profile == study.Real:
		return errors.New("the real profile starts from a published transformer: --set init=FILE (tools/vits14.py makes the file)")
	}
	return nil
}

// checked is a configuration that knows its ranges.
type checked interface {
	Check(profile study.Profile, read bool) error
}

// follow takes the encoder from Init, with what depends on it, and applies --set again.
func (c *Config) follow(o study.Options, config any, read bool) (err error) {
	defer try.Handle(&err)
	v, err := sccore.EncoderOf(c.Init, c.patterns()...)
	if err != nil {
		return nil // [Open] says so, where the file is needed.
	}
	before := *c
	c.First, c.Second, c.Size = c.First.Adapt(v), c.Second.Adapt(v), v.NearestSize(c.Size)
	if !read {
		c.Second.ImageSize = v.NearestSize(c.Second.ImageSize)
	}
	first := c.First // It is not run, so that it follows in any case.
	try.E(settings.Apply(config, o.Set...))
	c.First, before.First = first, first
	changed, err := settings.Changed("", before, *c)
	if len(changed) > 0 {
		o.Warnf("%s: %s", c.Init, strings.Join(changed, ", "))
	}
	return err
}

// follows reports whether the configuration takes from Init what set leaves open.
func (c Config) follows(set []string) bool {
	return c.Init != "" && !settings.Given(set, "second.encoder")
}

// patterns are those of Ignore.
func (c Config) patterns() []string { return strings.Fields(c.Ignore) }

// Stage returns a stage that starts from Init, or without one from the file after of an earlier stage.
func (c Config) Stage(name string, config sccore.Config, after string) Stage {
	return lo.Ternary(c.Init != "", Stage{Name: name, Config: config, Init: c.Init, Ignore: c.patterns()}, Stage{Name: name, Config: config, After: after})
}

// Images is the dataset of a data folder, and the start of its cells' names.
const Images = "images"

// Defaults returns the configuration that the cell behind a record of training has in its profile without --set.
func Defaults(r study.Record, config Config) Config {
	c := ProfileConfig(r.Profile, r.Kind == figures.Real)
	c.Init = UsualInit(r, config.Init)
	return c
}

// Common is what records of training have to share to be compared, for a [study.Spec]: everything but the name of Init, which the data of a record identify.
func Common(config, _ Config) Config {
	config.Init = ""
	return config
}

// UsualInit is the file that the cell behind a record starts from without --set. The profiles real and full need one, and in the quick one on real images --set init
// may choose one, because the first stage takes most of its time. The data of a record identify the file.
func UsualInit(r study.Record, init string) string {
	return lo.Ternary(r.Profile == study.Full || r.Profile != study.Smoke && r.Kind == figures.Real, init, "")
}
