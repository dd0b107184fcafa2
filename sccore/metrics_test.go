package sccore

import (
	"math"
	"testing"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/internal/testbackend"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/train"
)

// TestWorkloadIsThatOfTheGraph counts the products in the graph of a step of ViT-S with two blocks. The graph also has the products of views and losses, and
// no gradient of the pixels: a few hundredths, less with all twelve blocks.
func TestWorkloadIsThatOfTheGraph(t *testing.T) {
	const side = 256
	data := Data{Objects: synthetic.Objects(4, side, 1).Images, Scenes: synthetic.Scenes(2, side, 2).Images}
	for name, change := range map[string]func(*Config){
		"alignment": func(c *Config) {
			c.Lambdas.ImageConcentration, c.Lambdas.PatchConcentration, c.Lambdas.Prototypes, c.Prototypes = 0, 0, 0, 0
		},
		"the method": func(*Config) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := Default()
			c.Batch, c.ImageSize = 4, side
			change(&c)
			o, err := newTrainer(data, c)
			if err != nil {
				t.Fatal(err)
			}
			o.step.vit = encoder.ViT{Name: "short", PatchSize: 16, Dim: 384, Depth: 2, NumHeads: 6, GridSize: 14, Positions: o.step.vit.Positions, Prototypes: c.Prototypes}
			counted := 0.0
			exec, err := model.NewExec(testbackend.Go(t), model.NewStore(), func(scope *model.Scope, inputs []*Node) []*Node {
				total, _ := o.loss(scope, inputs)
				variables, gradients := train.Gradients(scope, total, onlineScope)
				o.update(scope, variables, gradients, inputs[len(inputs)-1])
				counted = train.Products(append(gradients, total)...)
				return []*Node{total}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer exec.Finalize()
			var all []shapes.Shape
			for _, in := range o.step.inputs() {
				all = append(all, in.Shape)
			}
			if _, err := exec.Compile(all...); err != nil {
				t.Fatal(err)
			}
			w := o.workload()
			if off := w.FLOPs/counted - 1; !(math.Abs(off) <= 0.05) || w.Images != 4 {
				t.Errorf("%.4g FLOP for %d images, and %.4g in the graph: off by %.1f %%", w.FLOPs, w.Images, counted, 100*off)
			}
		})
	}
}
