package recipe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
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

	evaluations     []opened // Those of [Config].Evaluate.
	title, identity string
	annotated       string // Identifies Annotated, of all seeds alike.
	named           bool   // Whether recall.classes names the classes of Annotated. Then each seed has all of them.
	skipped         []string
}

// Identity identifies in records the images and the file of weights that the training starts from, if any.
func (d Data) Identity() string { return d.identity }

// Title is "synthetic" or "images".
func (d Data) Title() string { return d.title }

// Skipped lists the files that could not be read.
func (d Data) Skipped() []string { return d.skipped }

// smokeImages is the number of objects, and of scenes, that the smoke profile takes from real datasets.
const smokeImages = 64

var smokeIdentity = fmt.Sprintf("; at most %d of each, spread evenly", smokeImages)

// Open opens the images of ImageNet and COCO below the data folder, and those of the evaluations during the training. Without a data folder it draws those of a seed.
func Open(o study.Options, config Config, seed int) (Data, error) {
	d, err := openTraining(o, config, seed)
	if err != nil {
		return d, err
	}
	if d.evaluations, err = config.openEvaluations(o.Data, seed); err != nil {
		return d, study.BadOption{Err: fmt.Errorf("--set %w", err)}
	}
	return d, nil
}

// openTraining opens the images that train, and those that measure recall.
func openTraining(o study.Options, config Config, seed int) (Data, error) {
	start := ""
	if config.Init != "" { // Before anything is compiled or written.
		if err := sccore.CheckStart(config.Init, config.Second, config.Patterns()...); err != nil {
			return Data{}, study.BadOption{Err: fmt.Errorf("--set init=%s: %w", config.Init, err)}
		}
		if err := config.CheckInit(o.Set); err != nil {
			return Data{}, err
		}
		digest, err := weights.Digest(config.Init)
		if err != nil {
			return Data{}, study.BadOption{Err: fmt.Errorf("--set init=%s: %w", config.Init, err)}
		}
		start = fmt.Sprintf("; weights %s, sha256 %s", filepath.Base(config.Init), digest)
	}
	dir := o.Data
	if dir == "" {
		n, side, run := config.Images, config.Second.ImageSize, synthetic.Run(seed)
		d := Data{title: "synthetic", skipped: []string{}}
		for i := range 2 {
			d.Objects[i] = run.Objects(n, side, 1+2*i)
			d.Scenes[i] = run.Scenes(n, side, 2+2*i)
		}
		d.Train = LabelledData(d.Objects[0], d.Scenes[0])
		d.identity = d.Objects[0].Identity + "; " + d.Scenes[0].Identity + "; " + d.Objects[1].Identity + "; " + d.Scenes[1].Identity + start
		return d, nil
	}
	objects, err := imageNet(dir)
	if err != nil {
		return Data{}, wantBoth(err)
	}
	scenes, err := datasets.COCO(dir, datasets.Train)
	if err != nil {
		return Data{}, wantBoth(err)
	}
	identity := objects.Identity + "; " + scenes.Identity + start
	cut := 1
	for _, pictures := range []**datasets.ImageFolder{&objects, &scenes} {
		shares := o.SharesOf((*pictures).Name, (*pictures).Len(), "images", config.Shares)
		*pictures, cut = (*pictures).Share(seed, shares), max(cut, shares)
	}
	identity = study.IdentityOfShares(identity, cut)
	if o.Cache != "" {
		cache, err := datasets.OpenCache(o.Cache, o.Warn)
		if err != nil {
			return Data{}, err
		}
		objects, scenes = objects.Cached(cache), scenes.Cached(cache)
	}
	if o.Profile == study.Smoke {
		identity += smokeIdentity
		objects = objects.Pick(datasets.Spread(objects.Len(), smokeImages))
		scenes = scenes.Pick(datasets.Spread(scenes.Len(), smokeImages))
	}
	d := Data{title: Images, identity: identity, skipped: []string{}}
	for _, pictures := range []*datasets.ImageFolder{objects, scenes} {
		for _, skipped := range pictures.Skipped {
			d.skipped = append(d.skipped, filepath.Join(pictures.Name, skipped.File)+": "+skipped.Reason)
		}
	}
	d.Train = sccore.Data{Objects: objects, Scenes: scenes, Broken: datasets.SkipBroken}
	if config.Recall.Size > 0 {
		err = d.openRecall(o, config.Recall, seed, config.Shares)
	}
	return d, err
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

// DatasetNames lists "images" if there is a data folder, which the full profile needs, and else "synthetic".
func DatasetNames(o study.Options) (names, missing []string, err error) {
	switch {
	case o.Data != "":
		return []string{Images}, missingRecall(o.Data), nil
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
