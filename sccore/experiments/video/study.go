// Package video is the experiment of video object segmentation: a frozen encoder's features carry the first mask through each video.
//
// In go the videos of DAVIS, or synthetic ones, and the encoders of package encoders; out come J&F records, Tab. video_seg and claim C23.
package video

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/experiments/encoders"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
)

// Name is the experiment's.
const Name = "video"

// Study is the experiment.
var Study = study.Spec[Config, Videos]{
	Info: study.Info{
		Name:       Name,
		Title:      "Do patch features follow objects through a video?",
		Reproduces: "Tab. video_seg; claim C23",
		Labels:     []string{"video_seg"},
		Data:       "DAVIS-2017, or synthetic videos without --data",
		Cost: map[study.Profile]string{
			study.Smoke: "seconds",
			study.Quick: "a minute a row on 2 cores; give weights by --set weights.dino-s16=FILE",
			study.Full:  "2000 frames a row: half an hour on 2 cores for ViT-S/16",
		},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Videos, error) {
		return open(o.Data, dataset, cells[0].Config)
	},
	Numbers:       func(_ Videos, c study.Cell[Config]) []study.Number { return []study.Number{number(c)} },
	Steps:         func(videos Videos, _ study.Cell[Config]) int { return len(videos.All) },
	NewWorker:     study.Independent(run),
	Serial:        true,
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
	Measure: func(results study.Results, claim figures.Claim) study.Evidence {
		initialisation, dataset, ok := strings.Cut(claim.Part, " on ")
		if !ok {
			dataset = titles[davis]
		}
		return encoders.Gain(results, initialisation, dataset)
	},
}

// davis is the dataset that is read.
const davis = "davis"

var sources = encoders.Sources[*datasets.Videos]{
	Needed: "DAVIS", Names: []string{davis},
	Open: func(dir, _ string) (*datasets.Videos, error) { return datasets.DAVIS(dir, datasets.Test) },
}

// titles are the datasets as records and tables name them.
var titles = map[string]string{davis: "DAVIS", encoders.Synthetic: "synthetic videos"}

// Config is what one run of the experiment is made from.
type Config struct {
	Encoder     encoders.Encoder            `json:"encoder"`
	Propagation evaluation.LabelPropagation `json:"propagation"`

	Videos int `json:"videos"` // How many; all of a dataset if 0.
	Frames int `json:"frames"` // Of each, at most; all if 0.
	Size   int `json:"size"`   // Of synthetic frames, in pixels a side; 0 where videos are read.
}

// Hashed is the configuration wherever the encoder's file lies.
func (c Config) Hashed() any {
	c.Encoder = c.Encoder.Portable()
	return c
}

var grid = encoders.Grid[Config]{
	Table:   "video_seg",
	Encoder: func(c *Config) *encoders.Encoder { return &c.Encoder },
	Config: func(profile study.Profile, dataset, _ string, set []string) (Config, error) {
		c := profileConfig(profile, dataset)
		if err := settings.Apply(&c, set...); err != nil {
			return c, err
		}
		return c, c.check(dataset)
	},
}

// profileConfig is the configuration of a profile before --set. Small encoders have small patches, and so see small frames.
func profileConfig(profile study.Profile, dataset string) Config {
	c := Config{Propagation: evaluation.DefaultLabelPropagation()}
	switch {
	case profile == study.Full:
	case dataset == davis && profile == study.Quick:
		c.Propagation.ShortSide = 240
	case dataset == davis:
		c.Propagation.ShortSide, c.Videos, c.Frames = 64, 2, 4
	case profile == study.Quick:
		c.Propagation.ShortSide, c.Videos, c.Frames, c.Size = 128, 16, 24, 128
	default:
		c.Propagation.ShortSide, c.Videos, c.Frames, c.Size = 64, 2, 4, 64
	}
	return c
}

// check returns an error that names the first value out of range.
func (c Config) check(dataset string) error {
	least := 1 // Videos.
	if dataset == davis {
		least = 0
	}
	switch {
	case dataset != davis && (c.Size < 8 || c.Frames < 3):
		return fmt.Errorf("synthetic videos of %d frames of %d pixels a side, want at least 3 of 8", c.Frames, c.Size)
	case c.Videos < least:
		return fmt.Errorf("videos %d is below %d", c.Videos, least)
	case c.Frames != 0 && c.Frames < 3:
		return fmt.Errorf("frames %d is below 3, of which the first and the last do not count", c.Frames)
	case dataset == davis && c.Size != 0:
		return fmt.Errorf("size %d: videos that are read have their own", c.Size)
	}
	return c.Propagation.Check()
}

// Videos is the data of a run.
type Videos struct{ *datasets.Videos }

// Identity names the videos in records.
func (v Videos) Identity() string { return v.Videos.Identity }

// Title is the name of the dataset.
func (v Videos) Title() string { return v.Name }

// Skipped is empty: a video that cannot be read is an error.
func (v Videos) Skipped() []string { return []string{} }

// open opens DAVIS below dir, or draws videos.
func open(dir, dataset string, c Config) (Videos, error) {
	if dataset == encoders.Synthetic {
		return Videos{synthetic.Videos(c.Videos, c.Frames, c.Size, 1)}, nil
	}
	set, err := sources.Open(dir, dataset)
	if err != nil {
		return Videos{}, err
	}
	if c.Videos > 0 && c.Videos < len(set.All) {
		set.All = set.All[:c.Videos]
	}
	for i := range set.All {
		if c.Frames > 0 {
			set.All[i].Frames = min(set.All[i].Frames, c.Frames)
		}
	}
	return Videos{set}, nil
}
