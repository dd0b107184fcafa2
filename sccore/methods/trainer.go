package methods

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/safetensors"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/train"
	"github.com/semcon/semcon/sccore/views"
)

// Trainer holds the weights and the compiled step of one method; a step reports its loss. It is not safe for concurrent use.
type Trainer struct {
	*train.Trainer[float64]
	Config Config

	backend  compute.Backend
	images   *datasets.Images
	pixels   train.Placed // All images, on each device.
	features *model.Exec

	recipe  views.Recipe // The current run's.
	lossSum float64      // The sum over the steps of the last step's epoch.
}

// NewTrainer returns a trainer on images and compiles its step. It keeps all images on the device, as bytes. The error names the setting that is out of range.
func NewTrainer(b compute.Backend, images *datasets.Images, config Config) (_ *Trainer, err error) {
	defer try.Handle(&err)
	try.E(settings.Check(config))
	if images.Len() < config.Batch {
		return nil, fmt.Errorf("batch %d is larger than %s, which has %d images; --set batch=%d fits", config.Batch, images.Name, images.Len(), images.Len())
	}
	if images.Height != images.Width {
		return nil, fmt.Errorf("%s: images of %d×%d pixels are not square", images.Name, images.Width, images.Height)
	}
	pixels := try.E1(place(b, images))
	t := &Trainer{Config: config, backend: b, images: images, pixels: pixels}
	if t.Trainer, err = train.New(b, t.task()); err != nil {
		pixels.Close()
		return nil, err
	}
	t.features = try.E1(model.NewExec(b, t.Store(), func(scope *model.Scope, images *Node) *Node {
		return features(config.Encoder, scope.In(onlineScope), DivScalar(ConvertDType(images, dtypes.Float32), 255), layers.Norm{})
	}))
	return t, nil
}

// SetImages sets the images of the runs to come: as many as before, and of one size with them.
func (t *Trainer) SetImages(images *datasets.Images) (err error) {
	old := t.images
	if images == old {
		return nil
	}
	if images.Len() != old.Len() || images.Height != old.Height || images.Width != old.Width {
		return fmt.Errorf("%d images of %d×%d pixels need another compiled step than %d of %d×%d", images.Len(), images.Width, images.Height, old.Len(), old.Width, old.Height)
	}
	t.Rewind()
	t.pixels.Close()
	t.images = images
	t.pixels, err = place(t.backend, images)
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
	t.pixels.Close()
}

// Begin sets the weights to their initial values, which depend on the seed alone, and the position to step 0. Runs that share a compiled step differ in recipe and
// seed. Call it before Resume as well: checkpoints do not identify their run.
func (t *Trainer) Begin(recipe views.Recipe, seed uint64) (err error) {
	defer try.Handle(&err)
	try.E(settings.Check(recipe))
	t.Rewind()
	t.recipe, t.lossSum = recipe, 0
	return t.Trainer.Begin(seed)
}

// StepsPerEpoch is the number of whole batches in the images.
func (t *Trainer) StepsPerEpoch() int { return t.images.Len() / t.Config.Batch }

// LearningRate is the learning rate of a step, counted from 0.
func (t *Trainer) LearningRate(step int) float64 {
	perEpoch := t.StepsPerEpoch()
	return optim.Cosine(step, t.Config.Epochs*perEpoch, t.Config.WarmupEpochs*perEpoch, t.Config.LearningRate, 0)
}

// EpochLoss is the mean loss of the current epoch so far; right after an epoch's end it is the mean over that epoch.
func (t *Trainer) EpochLoss() float64 {
	if t.Done() == 0 {
		return 0
	}
	return t.lossSum / float64((t.Done()-1)%t.StepsPerEpoch()+1)
}

// Features returns the backbone's features of images, one row of dim numbers each, not normalised.
func (t *Trainer) Features(images *datasets.Images) (rows []float32, dim int, err error) {
	return featuresOf(t.features, images, 1, func(_ int, pixels *tensors.Tensor) []any { return []any{pixels} })
}

// SaveOnline writes the online encoder and its heads to path, without optimizer state. Tensors are named by the variables' paths below the online
// branch, with dots for slashes.
func (t *Trainer) SaveOnline(path string, metadata map[string]string) error {
	return safetensors.SaveScope(path, t.Store().Scope("/"+onlineScope), belowOnline, metadata)
}

