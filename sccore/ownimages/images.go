// Package ownimages trains an encoder on anyone's photographs, with the paper's method, and watches whether it gets worse.
//
// In go a folder of images, or one of scenes and one of objects, and a file of weights or nothing. Out come the encoder in the naming that it came in, its
// diagnostics as metrics.csv and TensorBoard events, and a page report.html. No labels are needed; class folders, where there are some, give a k-NN accuracy.
//
// images.go opens folders and chooses settings from the number of images, diagnostics.go measures and judges, run.go trains, cost.go says how long that takes, and
// report.go writes the page and draws what any encoder makes of photographs.
package ownimages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/plural"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/backend"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/encoder"
	"github.com/semcon/semcon/sccore/heads"
	"github.com/semcon/semcon/sccore/settings"
)

// Bounds of what is taken from the folders for diagnostics, and of what training needs.
const (
	leastImages = 8
	leastHeld   = 2
	mostHeld    = 256
	mostBank    = 1024 // Training images with classes, among which the neighbours of held-out ones are.
	smokeImages = 64
)

// Folders names the images to train on, as [datasets.FindImages] takes them. Objects may be empty: each image then serves as object and as scene. Cache, if not
// empty, is a folder that keeps the images as they are read, decoded and shrunk: see [datasets.Cache].
type Folders struct {
	Images         []string
	Objects, Cache string
}

// Images are the training images of folders, and those that diagnostics measure.
type Images struct {
	Train    sccore.Data
	Count    int // Of training images.
	Identity string
	Summary  string   // How many images there are, and what they are taken for.
	Skipped  []string // Files that are no images or cannot be read, with the reason.

	folders  []*datasets.ImageFolder // The folders of all images, trained on or held out.
	held     *datasets.Images        // Held out of training.
	classes  []string                // The class folders; nil without class folders.
	bank     *datasets.Images        // Training images of the class folders, with labels.
	queries  *datasets.Images        // Held-out images of the class folders, with labels.
	measured int                     // Height and width in pixels of the three sets.
}

// digest joins a digest of each folder.
func (im *Images) digest(of func(*datasets.ImageFolder) string) string {
	return strings.Join(lo.Map(im.folders, func(folder *datasets.ImageFolder, _ int) string { return of(folder) }), " ")
}

// content is a digest of the bytes of all images.
func (im *Images) content(ctx context.Context) (content string, err error) {
	defer try.Handle(&err)
	return im.digest(func(folder *datasets.ImageFolder) string { return try.E1(folder.Content(ctx)) }), nil
}

// Open lists the images of folders, holds some out, and reads those that diagnostics measure, at size×size pixels. What cannot be read is left out and named.
// If too few of those held out can be read, training images take their place. Only a few images are taken in smoke. warn receives what the cache has to say. The
// error is one line that names the folder.
func Open(ctx context.Context, f Folders, size int, smoke bool, warn func(line string)) (_ *Images, err error) {
	defer try.Handle(&err)
	im := &Images{measured: size}
	var cache *datasets.Cache
	if f.Cache != "" {
		cache = try.E1(datasets.OpenCache(f.Cache, warn))
	}
	images, held, split := try.E3(im.open(cache, smoke, f.Images...))
	im.held = try.E1(im.read(ctx, held, make([]int32, held.Len())))
	for tries := 0; im.held.Len() < leastHeld && tries < leastHeld; tries++ {
		rest, spare := images.HoldOut(datasets.Spread(images.Len(), leastHeld-im.held.Len()))
		read := try.E1(im.read(ctx, spare, make([]int32, spare.Len())))
		im.held.Pixels, im.held.Labels = append(im.held.Pixels, read.Pixels...), append(im.held.Labels, read.Labels...)
		split += fmt.Sprintf(", and %d of the %d instead of broken ones", spare.Len(), images.Len())
		images = rest
	}
	if im.held.Len() < leastHeld {
		return nil, fmt.Errorf("image folder %s: %d of the %d images held out for gauges can be read, want %d at least; the first that cannot: %s",
			strings.Join(f.Images, ", "), im.held.Len(), held.Len(), leastHeld, im.Skipped[len(im.Skipped)-1])
	}
	im.Train, im.Count, im.Identity, im.Summary = sccore.Data{Objects: images}, images.Len(), images.Identity, split
	classed, heldClassed := images, held
	if f.Objects != "" {
		objects, heldObjects, splitObjects := try.E3(im.open(cache, smoke, f.Objects))
		im.Train.Objects, im.Train.Scenes = objects, images
		im.Count += objects.Len()
		im.Summary = "scenes: " + split + "; objects: " + splitObjects
		im.Identity += "; objects: " + objects.Identity
		classed, heldClassed = objects, heldObjects
	}
	try.E(im.openClasses(ctx, classed, heldClassed))
	folders := lo.Ternary(im.classes != nil, plural.Count(len(im.classes), "class folder"), "no class folders")
	im.Summary += "; " + folders
	return im, nil
}

