// Package video is the experiment of video object segmentation: the features of a frozen encoder propagate the first mask through each video.
//
// In go the videos of DAVIS, or synthetic ones, and the encoders of package encoders. Out come J&F records, Tab. video_seg and claim C23.
package video

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"strings"

	"github.com/dsnet/try"
	"github.com/gomlx/compute"
	"github.com/samber/lo"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/settings"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Name is the experiment's name.
const Name = "video"

var grid = encoders.Grid[Config]{
	Name: Name, Table: "video_seg", Shares: func(c Config) int { return c.Shares }, Rules: rules,
	Base: func(study.Profile, string) Config { return Config{Propagation: evaluation.DefaultLabelPropagation()} },
}

// Study is the experiment.
var Study = encoders.Experiment[Config]{
	Grid:       grid,
	Evaluation: func(c Config) evaluation.Evaluation { return c.Propagation },
	Drawn: func(c Config) evaluation.Source {
		return evaluation.Source{Images: c.Videos, Frames: c.Frames, Size: c.Size}
	},
	Part: func(o study.Options, d evaluation.Data, c Config, seed int) evaluation.Data {
		if o.Data == "" {
			return d
		}
		if shares := o.SharesOf(d.Name, len(d.Videos), "videos", c.Shares); shares > 1 {
			own := datasets.Share(len(d.Videos), seed, shares)
			d.Videos, d.ID = lo.Map(own, func(place, _ int) datasets.Video { return d.Videos[place] }), fmt.Sprintf("%s; of them %d shares, one for a seed", d.ID, shares)
		}
		if c.Videos > 0 && c.Videos < len(d.Videos) {
			d.Videos = d.Videos[:c.Videos]
		}
		for i := range d.Videos {
			if c.Frames > 0 {
				d.Videos[i].Frames = min(d.Videos[i].Frames, c.Frames)
			}
		}
		return d
	},
	Columns: func(_ evaluation.Data, c study.Cell[Config]) []string { return []string{titles[c.Dataset]} },
	Tables:  tables,
	Random:  encoders.Random,
}.Spec()

func init() { Study.Figures = drawn } // It draws what the study opens.

// davis is the real dataset.
const davis = "davis"

// titles are the names of the datasets in records and tables.
var titles = map[string]string{davis: "DAVIS", encoders.Synthetic: "synthetic videos"}

// Config is the configuration of a cell.
type Config struct {
	encoders.Config
	Propagation evaluation.LabelPropagation `json:"propagation"`

	Videos int `json:"videos" range:"[0,2^16]"` // Number of videos per seed; 0 for all of its share of a dataset.
	Shares int `json:"shares,omitzero"`         // Shares that real videos are cut into. Seed 0 has the first, and so on. 1 gives all to every seed.
	Frames int `json:"frames" range:"[0,2^16]"` // Maximum number of frames per video; 0 for all.
	Size   int `json:"size" range:"[0,2048]"`   // Height and width of synthetic frames in pixels; 0 for real videos.
}

// rules returns an error for what real or synthetic videos cannot have.
func rules(c Config, dataset string) error {
	read := dataset == davis
	switch {
	case !read && (c.Size < 8 || c.Frames < 3):
		return fmt.Errorf("frames %d and size %d: synthetic videos need at least 3 and 8", c.Frames, c.Size)
	case c.Frames != 0 && c.Frames < 3:
		return fmt.Errorf("frames %d is below 3; the first and the last frame do not count", c.Frames)
	case !read && c.Shares != 0:
		return errors.New("shares: synthetic videos are drawn for each seed")
	case read && c.Size != 0:
		return fmt.Errorf("size %d: only synthetic videos have a size", c.Size)
	case read:
		return settings.Between("shares", c.Shares, 1, 1<<16)
	}
	// The drawn frames of a video, and its masks, are in memory together.
	what := fmt.Sprintf("frames %d of size %d", c.Frames, c.Size)
	return cmp.Or(settings.Between("videos", c.Videos, 1, 1<<16), settings.Fit(settings.MaxBytes, what, c.Frames, c.Size, c.Size, 4))
}

