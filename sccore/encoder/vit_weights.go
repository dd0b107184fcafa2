package encoder

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/model/initializer"
)

// initialValue returns the initializer of a variable for a scope, whose store holds the random numbers.
type initialValue func(scope *model.Scope) model.VariableInitializer

// normal initialises tokens, position embeddings and the weights of linear layers.
func (p parameters) normal(scope *model.Scope) model.VariableInitializer {
	return initializer.RandomNormalFn(scope, p.initStd)
}

// uniform initialises the weight and the bias of a convolution with that many inputs, as PyTorch does.
func uniform(inputs int) initialValue {
	limit := 1 / math.Sqrt(float64(inputs))
	return func(scope *model.Scope) model.VariableInitializer {
		return initializer.RandomUniformFn(scope, -limit, limit)
	}
}

func zeros(*model.Scope) model.VariableInitializer { return Zeros }

func ones(*model.Scope) model.VariableInitializer { return Ones }

// small initialises LayerScale, with the value of DINOv2 and DINOv3.
func small(*model.Scope) model.VariableInitializer {
	return func(g *Graph, shape shapes.Shape) *Node { return MulScalar(Ones(g, shape), 1e-5) }
}

// Weight is one trainable variable of a [ViT].
type Weight struct {
	Path   string // Below the transformer's scope: blocks/0/attn/qkv/weight. With "." for "/" it is the name in timm's VisionTransformer.
	Shape  []int
	Filter bool // It belongs to the Object-Aware Filter, which transformers of DINO and timm do not have.
}

// Weights lists the trainable variables that [ViT.Tokens] creates, in the order of DINO and timm.
func (v ViT) Weights() []Weight {
	var all []Weight
	filter := false
	add := func(path string, shape ...int) { all = append(all, Weight{path, shape, filter}) }
	linear := func(path string, in, out int) {
		add(path+"/weight", in, out)
		add(path+"/bias", out)
	}
	normOf := func(path string, dim int) {
		add(path+"/weight", dim)
		add(path+"/bias", dim)
	}
	norm := func(path string) { normOf(path, v.Dim) }
	add("cls_token", 1, 1, v.Dim)
	if v.Registers > 0 {
		add("reg_token", 1, v.Registers, v.Dim)
	}
	if v.GridSize > 0 {
		add("pos_embed", 1, v.positions(), v.Dim)
	}
	add("patch_embed/proj/weight", v.PatchSize, v.PatchSize, 3, v.Dim)
	add("patch_embed/proj/bias", v.Dim)
	for i := range v.Depth {
		block := fmt.Sprintf("blocks/%d/", i)
		norm(block + "norm1")
		add(block+"attn/qkv/weight", v.Dim, 3*v.Dim)
		switch v.Bias {
		case QKVBias:
			add(block+"attn/qkv/bias", 3*v.Dim)
		case QVBias:
			add(block+"attn/q_bias", v.Dim)
			add(block+"attn/v_bias", v.Dim)
		}
		if v.QKNorm {
			normOf(block+"attn/q_norm", v.Dim/v.NumHeads)
			normOf(block+"attn/k_norm", v.Dim/v.NumHeads)
		}
		linear(block+"attn/proj", v.Dim, v.Dim)
		if v.LayerScale {
			add(block+"ls1/gamma", v.Dim)
		}
		if v.filtered(i) {
			filter = true
			add(block+"filter/prototypes", v.Prototypes, prototypeSize, prototypeSize, v.Dim)
			norm(block + "filter/norm")
			for _, name := range []string{"q", "k", "v"} {
				linear(block+"filter/"+name, v.Dim, v.Dim)
			}
			linear(block+"filter/proj", 2*v.Dim, v.Dim)
			filter = false
		}
		norm(block + "norm2")
		if v.SwiGLU {
			linear(block+"mlp/fc1", v.Dim, 2*v.hidden())
		} else {
			linear(block+"mlp/fc1", v.Dim, v.hidden())
		}
		linear(block+"mlp/fc2", v.hidden(), v.Dim)
		if v.LayerScale {
			add(block+"ls2/gamma", v.Dim)
		}
	}
	norm("norm")
	return all
}

// Size returns the number of values of the weight.
func (w Weight) Size() int {
	size := 1
	for _, dim := range w.Shape {
		size *= dim
	}
	return size
}
