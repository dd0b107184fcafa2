package mainresults

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
	"github.com/semcon/semcon/sccore/knn"
)

// MainResults is the name of the experiment of the paper's first table: what frozen features are worth for classification by their [CLS] token
// and for segmentation by their patches.
const MainResults = "main"

// MainConfig is what one run of the experiment is made from. What its dataset has no use for is 0 and left out.
type MainConfig struct {
	Encoder frozenEncoder `json:"encoder"`

	Images int                   `json:"images"`         // Synthetic images for training and again for testing; 0 where images are read.
	Size   int                   `json:"size,omitzero"`  // Height and width in pixels of the images that are classified, and of synthetic scenes.
	KNN    knn.Classifier        `json:"knn,omitzero"`   // On [CLS] features of objects.
	Class  evaluation.ClassProbe `json:"class,omitzero"` // The same.
	Patch  evaluation.PatchProbe `json:"patch,omitzero"` // On patch features of synthetic scenes.

	Segmentation evaluation.SegmentationProbe `json:"segmentation,omitzero"` // On patch features of images that are read.
}

// mainConfig returns the configuration of a profile before --set, for images that are read or synthetic ones.
func mainConfig(profile Profile, read bool) MainConfig {
	c := MainConfig{Size: 224, KNN: knn.DINO(), Class: evaluation.DefaultClassProbe()}
	if read {
		c.Segmentation = evaluation.DefaultSegmentationProbe()
	} else {
		c.Size, c.Images, c.Patch = 64, 1024, evaluation.DefaultPatchProbe()
	}
	if profile != Full {
		c.Class = evaluation.FastClassProbe()
		c.Class.Epochs = 20 // Images are fewer.
	}
	if read && profile != Full {
		c.Segmentation.Train, c.Segmentation.Test, c.Segmentation.Batch, c.Segmentation.Epochs = 96, 128, 8, 8
	}
	if profile == Smoke {
		c.Size, c.Images, c.KNN.K = 32, 24, 5
		c.Class.Epochs, c.Class.Batch, c.Patch.Steps, c.Patch.Batch = 2, 8, 10, 64
	}
	return c
}

// on is the configuration of a run on a dataset.
func (c MainConfig) on(dataset string) MainConfig {
	switch dataset {
	case "imagenet":
		c.Segmentation = evaluation.SegmentationProbe{}
	case "coco":
		c.Size, c.KNN, c.Class = 0, knn.Classifier{}, evaluation.ClassProbe{}
	}
	return c
}

// check returns an error that names the first value out of range.
func (c MainConfig) check(read bool) error {
	switch {
	case c.Size < 8:
		return fmt.Errorf("size %d is below 8", c.Size)
	case read && c.Images != 0:
		return fmt.Errorf("images %d: of images that are read all are taken", c.Images)
	case !read && c.Images < 1:
		return fmt.Errorf("images %d is below 1", c.Images)
	case read:
		return errors.Join(c.KNN.Check(), c.Class.Check(), c.Segmentation.Check())
	}
	return errors.Join(c.KNN.Check(), c.Class.Check(), c.Patch.Check())
}

// hash names the configuration.
func (c MainConfig) hash() string {
	c.Encoder = c.Encoder.elsewhere()
	return hashOf(configJSON(c))
}

// mainCell is one run: an encoder on the images of a dataset.
type mainCell struct {
	dataset string // "imagenet", "coco" or "synthetic".
	seed    int
	config  MainConfig
}

// mainParts are the parts of a cell's name.
var mainParts = []string{"dataset", "row", "seed"}

// name is how --only addresses a cell, e.g. imagenet/dino+ours-s16/seed0.
func (c mainCell) name() string {
	return fmt.Sprintf("%s/%s/seed%d", c.dataset, c.config.Encoder.Row, c.seed)
}

