package datasets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/semcon/semcon/internal/jsonstream"
	"github.com/semcon/semcon/sccore/rle"
	"golang.org/x/sync/errgroup"
)

// panopticMask is an annotated image of a panoptic file.
type panopticMask struct {
	Image    int64  `json:"image_id"`
	FileName string `json:"file_name"`
	Segments []struct {
		ID       uint32 `json:"id"`
		Category int64  `json:"category_id"`
		Crowd    int    `json:"iscrowd"`
	} `json:"segments_info"`
}

// openPanopticInstances makes objects of the segments of things in a panoptic file, whose masks lie in the folder of its name. Annotations are numbered from
// 1. A segment that has no pixels is skipped.
func openPanopticInstances(path string) (*Instances, error) {
	file, err := jsonstream.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in := &Instances{Name: path, images: map[int64]Size{}, categories: map[int64]bool{}}
	p := instanceParser{in: in, json: jsonstream.New(file)}
	stuff := map[int64]bool{}
	var masks []panopticMask
	err = p.json.Object(func(key string) error {
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
		case "annotations":
			return p.json.Array(func(i int) error {
				var m panopticMask
				if err := p.json.Decode(&m); err != nil {
					return at("annotations", i, err)
				}
				masks = append(masks, m)
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
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range masks {
		workers.Go(func() (err error) {
			found[i], err = in.objects(strings.TrimSuffix(path, ".json"), m)
			return err
		})
	}
	if err := workers.Wait(); err != nil {
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
	file, err := readFile(os.DirFS(folder), m.FileName)
	if err != nil {
		return nil, fmt.Errorf("%s: image %d: %s: %w", in.Name, m.Image, path, err)
	}
	segments, err := decodeSegments(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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
		a := Annotation{ID: int64(s.ID), Image: m.Image, Category: s.Category, Crowd: s.Crowd == 1}
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
