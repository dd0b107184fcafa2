package datasets

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/sccore/rle"
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
	of := lo.GroupBy(truth.Annotations, func(a Annotation) int64 { return a.Image })
	return &ObjectImages{Name: name, Identity: identity, Truth: truth, read: read, of: of}
}

// Len returns the number of images.
func (o *ObjectImages) Len() int { return len(o.Truth.Images) }

// Image says what image i is, 0 ≤ i < Len.
func (o *ObjectImages) Image(i int) InstanceImage { return o.Truth.Images[i] }

// Annotations returns the objects of image i, in the file's order, with crowds.
func (o *ObjectImages) Annotations(i int) []Annotation { return o.of[o.Image(i).ID] }

// Read returns the pixels of image i at their full size and as they are stored, without a mask. It is safe for concurrent use. The error is one line that
// names the file: a damaged image, or one of another size than the annotations say.
func (o *ObjectImages) Read(i int) (_ *SegmentedImage, err error) {
	defer try.Handle(&err)
	picture := try.E1(o.read(i))
	if image := o.Image(i); picture.Height != image.Height || picture.Width != image.Width {
		return nil, fmt.Errorf("%s: image %d has %d×%d pixels, %s says %d×%d", picture.Name, image.ID, picture.Width, picture.Height,
			filepath.Base(o.Truth.Name), image.Width, image.Height)
	}
	return picture, nil
}

// Pick returns the images at the given places, in their order, with their annotations. Its identity says how many they are, not which.
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
	return o.Pick(lo.Filter(lo.Range(o.Len()), func(i, _ int) bool {
		return lo.SomeBy(o.Annotations(i), func(a Annotation) bool { return !a.Crowd })
	}))
}

// NewInstances makes annotations that are in no file. Those that cannot be used are skipped as by [ReadInstances].
func NewInstances(name string, images []InstanceImage, categories []ObjectCategory, annotations []Annotation) *Instances {
	in := newInstances(name)
	in.Images, in.Categories, in.Annotations = images, categories, annotations
	in.images = lo.SliceToMap(images, func(image InstanceImage) (int64, Size) { return image.ID, Size{image.Height, image.Width} })
	in.categories = lo.SliceToMap(categories, func(category ObjectCategory) (int64, bool) { return category.ID, true })
	in.checkAnnotations()
	return in
}

// COCOObjects opens the objects of COCO 2017 (Lin et al. 2014), below dir/coco: 80 categories with boxes and masks. Images are in train2017 and val2017, the
// test split here, or in subfolders of images with these names. Annotations are the first of these that exist:
//
//   - annotations/instances_train2017.json, COCO's own;
//   - annotations/panoptic_train2017.json with the masks in annotations/panoptic_train2017: the segments of things become objects, with the box around
//     their pixels. Objects do not overlap there, and what is behind another one is missing.
//
// An image whose file is missing is an error. Annotations without a mask are skipped.
func COCOObjects(dir string, split Split) (_ *ObjectImages, err error) {
	defer try.Handle(&err)
	images, annotations := try.E2(locateCOCOObjects(dir, split))
	opened, _ := cocoObjectFiles.LoadOrStore(annotations, sync.OnceValues(func() (*ObjectImages, error) {
		return openCOCOObjects(annotations, images, strings.HasPrefix(filepath.Base(annotations), "panoptic_"))
	}))
	return opened.(func() (*ObjectImages, error))()
}

// locateCOCOObjects returns the folder of a split's images and its file of annotations.
func locateCOCOObjects(dir string, split Split) (images, annotations string, err error) {
	defer try.Handle(&err)
	try.E(dataFolder("COCO", dir))
	folder := filepath.Join(dir, "coco")
	part, images := try.E2(cocoImages(folder, split))
	annotations = filepath.Join(folder, "annotations", "instances_"+part+".json")
	if !exists(annotations) {
		annotations = filepath.Join(folder, "annotations", "panoptic_"+part+".json")
	}
	if !exists(images) || !exists(annotations) {
		return "", "", missingf("no COCO %s in %s: want %s and one of annotations/instances_%[3]s.json and annotations/panoptic_%[3]s.json",
			split, folder, part)
	}
	return images, annotations, nil
}

