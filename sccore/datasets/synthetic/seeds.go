package synthetic

import (
	"fmt"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
)

// Run is a run of an experiment that draws its own images, so that the spread over runs is also that of the images. Sets of a run have numbers: unlike
// ones for training and testing.
//
// Identities are the same for all runs, which makes their numbers comparable: they name the set, and the digest of the first images of run 0 instead of
// a seed. With the number of the run, they tell the images.
type Run int

// seed is that of a set of the run. Run 0 has the set's number.
func (r Run) seed(set int) uint64 { return uint64(set) + 1000*uint64(r) }

// Images is [Images] for a run.
func (r Run) Images(n, size, set int) *datasets.Images {
	im := Images(n, size, r.seed(set))
	im.Identity = ofRuns(set, n, func(first int) string { return Images(first, size, Run(0).seed(set)).Identity })
	return im
}

// Objects is [Objects] for a run.
func (r Run) Objects(n, size, set int) *Set { return r.set(Objects, n, size, set) }

// Scenes is [Scenes] for a run.
func (r Run) Scenes(n, size, set int) *Set { return r.set(Scenes, n, size, set) }

// Segmentation is [Segmentation] for a run.
func (r Run) Segmentation(n, size, set int) *datasets.Segmentation {
	return segmentation(r.Scenes(n, size, set))
}

// Instances is [Instances] for a run.
func (r Run) Instances(n, size, set int) *datasets.ObjectImages {
	return instances(r.Scenes(n, size, set))
}

// Videos is [Videos] for a run.
func (r Run) Videos(n, frames, size, set int) *datasets.Videos {
	videos := Videos(n, frames, size, r.seed(set))
	videos.Identity = strings.Replace(videos.Identity, fmt.Sprintf("(seed %d)", r.seed(set)), fmt.Sprintf("(set %d, drawn for each seed)", set), 1)
	return videos
}

func (r Run) set(draw func(n, size int, seed uint64) *Set, n, size, set int) *Set {
	s := draw(n, size, r.seed(set))
	s.Identity = ofRuns(set, n, func(first int) string { return draw(first, size, Run(0).seed(set)).Identity })
	return s
}

// ofRuns is the identity of n images of a set in any run. identity is that of some first images of the set in run 0.
func ofRuns(set, n int, identity func(first int) string) string {
	first := min(n, 4)
	return strings.NewReplacer(
		fmt.Sprintf("(seed %d): %d images", Run(0).seed(set), first), fmt.Sprintf("(set %d, drawn for each seed): %d images", set, n),
	).Replace(identity(first)) + fmt.Sprintf(" of the first %d of seed 0", first)
}
