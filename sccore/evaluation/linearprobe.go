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
	"github.com/semcon/semcon/sccore/settings"
)

// LinearProbe is a linear classifier on frozen [CLS] features, trained by cross-entropy with AdamW ("Main Results on ImageNet & COCO", "Optimization strategy"). The paper
// leaves the rest open: here the learning rate follows a cosine to 0, and the weights, but not the biases, decay with PyTorch's default.
type LinearProbe struct {
	Images       int     `json:"images" range:"[0,2^31)"` // Training images, drawn by the seed; all if 0 or if there are fewer.
	Epochs       int     `json:"epochs" range:"[1,2^14]"`
	Batch        int     `json:"batch" range:"[1,2^18]"`
	LearningRate float64 `json:"rate" range:"(0,1e4]"`
	WeightDecay  float64 `json:"decay" range:"[0,1e4]"`
}

// DefaultLinearProbe is the paper's linear probe on ImageNet-1k.
func DefaultLinearProbe() LinearProbe {
	return LinearProbe{Epochs: 100, Batch: 4096, LearningRate: 1e-5, WeightDecay: 0.01}
}

// FastLinearProbe is the protocol of the paper's ablation: one epoch of 30,000 images. The paper gives no batch size or learning rate; ours are
// smaller and larger, as few steps need.
func FastLinearProbe() LinearProbe {
	return LinearProbe{Images: 30_000, Epochs: 1, Batch: 256, LearningRate: 1e-3, WeightDecay: 0.01}
}

// Protocol describes the classifier.
func (p LinearProbe) Protocol() string {
	return fmt.Sprintf("linear probe, AdamW, %d epochs of batches of %d, rate %g", p.Epochs, p.Batch, p.LearningRate)
}

// Rank trains the classifier on bank, [N, D], with labels in [0, classes). It returns for each query, [Q, D], the top classes, most probable first;
// all classes if there are fewer. The seed draws the images and their order. The classifier starts at 0. The last batch of an epoch may be smaller;
// the mean of its losses counts as much as that of any other batch.
func (p LinearProbe) Rank(
	b compute.Backend, bank *tensors.Tensor, labels []int32, classes int, queries *tensors.Tensor, top int, seed uint64,
) (ranked [][]int32, err error) {
	if err := settings.Check(p); err != nil {
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

func (p LinearProbe) train(b compute.Backend, store *model.Store, bank *tensors.Tensor, labels []int32, classes int, seed uint64) error {
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
		decay := Const(features.Graph(), float32(p.WeightDecay))
		optim.DefaultAdamW().Update(scope.At("adam"), variables, Gradient(loss, values...), rate, decay)
		return loss
	})
	if err != nil {
		return err
	}
	defer step.Finalize()

	random := linearProbeOrder(seed)
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
			float32(optim.Cosine(i, p.Epochs*steps, 0, p.LearningRate, 0)))
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

func (p LinearProbe) rank(b compute.Backend, store *model.Store, queries *tensors.Tensor, classes, top int) ([][]int32, error) {
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

// linearProbeOrder draws the images and their order in each epoch.
func linearProbeOrder(seed uint64) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[16:], "class probe")
	return rand.New(rand.NewChaCha8(key))
}
