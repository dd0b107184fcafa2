package experiments

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/semcon/semcon/sccore"
	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
	"github.com/semcon/semcon/sccore/evaluation"
)

// pretrainData is what the experiment trains on, and what it measures on.
type pretrainData struct {
	name     string // In cell names.
	identity string
	train    sccore.Data
	skipped  []string

	// Labelled images to measure on, nil for data without labels.
	objects, scenes [2]*synthetic.Set // For training a probe, and for testing.
}

// columns are what is measured on the data, in the order of the records.
func (d pretrainData) columns() []string {
	if d.scenes[0] == nil {
		return []string{columnRank}
	}
	return []string{columnMIoU, columnKNN}
}

// openPretrainData opens the images of ImageNet and COCO below dir, or draws synthetic ones if it is empty.
func openPretrainData(dir string, config PretrainConfig) (pretrainData, error) {
	if dir == "" {
		n, side := config.Images, config.Second.Canvas
		d := pretrainData{name: "synthetic", skipped: []string{}}
		for i := range 2 {
			d.objects[i] = synthetic.Objects(n, side, uint64(1+2*i))
			d.scenes[i] = synthetic.Scenes(n, side, uint64(2+2*i))
		}
		d.train = trainOn(d.objects[0], d.scenes[0])
		d.identity = d.objects[0].Identity + "; " + d.scenes[0].Identity + "; " + d.objects[1].Identity + "; " + d.scenes[1].Identity
		return d, nil
	}
	objects, err := imageNet(dir)
	if err != nil {
		return pretrainData{}, wantBoth(err)
	}
	scenes, err := datasets.COCO(dir, datasets.Train)
	if err != nil {
		return pretrainData{}, wantBoth(err)
	}
	d := pretrainData{name: "images", identity: objects.Identity + "; " + scenes.Identity, skipped: []string{}}
	for _, pictures := range []*datasets.Pictures{objects, scenes} {
		for _, skipped := range pictures.Skipped {
			d.skipped = append(d.skipped, filepath.Join(pictures.Name, skipped.File)+": "+skipped.Reason)
		}
	}
	d.train = sccore.Data{Objects: objects, Scenes: scenes, Broken: datasets.SkipBroken}
	return d, nil
}

// wantBoth says what training wants where an image set is missing.
func wantBoth(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("training takes objects from imagenet/ and scenes from coco/ of the data folder (\"semcon data\" says how): %w", err)
}

// trainOn is the data of a run on labelled images.
func trainOn(objects, scenes *synthetic.Set) sccore.Data {
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
func imageNet(dir string) (*datasets.Pictures, error) {
	pictures, err := datasets.OpenPictures(filepath.Join(dir, "imagenet", "train"))
	if errors.Is(err, fs.ErrNotExist) {
		return datasets.OpenPictures(filepath.Join(dir, "imagenet"))
	}
	return pictures, err
}

// imagesOf yields the first n images of a set as an encoder takes them: pictures by their centre, others as they are.
func imagesOf(source datasets.Source, size, n int) iter.Seq2[evaluation.Image, error] {
	return func(yield func(evaluation.Image, error) bool) {
		for i := range min(n, source.Len()) {
			var pixels []uint8
			var err error
			height, width := size, size
			switch source := source.(type) {
			case *datasets.Pictures:
				if pixels, err = source.Centre(i, size); err != nil {
					pixels, err = make([]uint8, size*size*3), nil // Skipped in training, too; nobody's neighbour but by chance.
				}
			case labelledPictures:
				pixels, err = source.Centre(i, size)
			case *datasets.Images:
				pixels, height, width = source.At(i), source.Height, source.Width
			default:
				err = fmt.Errorf("no images to encode in %T", source)
			}
			if err != nil {
				yield(evaluation.Image{}, err)
				return
			}
			if !yield(evaluation.NewImage(pixels, height, width), nil) {
				return
			}
		}
	}
}
