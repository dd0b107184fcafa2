package detection

import "fmt"

// Config is the size of a detector. What the recipe fixes otherwise, such as thresholds and weights of losses, is constant in the files of its parts.
type Config struct {
	Classes      int `json:"classes"`      // Classes of objects, without the background.
	Channels     int `json:"channels"`     // Channels of the pyramid and of the convolutions of all heads.
	Convolutions int `json:"convolutions"` // 3×3 convolutions of each box head and of each mask head.
	Hidden       int `json:"hidden"`       // Width of the fully connected layer of each box head.

	AnchorSamples  int `json:"anchorSamples"`  // Anchors an image in the losses of the RPN. At most half of them are positive.
	TrainProposals int `json:"trainProposals"` // Proposals an image in training, and the most of one level before NMS.
	TestProposals  int `json:"testProposals"`  // The same at test time.
	BoxSamples     int `json:"boxSamples"`     // Proposals an image in the losses of each stage. At most a quarter of them are positive.

	// Candidates is the most pairs of box and class an image that enter the last NMS. The recipe has no bound; an image rarely has more than 2,000 pairs
	// above the least score.
	Candidates int `json:"candidates"`
	Detections int `json:"detections"` // Detections an image, the best ones.
}

// Recipe returns the configuration of Mugs and iBOT for the given number of classes, 80 for COCO (sail-sg/mugs,
// eval/eval_object_detection/configs/cascade_rcnn/vit_small_giou_4conv1f_coco_1x.py).
func Recipe(classes int) Config {
	return Config{
		Classes: classes, Channels: 256, Convolutions: 4, Hidden: 1024,
		AnchorSamples: 256, TrainProposals: 2000, TestProposals: 1000, BoxSamples: 512, Candidates: 2000, Detections: 100,
	}
}

// Check returns an error that names the first setting that is out of range.
func (c Config) Check() error {
	for _, setting := range []struct {
		name         string
		value, least int
	}{
		{"classes", c.Classes, 1}, {"channels", c.Channels, 1}, {"convolutions", c.Convolutions, 0}, {"hidden", c.Hidden, 1},
		{"anchorSamples", c.AnchorSamples, 2}, {"trainProposals", c.TrainProposals, 1}, {"testProposals", c.TestProposals, 1},
		{"boxSamples", c.BoxSamples, 4}, {"candidates", c.Candidates, 1}, {"detections", c.Detections, 1},
	} {
		if setting.value < setting.least {
			return fmt.Errorf("detector with %s %d, want at least %d", setting.name, setting.value, setting.least)
		}
	}
	if c.Detections > c.Candidates {
		return fmt.Errorf("detector with %d detections of %d candidates", c.Detections, c.Candidates)
	}
	return nil
}

// positives is the most positive samples of a stage.
func (c Config) positives() int { return c.BoxSamples / 4 }
