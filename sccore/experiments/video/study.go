package video

import (
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
)

// Video is the name of the experiment of video object segmentation: a frozen encoder's features carry the first mask through each video.
const Video = "video"

// VideoConfig is what one run of the experiment is made from.
type VideoConfig struct {
	Encoder     frozenEncoder          `json:"encoder"`
	Propagation evaluation.Propagation `json:"propagation"`

	Videos int `json:"videos"` // How many; all of a dataset if 0.
	Frames int `json:"frames"` // Of each, at most; all if 0.
	Size   int `json:"size"`   // Of synthetic frames, in pixels a side; 0 where videos are read.
}

// videoConfig returns the configuration of a profile before --set: for videos that are read, or synthetic ones. Small encoders have small
// patches, and so see small frames.
func videoConfig(profile Profile, read bool) VideoConfig {
	c := VideoConfig{Propagation: evaluation.DefaultPropagation()}
	switch {
	case profile == Full:
	case read:
		c.Propagation.Short = 240
	case profile == Quick:
		c.Propagation.Short, c.Videos, c.Frames, c.Size = 128, 16, 24, 128
	default:
		c.Propagation.Short, c.Videos, c.Frames, c.Size = 64, 2, 4, 64
	}
	return c
}

// check returns an error that names the first value out of range.
func (c VideoConfig) check(read bool) error {
	if err := c.Propagation.Check(); err != nil {
		return err
	}
	least := 0
	if !read {
		least = 1
		if c.Size < 8 || c.Frames < 3 {
			return fmt.Errorf("synthetic videos of %d frames of %d pixels a side, want at least 3 of 8", c.Frames, c.Size)
		}
	}
	switch {
	case c.Videos < least:
		return fmt.Errorf("videos %d is below %d", c.Videos, least)
	case c.Frames != 0 && c.Frames < 3:
		return fmt.Errorf("frames %d is below 3, of which the first and the last do not count", c.Frames)
	case read && c.Size != 0:
		return fmt.Errorf("size %d: videos that are read have their own", c.Size)
	}
	return nil
}

// hash names the configuration.
func (c VideoConfig) hash() string {
	c.Encoder = c.Encoder.elsewhere()
	return hashOf(configJSON(c))
}

// videoCell is one run: an encoder on all videos.
type videoCell struct {
	dataset string // "davis" or "synthetic".
	seed    int
	config  VideoConfig
}

// videoParts are the parts of a cell's name.
var videoParts = []string{"dataset", "row", "seed"}

// name is how --only addresses a cell, e.g. davis/dino+ours-s16/seed0.
func (c videoCell) name() string {
	return fmt.Sprintf("%s/%s/seed%d", c.dataset, c.config.Encoder.Row, c.seed)
}

func (c videoCell) key(identity string) string {
	return recordKey(c.name(), c.config.hash(), identity)
}

// openVideos opens DAVIS below dir, or draws videos if it is empty.
func openVideos(dir string, c VideoConfig) (set *datasets.Videos, err error) {
	if dir == "" {
		return synthetic.Videos(c.Videos, c.Frames, c.Size, 1), nil
	}
	if set, err = datasets.DAVIS(dir, datasets.Test); err != nil {
		return nil, err
	}
	if c.Videos > 0 && c.Videos < len(set.All) {
		set.All = set.All[:c.Videos]
	}
	for i := range set.All {
		if c.Frames > 0 {
			set.All[i].Frames = min(set.All[i].Frames, c.Frames)
		}
	}
	return set, nil
}

// videoCells lists the runs of a profile: the rows of one seed after the other.
func videoCells(options Options) ([]videoCell, error) {
	read := options.Data != ""
	encoders, assignments, err := frozenCells(options, "video_seg", randomArchitecture(options.Profile), 3)
	if err != nil {
		return nil, err
	}
	config := videoConfig(options.Profile, read)
	if err := applySet(&config, assignments...); err != nil {
		return nil, err
	}
	if config.Encoder != (frozenEncoder{}) {
		return nil, errGivenEncoder
	}
	if err := config.check(read); err != nil {
		return nil, err
	}
	dataset := "synthetic"
	if read {
		dataset = "davis"
	}
	var cells []videoCell
	for _, e := range encoders {
		c := videoCell{dataset, e.seed, config}
		c.config.Encoder = e.frozenEncoder
		cells = append(cells, c)
	}
	return cells, nil
}