// cocoObjectFiles keeps what a process has read: COCO's file of annotations has hundreds of megabytes.
var cocoObjectFiles sync.Map

func openCOCOObjects(annotations, images string, panoptic bool) (_ *ObjectImages, err error) {
	defer try.Handle(&err)
	open, kind := OpenInstances, "instances"
	if panoptic {
		open, kind = openPanopticInstances, "things of the panoptic annotations"
	}
	truth := try.E1(open(annotations))
	ids := lo.Map(truth.Images, func(image InstanceImage, _ int) int64 { return image.ID })
	ids = append(ids, lo.Map(truth.Categories, func(c ObjectCategory, _ int) int64 { return c.ID })...)
	ids = append(ids, lo.Map(truth.Annotations, func(a Annotation, _ int) int64 { return a.ID })...)
	if text, found := lo.Find(ids, func(id int64) bool { return id < 0 }); found {
		return nil, fmt.Errorf("%s: the id %v is not a number of at least 0, as files of results need it", annotations, ID(text))
	}
	truth.RequireMasks()
	digest := newFileDigest()
	file := try.E1(os.Open(annotations))
	defer file.Close()
	if _, err := io.Copy(digest, file); err != nil {
		return nil, fmt.Errorf("%s: %w", annotations, Reason(err))
	}
	for _, image := range truth.Images {
		if !isName(image.FileName) {
			return nil, fmt.Errorf("%s: image %d: %q is not the name of a file", annotations, image.ID, image.FileName)
		} else if image.Height == 0 {
			return nil, fmt.Errorf("%s: image %d: has no height and width", annotations, image.ID)
		}
		if err := digest.addFile(images, filepath.Join(images, image.FileName)); err != nil {
			return nil, fmt.Errorf("%s: image %d: %w", annotations, image.ID, err)
		}
	}
	identity := fmt.Sprintf("COCO %s: %d images, %d categories, %s, sha256 of annotations, names and sizes %s",
		filepath.Base(images), len(truth.Images), len(truth.Categories), kind, digest)
	return NewObjectImages("COCO", identity, truth, func(i int) (*SegmentedImage, error) {
		return ReadStored(filepath.Join(images, truth.Images[i].FileName))
	}), nil
}

// crowdFlag is 0 or 1, or false or true.
type crowdFlag bool

func (c *crowdFlag) UnmarshalJSON(raw []byte) error {
	var value any
	if json.Unmarshal(raw, &value) != nil || !slices.Contains([]any{nil, false, true, 0.0, 1.0}, value) {
		return fmt.Errorf("iscrowd is %.20s, want 0 or 1", raw)
	}
	*c = value == true || value == 1.0
	return nil
}

// InstanceMask is the mask of one object as COCO's "segmentation" has it: polygons, or runs as a list of counts or as compressed text. The zero value is none.
type InstanceMask struct {
	Polygons [][]float64 // Each x, y, x, y, … in pixels; the object is their union.

	Size   Size     // Of runs.
	Counts []uint32 // As rle.FromCounts takes them, if Text is empty.
	Text   string   // As rle.Parse takes it.

	fault string // What keeps it from being one of these.
}

