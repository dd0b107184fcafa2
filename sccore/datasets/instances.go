package datasets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/semcon/semcon/internal/jsonstream"
	"github.com/semcon/semcon/sccore/rle"
)

// Instances are the annotated objects of images, as a file of COCO's instances_val2017.json layout has them.
type Instances struct {
	Name        string           // The file's.
	Images      []InstanceImage  // In the file's order.
	Categories  []ObjectCategory // In the file's order.
	Annotations []Annotation     // Those that can be used, in the file's order.

	// Skipped lists annotations that cannot be used, at most maxListed, and SkippedCount says how many there are.
	Skipped      []Skipped
	SkippedCount int

	images     map[int64]Size
	categories map[int64]bool
}

// InstanceImage is an image of [Instances].
type InstanceImage struct {
	ID            int64
	FileName      string
	Height, Width int // In pixels, at least 1.
}

// ObjectCategory is a kind of objects.
type ObjectCategory struct {
	ID   int64
	Name string
}

// Annotation is an annotated object, or a crowd of objects that are not told apart.
type Annotation struct {
	ID, Image, Category int64
	Box                 [4]float64 // x, y, width and height in pixels, the last two at least 0. It may stick out of the image.
	Area                float64    // In pixels, as the file has it: that of the mask in COCO's own files.
	Crowd               bool
	Mask                InstanceMask
}

// maxListed bounds the list of skipped annotations.
const maxListed = 100

// ImageSize returns the size of an image, and whether there is such an image.
func (in *Instances) ImageSize(image int64) (Size, bool) {
	size, ok := in.images[image]
	return size, ok
}

// HasCategory says whether there is such a category.
func (in *Instances) HasCategory(category int64) bool { return in.categories[category] }

// OpenInstances reads a file of [ReadInstances].
func OpenInstances(path string) (*Instances, error) {
	file, err := jsonstream.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return ReadInstances(file, path)
}

