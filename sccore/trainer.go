package sccore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/losses"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/weights"
)

// Data is what a run trains on: object-centric images, scenes, or half a batch of each.
type Data struct {
	Objects, Scenes datasets.Source
	// Neighbours of Objects, from which positives are drawn; only image concentration needs them. See [Trainer.SetNeighbours].
	Neighbours *knn.Neighbours
	// Labels writes the label map of an image, [size, size] with 0 for no label, aligned with the pixels that Objects and Scenes write; scenes are numbered after
	// all objects. Nil for images without labels. [StepMetrics].Classes uses them; training uses them only for correspondences from labels.
	Labels func(image int32, labels []uint8, size int) error
	// Background is the label of background, 1 where the first class is background: patches of it are no objects. 0 says that pixels without a label are background.
	Background uint8
	// TeacherLabels are those that correspondences from labels are made of, such as wrong ones; nil for Labels.
	TeacherLabels func(image int32, labels []uint8, size int) error

	Workers int // Images decoded in parallel; 0 for one per processor. It changes nothing else.
}

// Loader reads batches of a run without positives. imageSize is the height and width in pixels of the canvas of an image.
func (d Data) Loader(seed uint64, batch, imageSize int) datasets.Loader {
	return datasets.Loader{Objects: d.Objects, Scenes: d.Scenes, BatchSize: batch, ImageSize: imageSize, Seed: seed, Workers: d.Workers}
}

// Trainer trains an encoder with the paper's method. One compiled step serves any number of runs. A run depends on its configuration, data and seed
// and on the backend, on nothing else. A Trainer is not safe for concurrent use.
type Trainer struct {
	Branches[StepMetrics]

	backend     compute.Backend
	config      Config // The current run's; the step is compiled for a configuration of the same shape.
	data        Data
	step        step
	measured    *losses.Lambdas         // The weights that [ByGradient] has set for the run; nil for the configuration's weights.
	diagnostics map[bool]*train.Program // Of [Diagnostics] with and without lengths, once they are compiled.
}

// NewTrainer compiles the step of a configuration. The error names what is out of range or missing.
func NewTrainer(b compute.Backend, data Data, config Config) (_ *Trainer, err error) {
	defer try.Handle(&err)
	t := try.E1(newTrainer(data, config))
	return t, t.compile(b)
}

// newTrainer returns a trainer whose step is not compiled yet.
func newTrainer(data Data, config Config) (_ *Trainer, err error) {
	defer try.Handle(&err)
	try.E(settings.Check(config))
	t := &Trainer{diagnostics: map[bool]*train.Program{}, config: config, data: data}
	try.E(t.mixture(0).Check())
	switch part := config.Batch / config.AccumulationSteps; {
	case data.Objects == nil && (config.hasImageLoss() || config.Lambdas.Prototypes > 0):
		return nil, errors.New("lambdas: losses of images and prototypes need object-centric images")
	case config.learnsFrom(FromLabels) && data.Labels == nil:
		return nil, errors.New("correspondences.from labels: the images have no labels")
	case data.Objects != nil && data.Scenes != nil && part%2 != 0:
		return nil, fmt.Errorf("batch %d in %d parts cannot be halved into objects and scenes", config.Batch, config.AccumulationSteps)
	case part < 2 && config.Lambdas.PatchConcentration > 0, (part < 2 || data.Scenes != nil && part < 4) && (config.hasImageLoss() || config.Lambdas.Prototypes > 0):
		return nil, fmt.Errorf("batch %d in %d parts: losses compare the images of a part, and need two of a kind", config.Batch, config.AccumulationSteps)
	}
	t.step = newStep(config, data.Objects != nil, data.Scenes != nil, data.Labels != nil)
	t.step.background = data.Background
	t.step.taught = data.TeacherLabels != nil && config.learnsFrom(FromLabels)
	return t, nil
}

func (t *Trainer) compile(b compute.Backend) (err error) {
	t.backend = b
	t.Branches, err = NewBranches(b, t.task(), t.step.vit)
	return err
}

// Close frees the device's memory and stops reading images.
func (t *Trainer) Close() {
	for _, program := range t.diagnostics {
		program.Finalize()
	}
	t.Trainer.Close()
}

// Configure sets another configuration for the runs to come. It must share the compiled step: schedules, steps, the augmentation of views, the share
// of noise and nonzero λ may differ. Anything else is an error.
func (t *Trainer) Configure(config Config) (err error) {
	defer try.Handle(&err)
	try.E(settings.Check(config))
	if config.shape() != t.config.shape() {
		return errors.New("this configuration needs another compiled step")
	}
	t.Rewind()
	t.config, t.measured = config, nil
	return nil
}

