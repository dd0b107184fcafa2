package datasets

import (
	"fmt"
	"path/filepath"
)

// ObjectImages is a split of an object-detection dataset, read one image at a time. [COCOObjects] opens a real one, and package synthetic draws one.
type ObjectImages struct {
	Name string // The dataset's name, "COCO".
	// Identity identifies the files: their number, and the first 16 hexadecimal digits of the SHA-256 digest of the annotations and of the
	// names and sizes of the images.
	Identity string
	Truth    *Instances // What is annotated, in images of the same order.

	read func(i int) (*SegmentedImage, error)
	of   map[int64][]Annotation // By image.
}

// NewObjectImages makes a dataset from its annotations and a function that reads the image truth.Images[i], without a mask.
func NewObjectImages(name, identity string, truth *Instances, read func(i int) (*SegmentedImage, error)) *ObjectImages {
	o := &ObjectImages{Name: name, Identity: identity, Truth: truth, read: read, of: map[int64][]Annotation{}}
	for _, a := range truth.Annotations {
		o.of[a.Image] = append(o.of[a.Image], a)
	}
	return o
}

// Len returns the number of images.
func (o *ObjectImages) Len() int { return len(o.Truth.Images) }

// Image says what image i is, 0 ≤ i < Len.
func (o *ObjectImages) Image(i int) InstanceImage { return o.Truth.Images[i] }

// Annotations returns the objects of image i, in the file's order, with crowds.
func (o *ObjectImages) Annotations(i int) []Annotation { return o.of[o.Image(i).ID] }

// Read returns the pixels of image i at their full size and as they are stored, without a mask. It is safe for concurrent use. The error is one line that
// names the file: a damaged image, or one of another size than the annotations say.
func (o *ObjectImages) Read(i int) (*SegmentedImage, error) {
	picture, err := o.read(i)
	if err != nil {
		return nil, err
	}
	if image := o.Image(i); picture.Height != image.Height || picture.Width != image.Width {
		return nil, fmt.Errorf("%s: image %d has %d×%d pixels, %s says %d×%d", picture.Name, image.ID, picture.Width, picture.Height,
			filepath.Base(o.Truth.Name), image.Width, image.Height)
	}
	return picture, nil
}

// Pick returns the images at the given places, in their order, with their annotations. Its identity says which they are.
func (o *ObjectImages) Pick(places []int) *ObjectImages {
	if len(places) == o.Len() {
		return o
	}
	picked, truth := *o, *o.Truth
	truth.Images, truth.Annotations, truth.images = nil, nil, map[int64]Size{} // Evaluations must not miss the objects of other images.
	for _, i := range places {
		image := o.Image(i)
		truth.Images, truth.images[image.ID] = append(truth.Images, image), Size{image.Height, image.Width}
		truth.Annotations = append(truth.Annotations, o.of[image.ID]...)
	}
	picked.Truth = &truth
	picked.read = func(i int) (*SegmentedImage, error) { return o.read(places[i]) }
	picked.Identity = fmt.Sprintf("%d of (%s)", len(places), o.Identity)
	return &picked
}

// Annotated returns the images that show at least one object that is no crowd, as detectors are trained on.
func (o *ObjectImages) Annotated() *ObjectImages {
	var places []int
	for i := range o.Len() {
		for _, a := range o.Annotations(i) {
			if !a.Crowd {
				places = append(places, i)
				break
			}
		}
	}
	return o.Pick(places)
}

// Classes returns the names of the categories.
func (in *Instances) Classes() (names []string) {
	for _, category := range in.Categories {
		names = append(names, category.Name)
	}
	return names
}

// NewInstances makes annotations that are in no file. Those that cannot be used are skipped as by [ReadInstances].
func NewInstances(name string, images []InstanceImage, categories []ObjectCategory, annotations []Annotation) *Instances {
	in := &Instances{Name: name, Images: images, Categories: categories, Annotations: annotations, images: map[int64]Size{}, categories: map[int64]bool{}}
	for _, image := range images {
		in.images[image.ID] = Size{image.Height, image.Width}
	}
	for _, category := range categories {
		in.categories[category.ID] = true
	}
	p := instanceParser{in: in}
	p.checkAnnotations()
	return in
}
