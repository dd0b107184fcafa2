package detection

import (
	"cmp"
	"fmt"

	"github.com/semcon/semcon/sccore/settings"
)

// Config is the size of a detector. What the recipe fixes otherwise, such as thresholds and weights of losses, is constant in the files of its parts.
type Config struct {
	Classes      int `json:"classes"`      // Classes of objects, without the background.
	Channels     int `json:"channels"`     // Channels of the pyramid and of the convolutions of all heads.
	Convolutions int `json:"convolutions"` // 3×3 convolutions of each box head and of each mask head.
	Hidden       int `json:"hidden"`       // Width of the fully connected layer of each box head.

	AnchorSamples  int `json:"anchor_samples"`  // Anchors an image in the losses of the RPN. At most half of them are positive.
	TrainProposals int `json:"train_proposals"` // Proposals an image in training, and the most of one level before NMS.
	TestProposals  int `json:"test_proposals"`  // Proposals an image at test time, and the most of one level before NMS.
	BoxSamples     int `json:"box_samples"`     // Proposals an image in the losses of each stage. At most a quarter of them are positive.

	// Candidates is the most pairs of box and class an image that enter the last NMS. The recipe has no bound; an image rarely has more than 2,000 pairs
	// above the least score.
	Candidates int `json:"candidates"`
	Detections int `json:"detections"` // Detections an image, the best ones.
}

// Recipe returns the configuration of Mugs and iBOT for the given number of classes, 80 for COCO (sail-sg/mugs,
// eval/eval_object_detection/configs/cascade_rcnn/vit_small_giou_4conv1f_coco_1x.py), but for the neck: theirs takes blocks 3, 5, 7 and 11, ours is the simple
// feature pyramid on the last block (Li et al., 2022, ViTDet).
func Recipe(classes int) Config {
	return Config{
		Classes: classes, Channels: 256, Convolutions: 4, Hidden: 1024,
		AnchorSamples: 256, TrainProposals: 2000, TestProposals: 1000, BoxSamples: 512, Candidates: 2000, Detections: 100,
	}
}

// Check returns an error that names the first setting that is out of range.
func (c Config) Check() error {
	const most = 1 << 14
	if err := cmp.Or(
		settings.Between("classes", c.Classes, 1, most), settings.Between("channels", c.Channels, 1, most), settings.Between("convolutions", c.Convolutions, 0, 100),
		settings.Between("hidden", c.Hidden, 1, most), settings.Between("anchor_samples", c.AnchorSamples, 2, most),
		settings.Between("train_proposals", c.TrainProposals, 1, most), settings.Between("test_proposals", c.TestProposals, 1, most),
		settings.Between("box_samples", c.BoxSamples, 4, most), settings.Between("candidates", c.Candidates, 1, most),
		settings.Between("detections", c.Detections, 1, most),
	); err != nil {
		return err
	}
	if c.Detections > c.Candidates {
		return fmt.Errorf("detections %d of %d candidates", c.Detections, c.Candidates)
	}
	return nil
}

// positives is the most positive samples of a stage.
func (c Config) positives() int { return c.BoxSamples / 4 }