func belowOnline(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"+onlineScope+"/"), "/", ".")
}

// task is what package train trains. Devices share a batch and its views; each has all images.
func (t *Trainer) task() train.Task[float64] {
	batch, side := t.Config.Batch, t.images.Height
	return train.Task[float64]{
		Steps: func() int { return t.Config.Epochs * t.StepsPerEpoch() }, Ahead: true, Batches: t.batches, Learnt: onlineScope,
		Schedule: func(step int) []float32 { // The learning rate and MoCo's momentum.
			momentum := lo.Ternary(t.Config.Method == MoCo && step == 0, 0, t.Config.TargetMomentum)
			return []float32{float32(t.LearningRate(step)), float32(momentum)}
		},
		Inputs: []train.Input{
			{Shape: shapes.Make(dtypes.Uint8, t.images.Len(), side, side, 3)}, {Shape: shapes.Make(dtypes.Int32, batch), Divided: true},
			{Shape: shapes.Make(dtypes.Float32, 2*batch, views.NumParams), Divided: true}, {Shape: shapes.Make(dtypes.Int32, batch)},
		},
		Loss: t.loss,
		Update: func(scope *model.Scope, variables []*model.Variable, gradients []*Node, schedule *Node) []train.Report[float64] {
			sgd := optim.SGD{Momentum: t.Config.Momentum, WeightDecay: t.Config.WeightDecay}
			sgd.Update(scope.In(optimizerScope), variables, gradients, Reshape(Slice(schedule, AxisElem(0))))
			return nil
		},
		Save: func(at train.Position, metadata map[string]string) error {
			encoded, err := json.Marshal(position{at.Done, t.lossSum})
			metadata["position"] = string(encoded)
			return err
		},
		Restore: func(metadata map[string]string, _ *train.Position) error {
			var p position
			err := json.Unmarshal([]byte(metadata["position"]), &p)
			t.lossSum = p.LossSum
			return err
		},
		Workload: train.Workload{Images: batch},
	}
}

// position is the state of a run in a checkpoint. The caller must know the run's seed and recipe.
type position struct {
	Done    int     `json:"done"`
	LossSum float64 `json:"loss_sum"`
}

// loss is the method's loss on a batch of the images.
func (t *Trainer) loss(scope *model.Scope, inputs []*Node) (*Node, []train.Report[float64]) {
	images, indices, params, shuffle, schedule := inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]
	batch := Gather(images, InsertAxes(indices, -1))
	batch.AssertDims(t.Config.Batch, t.images.Height, t.images.Width, 3)
	targetMomentum := Reshape(Slice(schedule, AxisElem(1)))
	loss := t.Config.loss(scope, views.Apply(batch, params, t.images.Height), shuffle, targetMomentum)
	report := train.Mean("loss", loss, func(loss *float64) *float64 { return loss })
	read := report.Read
	report.Read = func(loss *float64, at train.At, value *tensors.Tensor) string {
		diverged := read(loss, at, value)
		if at.Step%t.StepsPerEpoch() == 0 {
			t.lossSum = 0
		}
		t.lossSum += *loss
		return diverged
	}
	return loss, []train.Report[float64]{report}
}

// batches draws the batches of a run and their views.
func (t *Trainer) batches(_ context.Context, seed uint64, from int) iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		s, perEpoch := t.Config, t.StepsPerEpoch()
		var order []int32 // Of the images in the epoch.
		for step := from; ; step++ {
			epoch, place := step/perEpoch, step%perEpoch
			if order == nil || place == 0 {
				order = shuffledOrder(seed, "order", epoch, t.images.Len())
			}
			indices := order[place*s.Batch : (place+1)*s.Batch]
			params := t.recipe.Draw(seed, epoch, indices, 2, t.images.Height, t.images.Width)
			shuffle := make([]int32, s.Batch)
			if s.Method == MoCo {
				shuffle = shuffledOrder(seed, "keys", step, s.Batch)
			}
			if !yield(train.Batch{Inputs: []any{t.pixels, slices.Clone(indices), params, shuffle}}, nil) {
				return
			}
		}
	}
}