// open lists images and splits them into those for training and for diagnostics, and says how.
func (im *Images) open(cache *datasets.Cache, smoke bool, inputs ...string) (train, held *datasets.ImageFolder, split string, err error) {
	defer try.Handle(&err)
	all := try.E1(datasets.OpenImages(inputs...))
	for _, skipped := range all.Skipped {
		im.skip(skipped)
	}
	if all.Len() < leastImages {
		return nil, nil, "", fmt.Errorf("%s: contains %s, training needs %d", strings.Join(inputs, ", "), plural.Count(all.Len(), "image"), leastImages)
	}
	split = plural.Count(all.Len(), "image")
	if smoke && all.Len() > smokeImages {
		split += fmt.Sprintf("; smoke takes %d of them", smokeImages)
		all = all.Pick(datasets.Spread(all.Len(), smokeImages))
	}
	im.folders = append(im.folders, all)
	train, held = all.HoldOut(datasets.Spread(all.Len(), heldOut(all.Len())))
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
	return fmt.Sprintf("batch %d would show images twice with the same views: %s; --set batch=%d fits", c.Batch, there, powerOfTwo(most*c.AccumulationSteps))
}

// powerOfTwo is the largest power of two up to n, but 2 at least.
func powerOfTwo(n int) int { return max(1<<bits.Len(uint(n))/2, 2) }

// heldOut is the number of images that are held out of n: a twentieth, but ten where there are enough for the report's pictures.
func heldOut(n int) int { return max(leastHeld, min(max(n/20, 10), n/4, mostHeld)) }

// openClasses reads the images of class folders, if the folders are some: every image in one, two or more of them, and held-out images of a class that is
// trained on.
func (im *Images) openClasses(ctx context.Context, train, held *datasets.ImageFolder) (err error) {
	defer try.Handle(&err)
	labels, names, err := train.Labels()
	if err != nil || len(names) < 2 {
		return nil
	}
	theirs, err := held.LabelsOf(names)
	if err != nil {
		return nil
	}
	places := datasets.Spread(train.Len(), mostBank)
	im.bank = try.E1(im.read(ctx, train.Pick(places), lo.Map(places, func(i, _ int) int32 { return labels[i] })))
	im.queries = try.E1(im.read(ctx, held, theirs))
	if im.bank.Len() > 0 && im.queries.Len() > 0 {
		im.classes = names
	}
	return nil
}

// read reads the images of a folder with these labels, as encoders take them, in parallel.
func (im *Images) read(ctx context.Context, folder *datasets.ImageFolder, labels []int32) (_ *datasets.Images, err error) {
	defer try.Handle(&err)
	pixels := make([][]uint8, folder.Len())
	faults := try.E1(datasets.Faults(ctx, folder.Len(), 0, func(i int) (err error) {
		pixels[i], _, err = folder.Preprocess(i, datasets.DefaultPreprocessing(), im.measured, 1)
		return err
	}))
	read := &datasets.Images{Name: folder.Name, Height: im.measured, Width: im.measured}
	for i := range pixels {
		if faults[i] != nil {
			im.skip(folder.Skip(i, faults[i]))
			continue
		}
		read.Pixels, read.Labels = append(read.Pixels, pixels[i]...), append(read.Labels, labels[i])
	}
	return read, nil
}

// skip notes a file that is left out, once.
func (im *Images) skip(s datasets.Skipped) {
	line := strings.ReplaceAll(s.File+": "+s.Reason, "\n", " ")
	if !slices.Contains(im.Skipped, line) {
		im.Skipped = append(im.Skipped, line)
	}
}

// Start is what a training starts from, and how.
type Start struct {
	Init   string   // A file of weights; empty for random ones.
	Ignore []string // Patterns of the keys in it that are left out.
	Smoke  bool     // A run of a minute that shows that everything works.
	Set    []string // Assignments to keys of [sccore.Config] that replace defaults.
}

// encoder returns the transformer that is trained. A setting of another one replaces it.
func (s Start) encoder() (encoder.ViT, error) {
	if s.Init != "" {
		return sccore.EncoderOf(s.Init, s.Ignore...)
	}
	config := sccore.Default()
	config.Encoder = "vit-tiny"
	err := settings.Apply(&config, s.given("encoder")...)
	v, unknown := encoder.ViTByName(config.Encoder)
	return v, cmp.Or(err, unknown)
}

