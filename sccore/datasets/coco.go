package datasets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/semcon/semcon/internal/jsonstream"
	"github.com/semcon/semcon/sccore/rle"
)

// cocoGroups lists the 27 classes, 12 of things and 15 of stuff, with the categories of COCO and COCO-Stuff that belong to each. It follows
// the hierarchy of COCO-Stuff's authors in the order of Ji et al. (Invariant Information Clustering, 2019). Categories 183 to 200 are the
// merged ones of COCO's panoptic annotations.
var cocoGroups = []struct {
	name       string
	categories []uint32
}{
	{"electronic", span(72, 77)},
	{"appliance", span(78, 83)},
	{"food", span(52, 61)},
	{"furniture", span(62, 71)},
	{"indoor", span(84, 91)},
	{"kitchen", span(44, 51)},
	{"accessory", span(26, 33)},
	{"animal", span(16, 25)},
	{"outdoor", span(10, 15)},
	{"person", span(1, 1)},
	{"sports", span(34, 43)},
	{"vehicle", span(2, 9)},
	{"ceiling", []uint32{102, 103, 186}},
	{"floor", []uint32{101, 114, 115, 116, 117, 118, 190}},
	{"food-stuff", []uint32{121, 122, 153, 170, 196}},
	{"furniture-stuff", []uint32{98, 107, 108, 110, 112, 123, 130, 133, 156, 161, 165, 188, 189}},
	{"raw-material", []uint32{100, 132, 139, 143, 195}},
	{"textile", []uint32{92, 93, 104, 105, 109, 131, 137, 141, 152, 167, 168, 200}},
	{"wall", []uint32{171, 172, 173, 174, 175, 176, 177, 199}},
	{"window", []uint32{180, 181}},
	{"building", []uint32{95, 96, 128, 151, 158, 166, 197}},
	{"ground", []uint32{111, 125, 126, 136, 140, 144, 145, 147, 149, 154, 159, 191, 194}},
	{"plant", []uint32{94, 97, 119, 124, 129, 134, 142, 163, 169, 184, 193}},
	{"sky", []uint32{106, 157, 187}},
	{"solid", []uint32{127, 135, 150, 160, 162, 182, 192, 198}},
	{"structural", []uint32{99, 113, 138, 146, 164, 185}},
	{"water", []uint32{120, 148, 155, 178, 179}},
}

