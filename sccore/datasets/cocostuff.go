package datasets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

var cocoStuff = &layout{
	key: "coco", name: "COCOStuff-27",
	classes: func() (names []string) {
		for _, group := range cocoGroups {
			names = append(names, group.name)
		}
		return names
	}(),
	official: map[Split]int{Train: 118287, Test: 5000},
	list:     (*layout).listCOCOStuff,
	colours:  vocColours(1, len(cocoGroups)), // The groups have no official ones, and no background for VOC's black.
	mask:     cocoMask,
}

// COCOStuff27 opens COCO 2017 with the 27 coarse classes of COCO-Stuff (Caesar et al. 2018), below dir/coco. Images are in train2017 and
// val2017, the test split here, or in subfolders of images with these names. Masks are the first of these that exist:
//
//   - stuffthingmaps/train2017/NAME.png, COCO-Stuff's own: each pixel is a category minus 1, and 255 is ignored;
//   - annotations/panoptic_train2017/NAME.png and annotations/panoptic_train2017.json, COCO's panoptic annotations;
//   - semantic_masks/train2017/NAME.png: each pixel is a category, and 0 is ignored.
//
// If curated/train2017/Coco164kFull_Stuff_Coarse_7.txt exists, only the images in it are used: the list curated by Ji et al., with 49,629
// training and 2,175 test images.
func COCOStuff27(dir string, split Split) (*Segmentation, error) { return cocoStuff.open(dir, split) }

func (s *layout) listCOCOStuff(dir string, split Split) (folder string, pairs []pair, err error) {
	part := map[Split]string{Train: "train2017", Test: "val2017"}[split]
	if folder, err = s.locate(dir, []string{"coco", "."}, "."); err != nil {
		return "", nil, err
	}
	images := filepath.Join(folder, part)
	if !exists(images) {
		images = filepath.Join(folder, "images", part)
	}
	masks := ""
	for _, kind := range []string{"stuffthingmaps/" + part, "annotations/panoptic_" + part, "semantic_masks/" + part} {
		if masks = filepath.Join(folder, filepath.FromSlash(kind)); exists(masks) {
			break
		}
	}
	if !exists(images) || !exists(masks) {
		return "", nil, missingf("no %s %s in %s: want %s and one of stuffthingmaps, annotations/panoptic_%s, semantic_masks", s.name, split, folder, part, part)
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

func cocoMask(path string, file []byte) (height, width int, classes []uint8, err error) {
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
		return 0, 0, nil, err
	}
	categories, ok := segments[filepath.Base(path)]
	if !ok {
		return 0, 0, nil, fmt.Errorf("has no entry in %s", folder+".json")
	}
	m, err := decodeSegments(file)
	if err != nil {
		return 0, 0, nil, err
	}
	classes, err = m.classes(func(segment uint32) (uint8, bool) {
		if segment == 0 {
			return Ignore, true
		}
		category, known := categories[segment]
		class, hasClass := cocoClass(category)
		return class, known && hasClass
	})
	return m.height, m.width, classes, err
}

// panoptic holds the category of each segment, by the file name of the mask.
type panoptic map[string]map[uint32]uint32

// panopticFile reads an annotation file once per process: it has hundreds of megabytes and serves every mask.
func panopticFile(path string) (panoptic, error) {
	read, _ := panopticFiles.LoadOrStore(path, sync.OnceValues(func() (panoptic, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, reason(err))
		}
		defer file.Close()
		segments, err := parsePanoptic(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return segments, nil
	}))
	return read.(func() (panoptic, error))()
}

var panopticFiles sync.Map

// parsePanoptic reads the annotations in COCO's panoptic format and skips everything else.
func parsePanoptic(r io.Reader) (panoptic, error) {
	decoder := json.NewDecoder(r)
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, errors.New("is not a JSON object")
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		if key != "annotations" {
			var other json.RawMessage
			if err := decoder.Decode(&other); err != nil {
				return nil, err
			}
			continue
		}
		if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
			return nil, errors.New("its annotations are not a list")
		}
		segments := panoptic{}
		for decoder.More() {
			var annotation struct {
				FileName string `json:"file_name"`
				Segments []struct {
					ID       uint32 `json:"id"`
					Category uint32 `json:"category_id"`
				} `json:"segments_info"`
			}
			if err := decoder.Decode(&annotation); err != nil {
				return nil, fmt.Errorf("annotation %d: %w", len(segments), err)
			}
			categories := map[uint32]uint32{}
			for _, s := range annotation.Segments {
				categories[s.ID] = s.Category
			}
			segments[annotation.FileName] = categories
		}
		if _, err := decoder.Token(); err != nil {
			return nil, fmt.Errorf("after annotation %d: %w", len(segments), err)
		}
		return segments, nil
	}
	return nil, errors.New("has no annotations")
}
