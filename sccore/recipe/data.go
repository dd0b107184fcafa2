package recipe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/study"
	"github.com/semcon/semcon/sccore/weights"
)

// Data holds the images that train encoders and the labelled images that measure them.
type Data struct {
	Train sccore.Data
	// Labelled images that train and test a probe; nil for data without labels.
	Objects, Scenes [2]*synthetic.Set
	// Annotated images whose patches train and test the classifiers of recall; nil without PASCAL VOC.
	Annotated [2]*datasets.Segmentation

	study.Described // The images, "synthetic" or "images", and the file of weights that the training starts from, if any.

	evaluations []opened // What [Config].Evaluate names.
	annotated   string   // Identifies Annotated, of all seeds alike.
}

// smokeImages is the number of objects, and of scenes, that the smoke profile takes from real datasets.
const smokeImages = 64

var smokeIdentity = fmt.Sprintf("; at most %d of each, spread evenly", smokeImages)

// Open opens the images of ImageNet and COCO below the data folder, in the real profile the images of PASCAL VOC, and the images of the evaluations during the
// training. Without a data folder it draws the images of a seed.
func Open(o study.Options, config Config, seed int) (d Data, err error) {
	defer try.Handle(&err)
	start := ""
	if config.Init != "" { // Before anything is compiled or written.
		digest := ""
		if err = sccore.CheckStart(config.Init, config.Second, config.patterns()...); err == nil {
			digest, err = weights.Digest(config.Init)
		}
		if err != nil {
			return d, study.BadOption{Err: fmt.Errorf("--set init=%s: %w", config.Init, err)}
		}
		if config.follows(o.Set) {
			try.E1(sccore.EncoderOf(config.Init, config.patterns()...))
		}
		start = fmt.Sprintf("; weights %s, sha256 %s", filepath.Base(config.Init), digest)
	}
	switch {
	case o.Profile == study.Real:
		d, err = OpenAnnotated(o, config.Recall, config.Second.ImageSize, config.Shares, seed, start)
	case o.Data == "":
		d = drawn(config, seed, start)
	default:
		d, err = read(o, config, seed, start)
	}
	try.E(err)
	if d.evaluations, err = config.openEvaluations(o.Data, seed); err != nil {
		return d, study.BadOption{Err: fmt.Errorf("--set %w", err)}
	}
	return d, nil
}

// drawn draws the images of a seed. start identifies the file that the training starts from.
func drawn(config Config, seed int, start string) Data {
	n, side, run := config.Images, config.Second.ImageSize, synthetic.Run(seed)
	d := Data{Described: study.Described{Name: "synthetic", Unread: []string{}}}
	var identities []string
	for i := range 2 {
		d.Objects[i], d.Scenes[i] = run.Objects(n, side, 1+2*i), run.Scenes(n, side, 2+2*i)
		identities = append(identities, d.Objects[i].Identity, d.Scenes[i].Identity)
	}
	d.Train, d.ID = LabelledData(d.Objects[0], d.Scenes[0]), strings.Join(identities, "; ")+start
	return d
}

// OpenAnnotated opens a seed's share of PASCAL VOC's training images, in canvases of size×size pixels, each an object and a scene, and what measures recall. Their
// labels measure correspondences and spreads. start identifies what the training starts from.
func OpenAnnotated(o study.Options, c Recall, size, shares, seed int, start string) (d Data, err error) {
	defer try.Handle(&err)
	opened := try.E1(Annotated(evaluation.Source{Dir: o.Data, Dataset: "voc2012", Classes: c.Classes}, "recall.classes", datasets.Train))
	cut := o.SharesOf(opened.Name, opened.Train.Len(), "images", shares)
	d.Described = study.Described{ID: study.IdentityOfShares(opened.ID, cut) + start, Name: Images, Unread: []string{}}
	try.E(d.openRecall(o, c))
	scenes, err := opened.Train.Share(seed, cut).AnnotatedScenes(size)
	if err == nil {
		d.Train = sccore.Data{Objects: scenes, Labels: scenes.Labels, Background: scenes.Background()}
	}
	return d, err
}

