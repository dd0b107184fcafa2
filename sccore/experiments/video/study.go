package video

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
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
			study.Quick: "a minute per row on 2 cores; --set weights.dino-s16=FILE adds a row",
			study.Full:  "2000 frames per row: half an hour on 2 cores for ViT-S/16",
		},
	},
	Parts:    []string{"dataset", "row", "seed"},
	Datasets: sources.Datasets,
	Cells:    grid.Cells,
	BySeed:   study.EachSeed,
	Open: func(o study.Options, dataset string, cells []study.Cell[Config]) (Videos, error) {
		return open(o, dataset, cells[0].Config, cells[0].Seed)
	},
	Numbers:       func(_ Videos, c study.Cell[Config]) []study.Number { return []study.Number{number(c)} },
	Steps:         func(videos Videos, _ study.Cell[Config]) int { return len(videos.All) },
	NewWorker:     study.Independent(run),
	Serial:        true,
	ProfileConfig: grid.ProfileConfig,
	Common:        grid.Common,
	Tables:        tables,
	Figures:       drawn,
	Random:        encoders.Random,
}

// davis is the real dataset.
const davis = "davis"

var sources = encoders.Sources[*datasets.Videos]{
	Needed: "DAVIS", Names: []string{davis},
	Open: func(dir, _ string) (*datasets.Videos, error) { return datasets.DAVIS(dir, datasets.Test) },
}

// titles are the names of the datasets in records and tables.
var titles = map[string]string{davis: "DAVIS", encoders.Synthetic: "synthetic videos"}

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	Propagation evaluation.LabelPropagation `json:"propagation"`

	Videos int `json:"videos"`          // Number of videos per seed; 0 for all of its share of a dataset.
	Shares int `json:"shares,omitzero"` // Shares that real videos are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Frames int `json:"frames"`          // Maximum number of frames per video; 0 for all.
	Size   int `json:"size"`            // Height and width of synthetic frames in pixels; 0 for real videos.
}

var grid = encoders.Grid[Config]{
	Table:  "video_seg",
	Shares: func(c Config) int { return c.Shares },
	Config: func(profile study.Profile, dataset, _ string, set []string) (Config, error) {
		c := profileConfig(profile, dataset)
		if err := settings.Apply(&c, set...); err != nil {
			return c, err
		}
		return c, c.check(dataset)
	},
}

// profileConfig returns the configuration of a profile before --set. Frames are small outside the full profile because small encoders have small patches.
func profileConfig(profile study.Profile, dataset string) Config {
	c := Config{Propagation: evaluation.DefaultLabelPropagation()}
	if dataset == davis {
		c.Shares = 1
	}
	switch {
	case profile == study.Full:
	case dataset == davis && profile == study.Quick:
		c.Propagation.ShortSide, c.Shares = 240, 5
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
	least := 1 // Least number of videos.
	if dataset == davis {
		least = 0
	}
	switch {
	case dataset != davis && (c.Size < 8 || c.Frames < 3):
		return fmt.Errorf("frames %d and size %d: synthetic videos need at least 3 and 8", c.Frames, c.Size)
	case c.Frames != 0 && c.Frames < 3:
		return fmt.Errorf("frames %d is below 3; the first and the last frame do not count", c.Frames)
	case dataset != davis && c.Shares != 0:
		return errors.New("shares: synthetic videos are drawn for each seed")
	case dataset == davis && c.Size != 0:
		return fmt.Errorf("size %d: only synthetic videos have a size", c.Size)
	}
	if dataset != davis {
		// The drawn frames of a video, and its masks, are in memory together.
		what := fmt.Sprintf("frames %d of size %d", c.Frames, c.Size)
		if err := cmp.Or(settings.Between("size", c.Size, 8, settings.MaxImageSize), settings.Fit(settings.MaxBytes, what, c.Frames, c.Size, c.Size, 4)); err != nil {
			return err
		}
	}
	if dataset == davis {
		if err := settings.Between("shares", c.Shares, 1, 1<<16); err != nil {
			return err
		}
	}
	return cmp.Or(settings.Between("videos", c.Videos, least, 1<<16), settings.Between("frames", c.Frames, 0, 1<<16), c.Propagation.Check())
}

// Videos holds the videos of a run.
type Videos struct{ *datasets.Videos }

// Identity identifies the videos in records.
func (v Videos) Identity() string { return v.Videos.Identity }

// Title is the name of the dataset.
func (v Videos) Title() string { return v.Name }

// Skipped is empty because an unreadable video is an error.
func (v Videos) Skipped() []string { return []string{} }

// open opens DAVIS below dir, or draws the videos of a seed.
func open(o study.Options, dataset string, c Config, seed int) (Videos, error) {
	if dataset == encoders.Synthetic {
		return Videos{synthetic.Run(seed).Videos(c.Videos, c.Frames, c.Size, 1)}, nil
	}
	set, err := sources.Open(o.Data, dataset)
	if err != nil {
		return Videos{}, err
	}
	if shares := o.SharesOf(set.Name, len(set.All), "videos", c.Shares); shares > 1 {
		var own []datasets.Video
		for _, place := range datasets.Share(len(set.All), seed, shares) {
			own = append(own, set.All[place])
		}
		set.All, set.Identity = own, fmt.Sprintf("%s; of them %d shares, one for a seed", set.Identity, shares)
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
