package ownimages

import (
	"fmt"
	"time"

	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/progress"
)

// estimating is the bar of the search for neighbours. It tells once how long the encoder takes for an image. Each batch is encoded before its images count.
type estimating struct {
	progress.Bar
	know  func(perImage time.Duration) // Nil once it was called.
	since time.Time                    // When the first batch was encoded, which includes compilation.
}

func (e *estimating) Set(done int, note string) {
	e.Bar.Set(done, note)
	switch {
	case e.since.IsZero():
		e.since = time.Now()
	case e.know != nil && done > evaluation.EncodeBatch:
		e.know(time.Since(e.since) / evaluation.EncodeBatch)
		e.know = nil
	}
}

// sayCost says roughly how long a long training will take, before its first steps tell. It scales the encoder's time for an image by the FLOP of a step. Views and
// losses come on top.
func (r *run) sayCost(perImage time.Duration) {
	v := r.trainer.Frozen.ViT
	side := r.about.Size / v.PatchSize
	perStep := r.trainer.Workload().FLOPs / v.FLOPs(side*side) * float64(perImage)
	if all := time.Duration(perStep * float64(r.config.Steps)); all > 10*time.Minute {
		line := "%d steps of %d images will take %s here, roughly and at least; --set steps=N --set batch=N take less"
		r.Say(fmt.Sprintf(line, r.config.Steps, r.config.Batch, roughly(all)))
	}
}

// roughly rounds a time to a word that one plans with.
func roughly(d time.Duration) string {
	switch hours := d.Hours(); {
	case hours > 36:
		return fmt.Sprintf("%.1f days", hours/24)
	case hours > 2:
		return fmt.Sprintf("%.0f hours", hours)
	}
	return fmt.Sprintf("%.0f minutes", d.Minutes())
}
