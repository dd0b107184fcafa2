package detection

import (
	"math"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
)

func TestInitialWeightsAreTheRecipes(t *testing.T) {
	c := tiny
	c.Channels, c.Hidden = 32, 128
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(1); err != nil {
		t.Fatal(err)
	}
	exec := model.MustNewExec(testbackend.Go(t), store, func(scope *model.Scope, features *Node) *Node {
		return c.Detect(scope, features, Const(features.Graph(), tinySizes)).Masks // Behind all variables.
	})
	defer exec.Finalize()
	features, _, _ := tinyInputs()
	exec.MustCall(features)
	for name, want := range map[string]float64{
		"rpn/conv/weight": 0.01, "rpn/cls/weight": 0.01, "rpn/reg/weight": 0.01,
		"stage1/box/cls/weight": 0.01, "stage1/box/reg/weight": 0.001, "stage1/box/fc/weight": math.Sqrt(2. / (7*7*32 + 128)),
		"stage1/box/conv0/weight": math.Sqrt(2. / (9 * 32)), "stage1/mask/conv0/weight": math.Sqrt(2. / (9 * 32)),
		"stage1/mask/up/weight": math.Sqrt(2. / (4 * 32)), "stage1/mask/cls/weight": math.Sqrt(2. / 3),
		"pyramid/p4/conv0/weight": 1 / math.Sqrt(3*8), "pyramid/p4/conv1/weight": 1 / math.Sqrt(3*9*32),
		"rpn/conv/bias": 0, "stage1/box/fc/bias": 0, "stage1/box/cls/bias": 0, "stage1/mask/up/bias": 0, "stage1/mask/conv0/bias": 0,
	} {
		variable := store.GetVariable("/" + name)
		if variable == nil {
			t.Fatalf("no variable %s", name)
		}
		values, square := flat(variable.MustValue()), 0.0
		for _, v := range values {
			square += v * v
		}
		if got := math.Sqrt(square / float64(len(values))); !(math.Abs(got-want) <= 0.25*want) {
			t.Errorf("%s has the deviation %g, want %g", name, got, want)
		}
	}
}
