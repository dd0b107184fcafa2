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

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"github.com/semcon/semcon/internal/jsonstream"
	"github.com/semcon/semcon/sccore/rle"
)

// annotationsOf is the file of the annotations of a panoptic mask, which has the name of the mask's folder.
func annotationsOf(mask string) string { return filepath.Dir(mask) + ".json" }

// segmentsOf returns the classes of the segments in a panoptic mask, by the classes of categories.
func segmentsOf(mask string, class classOf) (_ classOf, err error) {
	defer try.Handle(&err)
	annotations := annotationsOf(mask)
	categories, ok := try.E1(panopticFile(annotations))[filepath.Base(mask)]
	if !ok {
		return nil, fmt.Errorf("has no entry in %s", annotations)
	}
	return func(segment uint32) (uint8, bool) {
		category, known := categories[segment]
		if segment == 0 {
			return Ignore, true
		}
		of, hasClass := class(category)
		return of, known && hasClass
	}, nil
}

// panoptic holds the category of each segment, by the file name of the mask.
type panoptic map[string]map[uint32]uint32

// panopticFile reads an annotation file once per process: it has hundreds of megabytes and serves every mask.
func panopticFile(path string) (panoptic, error) {
	read, _ := panopticFiles.LoadOrStore(path, sync.OnceValues(func() (_ panoptic, err error) {
		defer try.Handle(&err)
		file := try.E1(jsonstream.Open(path))
		defer file.Close()
		return parsePanoptic(file, path)
	}))
	return read.(func() (panoptic, error))()
}

var panopticFiles sync.Map

// parsePanoptic reads the segments in COCO's panoptic format.
func parsePanoptic(r io.Reader, name string) (panoptic, error) {
	p, segments := newInstanceParser(r, name), panoptic{}
	return segments, p.read(map[string]func(i int) error{"annotations": p.masks(func(m panopticMask) {
		segments[m.FileName] = lo.SliceToMap(m.Segments, func(s panopticSegment) (uint32, uint32) { return s.ID, uint32(s.Category) })
	})})
}

// panopticMask is an annotated image of a panoptic file.
type panopticMask struct {
	Image    int64             `json:"image_id"`
	FileName string            `json:"file_name"`
	Segments []panopticSegment `json:"segments_info"`
}

type panopticSegment struct {
	ID       uint32    `json:"id"`
	Category int64     `json:"category_id"`
	Crowd    crowdFlag `json:"iscrowd"`
}

// masks reads an annotated image of a panoptic file and passes it on.
func (p *instanceParser) masks(use func(m panopticMask)) func(i int) error {
	return func(i int) error {
		var m panopticMask
		err := p.json.Decode(&m)
		use(m)
		return at("annotations", i, err)
	}
}

// COCO opens the images of a split of COCO 2017, which show several objects each: train2017 or val2017 below dir/coco or dir/coco/images.
func COCO(dir string, split Split) (_ *ImageFolder, err error) {
	defer try.Handle(&err)
	_, images := try.E2(cocoImages(filepath.Join(dir, "coco"), split))
	if !exists(images) {
		return nil, missingf("COCO: no %s in %s or its images", filepath.Base(images), filepath.Join(dir, "coco"))
	}
	return OpenImageFolder(images)
}

// cocoImages returns what COCO calls a split, and the folder of its images, in the folder or its subfolder images.
func cocoImages(folder string, split Split) (part, images string, err error) {
	defer try.Handle(&err)
	part = try.E1(partOf("COCO", split, "train2017", "val2017"))
	if images = filepath.Join(folder, part); !exists(images) {
		images = filepath.Join(folder, "images", part)
	}
	return part, images, nil
}

// openPanopticInstances makes objects of the segments of things in a panoptic file, whose masks lie in the folder of its name. Annotations are numbered from
// 1. A segment that has no pixels is skipped.
func openPanopticInstances(path string) (_ *Instances, err error) {
	defer try.Handle(&err)
	file := try.E1(jsonstream.Open(path))
	defer file.Close()
	p := newInstanceParser(file, path)
	p.stuff = map[int64]bool{}
	var masks []panopticMask
	add := p.masks(func(m panopticMask) { masks = append(masks, m) })
	try.E(p.read(map[string]func(i int) error{"images": p.image, "categories": p.category, "annotations": add}))
	in, found := p.in, make([][]Annotation, len(masks))
	try.E(EachImage(context.Background(), len(masks), 0, func(i int) (err error) {
		found[i], err = in.objects(strings.TrimSuffix(path, ".json"), masks[i])
		return err
	}))
	for i, m := range masks {
		for _, a := range found[i] {
			which := fmt.Sprintf("image %d, segment %d", m.Image, a.ID)
			if a.ID = int64(len(in.Annotations) + 1); p.stuff[a.Category] {
				continue
			}
			switch {
			case !in.categories[a.Category]:
				in.skip(which, fmt.Errorf("there is no category %d", a.Category))
			case a.Area == 0:
				in.skip(which, errors.New("it has no pixels"))
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
