package siamese

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
	"github.com/semcon/semcon/sccore/optim"
	"github.com/semcon/semcon/sccore/views"
)

// featureBatch is the number of images that an inference graph takes at once; the last batch is padded.
const featureBatch = 256

// Run is what differs between runs that share a compiled step.
type Run struct {
	Recipe views.Recipe
	Seed   uint64
}

// Trainer holds the weights and the compiled step of one method. It is not for use by several goroutines at once.
type Trainer struct {
	Settings Settings

	backend  compute.Backend
	images   *datasets.Images
	pixels   *tensors.Tensor // All images, on the device.
	store    *model.Store
	step     *model.Exec
	features *model.Exec

	run     Run
	done    int // Steps of the current run that are done.
	epoch   int // Epoch that order belongs to; −1 before the first.
	order   []int32
	lossSum float64 // Of the steps of the epoch that the last step belongs to.
}

// NewTrainer returns a trainer on images. It holds them on the device as bytes for its life. The error names the setting that is out of
// range.
func NewTrainer(b compute.Backend, images *datasets.Images, settings Settings) (*Trainer, error) {
	if err := settings.Check(); err != nil {
		return nil, err
	}
	if images.Len() < settings.Batch {
		return nil, fmt.Errorf("batch %d is larger than %s, which has %d images", settings.Batch, images.Name, images.Len())
	}
	if images.Height != images.Width {
		return nil, fmt.Errorf("%s: images of %d×%d pixels are not square", images.Name, images.Width, images.Height)
	}
	t := &Trainer{Settings: settings, backend: b, images: images, store: model.NewStore()}
	t.pixels = tensors.FromFlatDataAndDimensions(images.Pixels, images.Len(), images.Height, images.Width, 3)
	if err := t.pixels.ToDevice(b, 0); err != nil {
		return nil, err
	}
	var err error
	if t.step, err = model.NewExec(b, t.store, t.stepGraph); err != nil {
		return nil, err
	}
	t.features, err = model.NewExec(b, t.store, t.featureGraph)
	return t, err
}

// Close frees the device's memory.
func (t *Trainer) Close() {
	t.step.Finalize()
	t.features.Finalize()
	t.store.Finalize()
	t.pixels.FinalizeAll()
}

// stepGraph is one step of training. Inputs: all images [N, H, W, 3]; the batch's indices [B]; its views' parameters [2B, NumParams]; MoCo's
// shuffle [B]; and [learning rate, target momentum]. It returns the loss.
func (t *Trainer) stepGraph(scope *model.Scope, inputs []*Node) *Node {
	images, indices, params, shuffle, scheduled := inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]
	g := images.Graph()
	batch := Gather(images, InsertAxes(indices, -1))
	batch.AssertDims(t.Settings.Batch, t.images.Height, t.images.Width, 3)
	rate := Reshape(Slice(scheduled, AxisElem(0)))
	targetMomentum := Reshape(Slice(scheduled, AxisElem(1)))

	loss := t.Settings.loss(scope, views.Apply(batch, params, t.images.Height), shuffle, targetMomentum)

	var learnt []*model.Variable
	var values []*Node
	for variable := range scope.At(onlineScope).IterVariables() {
		if variable.Trainable {
			learnt = append(learnt, variable)
			values = append(values, variable.NodeValue(g))
		}
	}
	sgd := optim.SGD{Momentum: t.Settings.Momentum, WeightDecay: t.Settings.WeightDecay}
	sgd.Update(scope.In(optimizerScope), learnt, Gradient(loss, values...), rate)
	return loss
}

// featureGraph maps images, [N, H, W, 3] of bytes, to the online backbone's features with running statistics, [N, D].
func (t *Trainer) featureGraph(scope *model.Scope, images *Node) *Node {
	backbone, err := encoder.ByName(t.Settings.Encoder)
	if err != nil {
		panic(err)
	}
	x := standardized(DivScalar(ConvertDType(images, dtypes.Float32), 255))
	return backbone.Features(scope.In(onlineScope).In("backbone"), x, layers.Norm{})
}

// Begin sets the weights to their initial values for run, which depend on its seed alone, and the position to step 0.
func (t *Trainer) Begin(run Run) (err error) {
	if err := run.Recipe.Check(); err != nil {
		return err
	}
	if err := t.compile(); err != nil {
		return err
	}
	for variable := range t.store.IterVariables() {
		if err := variable.Reset(); err != nil {
			return err
		}
	}
	if err := t.store.SetRNGStateFromSeed(int64(run.Seed)); err != nil {
		return err
	}
	// On the Go engine, whatever the device: then the same seed gives the same initial weights everywhere.
	host, err := backend.OpenConfig(backend.Go)
	if err != nil {
		return err
	}
	defer host.Finalize()
	if caught := exceptions.TryCatch[error](func() { err = t.store.InitializeVariables(host, nil) }); caught != nil {
		return caught
	}
	if err != nil {
		return err
	}
	for variable := range t.store.IterVariables() {
		value, err := variable.Value()
		if err != nil {
			return err
		}
		if err := value.ToLocal(); err != nil {
			return err
		}
	}
	t.run, t.done, t.epoch, t.lossSum = run, 0, -1, 0
	return nil
}