// SetData sets the images of the runs to come. They must be of the kinds that the step is compiled for: objects, scenes and labels, as before.
func (t *Trainer) SetData(data Data) error {
	old := t.data
	if (data.Objects == nil) != (old.Objects == nil) || (data.Scenes == nil) != (old.Scenes == nil) || (data.Labels == nil) != (old.Labels == nil) ||
		(data.TeacherLabels == nil) != (old.TeacherLabels == nil) || data.Background != old.Background {
		return errors.New("these images need another compiled step")
	}
	t.Rewind()
	t.data = data
	return nil
}

// SetNeighbours sets the neighbours from which the runs to come draw positives. They are often found with the features of an earlier run.
func (t *Trainer) SetNeighbours(neighbours *knn.Neighbours) {
	t.Rewind()
	t.data.Neighbours = neighbours
}

// Begin sets the weights of both branches to the initial values of a seed, the same on every backend, and the run to step 0.
func (t *Trainer) Begin(seed uint64) (err error) {
	defer try.Handle(&err)
	try.E(t.checkNeighbours())
	t.measured = nil
	return t.Trainer.Begin(seed)
}

// Resume restores what Save wrote and returns its note. Training continues as if it had never stopped, bit for bit on the same backend. The file must
// be of the trainer's configuration, and the data must be the same; the error names the file.
func (t *Trainer) Resume(path string) (note string, err error) {
	defer try.Handle(&err)
	try.E(t.checkNeighbours())
	return t.Trainer.Resume(path)
}

// checkNeighbours returns an error if positives cannot be drawn.
func (t *Trainer) checkNeighbours() error {
	if t.step.positives() == 0 {
		return nil
	}
	switch n := t.data.Neighbours; {
	case n == nil:
		return errors.New("lambdas.image_concentration needs neighbours to draw positives from")
	case len(n.Indices) != n.K*t.data.Objects.Len():
		return fmt.Errorf("neighbours of %d images for %d object-centric ones", len(n.Indices)/max(n.K, 1), t.data.Objects.Len())
	}
	return nil
}

// BeginFrom is [Trainer.Begin] with weights from a file in both branches. The file is a checkpoint of any configuration with the same encoder, of which the
// online branch is read, the one that the paper keeps; or a transformer that weights.ReadViT reads. Variables that the file lacks have the initial values of
// the seed: the filter and heads for an official checkpoint, and heads of other sizes. Keys of a transformer that match ignore are left out.
func (t *Trainer) BeginFrom(path string, seed uint64, ignore ...string) (err error) {
	defer try.Handle(&err)
	try.E(t.Begin(seed))
	return t.Adopt(path, ignore, func(variable string) (from string, needed bool) {
		below, online := strings.CutPrefix(variable, "/"+onlineScope+"/")
		if !online {
			return "", false
		}
		return variable, strings.HasPrefix(below, encoderScope+"/") && !strings.Contains(below, "/filter/")
	})
}

// CheckStart returns an error that names the file unless [Trainer.BeginFrom] can read it with a configuration and the keys to ignore, and its makers standardise images as
// trainings do. It compiles nothing. Whether a checkpoint has all variables is left to BeginFrom.
func CheckStart(path string, config Config, ignore ...string) error {
	named, err := readCheckpoint(path, ignore...)
	if named == nil && err == nil {
		_, err = weights.ReadViT(path, config.ViT(), "", ignore...)
	}
	return cmp.Or(err, weights.CheckColours(path, datasets.DefaultPreprocessing()))
}

// EncoderOf returns the encoder in a file that [Trainer.BeginFrom] takes, without its weights. The error names the file.
func EncoderOf(path string, ignore ...string) (_ encoder.ViT, err error) {
	defer try.Handle(&err)
	config, ok := try.E2(configOf(path, ignore...))
	if !ok {
		return weights.Identify(path, ignore...)
	}
	v, err := encoder.ViTByName(config.Encoder)
	if err != nil {
		return v, fmt.Errorf("%s: configuration of the run: %w", path, err)
	}
	v.Positions = config.Positions
	return v, settings.Check(v)
}

// metadataOf returns the metadata of a checkpoint; nil for other files of weights. Of a file that cannot be read the error says what package weights makes of it.
func metadataOf(path string, ignore ...string) (metadata map[string]string, err error) {
	if !strings.HasSuffix(path, ".safetensors") {
		return nil, nil
	}
	if metadata, err = safetensors.ReadMetadata(path); err != nil {
		_, err = weights.NamingOf(path, ignore...)
	}
	if metadata["position"] == "" {
		return nil, err
	}
	return metadata, nil
}

// configOf returns the configuration of the run that a checkpoint is of; ok is false for other files of weights.
func configOf(path string, ignore ...string) (config Config, ok bool, err error) {
	metadata, err := metadataOf(path, ignore...)
	if metadata == nil {
		return Config{}, false, err
	}
	if err := json.Unmarshal([]byte(metadata["config"]), &config); err != nil {
		return Config{}, false, fmt.Errorf("%s: configuration of the run: %w", path, err)
	}
	return config, true, nil
}

