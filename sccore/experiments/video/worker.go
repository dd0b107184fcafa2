package video

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/metrics"
)

// runVideo runs the cells that are not recorded yet, one after the other: one propagation takes all that there is of the machine.
func runVideo(ctx context.Context, b compute.Backend, options Options) error {
	switch {
	case options.Profile == Smoke && options.Data != "":
		options.warn("the smoke profile runs on synthetic videos and leaves the data folder alone")
		options.Data = ""
	case options.Profile == Full && options.Data == "":
		return fmt.Errorf("the full profile needs --data DIR with DAVIS")
	}
	cells, err := videoCells(options)
	if err != nil {
		return BadOption{err}
	}
	if cells, err = selected(cells, videoParts, options.Only); err != nil {
		return BadOption{err}
	}
	set, err := openVideos(options.Data, cells[0].config)
	if err != nil {
		return err
	}
	dir := folderOf(options.Out, Video)
	recorded, err := recordedOn(dir)
	if err != nil {
		return err
	}
	todo := slices.DeleteFunc(slices.Clone(cells), func(c videoCell) bool { return recorded[c.key(set.Identity)] })
	bar := options.bar(fmt.Sprintf("%s (%s) on %s", Video, options.Profile, set.Name), len(cells)*len(set.All))
	defer bar.Close()
	done := (len(cells) - len(todo)) * len(set.All)
	bar.Set(done, fmt.Sprintf("%d of %d runs to go", len(todo), len(cells)))
	for _, c := range todo {
		begun, frames := time.Now(), 0
		var objects []metrics.DAVIS
		err := followVideos(ctx, b, c, set.All, func(v datasets.Video, found [][]uint8) error {
			measured, err := measureVideo(v, found)
			objects = append(objects, measured...)
			frames += v.Frames
			done++
			bar.Set(done, fmt.Sprintf("%s  %s: J&F %.1f %%", c.name(), v.Name, 100*metrics.MeanDAVIS(measured).JF()))
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		if err := videoRecord(c, set, options.Profile, objects, frames, time.Since(begun)).Append(dir); err != nil {
			return err
		}
	}
	return nil
}

// followVideos tracks the objects of each video with a cell's encoder.
func followVideos(ctx context.Context, b compute.Backend, c videoCell, videos []datasets.Video, found func(v datasets.Video, masks [][]uint8) error) error {
	vit, store, err := c.config.Encoder.open(c.seed)
	if err != nil {
		return err
	}
	defer store.Finalize()
	tracker, err := c.config.Propagation.NewTracker(b, store, vit.Patch, func(scope *model.Scope, images *graph.Node) *graph.Node {
		return vit.Tokens(scope, images).Patches
	})
	if err != nil {
		return err
	}
	defer tracker.Close()
	for _, v := range videos {
		masks, err := tracker.Track(ctx, v)
		if err == nil {
			err = found(v, masks)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// measureVideo reads the true masks and compares the found ones with them.
func measureVideo(v datasets.Video, found [][]uint8) ([]metrics.DAVIS, error) {
	objects, err := v.Objects()
	if err != nil {
		return nil, err
	}
	var truth [][]uint8
	for i := range v.Frames {
		mask, err := v.Mask(i)
		if err != nil {
			return nil, fmt.Errorf("video %s: %w", v.Name, err)
		}
		truth = append(truth, mask)
	}
	measured, err := metrics.MeasureDAVIS(truth, found, v.Height, v.Width, objects)
	if err != nil {
		return nil, fmt.Errorf("video %s: %w", v.Name, err)
	}
	return measured, nil
}

func videoRecord(c videoCell, set *datasets.Videos, profile Profile, objects []metrics.DAVIS, frames int, took time.Duration) Record {
	mean := metrics.MeanDAVIS(objects)
	p := c.config.Propagation
	details := map[string]float64{"objects": float64(len(objects)), "frames/s": float64(frames) / took.Seconds()}
	for name, m := range map[string]metrics.DAVISMeasure{"J": mean.J, "F": mean.F} {
		details[name+"_mean"], details[name+"_recall"], details[name+"_decay"] = 100*m.Mean, 100*m.Recall, 100*m.Decay
	}
	return Record{
		Experiment: Video, Cell: c.name(), Row: c.config.Encoder.Row, Column: videoTitles[c.dataset],
		Metric: "J&F", Unit: "%", Value: 100 * mean.JF(),
		Seed: c.seed, Profile: profile, Config: configJSON(c.config), ConfigHash: c.config.hash(),
		Protocol: fmt.Sprintf("label propagation of DINO: first and %d previous frames, shorter side %d, top %d within %d patches, temperature %g; "+
			"J and F at the annotation's size, mean over objects, first and last frame left out, void is background",
			p.Previous, p.Short, p.K, p.Radius, p.Temperature),
		Data: set.Identity, Details: details, Skipped: []string{},
		Backend: backend.Name(), Versions: versions(), Seconds: took.Seconds(), Finished: time.Now().UTC().Truncate(time.Second),
	}
}