// tables returns the paper's table with our numbers on DAVIS, and a table with recall and decay for each dataset with records.
func tables(results study.Results) []figures.Table {
	measures := func(dataset string, columns ...string) []study.Column {
		return encoders.Details([]string{dataset}, "J&F_mean", columns...)
	}
	beside := encoders.Beside("video_seg", "Video object segmentation on DAVIS-2017 by label propagation with frozen features.",
		measures(titles[davis], figures.MustPaper("video_seg").Columns...)...).Of(results.Where(func(r study.Record) bool { return strings.HasPrefix(r.Data, "DAVIS-2017") }))
	all := []figures.Table{beside}
	for _, dataset := range []string{titles[davis], titles[encoders.Synthetic]} {
		t := encoders.Alone("Recall and decay on "+dataset, "All measures of video object segmentation; a high decay is a loss over time. The paper has no such table.",
			encoders.AllRows(results, "video_seg", dataset), measures(dataset, "J&F_mean", "J_mean", "J_recall", "J_decay", "F_mean", "F_recall", "F_decay")...)
		if t.RowHeads = beside.RowHeads; len(t.Rows) > 0 {
			all = append(all, t.Of(results))
		}
	}
	return all
}

// Sheet draws a contact sheet of one of the experiment's videos, counted from 0: a row of frames with the true masks, and a row with the masks of each
// encoder of seed 0.
func Sheet(ctx context.Context, b compute.Backend, o study.Options, video, frames int) (sheet figures.ImageGrid, err error) {
	defer try.Handle(&err)
	names, _ := try.E2(Study.Datasets(o))
	cells, err := Study.Cells(o, names[0])
	if err != nil {
		return sheet, study.BadOption{Err: err}
	}
	set := try.E1(Study.Open(o, names[0], cells))
	if video < 0 || video >= len(set.Videos) || frames < 2 {
		return sheet, fmt.Errorf("%d frames of video %d: there are %d videos, and a row needs at least 2 frames", frames, video, len(set.Videos))
	}
	v := set.Videos[video]
	sheet.Title, sheet.Scale = fmt.Sprintf("%s, %s", set.Name, v.Name), 1
	var chosen []int
	frames = min(frames, v.Frames)
	for k := range frames {
		chosen = append(chosen, k*(v.Frames-1)/max(1, frames-1))
		sheet.ColumnLabels = append(sheet.ColumnLabels, fmt.Sprintf("frame %d", chosen[k]))
	}
	add := func(label string, mask func(i int) ([]uint8, error)) (err error) {
		defer try.Handle(&err)
		row := lo.Map(chosen, func(i, _ int) image.Image {
			return figures.Overlay(try.E1(v.Frame(i)), try.E1(mask(i)), v.Height, v.Width)
		})
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, label), append(sheet.Images, row)
		return nil
	}
	try.E(add("truth", v.Mask))
	for _, c := range cells {
		if c.Seed != 0 {
			continue
		}
		encoder := try.E1(c.Config.Encoder.Open(b, c.Seed))
		err = c.Config.Propagation.TrackAll(ctx, encoder, set.Videos[video:video+1], func(_ datasets.Video, masks [][]uint8) error {
			return add(encoders.Title(c.Config.Encoder.Row), func(i int) ([]uint8, error) { return masks[i], nil })
		})
		encoder.Close()
		try.E(err)
	}
	return sheet, nil
}

// drawn draws a contact sheet of the first video. It needs a backend.
func drawn(results study.Results, from study.FigureSources, all *study.Drawn) {
	if from.Backend == nil {
		return
	}
	sheet, err := Sheet(context.Background(), from.Backend, study.Options{Profile: results.Profile, Out: from.Out, Data: from.Data}, 0, 5)
	all.Add(sheet, err, "Frames of the first video with the true masks, and with those that each encoder of seed 0 propagates from the first frame.", "sheet")
}