// UnmarshalJSON reads COCO's "segmentation" and never fails: boxes do not depend on it. What is wrong is the error of [InstanceMask.Runs].
func (m *InstanceMask) UnmarshalJSON(raw []byte) error {
	*m = InstanceMask{}
	switch raw = bytes.TrimSpace(raw); {
	case bytes.HasPrefix(raw, []byte("[")):
		if json.Unmarshal(raw, &m.Polygons) != nil {
			*m = InstanceMask{fault: "the segmentation is not a list of polygons, which are lists of numbers"}
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
		m.fault = "the segmentation is neither a list of polygons nor an object with size, of height and width, and counts"
		return nil
	}
	m.Size = Size{runs.Size[0], runs.Size[1]}
	if json.Unmarshal(runs.Counts, &m.Text) != nil && json.Unmarshal(runs.Counts, &m.Counts) != nil {
		*m = InstanceMask{fault: "the segmentation's counts are neither a string nor a list of whole numbers"}
	}
	return nil
}

// None says that there is no mask.
func (m InstanceMask) None() bool {
	return len(m.Polygons) == 0 && m.Size == Size{} && m.Text == "" && m.Counts == nil && m.fault == ""
}

// dropPolygons leaves out what is no polygon, as long as one is left, and returns how many.
func (m *InstanceMask) dropPolygons() int {
	before := len(m.Polygons)
	drawn := slices.DeleteFunc(slices.Clone(m.Polygons), func(polygon []float64) bool { return rle.CheckPolygon(polygon) != nil })
	if len(drawn) > 0 {
		m.Polygons = drawn
	}
	return before - len(m.Polygons)
}

// Runs returns the mask in an image of the given size. No mask, runs of another size, runs that do not add up, and what is no polygon are errors.
func (m InstanceMask) Runs(size Size) (rle.Mask, error) {
	switch {
	case m.None():
		return rle.Mask{}, errors.New("it has no segmentation")
	case m.fault != "":
		return rle.Mask{}, errors.New(m.fault)
	case size == Size{}:
		return rle.Mask{}, errors.New("the file does not say how large its image is")
	case len(m.Polygons) > 0:
		return rle.FromPolygons(size.Height, size.Width, m.Polygons)
	case m.Size != size:
		return rle.Mask{}, fmt.Errorf("a mask of %d×%d pixels in an image of %d×%d", m.Size.Width, m.Size.Height, size.Width, size.Height)
	case m.Text != "":
		return rle.Parse(size.Height, size.Width, m.Text)
	}
	return rle.FromCounts(size.Height, size.Width, m.Counts)
}

// check finds what Runs would, but for the length of outlines, and draws no polygons.
func (m InstanceMask) check(size Size) error {
	if len(m.Polygons) > 0 && size != (Size{}) {
		for i, polygon := range m.Polygons {
			if err := rle.CheckPolygon(polygon); err != nil {
				return fmt.Errorf("polygon %d: %w", i, err)
			}
		}
		return nil
	}
	_, err := m.Runs(size)
	return err
}

// ID is an id in COCO's format: a whole number, which 1.0 is too, or a text. A text or a negative number has a negative number here, in the order in which the
// process reads them.
type ID int64

// texts are the ids that are texts, in their order.
var texts struct {
	sync.Mutex
	all []string
	of  map[string]ID
}

// String returns the id for messages.
func (id ID) String() string {
	if id < 0 {
		return fmt.Sprintf("%.80q", id.text())
	}
	return strconv.FormatInt(int64(id), 10)
}

func (id ID) text() string {
	texts.Lock()
	defer texts.Unlock()
	if int(-id) > len(texts.all) { // No id that was read.
		return strconv.FormatInt(int64(id), 10)
	}
	return texts.all[-id-1]
}

// CompareIDs orders ids as pycocotools does: numbers by size, texts by their letters.
func CompareIDs(a, b int64) int {
	if a < 0 && b < 0 {
		return cmp.Compare(ID(a).text(), ID(b).text())
	}
	return cmp.Compare(a, b)
}

// UnmarshalJSON reads an id.
func (id *ID) UnmarshalJSON(raw []byte) error {
	text := ""
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil || text == "" {
		number, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			whole, _, err := big.ParseFloat(string(raw), 10, 64, big.ToNearestEven)
			exact := big.Below
			if err == nil && whole.IsInt() {
				number, exact = whole.Int64()
			}
			if exact != big.Exact {
				return fmt.Errorf("the id %.20s is neither a whole number nor a text", raw)
			}
		}
		if *id = ID(number); number >= 0 {
			return nil
		}
		text = strconv.FormatInt(number, 10)
	}
	texts.Lock()
	defer texts.Unlock()
	if texts.of == nil {
		texts.of = map[string]ID{}
	}
	if texts.of[text] == 0 {
		texts.all = append(texts.all, text)
		texts.of[text] = -ID(len(texts.all))
	}
	*id = texts.of[text]
	return nil
}
