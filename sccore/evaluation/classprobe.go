package evaluation

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/support/exceptions"
	"github.com/semcon/semcon/sccore/knn"
	"github.com/semcon/semcon/sccore/optim"
)

// ClassProbe is a linear classifier on frozen [CLS] features, trained by cross-entropy with AdamW (appendix B, "Optimization strategy"). The
// paper leaves the rest open: the rate falls to 0 on a cosine, and the weights, not the biases, decay as by PyTorch's default.
type ClassProbe struct {
	Images int     `json:"images"` // How many of the training images, drawn by the seed; all if 0 or if there are fewer.
	Epochs int     `json:"epochs"`
	Batch  int     `json:"batch"`
	Rate   float64 `json:"rate"`
	Decay  float64 `json:"decay"`
}

// DefaultClassProbe is the paper's linear probe on ImageNet-1k.
func DefaultClassProbe() ClassProbe {
	return ClassProbe{Epochs: 100, Batch: 4096, Rate: 1e-5, Decay: 0.01}
}

// FastClassProbe is the protocol of the paper's ablation: 30,000 images, once each. Batch and rate, which it does not name, are ours: few steps
// want them shorter and larger.
func FastClassProbe() ClassProbe {
	return ClassProbe{Images: 30_000, Epochs: 1, Batch: 256, Rate: 1e-3, Decay: 0.01}
}

// Check returns an error that names the setting out of range.
func (p ClassProbe) Check() error {
	switch {
	case p.Images < 0:
		return fmt.Errorf("linear probe: images %d is negative", p.Images)
	case p.Epochs < 1:
		return fmt.Errorf("linear probe: epochs %d is below 1", p.Epochs)
	case p.Batch < 1:
		return fmt.Errorf("linear probe: batch %d is below 1", p.Batch)
	case !(p.Rate > 0):
		return fmt.Errorf("linear probe: rate %g is not above 0", p.Rate)
	case !(p.Decay >= 0):
		return fmt.Errorf("linear probe: decay %g is negative", p.Decay)
	}
	return nil
}

// Rank trains the classifier on bank, [N, D], with labels in [0, classes), and returns for each query, [Q, D], the top classes from the most
// probable one down; all classes if there are fewer. The seed says which images are drawn and in which order. The classifier starts at 0. The
// last batch of an epoch may be shorter; the mean of its losses counts as much as another's.
func (p ClassProbe) Rank(
	b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int, seed uint64,
) (ranked [][]int32, err error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := knn.CheckLabelled("linear probe", bank, labels, classes, queries, top); err != nil {
		return nil, err
	}
	caught := exceptions.TryCatch[error](func() {
		store := model.NewStore()
		defer store.Finalize()
		if err = p.train(b, store, bank, labels, classes, seed); err == nil {
			ranked, err = p.rank(b, store, queries, classes, top)
		}
	})
	if caught != nil {
		err = caught
	}
	return ranked, err
}

func (p ClassProbe) train(b compute.Backend, store *model.Store, bank *tensors.Tensor, labels []int32, classes int, seed uint64) error {
	step, err := model.NewExec(b, store, func(scope *model.Scope, inputs []*Node) *Node {
		features, labels, counts, rate := inputs[0], inputs[1], inputs[2], inputs[3]
		logits := head(scope, features, classes)
		losses := Neg(ReduceSum(Mul(OneHot(labels, classes, logits.DType()), LogSoftmax(logits, -1)), -1))
		loss := Div(ReduceAllSum(Mul(losses, counts)), ReduceAllSum(counts))
		var variables []*model.Variable
		var values []*Node
		for variable := range scope.At("head").IterVariables() {
			variables, values = append(variables, variable), append(values, variable.NodeValue(features.Graph()))
		}
		decay := Const(features.Graph(), float32(p.Decay))
		optim.DefaultAdamW().Update(scope.At("adam"), variables, Gradient(loss, values...), rate, decay)
		return loss
	})
	if err != nil {
		return err
	}
	defer step.Finalize()

	random := classProbeOrder(seed)
	order, dim := random.Perm(len(labels)), bank.Shape().Dimensions[1]
	if p.Images > 0 && p.Images < len(order) {
		order = order[:p.Images]
	}
	rows := tensors.MustCopyFlatData[float32](bank)
	batch := min(p.Batch, len(order))
	steps := (len(order) + batch - 1) / batch
	features, chosen, counts := make([]float32, batch*dim), make([]int32, batch), make([]float32, batch)
	for i := range p.Epochs * steps {
		if i > 0 && i%steps == 0 {
			random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		part := order[i%steps*batch:]
		for at := range batch {
			counts[at] = 0
			if at < len(part) {
				counts[at], chosen[at] = 1, labels[part[at]]
				copy(features[at*dim:], rows[part[at]*dim:(part[at]+1)*dim])
			}
		}
		out, err := step.Call(tensors.FromFlatDataAndDimensions(features, batch, dim), chosen, counts,
			float32(optim.Cosine(i, p.Epochs*steps, 0, p.Rate, 0)))
		if err != nil {
			return err
		}
		loss := float64(tensors.ToScalar[float32](out[0]))
		out[0].FinalizeAll()
		if math.IsNaN(loss) || math.IsInf(loss, 0) {
			return fmt.Errorf("linear probe: the loss is %v at step %d", loss, i)
		}
	}
	return nil
}

func (p ClassProbe) rank(b compute.Backend, store *model.Store, queries *tensors.Tensor, classes, top int) ([][]int32, error) {
	classify, err := model.NewExec(b, store, func(scope *model.Scope, features *Node) *Node { return head(scope, features, classes) })
	if err != nil {
		return nil, err
	}
	defer classify.Finalize()
	return knn.RankBlocks(queries, top, func(block *tensors.Tensor) (*tensors.Tensor, error) {
		out, err := classify.Call(block)
		if err != nil {
			return nil, err
		}
		return out[0], nil
	})
}

// classProbeOrder draws the images, and their order in each epoch.
func classProbeOrder(seed uint64) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[16:], "class probe")
	return rand.New(rand.NewChaCha8(key))
}
