package encoder_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/layers"
)

// seeded returns an empty store with a seed for the variables.
func seeded(t testing.TB, seed int64) *model.Store {
	t.Helper()
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(seed); err != nil {
		t.Fatal(err)
	}
	return store
}

func byName(t testing.TB, name string) encoder.Backbone {
	t.Helper()
	b, err := encoder.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ramp returns a deterministic tensor of values within [-1, 1].
func ramp(dimensions ...int) *tensors.Tensor {
	size := 1
	for _, d := range dimensions {
		size *= d
	}
	values := make([]float32, size)
	for i := range values {
		values[i] = float32((i*i*7+i*13)%101)/50 - 1
	}
	return tensors.FromFlatDataAndDimensions(values, dimensions...)
}

// normal returns a deterministic tensor of standard normal values.
func normal(dimensions ...int) *tensors.Tensor {
	generator := rand.New(rand.NewPCG(1, 2))
	x := ramp(dimensions...)
	tensors.MustMutableFlatData(x, func(values []float32) {
		for i := range values {
			values[i] = float32(generator.NormFloat64())
		}
	})
	return x
}

func TestParameterCounts(t *testing.T) {
	engine, err := backend.OpenConfig(backend.Go) // Only the graph is built.
	if err != nil {
		t.Fatal(err)
	}
	// Without the last layer, counted in torchvision's resnet18 with a 3×3 stem and by hand for conv4.
	for name, want := range map[string]int{
		"resnet18":    11_168_832,
		"resnet18-w8": 175_752,
		"conv4":       16*27 + 32*9*16 + 64*9*32 + 64*9*64 + 2*(16+32+64+64),
		"conv4-w2":    2*27 + 4*9*2 + 8*9*4 + 8*9*8 + 2*(2+4+8+8),
	} {
		b := byName(t, name)
		store := seeded(t, 1)
		build := model.MustNewExec(engine, store, func(scope *model.Scope, images *Node) *Node {
			return b.Features(scope, images, layers.Norm{})
		})
		if _, err := build.Compile(ramp(1, 8, 8, 3).Shape()); err != nil {
			t.Fatal(err)
		}
		got := 0
		for v := range store.IterVariables() {
			if v.Trainable {
				got += v.Shape().Size()
			}
		}
		if got != want {
			t.Errorf("%s has %d trainable parameters, want %d", name, got, want)
		}
	}
}

func TestByNameListsWhatThereIs(t *testing.T) {
	for _, name := range []string{"", "resnet", "resnet18-w", "resnet18-w0", "resnet18-w-4", "resnet18-w08", "conv4-wide", "vit"} {
		if _, err := encoder.ByName(name); err == nil {
			t.Errorf("ByName(%q) gave a backbone", name)
		} else if !strings.Contains(err.Error(), strconv.Quote(name)) || !strings.Contains(err.Error(), "resnet18") && !strings.Contains(err.Error(), "width") {
			t.Errorf("ByName(%q): %v", name, err)
		}
	}
}

func TestOneSeedOneModel(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		features := func(seed int64) []float32 {
			exec := model.MustNewExec(b, seeded(t, seed), func(scope *model.Scope, images *Node) *Node {
				return byName(t, "conv4-w4").Features(scope, images, layers.Norm{})
			})
			defer exec.Finalize()
			return tensors.MustCopyFlatData[float32](exec.MustCall(ramp(2, 8, 8, 3))[0])
		}
		if !slices.Equal(features(3), features(3)) {
			t.Error("the same seed gave other features")
		}
		if slices.Equal(features(3), features(4)) {
			t.Error("another seed gave the same features")
		}
	})
}

// Two views of one batch pass through a backbone and its momentum copy, all in one graph.
func TestCallsInOneGraph(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b compute.Backend) {
		backbone := byName(t, "conv4-w2")
		train := layers.Norm{Train: true}
		images := []any{waves(1, dtypes.Float32, 1, 0, 4, 8, 8, 3), waves(2, dtypes.Float32, 1, 0, 4, 8, 8, 3)}

		once, twice := seeded(t, 1), seeded(t, 1)
		oneByOne := model.MustNewExec(b, once, func(scope *model.Scope, x *Node) *Node {
			return backbone.Features(scope.At("online"), x, train)
		})
		first := flat64(oneByOne.MustCall(images[0])[0])
		second := flat64(oneByOne.MustCall(images[1])[0])

		both := model.MustNewExec(b, twice, func(scope *model.Scope, x, y *Node) []*Node {
			online := backbone.Features(scope.At("online"), x, train)
			again := backbone.Features(scope.At("online"), y, train)
			momentum := backbone.Features(scope.At("momentum"), y, train)
			return []*Node{online, again, momentum}
		})
		got := both.MustCall(images...)
		checkClose(t, "first view", flat64(got[0]), first)
		checkClose(t, "second view", flat64(got[1]), second)
		if d := far(flat64(got[2]), second); d < 0.01 {
			t.Error("the momentum encoder has the online encoder's weights")
		}
		for v := range once.IterVariables() {
			if v.Scope() == "/online/bn3" {
				checkClose(t, v.Path(), flat64(twice.GetVariable(v.Path()).MustValue()), flat64(v.MustValue()))
			}
		}
	})
}