// shuffledOrder is a permutation of 0…n−1 that depends on its arguments alone.
func shuffledOrder(seed uint64, purpose string, at, n int) []int32 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(at))
	copy(key[16:], purpose)
	random := rand.New(rand.NewChaCha8(key))
	order := lo.RangeFrom(int32(0), n)
	random.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// FeatureExtractor is a frozen backbone that maps augmented views to features. One compiled graph serves any number of trained weights of the same encoder.
type FeatureExtractor struct {
	size     int // Height and width of images.
	views    int
	store    *model.Store
	features *model.Exec
}

// NewFeatureExtractor compiles the named encoder for square images of size pixels and this many views of each. Load sets its weights.
func NewFeatureExtractor(b compute.Backend, name string, size, viewsOfEach int) (_ *FeatureExtractor, err error) {
	defer try.Handle(&err)
	try.E1(encoder.ByName(name))
	if size < 1 || viewsOfEach < 1 {
		return nil, fmt.Errorf("feature extractor %s: %d views of %d pixels", name, viewsOfEach, size)
	}
	f := &FeatureExtractor{size: size, views: viewsOfEach, store: model.NewStore()}
	f.features = try.E1(model.NewExec(b, f.store, func(scope *model.Scope, inputs []*Node) *Node {
		return features(name, scope.In(onlineScope), views.Apply(inputs[0], inputs[1], size), layers.Norm{})
	}))
	return f, backend.Catch(func() error {
		_, err := f.features.Compile(shapes.Make(dtypes.Uint8, featureBatch, size, size, 3), shapes.Make(dtypes.Float32, viewsOfEach*featureBatch, views.NumParams))
		return err
	})
}

// Close frees the device's memory.
func (f *FeatureExtractor) Close() {
	f.features.Finalize()
	f.store.Finalize()
}

// Load reads the weights that [Trainer.SaveOnline] wrote to path and ignores the heads. The error names the file and what is wrong with it.
func (f *FeatureExtractor) Load(path string) error {
	return safetensors.LoadScope(path, f.store.Scope("/"+onlineScope), belowOnline)
}

// Features maps the views that recipe draws of each image to features, image by image and view by view: the first length values are the first view of
// the first image. The views are the same as in training epoch 0 with this seed.
func (f *FeatureExtractor) Features(images *datasets.Images, recipe views.Recipe, seed uint64) (features []float32, length int, err error) {
	if images.Height != f.size || images.Width != f.size {
		return nil, 0, fmt.Errorf("%s: images of %d×%d pixels, the encoder was compiled for %d×%d",
			images.Name, images.Width, images.Height, f.size, f.size)
	}
	return featuresOf(f.features, images, f.views, func(begin int, pixels *tensors.Tensor) []any {
		return []any{pixels, recipe.Draw(seed, 0, lo.RangeFrom(int32(begin), featureBatch), f.views, f.size, f.size)}
	})
}

// featureBatch is the number of images per inference; the last batch is padded with black images.
const featureBatch = 64

// featuresOf runs a graph on all images and returns its rows, [views, featureBatch, length], image by image. inputs makes the graph's inputs of a batch.
func featuresOf(
	exec *model.Exec, images *datasets.Images, views int, inputs func(begin int, pixels *tensors.Tensor) []any,
) (features []float32, length int, err error) {
	defer try.Handle(&err)
	size := images.Height * images.Width * 3
	for begin := 0; begin < images.Len(); begin += featureBatch {
		count, batch := min(featureBatch, images.Len()-begin), make([]uint8, featureBatch*size)
		copy(batch, images.Pixels[begin*size:(begin+count)*size])
		given := inputs(begin, tensors.FromFlatDataAndDimensions(batch, featureBatch, images.Height, images.Width, 3))
		var flat []float32
		try.E(train.Execute(exec, given, func(outputs []*tensors.Tensor) {
			length, flat = outputs[0].Shape().Dim(-1), tensors.MustCopyFlatData[float32](outputs[0])
		}))
		features = slices.Grow(features, count*views*length)
		for i := range count {
			for v := range views {
				row := flat[(v*featureBatch+i)*length:][:length]
				if err := safetensors.CheckFinite(row); err != nil {
					return nil, 0, fmt.Errorf("image %d of %s: its features are not finite: %w", begin+i, images.Name, err)
				}
				features = append(features, row...)
			}
		}
	}
	return features, length, nil
}