// read opens the training images of the data folder, and those that measure recall.
func read(o study.Options, config Config, seed int, start string) (d Data, err error) {
	defer try.Handle(&err)
	var both [2]*datasets.ImageFolder // Objects and scenes.
	if both[0], err = imageNet(o.Data); err == nil {
		both[1], err = datasets.COCO(o.Data, datasets.Train)
	}
	if err != nil {
		return d, wantBoth(err)
	}
	var cache *datasets.Cache
	if o.Cache != "" {
		cache = try.E1(datasets.OpenCache(o.Cache, o.Warn))
	}
	identity, cut := both[0].Identity+"; "+both[1].Identity+start, 1
	d.Described = study.Described{Name: Images, Unread: []string{}}
	for i, pictures := range both {
		shares := o.SharesOf(pictures.Name, pictures.Len(), "images", config.Shares)
		pictures, cut = pictures.Share(seed, shares), max(cut, shares)
		if cache != nil {
			pictures = pictures.Cached(cache)
		}
		if o.Profile == study.Smoke {
			pictures = pictures.Pick(datasets.Spread(pictures.Len(), smokeImages))
		}
		d.Unread = append(d.Unread, lo.Map(pictures.Skipped, func(s datasets.Skipped, _ int) string { return filepath.Join(pictures.Name, s.File) + ": " + s.Reason })...)
		both[i] = pictures
	}
	if d.ID = study.IdentityOfShares(identity, cut); o.Profile == study.Smoke {
		d.ID += smokeIdentity
	}
	d.Train = sccore.Data{Objects: both[0], Scenes: both[1]}
	if config.Recall.Size > 0 {
		err = d.openRecall(o, config.Recall)
	}
	return d, err
}

// Labelled are the images that a probe and k-NN measure; without labels only the training scenes, or the objects where each image is both.
func (d Data) Labelled() evaluation.Data {
	if d.Scenes[0] == nil {
		return evaluation.Data{Objects: [2]datasets.Source{cmp.Or(d.Train.Scenes, d.Train.Objects)}}
	}
	labelled := evaluation.Data{Scenes: d.Scenes, Classes: len(d.Objects[0].Classes)}
	for i, objects := range d.Objects {
		labelled.Objects[i], labelled.Labels[i] = objects.Images, objects.Labels
	}
	return labelled
}

// wantBoth explains which datasets training needs if one of them is missing.
func wantBoth(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("training needs objects in imagenet/ and scenes in coco/ of the data folder (\"semcon data --data DIR\" lists the expected folders): %w", err)
}

// Missing returns an error, an [os.ErrNotExist], if a data folder has not both kinds of images to train on.
func Missing(data string) error {
	for _, folder := range []string{"imagenet", "coco"} {
		if _, err := os.Stat(filepath.Join(data, folder)); err != nil {
			return wantBoth(err)
		}
	}
	return nil
}

// DatasetNames lists "images" if there is a data folder, which the profiles real and full need, and else "synthetic".
func DatasetNames(o study.Options) (names, missing []string, err error) {
	switch {
	case o.Data != "":
		return []string{Images}, missingRecall(o.Data), nil
	case o.Profile == study.Real:
		return nil, nil, errors.New("the real profile needs --data DIR with PASCAL VOC's images and masks in VOCdevkit/VOC2012")
	case o.Profile == study.Full:
		return nil, nil, errors.New("the full profile needs --data DIR with ImageNet's images in imagenet/train and COCO's in coco/train2017")
	}
	return []string{"synthetic"}, nil, nil
}

// LabelledData returns training data of labelled images.
func LabelledData(objects, scenes *synthetic.Set) sccore.Data {
	return sccore.Data{Objects: objects.Images, Scenes: scenes.Images, Labels: func(image int32, canvas []uint8, side int) error {
		masks, i := objects.ClassMask, int(image)
		if i >= objects.Len() {
			masks, i = scenes.ClassMask, i-objects.Len()
		}
		copy(canvas, masks[i*side*side:(i+1)*side*side])
		return nil
	}}
}

// imageNet opens the training images of ImageNet: dir/imagenet/train, or all images below dir/imagenet.
func imageNet(dir string) (*datasets.ImageFolder, error) {
	pictures, err := datasets.OpenImageFolder(filepath.Join(dir, "imagenet", "train"))
	if errors.Is(err, fs.ErrNotExist) {
		return datasets.OpenImageFolder(filepath.Join(dir, "imagenet"))
	}
	return pictures, err
}