// compile builds and compiles the step, which makes its variables.
func (t *Trainer) compile() (err error) {
	if t.store.NumVariables() > 0 {
		return nil
	}
	caught := exceptions.TryCatch[error](func() {
		_, err = t.step.Compile(
			t.pixels.Shape(), shapeOf[int32](t.Settings.Batch), shapeOf[float32](2*t.Settings.Batch, views.NumParams),
			shapeOf[int32](t.Settings.Batch), shapeOf[float32](2))
	})
	if caught != nil {
		return caught
	}
	return err
}

// StepsPerEpoch is the number of whole batches in the images.
func (t *Trainer) StepsPerEpoch() int { return t.images.Len() / t.Settings.Batch }

// Steps is the number of steps of a run.
func (t *Trainer) Steps() int { return t.Settings.Epochs * t.StepsPerEpoch() }

// Done is the number of steps of the current run that are done.
func (t *Trainer) Done() int { return t.done }

// Rate is the learning rate of the next step.
func (t *Trainer) Rate() float64 {
	return optim.Cosine(t.done, t.Steps(), t.Settings.WarmupEpochs*t.StepsPerEpoch(), t.Settings.Rate, 0)
}

// Step trains one step and returns its loss. What it does depends on the run and on the number of steps done, alone.
func (t *Trainer) Step() (loss float64, err error) {
	s, perEpoch := t.Settings, t.StepsPerEpoch()
	epoch, place := t.done/perEpoch, t.done%perEpoch
	if place == 0 {
		t.lossSum = 0
	}
	if epoch != t.epoch {
		t.epoch, t.order = epoch, shuffledOrder(t.run.Seed, "order", epoch, t.images.Len())
	}
	indices := t.order[place*s.Batch : (place+1)*s.Batch]
	params := t.run.Recipe.Draw(t.run.Seed, epoch, indices, 2, t.images.Height, t.images.Width)
	shuffle := make([]int32, s.Batch)
	targetMomentum := s.TargetMomentum
	if s.Method == MoCo {
		shuffle = shuffledOrder(t.run.Seed, "keys", t.done, s.Batch)
		if t.done == 0 {
			targetMomentum = 0
		}
	}
	var out []*tensors.Tensor
	caught := exceptions.TryCatch[error](func() {
		out, err = t.step.Exec(t.pixels, append([]int32(nil), indices...), params, shuffle, []float32{float32(t.Rate()), float32(targetMomentum)})
	})
	if caught != nil {
		err = caught
	}
	if err != nil {
		return 0, err
	}
	defer out[0].FinalizeAll()
	loss = float64(tensors.ToScalar[float32](out[0]))
	t.done++
	t.lossSum += loss
	return loss, nil
}

// EpochLoss is the mean loss of the current epoch's steps so far, or of the whole last epoch right after its end.
func (t *Trainer) EpochLoss() float64 {
	if t.done == 0 {
		return 0
	}
	return t.lossSum / float64((t.done-1)%t.StepsPerEpoch()+1)
}

// Features returns the backbone's features of images, one row of length Dim each, as they are: of any length.
func (t *Trainer) Features(images *datasets.Images) (*tensors.Tensor, error) {
	size := images.Height * images.Width * 3
	var rows []float32
	dim := 0
	for begin := 0; begin < images.Len(); begin += featureBatch {
		count := min(featureBatch, images.Len()-begin)
		batch := make([]uint8, featureBatch*size) // Padded with black images.
		copy(batch, images.Pixels[begin*size:(begin+count)*size])
		var out []*tensors.Tensor
		var err error
		caught := exceptions.TryCatch[error](func() {
			out, err = t.features.Exec(tensors.FromFlatDataAndDimensions(batch, featureBatch, images.Height, images.Width, 3))
		})
		if caught != nil {
			err = caught
		}
		if err != nil {
			return nil, err
		}
		dim = out[0].Shape().Dimensions[1]
		flat := tensors.MustCopyFlatData[float32](out[0])
		rows = append(rows, flat[:count*dim]...)
		out[0].FinalizeAll()
	}
	return tensors.FromFlatDataAndDimensions(rows, images.Len(), dim), nil
}

// shuffledOrder is a permutation of 0…n−1 that depends on its arguments alone.
func shuffledOrder(seed uint64, purpose string, at, n int) []int32 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[0:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(at))
	copy(key[16:], purpose)
	random := rand.New(rand.NewChaCha8(key))
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	random.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// shapeOf is the shape of an input of the step.
func shapeOf[T int32 | float32](dimensions ...int) shapes.Shape {
	return shapes.Make(dtypes.FromGenericsType[T](), dimensions...)
}
