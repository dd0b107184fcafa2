package methods

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// featureBatch is the number of images per inference; the last batch is padded.
const featureBatch = 256

// Run is what differs between runs that share a compiled step.
type Run struct {
	Recipe views.Recipe
	Seed   uint64
}

// Trainer holds the weights and the compiled step of one method; a step reports its loss. It is not safe for concurrent use.
type Trainer struct {
	*train.Trainer[float64]
	Config Config

	backend   compute.Backend
	objective *objective
	features  *model.Exec
}

// NewTrainer returns a trainer on images and compiles its step. It keeps all images on the device, as bytes. The error names the setting that is out
// of range.
func NewTrainer(b compute.Backend, images *datasets.Images, settings Config) (*Trainer, error) {
	if err := settings.Check(); err != nil {
		return nil, err
	}
	if images.Len() < settings.Batch {
		return nil, fmt.Errorf("batch %d is larger than %s, which has %d images; --set batch=%d fits", settings.Batch, images.Name, images.Len(), images.Len())
	}
	if images.Height != images.Width {
		return nil, fmt.Errorf("%s: images of %d×%d pixels are not square", images.Name, images.Width, images.Height)
	}
	pixels, err := place(b, images)
	if err != nil {
		return nil, err
	}
	t := &Trainer{Config: settings, backend: b, objective: &objective{config: settings, images: images, pixels: pixels}}
	if t.Trainer, err = train.New(b, t.objective.task()); err != nil {
		pixels.Close()
		return nil, err
	}
	if t.features, err = model.NewExec(b, t.Store(), t.featureGraph); err != nil {
		return nil, err
	}
	return t, nil
}

// SetImages sets the images of the runs to come: as many as before, and of one size with them.
func (t *Trainer) SetImages(images *datasets.Images) error {
	old := t.objective.images
	if images == old {
		return nil
	}
	if images.Len() != old.Len() || images.Height != old.Height || images.Width != old.Width {
		return fmt.Errorf("%d images of %d×%d pixels need another compiled step than %d of %d×%d", images.Len(), images.Width, images.Height, old.Len(), old.Width, old.Height)
	}
	t.Rewind()
	t.objective.pixels.Close()
	t.objective.images = images
	var err error
	t.objective.pixels, err = place(t.backend, images)
	return err
}

// place moves all images to each device.
func place(b compute.Backend, images *datasets.Images) (train.Placed, error) {
	return train.Place(b, tensors.FromFlatDataAndDimensions(images.Pixels, images.Len(), images.Height, images.Width, 3))
}

// Close frees the device's memory.
func (t *Trainer) Close() {
	t.features.Finalize()
	t.Trainer.Close()
	t.objective.pixels.Close()
}

// featureGraph maps images, [N, H, W, 3] of bytes, to the online backbone's features, [N, D], with running statistics.
func (t *Trainer) featureGraph(scope *model.Scope, images *Node) *Node {
	backbone, err := encoder.ByName(t.Config.Encoder)
	if err != nil {
		panic(err)
	}
	x := standardized(DivScalar(ConvertDType(images, dtypes.Float32), 255))
	return backbone.Features(scope.In(onlineScope).In("backbone"), x, layers.Norm{})
}

// Begin sets the weights to their initial values for run, which depend on its seed alone, and the position to step 0. Call it before Resume as well:
// checkpoints do not identify their run.
func (t *Trainer) Begin(run Run) error {
	if err := run.Recipe.Check(); err != nil {
		return err
	}
	t.Rewind()
	t.objective.recipe, t.objective.lossSum = run.Recipe, 0
	return t.Trainer.Begin(run.Seed)
}

// StepsPerEpoch is the number of whole batches in the images.
func (t *Trainer) StepsPerEpoch() int { return t.objective.stepsPerEpoch() }

// LearningRate is the learning rate of a step, counted from 0.
func (t *Trainer) LearningRate(step int) float64 { return t.objective.rate(step) }

// EpochLoss is the mean loss of the current epoch so far; right after an epoch's end it is that of the whole epoch.
func (t *Trainer) EpochLoss() float64 {
	if t.Done() == 0 {
		return 0
	}
	return t.objective.lossSum / float64((t.Done()-1)%t.StepsPerEpoch()+1)
}

// Features returns the backbone's features of images, one row each, not normalised.
func (t *Trainer) Features(images *datasets.Images) (*tensors.Tensor, error) {
	size := images.Height * images.Width * 3
	var rows []float32
	dim := 0
	for begin := 0; begin < images.Len(); begin += featureBatch {
		count := min(featureBatch, images.Len()-begin)
		batch := make([]uint8, featureBatch*size) // Padded with black images.
		copy(batch, images.Pixels[begin*size:(begin+count)*size])
		inputs := []any{tensors.FromFlatDataAndDimensions(batch, featureBatch, images.Height, images.Width, 3)}
		err := train.Execute(t.features, inputs, func(outputs []*tensors.Tensor) {
			dim = outputs[0].Shape().Dimensions[1]
			rows = append(rows, tensors.MustCopyFlatData[float32](outputs[0])[:count*dim]...)
		})
		if err != nil {
			return nil, err
		}
		for i := begin; i < begin+count; i++ {
			if err := safetensors.CheckFinite(rows[i*dim : (i+1)*dim]); err != nil {
				return nil, fmt.Errorf("image %d of %s: its features are not finite: %w", i, images.Name, err)
			}
		}
	}
	return tensors.FromFlatDataAndDimensions(rows, images.Len(), dim), nil
}

// SaveOnline writes the online encoder and its heads to path, without optimizer state. Tensors are named by the variables' paths below the online
// branch, with dots for slashes.
func (t *Trainer) SaveOnline(path string, metadata map[string]string) error {
	named := map[string]*tensors.Tensor{}
	for variable := range t.Store().Scope("/" + onlineScope).IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		name := strings.TrimPrefix(variable.Path(), "/"+onlineScope+"/")
		named[strings.ReplaceAll(name, "/", ".")] = value
	}
	return safetensors.Write(path, named, metadata)
}
