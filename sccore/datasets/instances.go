package datasets

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dsnet/try"
	"github.com/samber/lo"
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
	// SkippedPolygons counts the polygons of fewer than three corners, which masks are drawn without.
	SkippedPolygons int

	images     map[int64]Size
	categories map[int64]bool
}

// InstanceImage is an image of [Instances].
type InstanceImage struct {
	ID            int64
	FileName      string
	Height, Width int // In pixels, at least 1; both 0 where the file does not say. Boxes need no size.
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
	Area                float64    // In pixels, as the file has it: the mask's area in COCO's own files.
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
func OpenInstances(path string) (_ *Instances, err error) {
	defer try.Handle(&err)
	file := try.E1(jsonstream.Open(path))
	defer file.Close()
	return ReadInstances(file, path)
}

// ReadInstances reads COCO's annotations of instances: a JSON object with the lists images, categories and annotations. Other keys are passed over.
//
// Ids are whole numbers or texts. An annotation without an area has its box's. One is skipped, with a line that names its id, if it lacks id, image,
// category or box; if its image or category is not in the file or its id is there twice; and if its box has a negative side. A mask that is missing or
// wrong does not matter before [Instances.RequireMasks]. Everything else that is wrong is an error that names the file.
func ReadInstances(r io.Reader, name string) (_ *Instances, err error) {
	defer try.Handle(&err)
	p := newInstanceParser(r, name)
	try.E(p.read(map[string]func(i int) error{"images": p.image, "categories": p.category, "annotations": p.annotation}))
	p.in.checkAnnotations()
	return p.in, nil
}

func newInstances(name string) *Instances {
	return &Instances{Name: name, images: map[int64]Size{}, categories: map[int64]bool{}}
}

type instanceParser struct {
	in    *Instances
	json  *jsonstream.Reader
	stuff map[int64]bool // Categories of a panoptic file that are no things; nil for a file of instances.
}

func newInstanceParser(r io.Reader, name string) *instanceParser {
	return &instanceParser{in: newInstances(name), json: jsonstream.New(r)}
}

// read reads lists, which must be there, by functions that read an entry. Other keys are passed over.
func (p *instanceParser) read(lists map[string]func(i int) error) error {
	annotated := false
	err := p.json.Object(func(key string) error {
		annotated = annotated || key == "annotations"
		if lists[key] == nil {
			return p.json.Skip()
		}
		return p.json.Array(lists[key])
	})
	if err == nil {
		err = p.json.End()
	}
	switch {
	case err != nil:
	case lists["images"] != nil && len(p.in.Images) == 0:
		err = errors.New("has no images")
	case lists["categories"] != nil && len(p.in.Categories) == 0:
		err = errors.New("has no categories" + lo.Ternary(p.stuff != nil, " of things", ""))
	case !annotated:
		err = errors.New("has no annotations")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.in.Name, err)
	}
	return nil
}

func (p *instanceParser) image(i int) error {
	var image struct {
		ID       *ID    `json:"id"`
		FileName string `json:"file_name"`
		Height   *int   `json:"height"`
		Width    *int   `json:"width"`
	}
	err := p.json.Decode(&image)
	switch {
	case err != nil:
		return at("images", i, err)
	case image.ID == nil:
		return fmt.Errorf("images[%d] has no id", i)
	}
	id, size := int64(*image.ID), Size{}
	if image.Height != nil && image.Width != nil {
		if size = (Size{*image.Height, *image.Width}); size.Height < 1 || size.Width < 1 || size.Height > rle.MaxPixels/size.Width {
			return fmt.Errorf("image %v has %d×%d pixels", *image.ID, size.Width, size.Height)
		}
	}
	if _, twice := p.in.images[id]; twice {
		return fmt.Errorf("image %v is there twice", *image.ID)
	}
	p.in.images[id] = size
	p.in.Images = append(p.in.Images, InstanceImage{id, image.FileName, size.Height, size.Width})
	return nil
}

func (p *instanceParser) category(i int) error {
	var category struct {
		ID    *ID    `json:"id"`
		Name  string `json:"name"`
		Thing any    `json:"isthing"` // In panoptic files: 0 or 1, or false or true.
	}
	err := p.json.Decode(&category)
	switch {
	case err != nil:
		return at("categories", i, err)
	case category.ID == nil:
		return fmt.Errorf("categories[%d] has no id", i)
	}
	id := int64(*category.ID)
	if p.in.categories[id] {
		return fmt.Errorf("category %v is there twice", *category.ID)
	}
	if p.stuff != nil && category.Thing != 1.0 && category.Thing != true {
		p.stuff[id] = true
		return nil
	}
	p.in.categories[id] = true
	p.in.Categories = append(p.in.Categories, ObjectCategory{id, category.Name})
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
		ID       *ID          `json:"id"`
		Image    *ID          `json:"image_id"`
		Category *ID          `json:"category_id"`
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
		p.in.skip(fmt.Sprintf("annotations[%d]", i), err)
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
	case a.Area == nil:
		a.Area = new(a.Box[2] * a.Box[3])
	case *a.Area < 0:
		err = fmt.Errorf("its area is %g", *a.Area)
	}
	if err != nil {
		p.in.skip(fmt.Sprintf("annotation %v", *a.ID), err)
		return nil
	}
	p.in.SkippedPolygons += a.Mask.dropPolygons()
	p.in.Annotations = append(p.in.Annotations, Annotation{
		int64(*a.ID), int64(*a.Image), int64(*a.Category), [4]float64(a.Box), *a.Area, bool(a.Crowd), a.Mask,
	})
	return nil
}

// checkAnnotations skips annotations that do not fit to the rest of the file, when all of it is read: the lists may come in any order.
func (in *Instances) checkAnnotations() {
	ids := map[int64]bool{}
	in.skipAnnotations(func(a Annotation) error {
		twice := ids[a.ID]
		ids[a.ID] = true
		_, known := in.images[a.Image]
		switch {
		case twice:
			return errors.New("its id is there twice")
		case !known:
			return fmt.Errorf("there is no image %v", ID(a.Image))
		case !in.categories[a.Category]:
			return fmt.Errorf("there is no category %v", ID(a.Category))
		case a.Box[2] < 0 || a.Box[3] < 0:
			return fmt.Errorf("its box has %g×%g pixels", a.Box[2], a.Box[3])
		}
		return nil
	})
}

// skipAnnotations skips the annotations with a fault.
func (in *Instances) skipAnnotations(fault func(a Annotation) error) {
	in.Annotations = slices.DeleteFunc(in.Annotations, func(a Annotation) bool {
		err := fault(a)
		if err != nil {
			in.skip(fmt.Sprintf("annotation %v", ID(a.ID)), err)
		}
		return err != nil
	})
}

func (in *Instances) skip(which string, why error) {
	in.SkippedCount++
	if len(in.Skipped) < maxListed {
		in.Skipped = append(in.Skipped, Skipped{in.Name, which + ": " + why.Error()})
	}
}

// RequireMasks skips the annotations without a mask that can be drawn, which training and AP of masks cannot use, and returns their lines: a mask may be
// missing, of another size than its image, or have no polygon of three corners, or runs that do not add up.
func (in *Instances) RequireMasks() []Skipped {
	before := len(in.Skipped)
	in.skipAnnotations(func(a Annotation) error { return a.Mask.check(in.images[a.Image]) })
	return in.Skipped[before:]
}
