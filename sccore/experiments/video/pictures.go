package video

import (
	"context"
	"fmt"
	"image"

	"github.com/gomlx/compute"
	"github.com/semcon/semcon/figures"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/study/encoders"
)

// Sheet draws a contact sheet of one of the experiment's videos, counted from 0: a row of frames with the true masks, and a row with the masks of each
// encoder of seed 0.
func Sheet(ctx context.Context, b compute.Backend, o study.Options, video, frames int) (sheet figures.ImageGrid, err error) {
	names, _, err := Study.Datasets(o)
	if err != nil {
		return sheet, err
	}
	cells, err := Study.Cells(o, names[0])
	if err != nil {
		return sheet, study.BadOption{Err: err}
	}
	set, err := Study.Open(o, names[0], cells)
	if err != nil {
		return sheet, err
	}
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
	add := func(label string, mask func(i int) ([]uint8, error)) error {
		var row []image.Image
		for _, i := range chosen {
			pixels, err := v.Frame(i)
			if err != nil {
				return err
			}
			labels, err := mask(i)
			if err != nil {
				return err
			}
			row = append(row, figures.Overlay(pixels, labels, v.Height, v.Width))
		}
		sheet.RowLabels, sheet.Images = append(sheet.RowLabels, label), append(sheet.Images, row)
		return nil
	}
	if err := add("truth", v.Mask); err != nil {
		return sheet, err
	}
	for _, c := range cells {
		if c.Seed != 0 {
			continue
		}
		encoder, err := c.Config.Encoder.Open(b, c.Seed)
		if err != nil {
			return sheet, err
		}
		err = c.Config.Propagation.TrackAll(ctx, encoder, set.Videos[video:video+1], func(_ datasets.Video, masks [][]uint8) error {
			return add(encoders.Title(c.Config.Encoder.Row), func(i int) ([]uint8, error) { return masks[i], nil })
		})
		encoder.Close()
		if err != nil {
			return sheet, err
		}
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
