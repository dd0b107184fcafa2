package ownimages

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
)

// Start is what a training starts from, and how.
type Start struct {
	Init   string   // A file of weights; empty for random ones.
	Ignore []string // Patterns of the keys in it that are left out.
	Smoke  bool     // A run of a minute that shows that everything works.
	Set    []string // Assignments to keys of [sccore.Config] that replace defaults.
}

// encoder returns the transformer that is trained. A setting of another one replaces it.
func (s Start) encoder() (encoder.ViT, error) {
	if s.Init != "" {
		return sccore.EncoderOf(s.Init, s.Ignore...)
	}
	config := sccore.Default()
	config.Encoder = "vit-tiny"
	if err := settings.Apply(&config, s.given("encoder")...); err != nil {
		return encoder.ViT{}, err
	}
	return encoder.ViTByName(config.Encoder)
}

// given returns the assignments to keys.
func (s Start) given(keys ...string) (assignments []string) {
	for _, assignment := range s.Set {
		for _, key := range keys {
			if name, _, _ := strings.Cut(assignment, "="); name == key {
				assignments = append(assignments, assignment)
			}
		}
	}
	return assignments
}

// Config returns the settings of a training on a number of images, in one folder or in two of objects and scenes. They are the paper's second stage without
// the filter, which no other code can load; from random weights they are its first stage, alignment alone, since neighbours and correspondences of random
// features say nothing. Batch, steps and rates follow from the number of images:
//
//   - The batch is the largest power of two of which there are two in the images: up to 256 on a GPU, 64 for transformers as wide as ViT-B's or wider, and
//     32 on a CPU.
//   - The steps are 20 epochs, 100 from random weights, but 200 at least and the paper's 100,000 at most.
//   - The learning rate is the paper's 3·10⁻⁵ for a batch of 256, DINO's 5·10⁻⁴ from random weights, times the square root of the batch's share of 256 and
//     the share of ViT-S's width in the encoder's. The last tenth of it is left at the end; a tenth of the steps are its warmup.
//   - The target branch forgets within a thirtieth of the run.
//
// The error names the setting that is wrong.
func (s Start) Config(images int) (sccore.Config, error) {
	c := sccore.Default()
	v, err := s.encoder()
	if err != nil {
		return c, err
	}
	if s.Init == "" {
		c = sccore.Ablations[2].Config(c)
	} else {
		c = sccore.Ablations[5].Config(c)
	}
	c.Encoder, c.Positions = v.Name, v.Positions
	s.size(&c, v)
	most := 32
	if strings.Contains(backend.Config(), "cuda") {
		most = 256
		if v.Dim >= 768 {
			most = 64
		}
	}
	for c.Batch = 2; 2*c.Batch <= min(most, images/2); {
		c.Batch *= 2
	}
	if err := settings.Apply(&c, s.given("batch")...); err != nil {
		return c, err
	}
	epochs, rate := 20, 3e-5
	if s.Init == "" {
		epochs, rate = 100, 5e-4
	}
	c.Steps = min(max(epochs*images/max(c.Batch, 1), 200), 100_000)
	if s.Smoke {
		c.Steps = 8
	}
	if err := settings.Apply(&c, s.given("steps")...); err != nil {
		return c, err
	}
	c.LearningRate = round(rate * root(float64(c.Batch)/256) * 384 / float64(v.Dim))
	c.FinalLearningRate = round(c.LearningRate / 10)
	c.WarmupSteps, c.MetricsEvery = c.Steps/10, max(c.Steps/500, 1)
	c.TargetMomentum = min(max(1-30/float64(max(c.Steps, 1)), 0.99), 0.9997)
	c.Neighbours = min(c.Neighbours, max(images/8, 1))
	if err := settings.Apply(&c, s.Set...); err != nil {
		return c, err
	}
	if s.Init != "" && c.Encoder != v.Name {
		return c, fmt.Errorf("encoder %s: %s holds %s", c.Encoder, s.Init, v.Name)
	}
	return c, settings.Check(c)
}

// size sets what follows from the size of the transformer: the views and the heads.
func (s Start) size(c *sccore.Config, v encoder.ViT) {
	global := 224
	if v.GridSize > 0 {
		global = min(v.GridSize*v.PatchSize, 224)
	}
	if s.Smoke {
		global = 3 * v.PatchSize
	}
	c.Views.GlobalCropSize = v.NearestSize(global)
	c.Views.LocalCropSize = v.NearestSize(c.Views.LocalCropSize)
	c.ImageSize = 2 * c.Views.GlobalCropSize
	if global < 128 {
		c.Views.Locals, c.Views.LocalCropSize = 0, c.Views.GlobalCropSize
	}
	hidden, out := min(4*v.Dim, c.PatchHead.HiddenDim), min(v.Dim, c.PatchHead.OutDim)
	if s.Smoke {
		hidden, out = 16, 8
	}
	c.ImageHead = heads.Projector{HiddenDim: hidden, OutDim: out}
	c.PatchHead = c.ImageHead
}

// measuredSize is the height and width in pixels at which diagnostics encode: those of a global view, but enough patches to see something on.
func (s Start) measuredSize(c sccore.Config, v encoder.ViT) int {
	least := 96
	if s.Smoke {
		least = 2 * c.Views.GlobalCropSize
	}
	return v.NearestSize(max(c.Views.GlobalCropSize, least))
}

// diagnosticsEvery is the number of steps between diagnostics: twenty times in a run, and more often in a long one.
func diagnosticsEvery(steps int) int { return min(max(steps/20, 1), 500) }

// root is the square root of a share, at most 1.
func root(share float64) float64 { return min(math.Sqrt(share), 1) }

// round keeps two digits, so that rates can be read.
func round(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 1, 64), 64)
	if err != nil { // It is what FormatFloat wrote.
		panic(err)
	}
	return rounded
}
