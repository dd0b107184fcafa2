package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/evaluation"
)

// MainResults is the name of the experiment of the paper's first table: what frozen features are worth for classification by their [CLS] token
// and for segmentation by their patches.
const MainResults = "main"

// MainConfig is what one run of the experiment is made from.
type MainConfig struct {
	Encoder frozenEncoder `json:"encoder"`

	Size   int                   `json:"size"`   // Height and width in pixels of the images that are encoded.
	Images int                   `json:"images"` // Synthetic images for training and again for testing; 0 where images are read.
	KNN    evaluation.KNN        `json:"knn"`
	Class  evaluation.ClassProbe `json:"class"` // On [CLS] features of objects.
	Patch  evaluation.PatchProbe `json:"patch"` // On patch features of synthetic scenes.
}

// mainConfig returns the configuration of a profile before --set, for images that are read or synthetic ones.
func mainConfig(profile Profile, read bool) MainConfig {
	c := MainConfig{Size: 224, KNN: evaluation.DINOKNN(), Class: evaluation.DefaultClassProbe(), Patch: evaluation.DefaultPatchProbe()}
	if profile != Full {
		c.Class = evaluation.FastClassProbe()
		c.Class.Epochs = 20 // Synthetic images are fewer.
	}
	if !read {
		c.Size, c.Images = 64, 1024
	}
	if profile == Smoke {
		c.Size, c.Images, c.KNN.K = 32, 24, 5
		c.Class.Epochs, c.Class.Batch, c.Patch.Steps, c.Patch.Batch = 2, 8, 10, 64
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
	}
	return errors.Join(c.KNN.Check(), c.Class.Check(), c.Patch.Check())
}

func (c MainConfig) encode() json.RawMessage {
	encoded, err := json.Marshal(c)
	if err != nil {
		panic(err) // Numbers and text.
	}
	return encoded
}

// mainCell is one run: an encoder on all images.
type mainCell struct {
	dataset string // "imagenet" or "synthetic".
	seed    int
	config  MainConfig
}

// mainParts are the parts of a cell's name.
var mainParts = []string{"dataset", "row", "seed"}

// name is how --only addresses a cell, e.g. imagenet/dino+ours-s16/seed0.
func (c mainCell) name() string {
	return fmt.Sprintf("%s/%s/seed%d", c.dataset, c.config.Encoder.Row, c.seed)
}

// mainCells lists the runs of a profile.
func mainCells(options Options) ([]mainCell, error) {
	read := options.Data != ""
	encoders, assignments, err := frozenCells(options, "main", randomArchitecture(options.Profile), 3)
	if err != nil {
		return nil, err
	}
	config := mainConfig(options.Profile, read)
	for _, assignment := range assignments {
		if err := applySet(&config, assignment); err != nil {
			return nil, err
		}
	}
	if config.Encoder != (frozenEncoder{}) {
		return nil, errGivenEncoder
	}
	if err := config.check(read); err != nil {
		return nil, err
	}
	dataset := "synthetic"
	if read {
		dataset = "imagenet"
	}
	var cells []mainCell
	for _, e := range encoders {
		c := mainCell{dataset, e.seed, config}
		c.config.Encoder = e.frozenEncoder
		cells = append(cells, c)
	}
	return cells, nil
}

// mainData is what the experiment measures on: the first of each pair for training, the second for testing.
type mainData struct {
	identity string
	objects  [2]datasets.Source
	labels   [2][]int32
	classes  int
	scenes   [2]*datasets.Scenes // nil where images are read.
}

// labelledPictures are pictures that results depend on one by one: none may be missing.
type labelledPictures struct{ *datasets.Pictures }

// openMainData opens the class folders dir/imagenet/train and dir/imagenet/val, or draws objects and scenes if dir is empty.
func openMainData(dir string, c MainConfig) (d mainData, err error) {
	if dir == "" {
		for i := range 2 { // Other samples than the experiment pretrain draws.
			objects := datasets.SyntheticObjects(c.Images, c.Size, uint64(11+2*i))
			d.objects[i], d.labels[i], d.classes = objects.Images, objects.Labels, len(objects.Classes)
			d.scenes[i] = datasets.SyntheticScenes(c.Images, c.Size, uint64(12+2*i))
			d.identity += objects.Identity + "; " + d.scenes[i].Identity + "; "
		}
		d.identity = d.identity[:len(d.identity)-2]
		return d, nil
	}
	var classes [2][]string
	for i, split := range []string{"train", "val"} {
		pictures, err := datasets.OpenPictures(filepath.Join(dir, "imagenet", split))
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
