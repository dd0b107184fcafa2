package detection

import (
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/settings"
)

// recipe returns the configuration of Mugs and iBOT for the given number of classes, 80 for COCO (sail-sg/mugs,
// eval/eval_object_detection/configs/cascade_rcnn/vit_small_giou_4conv1f_coco_1x.py), but for the neck: theirs takes blocks 3, 5, 7 and 11, ours is the simple
// feature pyramid on the last block (Li et al., 2022, ViTDet).
func recipe(classes int) Config {
	return Config{
		Classes: classes, Channels: 256, Convolutions: 4, Hidden: 1024,
		AnchorSamples: 256, TrainProposals: 2000, TestProposals: 1000, BoxSamples: 512, Candidates: 2000, Detections: 100,
	}
}

func TestCheck(t *testing.T) {
	if err := settings.Check(recipe(80)); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"classes 0":         func(c *Config) { c.Classes = 0 },
		"channels 0":        func(c *Config) { c.Channels = 0 },
		"convolutions -1":   func(c *Config) { c.Convolutions = -1 },
		"hidden 0":          func(c *Config) { c.Hidden = 0 },
		"anchor_samples 1":  func(c *Config) { c.AnchorSamples = 1 },
		"train_proposals 0": func(c *Config) { c.TrainProposals = 0 },
		"test_proposals 0":  func(c *Config) { c.TestProposals = 0 },
		"box_samples 3":     func(c *Config) { c.BoxSamples = 3 },
		"candidates 0":      func(c *Config) { c.Candidates = 0 },
		"detections 101":    func(c *Config) { c.Detections, c.Candidates = 101, 100 },
	} {
		c := recipe(80)
		change(&c)
		if err := settings.Check(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestUniform(t *testing.T) {
	a, b := flat(Uniform(1, 2, 3, 5)), flat(Uniform(1, 2, 3, 5))
	agree(t, "the same seed and step", a, b, 0)
	if c := flat(Uniform(1, 3, 3, 5)); c[0] == a[0] && c[1] == a[1] {
		t.Error("another step draws the same numbers")
	}
	for _, v := range a {
		if v < 0 || v >= 1 {
			t.Errorf("drew %g", v)
		}
	}
}
