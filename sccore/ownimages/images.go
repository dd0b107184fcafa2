package ownimages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/internal/panics"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
)

// Bounds of what is taken from the folders for diagnostics, and of what training needs.
const (
	leastImages = 8
	leastHeld   = 2
	mostHeld    = 256
	mostBank    = 1024 // Training images with classes, among which the neighbours of held-out ones are.
	smokeImages = 64
)

// Folders names the images to train on. Objects may be empty: each image then serves as object and as scene. Cache, if not empty, keeps the images as they
// are read, decoded and shrunk: see [datasets.Cache].
type Folders struct{ Images, Objects, Cache string }

// Images are the training images of folders, and those that diagnostics measure.
type Images struct {
	Train    sccore.Data
	Count    int // Of training images.
	Identity string
	Summary  string   // How many images there are, and what they are taken for.
	Skipped  []string // Files that are no images or cannot be read, with the reason.

	held     *datasets.Images // Held out of training.
	classes  []string         // The class folders; nil if there are none.
	bank     *datasets.Images // Training images of the class folders, with labels.
	queries  *datasets.Images // Held-out images of the class folders, with labels.
	named    map[string]bool  // The lines of Skipped.
	measured int              // Height and width in pixels of the three sets.
}

// Open lists the images of folders, holds some out, and reads those that diagnostics measure, at size×size pixels. What cannot be read is left out and named.
// Only a few images are taken in smoke. warn receives what the cache has to say. The error is one line that names the folder.
func Open(ctx context.Context, f Folders, size int, smoke bool, warn func(line string)) (*Images, error) {
	im := &Images{measured: size}
	var cache *datasets.Cache
	if f.Cache != "" {
		var err error
		if cache, err = datasets.OpenCache(f.Cache, warn); err != nil {
			return nil, err
		}
	}
	images, held, split, err := im.open(f.Images, cache, smoke)
	if err != nil {
		return nil, err
	}
	im.Train = sccore.Data{Objects: images, Broken: datasets.SkipBroken}
	im.Count, im.Identity, im.Summary = images.Len(), images.Identity, split
	classed, heldClassed := images, held
	if f.Objects != "" {
		objects, heldObjects, splitObjects, err := im.open(f.Objects, cache, smoke)
		if err != nil {
			return nil, err
		}
		im.Train.Objects, im.Train.Scenes = objects, images
		im.Count += objects.Len()
		im.Summary = "scenes: " + split + "; objects: " + splitObjects
		im.Identity += "; objects: " + objects.Identity
		classed, heldClassed = objects, heldObjects
	}
	if im.held, err = im.read(ctx, held, nil); err != nil {
		return nil, err
	}
	if im.held.Len() < leastHeld {
		return nil, fmt.Errorf("image folder %s: %d of the %d images held out for gauges can be read, want %d at least; the first that cannot: %s",
			f.Images, im.held.Len(), held.Len(), leastHeld, im.Skipped[len(im.Skipped)-1])
	}
	if err := im.openClasses(ctx, classed, heldClassed); err != nil {
		return nil, err
	}
	if im.classes == nil {
		im.Summary += "; no class folders"
	} else {
		im.Summary += "; " + plural.Count(len(im.classes), "class folder")
	}
	return im, nil
}

// open lists a folder and splits it into images for training and for diagnostics, and says how.
func (im *Images) open(dir string, cache *datasets.Cache, smoke bool) (train, held *datasets.ImageFolder, split string, err error) {
	all, err := datasets.OpenImageFolder(dir)
	if err != nil {
		return nil, nil, "", err
	}
	for _, skipped := range all.Skipped {
		im.skip(skipped)
	}
	if all.Len() < leastImages {
		return nil, nil, "", fmt.Errorf("image folder %s: contains %s, training needs %d", dir, plural.Count(all.Len(), "image"), leastImages)
	}
	split = plural.Count(all.Len(), "image")
	if smoke && all.Len() > smokeImages {
		split += fmt.Sprintf("; smoke takes %d of them", smokeImages)
		all = all.Pick(datasets.Spread(all.Len(), smokeImages))
	}
	train, held = all.HoldOut(heldOut(all.Len()))
	return train.Cached(cache), held, fmt.Sprintf("%s: %d to train, %d held out", split, train.Len(), held.Len()), nil
}