// mainCells lists the runs of a profile on datasets.
func mainCells(options Options, data map[string]mainData) ([]mainCell, error) {
	read := options.Data != ""
	encoders, assignments, err := frozenCells(options, "main", randomArchitecture(options.Profile), 3)
	if err != nil {
		return nil, err
	}
	config := mainConfig(options.Profile, read)
	if err := applySet(&config, assignments...); err != nil {
		return nil, err
	}
	if config.Encoder != (frozenEncoder{}) {
		return nil, errGivenEncoder
	}
	if err := config.check(read); err != nil {
		return nil, err
	}
	var cells []mainCell
	for _, dataset := range []string{"imagenet", "coco", "synthetic"} {
		if _, there := data[dataset]; !there {
			continue
		}
		for _, e := range encoders {
			c := mainCell{dataset, e.seed, config.on(dataset)}
			c.config.Encoder = e.frozenEncoder
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// mainData is what is measured on one dataset: the first of each pair for training, the second for testing.
type mainData struct {
	identity string

	// Objects to classify; nil where there are none.
	objects [2]datasets.Source
	labels  [2][]int32
	classes int

	// What is segmented, of which there is at most one.
	scenes    [2]*synthetic.Set
	annotated [2]*datasets.Segmented
}

// labelledPictures are pictures that results depend on one by one: none may be missing.
type labelledPictures struct{ *datasets.Pictures }

// readMainData opens the datasets that there are below dir. Each line of missing says which columns of the table are left out, and why; that all
// are is an error.
func readMainData(dir string) (data map[string]mainData, missing []string, err error) {
	data = map[string]mainData{}
	for _, part := range []struct {
		dataset, columns string
		open             func(dir string) (mainData, error)
	}{{"imagenet", "linear and k-NN classification", openImageNet}, {"coco", "linear segmentation", openCOCOStuff}} {
		d, err := part.open(dir)
		switch {
		case err == nil:
			data[part.dataset] = d
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, fmt.Sprintf("the columns of %s are left out: %v", part.columns, err))
		default:
			return nil, nil, err
		}
	}
	if len(data) == 0 {
		return nil, nil, fmt.Errorf("neither ImageNet with labels nor COCOStuff-27 is in %s (\"semcon data\" says what is wanted)", dir)
	}
	return data, missing, nil
}

// openImageNet opens the class folders dir/imagenet/train and dir/imagenet/val.
func openImageNet(dir string) (d mainData, err error) {
	var classes [2][]string
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		pictures, err := datasets.ImageNet(dir, split)
		if err != nil {
			return d, err
		}
		if d.labels[i], classes[i], err = pictures.Classes(); err != nil {
			return d, err
		}
		d.objects[i], d.classes = labelledPictures{pictures}, len(classes[0])
		d.identity += pictures.Identity + "; "
	}
	d.identity = d.identity[:len(d.identity)-2]
	if !slices.Equal(classes[0], classes[1]) {
		return d, fmt.Errorf("%s: the images of val have other classes than those of train", filepath.Join(dir, "imagenet"))
	}
	return d, nil
}

// openCOCOStuff opens COCOStuff-27 below dir.
func openCOCOStuff(dir string) (d mainData, err error) {
	for i, split := range []datasets.Split{datasets.Train, datasets.Test} {
		if d.annotated[i], err = datasets.COCOStuff27(dir, split); err != nil {
			return d, err
		}
	}
	d.identity = d.annotated[0].Identity + "; " + d.annotated[1].Identity
	return d, nil
}

// drawMainData draws objects and scenes: other samples than the experiment pretrain draws.
func drawMainData(c MainConfig) (d mainData) {
	for i := range 2 {
		objects := synthetic.Objects(c.Images, c.Size, uint64(11+2*i))
		d.objects[i], d.labels[i], d.classes = objects.Images, objects.Labels, len(objects.Classes)
		d.scenes[i] = synthetic.Scenes(c.Images, c.Size, uint64(12+2*i))
		d.identity += objects.Identity + "; " + d.scenes[i].Identity + "; "
	}
	d.identity = d.identity[:len(d.identity)-2]
	return d
}
