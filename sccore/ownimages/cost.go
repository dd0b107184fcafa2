package ownimages

import (
	"fmt"
	"time"

	"github.com/semcon/semcon/sccore/progress"
)

// estimating is the bar of the search for neighbours. It tells once how long the encoder takes for an image.
type estimating struct {
	progress.Bar
	know  func(perImage time.Duration) // Nil once it was called.
	since time.Time
	from  int // Images that were encoded by then: the first batch includes compilation.
}

func (e *estimating) Set(done int, note string) {
	e.Bar.Set(done, note)
	switch {
	case e.since.IsZero():
		e.since, e.from = time.Now(), done
	case e.know != nil && done > e.from:
		e.know(time.Since(e.since) / time.Duration(done-e.from))
		e.know = nil
	}
}

// sayCost says how long a long training will take at least, before its first steps tell: as long as its products take the encoder. Steps of small encoders take longer, for views
// and losses, and tell it soon.
func (r *run) sayCost(perImage time.Duration) {
	v := r.trainer.Frozen.ViT
	side := r.about.Size / v.PatchSize
	perStep := r.trainer.Workload().FLOPs / v.FLOPs(side*side) * float64(perImage)
	if all := time.Duration(perStep * float64(r.config.Steps)); all > 10*time.Minute {
		r.Say(fmt.Sprintf("%d steps of %d images will take %s here, roughly and at least; --set steps=N --set batch=N take less", r.config.Steps, r.config.Batch, roughly(all)))
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
