package recipe

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Pretraining is the experiment whose encoders others evaluate.
const Pretraining = "pretrain"

// Config is the configuration of training with the method in two stages, and of what measures it.
type Config struct {
	// Init is a file of weights to start from, an official checkpoint or that of an earlier run. It replaces the first stage.
	Init   string        `json:"init"`
	Ignore string        `json:"ignore,omitzero"` // Patterns of the keys in the file of init that are left out, with spaces between them.
	First  sccore.Config `json:"first"`           // The stage of alignment.
	Second sccore.Config `json:"second"`          // The stage of semantic concentration.

	Images int                   `json:"images" range:"[1,2^31)"` // Number of synthetic scenes, and of synthetic objects, per split.
	Size   int                   `json:"size" range:"[8,2048]"`   // Height and width in pixels at which images are encoded, for evaluation and for finding neighbours.
	Probe  evaluation.PatchProbe `json:"probe"`
	KNN    knn.Classifier        `json:"knn"`

	// Shares is the number of shares that the real images to train on and to test on are cut into. Seed 0 has the first share, and so on, so that no image trains or
	// tests two seeds. The images that train the classifiers of recall serve all seeds, and so does a start from a file. 1 gives all images to every seed. It is 0 for
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

// Control is the configuration of the control of the second stage: it goes on from the same start with both alignments alone, for as many steps on as many
// images. What the full method gains over it is not the gain of training longer.
func (c Config) Control() sccore.Config { return sccore.Ablations[2].Config(c.Second) }

// The experiment's columns.
const (
	ColumnMIoU = "linear mIoU"
	ColumnKNN  = "object k-NN"
	ColumnRank = "effective rank" // Effective rank of patch features, for images without labels.
)

// ProfileConfig returns the configuration of a profile before --set, for real images if read is true, else for synthetic ones.
func ProfileConfig(profile study.Profile, read bool) Config {
	c := drawnConfig(profile)
	if !read {
		return c
	}
	c.Shares, c.Recall = 1, Recall{Size: 448, Least: 50}
	for _, s := range []*sccore.Config{&c.First, &c.Second} { // Colours of photographs bear the paper's jitter.
		jitter := sccore.Default().Views
		s.Views.Global.JitterStrength, s.Views.Global.Grayscale = jitter.Global.JitterStrength, jitter.Global.Grayscale
		s.Views.Local.JitterStrength, s.Views.Local.Grayscale = jitter.Local.JitterStrength, jitter.Local.Grayscale
	}
	switch profile {
	case study.Smoke:
		c.Recall = Recall{Size: 32, Least: 1}
	case study.Quick: // 500 steps of the tiny transformer show nothing on photographs.
		c.Shares, c.Recall.Size, c.Recall.Classes = 5, 96, "background,cat,cow,dog,horse,person,sheep"
		for _, s := range []*sccore.Config{&c.First, &c.Second} {
			s.Encoder, s.ImageSize, s.TargetMomentum = "vit-128x4x4p8-grid8", 96, 0.995
			s.Views.GlobalCropSize, s.Views.Locals, s.Views.LocalCropSize = 64, 4, 32
		}
		c.First.Steps, c.First.WarmupSteps, c.First.LearningRate = 6000, 600, 0.002
		c.Second.Steps, c.Second.WarmupSteps = 400, 40
	}
	return c
}

// drawnConfig is the configuration of a profile for synthetic images.
func drawnConfig(profile study.Profile) Config {
	c := Config{
		Second: sccore.Default(), Images: 1024, Size: 224,
		Probe: evaluation.DefaultPatchProbe(), KNN: knn.Classifier{K: 20, Temperature: 0.07},
	}
	if profile != study.Full {
		s := &c.Second
		s.Encoder, s.Prototypes = "vit-tiny", 16
		s.ImageHead, s.PatchHead = heads.Projector{HiddenDim: 256, OutDim: 64}, heads.Projector{HiddenDim: 256, OutDim: 64}
		s.Views.GlobalCropSize, s.Views.Locals, s.ImageSize, c.Size = 48, 0, 64, 64
		s.Batch, s.Steps, s.WarmupSteps, s.Neighbours, s.MetricsEvery = 32, 300, 30, 10, 20
		// The parts of synthetic objects have hues a twelfth of a turn apart. The paper's colour jitter would make them indistinguishable.
		s.Views.Global.JitterStrength, s.Views.Global.Grayscale = 0.15, false
		s.Views.Local.JitterStrength, s.Views.Local.Grayscale = 0.15, false
		s.LearningRate, s.FinalLearningRate, s.WeightDecay, s.FinalWeightDecay, s.TargetMomentum = 1e-3, 1e-5, 0.04, 0.1, 0.99
	}
	if profile == study.Smoke {
		s := &c.Second
		s.Prototypes, s.Views.GlobalCropSize, s.ImageSize, c.Size = 4, 24, 32, 32
		s.ImageHead, s.PatchHead = heads.Projector{HiddenDim: 16, OutDim: 8}, heads.Projector{HiddenDim: 16, OutDim: 8}
		s.Batch, s.Steps, s.WarmupSteps, s.Neighbours, s.MetricsEvery = 8, 8, 1, 2, 2
		c.Images, c.Probe.Steps, c.Probe.Batch, c.KNN.K = 24, 20, 64, 5
	}
	c.First = sccore.Ablations[2].Config(c.Second)
	if profile != study.Full {
		c.First.LearningRate = 3e-3
	}
	if profile == study.Quick {
		c.First.Steps, c.First.WarmupSteps = 500, 50
	}
	return c
}

// Rules returns an error that names the first settings that contradict each other; see [settings.Check].
func (c Config) Rules() error {
	switch {
	case c.First.Correspondences.From == sccore.FromLabels:
		return errors.New("first.correspondences.from: this experiment trains without labels")
	case c.Second.Correspondences.From == sccore.FromLabels:
		return errors.New("second.correspondences.from: this experiment trains without labels")
	case c.First.Encoder != c.Second.Encoder:
		return fmt.Errorf("first.encoder %s is not second.encoder %s", c.First.Encoder, c.Second.Encoder)
	case c.First.Lambdas.ImageConcentration > 0:
		return errors.New("first.lambdas.image_concentration: neighbours are found with the first stage's features")
	case c.Ignore != "" && c.Init == "":
		return errors.New("ignore: there is no init whose keys it could match")
	}
	if _, err := c.evaluations(); err != nil {
		return err
	}
	if !c.WithoutControl {
		if err := settings.CheckGroup("second", c.Control()); err != nil {
			return fmt.Errorf("control (--set without_control=true leaves it out): %w", err)
		}
	}
	vit, err := encoder.ViTByName(c.Second.Encoder)
	if err != nil {
		return err
	}
	return cmp.Or(vit.CheckSize("size", c.Size), vit.CheckSize("recall.size", c.Recall.Size))
}

// CheckRead returns an error that names the first value out of range for real images, or one that counts only for synthetic ones and that the profile does not
// have.
func (c Config) CheckRead(profile study.Profile) error {
	if c.Images != ProfileConfig(profile, true).Images {
		return fmt.Errorf("images %d: only synthetic images have a number; a run takes all images of --data", c.Images)
	}
	return settings.Between("shares", c.Shares, 1, 1<<20)
}

// CheckDrawn returns an error that names the first value out of range for synthetic images, or one that counts only for real images and that the profile
// does not have.
func (c Config) CheckDrawn(profile study.Profile) error {
	size := ProfileConfig(profile, false).Size
	if vit, err := encoder.ViTByName(c.Second.Encoder); err == nil {
		size = vit.NearestSize(size) // As [Config.Follow] does.
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

// Images is the dataset of a data folder, and the start of its cells' names.
const Images = "images"

// StartsFrom reports whether the profile of a record of training lets --set init choose a file to start from: the full one does, which needs it, and the quick one
// on real images, whose first stage takes most of its time. The data of a record identify the file.
func StartsFrom(r study.Record) bool {
	return r.Profile == study.Full || r.Profile == study.Quick && r.Kind == figures.Real
}

// Defaults returns the configuration that the cell behind a record of training has in its profile without --set.
func Defaults(r study.Record, config Config) Config {
	c := ProfileConfig(r.Profile, r.Kind == figures.Real)
	if StartsFrom(r) {
		c.Init = config.Init
	}
	return c
}