// given returns the assignments to a key.
func (s Start) given(key string) []string {
	return lo.Filter(s.Set, func(assignment string, _ int) bool { return strings.HasPrefix(assignment, key+"=") })
}

// Config returns the settings of a training on a number of images, in one folder or in two of objects and scenes. They are the paper's second stage without
// the filter, which no other code can load; from random weights they are its first stage, alignment alone, since neighbours and correspondences of random
// features say nothing. Batch, steps and rates follow from the number of images, and the neighbours from that of objects:
//
//   - The batch is the largest power of two of which there are two in the images: up to 256 on a GPU, 64 for transformers as wide as ViT-B's or wider, and
//     32 on a CPU.
//   - The steps are 20 epochs, 100 from random weights, but 200 at least and the paper's 100,000 at most.
//   - The learning rate is the paper's 3·10⁻⁵ for a batch of 256, DINO's 5·10⁻⁴ from random weights, times the square root of the batch's share of 256 and
//     the share of ViT-S's width in the encoder's. The last tenth of it is left at the end; a tenth of the steps are its warmup.
//   - The target branch averages over a thirtieth of the run, as in the paper, but over 33 steps at least, as many as in the real profile.
//
// The error names the setting that is wrong.
func (s Start) Config(images, objects int) (_ sccore.Config, err error) {
	defer try.Handle(&err)
	c := sccore.Default()
	v := try.E1(s.encoder())
	line, epochs, rate := 5, 20, 3e-5
	if s.Init == "" {
		line, epochs, rate = 2, 100, 5e-4
	}
	c = sccore.Ablations[line].Config(c)
	c.Encoder, c.Positions = v.Name, v.Positions
	s.size(&c, v)
	most := lo.Ternary(strings.Contains(backend.Config(), "cuda"), lo.Ternary(v.Dim >= 768, 64, 256), 32)
	c.Batch = powerOfTwo(min(most, images/2))
	try.E(settings.Apply(&c, s.given("batch")...))
	c.Steps = lo.Ternary(s.Smoke, 8, min(max(epochs*images/max(c.Batch, 1), 200), 100_000))
	try.E(settings.Apply(&c, s.given("steps")...))
	c.LearningRate = round(rate * min(math.Sqrt(float64(c.Batch)/256), 1) * 384 / float64(v.Dim))
	try.E(settings.Apply(&c, s.given("rate")...))
	c.FinalLearningRate = round(c.LearningRate / 10)
	c.WarmupSteps, c.MetricsEvery = c.Steps/10, max(c.Steps/500, 1)
	c.TargetMomentum = min(max(1-30/float64(max(c.Steps, 1)), 0.97), 0.9997)
	c.Neighbours = min(c.Neighbours, max(objects/8, 1))
	try.E(settings.Apply(&c, s.Set...))
	if c.Correspondences.From == sccore.FromTeacher {
		return c, errors.New("--set correspondences.from teacher: only teacher-quality has a third encoder")
	}
	if s.Init != "" && c.Encoder != v.Name {
		return c, fmt.Errorf("encoder %s: %s holds %s", c.Encoder, s.Init, v.Name)
	}
	if err := settings.Check(c); err != nil { // Defaults are valid.
		return c, fmt.Errorf("--set %w", err)
	}
	return c, nil
}

// size sets what follows from the size of the transformer: the views and the heads.
func (s Start) size(c *sccore.Config, v encoder.ViT) {
	global := lo.Ternary(s.Smoke, 3*v.PatchSize, lo.Ternary(v.GridSize > 0, min(v.GridSize*v.PatchSize, 224), 224))
	c.Views.GlobalCropSize = v.NearestSize(global)
	c.Views.LocalCropSize = v.NearestSize(c.Views.LocalCropSize)
	c.ImageSize = 2 * c.Views.GlobalCropSize
	if global < 128 {
		c.Views.Locals, c.Views.LocalCropSize = 0, c.Views.GlobalCropSize
	}
	hidden, out := min(4*v.Dim, c.PatchHead.HiddenDim), min(v.Dim, c.PatchHead.OutDim)
	if s.Smoke {
		hidden, out = 16, 8
	}
	c.ImageHead = heads.Projector{HiddenDim: hidden, OutDim: out}
	c.PatchHead = c.ImageHead
}

// round keeps two digits, so that rates can be read.
func round(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', 1, 64), 64) // It is what FormatFloat wrote.
	return rounded
}