// ReadInstances reads COCO's annotations of instances: a JSON object with the lists images, categories and annotations. Other keys are passed over.
//
// An annotation is skipped, with a line that names its id, if it lacks id, image, category, box or area; if its image or category is not in the file or
// its id is there twice; if its box has a negative side or lies outside the image; and if its mask has a polygon of fewer than three corners, the size of
// another image, or runs that do not add up. An annotation without a mask is none of these; see [Instances.RequireMasks]. Everything else that is wrong is
// an error that names the file.
func ReadInstances(r io.Reader, name string) (*Instances, error) {
	in := &Instances{Name: name, images: map[int64]Size{}, categories: map[int64]bool{}}
	p := instanceParser{in: in, json: jsonstream.New(r)}
	annotated := false
	err := p.json.Object(func(key string) error {
		switch key {
		case "images":
			return p.json.Array(p.image)
		case "categories":
			return p.json.Array(p.category)
		case "annotations":
			annotated = true
			return p.json.Array(p.annotation)
		}
		return p.json.Skip()
	})
	if err == nil {
		err = p.json.End()
	}
	switch {
	case err != nil:
	case len(in.Images) == 0:
		err = errors.New("has no images")
	case len(in.Categories) == 0:
		err = errors.New("has no categories")
	case !annotated:
		err = errors.New("has no annotations")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p.checkAnnotations()
	return in, nil
}

type instanceParser struct {
	in   *Instances
	json *jsonstream.Reader
}

func (p *instanceParser) image(i int) error {
	var image struct {
		ID       *int64 `json:"id"`
		FileName string `json:"file_name"`
		Height   int    `json:"height"`
		Width    int    `json:"width"`
	}
	err := p.json.Decode(&image)
	switch {
	case err != nil:
		return at("images", i, err)
	case image.ID == nil:
		return fmt.Errorf("images[%d] has no id", i)
	case image.Height < 1 || image.Width < 1 || image.Height > rle.MaxPixels/image.Width:
		return fmt.Errorf("image %d has %d×%d pixels", *image.ID, image.Width, image.Height)
	}
	if _, twice := p.in.images[*image.ID]; twice {
		return fmt.Errorf("image %d is there twice", *image.ID)
	}
	p.in.images[*image.ID] = Size{image.Height, image.Width}
	p.in.Images = append(p.in.Images, InstanceImage{*image.ID, image.FileName, image.Height, image.Width})
	return nil
}

func (p *instanceParser) category(i int) error {
	var category struct {
		ID   *int64 `json:"id"`
		Name string `json:"name"`
	}
	err := p.json.Decode(&category)
	switch {
	case err != nil:
		return at("categories", i, err)
	case category.ID == nil:
		return fmt.Errorf("categories[%d] has no id", i)
	case p.in.categories[*category.ID]:
		return fmt.Errorf("category %d is there twice", *category.ID)
	}
	p.in.categories[*category.ID] = true
	p.in.Categories = append(p.in.Categories, ObjectCategory{*category.ID, category.Name})
	return nil
}

// at adds the place in a list to the error of a value; errors of the stream have their own place.
func at(list string, i int, err error) error {
	if errors.As(err, new(*jsonstream.ValueError)) {
		return fmt.Errorf("%s[%d]: %w", list, i, err)
	}
	return err
}

func (p *instanceParser) annotation(i int) error {
	var a struct {
		ID       *int64       `json:"id"`
		Image    *int64       `json:"image_id"`
		Category *int64       `json:"category_id"`
		Box      []float64    `json:"bbox"`
		Area     *float64     `json:"area"`
		Crowd    crowdFlag    `json:"iscrowd"`
		Mask     InstanceMask `json:"segmentation"`
	}
	err := p.json.Decode(&a)
	if err != nil && !errors.As(err, new(*jsonstream.ValueError)) {
		return err
	}
	if a.ID == nil || err != nil && *a.ID == 0 { // A wrong id is left at 0.
		if err == nil {
			err = errors.New("it has no id")
		}
		p.skip(fmt.Sprintf("annotations[%d]", i), err)
		return nil
	}
	switch {
	case err != nil:
	case a.Image == nil:
		err = errors.New("it has no image_id")
	case a.Category == nil:
		err = errors.New("it has no category_id")
	case len(a.Box) != 4:
		err = fmt.Errorf("its bbox has %d numbers, want x, y, width and height", len(a.Box))
	case a.Area == nil || *a.Area < 0:
		err = errors.New("it has no area of at least 0")
	}
	if err != nil {
		p.skip(fmt.Sprintf("annotation %d", *a.ID), err)
		return nil
	}
	p.in.Annotations = append(p.in.Annotations, Annotation{*a.ID, *a.Image, *a.Category, [4]float64(a.Box), *a.Area, bool(a.Crowd), a.Mask})
	return nil
}

// checkAnnotations skips annotations that do not fit to the rest of the file, when all of it is read: the lists may come in any order.
func (p *instanceParser) checkAnnotations() {
	ids := map[int64]bool{}
	p.in.Annotations = slices.DeleteFunc(p.in.Annotations, func(a Annotation) bool {
		size, known := p.in.images[a.Image]
		x, y, w, h := a.Box[0], a.Box[1], a.Box[2], a.Box[3]
		var err error
		switch {
		case ids[a.ID]:
			err = errors.New("its id is there twice")
		case !known:
			err = fmt.Errorf("there is no image %d", a.Image)
		case !p.in.categories[a.Category]:
			err = fmt.Errorf("there is no category %d", a.Category)
		case w < 0 || h < 0:
			err = fmt.Errorf("its box has %g×%g pixels", w, h)
		case x > float64(size.Width) || y > float64(size.Height) || x+w < 0 || y+h < 0:
			err = fmt.Errorf("its box, %g×%g at (%g, %g), lies outside the image of %d×%d", w, h, x, y, size.Width, size.Height)
		default:
			err = a.Mask.check(size)
		}
		ids[a.ID] = true
		if err != nil {
			p.skip(fmt.Sprintf("annotation %d", a.ID), err)
		}
		return err != nil
	})
}

func (p *instanceParser) skip(which string, why error) {
	p.in.SkippedCount++
	if len(p.in.Skipped) < maxListed {
		p.in.Skipped = append(p.in.Skipped, Skipped{p.in.Name, which + ": " + why.Error()})
	}
}

// RequireMasks skips the annotations without a mask, which training and AP of masks cannot use, and returns their lines.
func (in *Instances) RequireMasks() []Skipped {
	p := instanceParser{in: in}
	before := len(in.Skipped)
	in.Annotations = slices.DeleteFunc(in.Annotations, func(a Annotation) bool {
		if a.Mask.None() {
			p.skip(fmt.Sprintf("annotation %d", a.ID), errors.New("it has no segmentation"))
		}
		return a.Mask.None()
	})
	return in.Skipped[before:]
}

// crowdFlag is 0 or 1, or false or true.
type crowdFlag bool

func (c *crowdFlag) UnmarshalJSON(raw []byte) error {
	switch string(raw) {
	case "0", "false", "null":
		*c = false
	case "1", "true":
		*c = true
	default:
		return fmt.Errorf("iscrowd is %.20s, want 0 or 1", raw)
	}
	return nil
}

// InstanceMask is the mask of one object as COCO's "segmentation" has it: polygons, or runs as a list of counts or as compressed text. The zero value
// is none.
type InstanceMask struct {
	Polygons [][]float64 // Each x, y, x, y, … in pixels; the object is their union.

	Size   Size     // Of runs.
	Counts []uint32 // As rle.FromCounts takes them, if Text is empty.
	Text   string   // As rle.Parse takes it.
}

// UnmarshalJSON reads COCO's "segmentation". It checks types; what is within them is checked by [InstanceMask.Runs].
func (m *InstanceMask) UnmarshalJSON(raw []byte) error {
	*m = InstanceMask{}
	switch raw = bytes.TrimSpace(raw); {
	case bytes.HasPrefix(raw, []byte("[")):
		if json.Unmarshal(raw, &m.Polygons) != nil {
			return errors.New("the segmentation is not a list of polygons, which are lists of numbers")
		}
		return nil
	case bytes.Equal(raw, []byte("null")):
		return nil
	}
	var runs struct {
		Size   []int           `json:"size"`
		Counts json.RawMessage `json:"counts"`
	}
	if json.Unmarshal(raw, &runs) != nil || len(runs.Size) != 2 {
		return errors.New("the segmentation is neither a list of polygons nor an object with size, of height and width, and counts")
	}
	m.Size = Size{runs.Size[0], runs.Size[1]}
	if json.Unmarshal(runs.Counts, &m.Text) != nil && json.Unmarshal(runs.Counts, &m.Counts) != nil {
		return errors.New("the segmentation's counts are neither a string nor a list of whole numbers")
	}
	return nil
}

// None says that there is no mask.
func (m InstanceMask) None() bool {
	return len(m.Polygons) == 0 && m.Size == Size{} && m.Text == "" && m.Counts == nil
}

// Runs returns the mask in an image of the given size. No mask, runs of another size, runs that do not add up, and what is no polygon are errors.
func (m InstanceMask) Runs(size Size) (rle.Mask, error) {
	switch {
	case m.None():
		return rle.Mask{}, errors.New("there is no segmentation")
	case len(m.Polygons) > 0:
		return rle.FromPolygons(size.Height, size.Width, m.Polygons)
	case m.Size != size:
		return rle.Mask{}, fmt.Errorf("a mask of %d×%d pixels in an image of %d×%d", m.Size.Width, m.Size.Height, size.Width, size.Height)
	case m.Text != "":
		return rle.Parse(size.Height, size.Width, m.Text)
	}
	return rle.FromCounts(size.Height, size.Width, m.Counts)
}

// check finds what Runs would, but for the length of outlines, and draws nothing.
func (m InstanceMask) check(size Size) error {
	if m.None() {
		return nil
	}
	for i, polygon := range m.Polygons {
		if err := rle.CheckPolygon(polygon); err != nil {
			return fmt.Errorf("polygon %d: %w", i, err)
		}
	}
	if len(m.Polygons) > 0 {
		return nil
	}
	_, err := m.Runs(size)
	return err
}