// Branches trains an online branch, whose moving average is the target branch: this method, or one of package selfdistillation. M is what a step reports.
type Branches[M any] struct {
	*train.Trainer[M]
	// Skipped, if not nil, is called for each image that cannot be read.
	Skipped func(datasets.Skipped)

	vit encoder.ViT
}

// NewBranches compiles the step of a task, whose branches have this encoder and the names that package sccore gives them. Both branches of a run begin with the
// same values; other branches begin with zeros.
func NewBranches[M any](b compute.Backend, task train.Task[M], vit encoder.ViT) (Branches[M], error) {
	task.Learnt, task.Ahead = onlineScope, true
	task.Initialize = func(store *model.Store, seed uint64) (err error) {
		defer try.Handle(&err)
		try.E(train.Initialize(store, seed, "/"+targetScope, "/"+teacherScope, "/"+gramScope))
		return copyOnline(store)
	}
	trainer, err := train.New(b, task)
	return Branches[M]{Trainer: trainer, vit: vit}, err
}

// Skip tells Skipped of images.
func (t *Branches[M]) Skip(images []datasets.Skipped) {
	for _, image := range images {
		if t.Skipped != nil {
			t.Skipped(image)
		}
	}
}

// Adopt takes weights from a file into a run that has begun, in both branches. The file is a checkpoint, in which source names what a variable takes, or ""
// for nothing, and says whether the file must have it; or a transformer that weights.ReadViT reads without the keys that match ignore.
func (t *Branches[M]) Adopt(path string, ignore []string, source func(variable string) (from string, needed bool)) (err error) {
	defer try.Handle(&err)
	try.E(read(t.Store(), path, t.vit.Name, t.vit, onlineScope, ignore, source))
	return copyOnline(t.Store())
}

// read gives variables the weights of a file that [Branches.Adopt] takes. A transformer alone goes into the branch of a scope; who is what needs the weights.
func read(store *model.Store, path, who string, vit encoder.ViT, scope string, ignore []string, source func(variable string) (from string, needed bool)) (err error) {
	defer try.Handle(&err)
	if named := try.E1(readCheckpoint(path, ignore...)); named != nil {
		return take(store, path, named, who, source)
	}
	return try.E1(weights.ReadViT(path, vit, "", ignore...)).Apply(store, "/"+scope+"/"+encoderScope)
}

// copyOnline gives what the online branch starts with to the target branch, and to the Gram teacher if there is one.
func copyOnline(store *model.Store) error {
	return cmp.Or(train.CopyScope(store, "/"+onlineScope, "/"+targetScope), train.CopyScope(store, "/"+onlineScope, "/"+gramScope))
}

// take gives variables the values that a checkpoint has under the names that source returns, where it has one of the variable's shape. What is needed and missing
// is an error, which says who needs it.
func take(store *model.Store, path string, named map[string]*tensors.Tensor, who string, source func(variable string) (from string, needed bool)) error {
	for variable := range store.IterVariables() {
		from, needed := source(variable.Path())
		value, ok := named[from]
		if !ok || !value.Shape().Equal(variable.Shape()) {
			if needed {
				return fmt.Errorf("%s: no %s of %s, which %s needs", path, from, variable.Shape(), who)
			}
			continue
		}
		values, err := tensors.CopyFlatData[float32](value)
		if err = cmp.Or(err, safetensors.CheckFinite(values)); err == nil {
			err = variable.SetValue(value)
		}
		if err != nil {
			return fmt.Errorf("%s: variable %s: %w", path, from, err)
		}
	}
	return nil
}

// readCheckpoint reads a checkpoint; named is nil for other files of weights.
func readCheckpoint(path string, ignore ...string) (named map[string]*tensors.Tensor, err error) {
	if metadata, err := metadataOf(path, ignore...); metadata == nil {
		return nil, err
	}
	named, _, err = safetensors.Read(path)
	return named, err
}

// Branch is one of the two branches.
type Branch string

// The branches.
const (
	Online Branch = onlineScope
	Target Branch = targetScope
)

// Encoder returns the encoder of a branch in place: what it is, its store, and the scope of its variables. Later steps change it.
func (t *Branches[M]) Encoder(branch Branch) (vit encoder.ViT, store *model.Store, scope string) {
	return t.vit, t.Store(), "/" + string(branch) + "/" + encoderScope
}

// SaveEncoder writes the encoder of a branch, without heads and optimizer, to a .safetensors file under timm's names, for weights.ReadViT. timm loads
// it strictly if it has no filter.
func (t *Branches[M]) SaveEncoder(path string, branch Branch, metadata map[string]string) error {
	vit, store, scope := t.Encoder(branch)
	return weights.Export(path, weights.Timm, store, scope, vit, nil, metadata)
}
