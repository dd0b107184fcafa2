package evaluation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/semcon/semcon/sccore/datasets"
	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// Synthetic is the dataset that is drawn.
const Synthetic = "synthetic"

// Source says where the images of an evaluation come from.
type Source struct {
	Dir, Dataset string   // A data folder and the name of a dataset in it, or Synthetic.
	Folders      []string // Class folders in the place of a dataset with one label an image, as [datasets.OpenImages] takes them.
	Classes      string   // The only classes that count, with commas between them; empty for all.
	Images       int      // Images per split: drawn, or evenly spread over a dataset's, of which 0 takes all.
	Size         int      // Height and width of drawn images in pixels.
	Frames       int      // Frames of drawn videos.
	Seed         int      // Draws synthetic images. Their sets are not those that encoders are trained on.
}

// Data are the images of an evaluation, of the kinds that it needs. In pairs, the first train and the second test.
type Data struct {
	Name string // The dataset's name for people.
	ID   string // Identifies the images in records.
	Note string // What the protocol of records says of the images; may be empty.

	Train, Test *datasets.Segmentation // Images with a class for every pixel.
	Scenes      [2]*synthetic.Set      // Drawn ones, encoded once.
	Objects     [2]datasets.Source     // Images of one object each, with labels.
	Labels      [2][]int32
	Classes     int // Of objects.
	Videos      []datasets.Video
	Pairs       []datasets.KeypointPair
	Boxed       []datasets.BoxedImage
}

// Identity identifies the images in records.
func (d Data) Identity() string { return d.ID }

// Title is the name of the dataset.
func (d Data) Title() string { return d.Name }

// Skipped is empty because an unreadable image is an error.
func (d Data) Skipped() []string { return []string{} }

// BadSetting is the error for a setting that does not fit the data or the encoder.
type BadSetting struct {
	Key string // Such as "size".
	Err error
}

// Error returns the text of Err.
func (b BadSetting) Error() string { return b.Err.Error() }

// Segmentation opens splits of a dataset with a class for every pixel.
func (s Source) Segmentation(splits ...datasets.Split) (d Data, err error) {
	var identities []string
	for _, split := range splits {
		set, err := s.split(split)
		if err != nil {
			return d, err
		}
		if d.Name, identities = set.Name, append(identities, set.Identity); split == datasets.Train {
			d.Train = set
		} else {
			d.Test = set
		}
	}
	d.ID = strings.Join(identities, "; ")
	return d, nil
}

// What evaluations open; they embed it.
type (
	trainAndTest struct{} // Training and test images with a class for every pixel.
	testImages   struct{} // Test images with a class for every pixel.
	labelled     struct{} // Images of one object each, with labels.
)

// Open opens training and test images.
func (trainAndTest) Open(s Source) (Data, error) {
	return s.Segmentation(datasets.Train, datasets.Test)
}

// Open opens test images.
func (testImages) Open(s Source) (Data, error) { return s.Segmentation(datasets.Test) }

// Open opens labelled images.
func (labelled) Open(s Source) (Data, error) { return s.Labelled() }

func (s Source) split(split datasets.Split) (*datasets.Segmentation, error) {
	if s.Dataset == Synthetic {
		set := 12
		if split == datasets.Test {
			set = 14
		}
		return synthetic.Run(s.Seed).Scenes(s.Images, s.Size, set).Segmentation(), nil
	}
	set, err := datasets.OpenSegmentation(s.Dataset, s.Dir, split)
	if err != nil {
		return nil, err
	}
	if s.Classes != "" {
		if set, err = set.Only(strings.Split(s.Classes, ",")...); err != nil {
			return nil, BadSetting{"classes", err}
		}
	}
	return set.Pick(datasets.Spread(set.Len(), s.Images)), nil
}

// frozen returns the features of a set of images that are resized to squares.
func (e *Encoder) frozen(images *datasets.Segmentation, size int) FrozenFeatures {
	return FrozenFeatures{Extractor: e.FeatureExtractor, Images: images, Seed: e.Seed, TestSize: size}
}

// fits returns an error unless sizes are whole numbers of an encoder's patches.
func (e *Encoder) fits(sizes ...int) error {
	if i := slices.IndexFunc(sizes, func(size int) bool { return size < 1 || size%e.ViT.PatchSize != 0 }); i >= 0 {
		return BadSetting{"size", fmt.Errorf("size %d is not made of patches of %d, which %s sees", sizes[i], e.ViT.PatchSize, e.ViT.Name)}
	}
	return nil
}

// Share returns a share of the images of each split; cut says into how many a split of n images is cut. parts is the largest number of shares.
func (d Data) Share(share int, cut func(n int) int) (own Data, parts int) {
	parts = 1
	cutting := func(n int) int {
		of := cut(n)
		parts = max(parts, of)
		return of
	}
	for i, set := range []**datasets.Segmentation{&d.Train, &d.Test} {
		if *set != nil {
			*set = (*set).Share(share, cutting((*set).Len()))
		}
		if d.Objects[i] != nil {
			d.pickObjects(i, datasets.Share(d.Objects[i].Len(), share, cutting(d.Objects[i].Len())))
		}
	}
	return d, parts
}

// Sample returns at most the given number of images per split, evenly spread; all if most is 0. The classes stay.
func (d Data) Sample(most int) Data {
	if most == 0 {
		return d
	}
	for i, set := range []**datasets.Segmentation{&d.Train, &d.Test} {
		if *set != nil {
			*set = (*set).Pick(datasets.Spread((*set).Len(), most))
		}
		if d.Objects[i] != nil {
			d.pickObjects(i, datasets.Spread(d.Objects[i].Len(), most))
		}
	}
	d.ID = fmt.Sprintf("at most %d per split, spread evenly, of (%s)", most, d.ID)
	return d
}

// pickObjects takes those photographs of a split that are at some places.
func (d *Data) pickObjects(split int, places []int) {
	photographs, ok := d.Objects[split].(LabelledPictures)
	if !ok {
		return
	}
	var labels []int32
	for _, place := range places {
		labels = append(labels, d.Labels[split][place])
	}
	photographs.ImageFolder = photographs.Pick(places)
	d.Objects[split], d.Labels[split] = photographs, labels
}