// repeats says that a batch, or a part of one, would show images twice, and which batch would not; it is empty if none would. Views follow from the image and
// the step, so the copies would be equal and teach nothing.
func (im *Images) repeats(c sccore.Config) string {
	most, there := im.Train.Objects.Len(), fmt.Sprintf("there are %d images to train on", im.Train.Objects.Len())
	if im.Train.Scenes != nil {
		least := min(most, im.Train.Scenes.Len())
		most, there = 2*least, fmt.Sprintf("half of it comes from each folder, and one has %d images to train on", least)
	}
	if c.Batch/c.AccumulationSteps <= most {
		return ""
	}
	fits := 2
	for 2*fits <= most*c.AccumulationSteps {
		fits *= 2
	}
	return fmt.Sprintf("batch %d would show images twice with the same views: %s; --set batch=%d fits", c.Batch, there, fits)
}

// heldOut is the number of images that are held out of n: a twentieth, but ten where there are enough for the report's pictures.
func heldOut(n int) int { return max(leastHeld, min(max(n/20, 10), n/4, mostHeld)) }

// openClasses reads the images of class folders, if the folders are some: every image in one, two or more of them, and held-out images of a class that is
// trained on.
func (im *Images) openClasses(ctx context.Context, train, held *datasets.ImageFolder) (err error) {
	labels, names, err := train.Labels()
	if err != nil || len(names) < 2 {
		return nil
	}
	theirs, heldNames, err := held.Labels()
	if err != nil {
		return nil
	}
	for i, label := range theirs {
		place, known := slices.BinarySearch(names, heldNames[label])
		if !known {
			return nil
		}
		theirs[i] = int32(place)
	}
	places := datasets.Spread(train.Len(), mostBank)
	var chosen []int32
	for _, i := range places {
		chosen = append(chosen, labels[i])
	}
	if im.bank, err = im.read(ctx, train.Pick(places), chosen); err != nil {
		return err
	}
	if im.queries, err = im.read(ctx, held, theirs); err != nil {
		return err
	}
	if im.bank.Len() == 0 || im.queries.Len() == 0 {
		return nil
	}
	im.classes = names
	return nil
}

// read reads the images of a folder as encoders take them, in parallel. Labels, which may be nil, are those of the images.
func (im *Images) read(ctx context.Context, folder *datasets.ImageFolder, labels []int32) (*datasets.Images, error) {
	pixels, faults := make([][]uint8, folder.Len()), make([]error, folder.Len())
	err := datasets.EachImage(ctx, folder.Len(), 0, func(i int) error {
		faults[i] = panics.Catch(func() (err error) {
			pixels[i], _, err = folder.Preprocess(i, datasets.DefaultPreprocessing(), im.measured, 1)
			return err
		})
		return nil // The others are read.
	})
	if err != nil {
		return nil, err
	}
	read := &datasets.Images{Name: folder.Name, Height: im.measured, Width: im.measured, Classes: im.classes}
	for i := range pixels {
		if faults[i] != nil {
			im.skip(folder.Skip(i, faults[i]))
			continue
		}
		read.Pixels = append(read.Pixels, pixels[i]...)
		label := int32(0)
		if labels != nil {
			label = labels[i]
		}
		read.Labels = append(read.Labels, label)
	}
	return read, nil
}

// skip notes a file that is left out, once.
func (im *Images) skip(s datasets.Skipped) {
	line := strings.ReplaceAll(s.File+": "+s.Reason, "\n", " ")
	if im.named == nil {
		im.named = map[string]bool{}
	}
	if !im.named[line] {
		im.named[line] = true
		im.Skipped = append(im.Skipped, line)
	}
}