func span(first, last uint32) (numbers []uint32) {
	for n := first; n <= last; n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// cocoGroupOf maps each category to its class.
var cocoGroupOf = func() map[uint32]uint8 {
	of := map[uint32]uint8{}
	for class, group := range cocoGroups {
		for _, category := range group.categories {
			of[category] = uint8(class)
		}
	}
	return of
}()

// cocoClass returns the class of a category. Category 0 is not annotated.
func cocoClass(category uint32) (uint8, bool) {
	if category == 0 {
		return Ignore, true
	}
	class, known := cocoGroupOf[category]
	return class, known
}

// cocoStuff is COCO 2017 with the 27 coarse classes of COCO-Stuff (Caesar et al. 2018), below dir/coco. Images are in train2017 and
// val2017, the test split here, or in subfolders of images with these names. Masks are the first of these that exist:
//
//   - stuffthingmaps/train2017/NAME.png, COCO-Stuff's own: each pixel is a category minus 1, and 255 is ignored;
//   - annotations/panoptic_train2017/NAME.png and annotations/panoptic_train2017.json, COCO's panoptic annotations;
//   - semantic_masks/train2017/NAME.png: each pixel is a category, and 0 is ignored.
//
// If curated/train2017/Coco164kFull_Stuff_Coarse_7.txt exists, only the images in it are used: the list curated by Ji et al., with 49,629
// training and 2,175 test images.
var cocoStuff = &layout{
	key: "coco", name: "COCOStuff-27",
	classes: func() (names []string) {
		for _, group := range cocoGroups {
			names = append(names, group.name)
		}
		return names
	}(),
	official: map[Split]int{Train: 118287, Test: 5000},
	find:     findCOCOStuff,
	colours:  vocColours(1, len(cocoGroups)), // The groups have no official ones, and no background for VOC's black.
	mask:     cocoMask,
}

func findCOCOStuff(s *layout, dir string, split Split) (folder string, pairs []pair, err error) {
	if folder, err = s.locate(dir, []string{"coco", "."}, "."); err != nil {
		return "", nil, err
	}
	part, images, err := cocoImages(folder, split)
	if err != nil {
		return "", nil, err
	}
	masks := ""
	for _, kind := range []string{"stuffthingmaps/" + part, "annotations/panoptic_" + part, "semantic_masks/" + part} {
		if masks = filepath.Join(folder, filepath.FromSlash(kind)); exists(masks) {
			break
		}
	}
	if !exists(images) || !exists(masks) {
		return "", nil, missingf("no %s %s in %s: want %s and one of stuffthingmaps, annotations/panoptic_%s, semantic_masks",
			s.name, split, folder, part, part)
	}
	names, err := filesIn(images, ".jpg")
	if list := filepath.Join(folder, "curated", part, "Coco164kFull_Stuff_Coarse_7.txt"); exists(list) {
		names, err = readList(list)
	}
	if err != nil {
		return "", nil, err
	}
	for _, name := range names {
		pairs = append(pairs, pair{filepath.Join(images, name+".jpg"), filepath.Join(masks, name+".png")})
	}
	return folder, pairs, nil
}

func cocoMask(path string, file []byte) (ids, classOf, error) {
	folder := filepath.Dir(path)
	switch {
	case filepath.Base(filepath.Dir(folder)) == "stuffthingmaps":
		return idMask(func(id uint32) (uint8, bool) {
			if id == uint32(Ignore) {
				return Ignore, true
			}
			return cocoClass(id + 1)
		})(path, file)
	case !strings.HasPrefix(filepath.Base(folder), "panoptic_"):
		return idMask(cocoClass)(path, file)
	}
	segments, err := panopticFile(folder + ".json")
	if err != nil {
		return ids{}, nil, err
	}
	categories, ok := segments[filepath.Base(path)]
	if !ok {
		return ids{}, nil, fmt.Errorf("has no entry in %s", folder+".json")
	}
	m, err := decodeSegments(file)
	return m, func(segment uint32) (uint8, bool) {
		if segment == 0 {
			return Ignore, true
		}
		category, known := categories[segment]
		class, hasClass := cocoClass(category)
		return class, known && hasClass
	}, err
}

// panoptic holds the category of each segment, by the file name of the mask.
type panoptic map[string]map[uint32]uint32

// panopticFile reads an annotation file once per process: it has hundreds of megabytes and serves every mask.
func panopticFile(path string) (panoptic, error) {
	read, _ := panopticFiles.LoadOrStore(path, sync.OnceValues(func() (panoptic, error) {
		file, err := jsonstream.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		segments, err := parsePanoptic(file)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return segments, err
	}))
	return read.(func() (panoptic, error))()
}

var panopticFiles sync.Map

// parsePanoptic reads the annotations in COCO's panoptic format and skips everything else.
func parsePanoptic(r io.Reader) (panoptic, error) {
	json := jsonstream.New(r)
	masks, err := readPanoptic(json, func(string) error { return json.Skip() })
	if err != nil {
		return nil, err
	}
	segments := panoptic{}
	for _, m := range masks {
		categories := map[uint32]uint32{}
		for _, s := range m.Segments {
			categories[s.ID] = uint32(s.Category)
		}
		segments[m.FileName] = categories
	}
	return segments, nil
}

// panopticMask is an annotated image of a panoptic file.
type panopticMask struct {
	Image    int64  `json:"image_id"`
	FileName string `json:"file_name"`
	Segments []struct {
		ID       uint32    `json:"id"`
		Category int64     `json:"category_id"`
		Crowd    crowdFlag `json:"iscrowd"`
	} `json:"segments_info"`
}

// readPanoptic reads the list of annotations in a panoptic file. other reads the values of the other keys.
func readPanoptic(json *jsonstream.Reader, other func(key string) error) (masks []panopticMask, err error) {
	there := false
	err = json.Object(func(key string) error {
		if key != "annotations" {
			return other(key)
		}
		there = true
		return json.Array(func(i int) error {
			var m panopticMask
			if err := json.Decode(&m); err != nil {
				return at("annotations", i, err)
			}
			masks = append(masks, m)
			return nil
		})
	})
	if err == nil && !there {
		err = errors.New("has no annotations")
	}
	return masks, err
}

// COCO opens the images of a split of COCO 2017, which show several objects each: train2017 or val2017 below dir/coco or dir/coco/images.
func COCO(dir string, split Split) (*ImageFolder, error) {
	_, images, err := cocoImages(filepath.Join(dir, "coco"), split)
	if err != nil {
		return nil, err
	}
	if !exists(images) {
		return nil, missingf("COCO: no %s in %s or its images", filepath.Base(images), filepath.Join(dir, "coco"))
	}
	return OpenImageFolder(images)
}

// cocoImages returns what COCO calls a split, and the folder of its images, in the folder or its subfolder images.
func cocoImages(folder string, split Split) (part, images string, err error) {
	if part, err = partOf("COCO", split, "train2017", "val2017"); err != nil {
		return "", "", err
	}
	if images = filepath.Join(folder, part); !exists(images) {
		images = filepath.Join(folder, "images", part)
	}
	return part, images, nil
}

// openPanopticInstances makes objects of the segments of things in a panoptic file, whose masks lie in the folder of its name. Annotations are numbered from
// 1. A segment that has no pixels is skipped.
func openPanopticInstances(path string) (*Instances, error) {
	file, err := jsonstream.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := newInstances(path)
	p := instanceParser{in: in, json: jsonstream.New(file)}
	stuff := map[int64]bool{}
	masks, err := readPanoptic(p.json, func(key string) error {
		switch key {
		case "images":
			return p.json.Array(p.image)
		case "categories":
			return p.json.Array(func(i int) error {
				var category struct {
					ID    int64  `json:"id"`
					Name  string `json:"name"`
					Thing int    `json:"isthing"`
				}
				if err := p.json.Decode(&category); err != nil {
					return at("categories", i, err)
				}
				if category.Thing == 0 {
					stuff[category.ID] = true
					return nil
				}
				in.Categories, in.categories[category.ID] = append(in.Categories, ObjectCategory{category.ID, category.Name}), true
				return nil
			})
		}
		return p.json.Skip()
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(in.Images) == 0:
		return nil, fmt.Errorf("%s: has no images", path)
	case len(in.Categories) == 0:
		return nil, fmt.Errorf("%s: has no categories of things", path)
	}
	found := make([][]Annotation, len(masks))
	err = EachImage(context.Background(), len(masks), 0, func(i int) (err error) {
		found[i], err = in.objects(strings.TrimSuffix(path, ".json"), masks[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, m := range masks {
		for _, a := range found[i] {
			which := fmt.Sprintf("image %d, segment %d", m.Image, a.ID)
			if a.ID = int64(len(in.Annotations) + 1); stuff[a.Category] {
				continue
			}
			switch {
			case !in.categories[a.Category]:
				p.skip(which, fmt.Errorf("there is no category %d", a.Category))
			case a.Area == 0:
				p.skip(which, errors.New("it has no pixels"))
			default:
				in.Annotations = append(in.Annotations, a)
			}
		}
	}
	return in, nil
}

// objects returns an annotation for each segment of a mask, with the segment's id.
func (in *Instances) objects(folder string, m panopticMask) ([]Annotation, error) {
	path := filepath.Join(folder, m.FileName)
	size, known := in.images[m.Image]
	if !known {
		return nil, fmt.Errorf("%s: there is no image %d", in.Name, m.Image)
	}
	segments, err := load(os.DirFS(folder), m.FileName, path, decodeSegments)
	if err != nil {
		return nil, fmt.Errorf("%s: image %d: %w", in.Name, m.Image, err)
	}
	if segments.height != size.Height || segments.width != size.Width {
		return nil, fmt.Errorf("%s: the mask is %d×%d pixels, image %d is %d×%d", path, segments.width, segments.height, m.Image, size.Width, size.Height)
	}
	// The runs of all segments in one pass down the columns.
	type runs struct {
		counts []uint32
		end    int
	}
	of := map[uint32]*runs{}
	for start, n := 0, size.Height*size.Width; start < n; {
		id := segments.of[start%size.Height*size.Width+start/size.Height]
		end := start + 1
		for end < n && segments.of[end%size.Height*size.Width+end/size.Height] == id {
			end++
		}
		if of[id] == nil {
			of[id] = &runs{}
		}
		r := of[id]
		r.counts, r.end = append(r.counts, uint32(start-r.end), uint32(end-start)), end
		start = end
	}
	annotations := make([]Annotation, 0, len(m.Segments))
	for _, s := range m.Segments {
		a := Annotation{ID: int64(s.ID), Image: m.Image, Category: s.Category, Crowd: bool(s.Crowd)}
		if r := of[s.ID]; r != nil {
			r.counts = append(r.counts, uint32(size.Height*size.Width-r.end))
			mask, err := rle.FromCounts(size.Height, size.Width, r.counts)
			if err != nil {
				return nil, fmt.Errorf("%s: segment %d: %w", path, s.ID, err)
			}
			a.Box, a.Area = mask.Box(), float64(mask.Area())
			a.Mask = InstanceMask{Size: size, Text: mask.String()}
		}
		annotations = append(annotations, a)
	}
	return annotations, nil
}
