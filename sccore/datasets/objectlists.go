package datasets

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/dsnet/try"
	"github.com/samber/lo"
	"golang.org/x/text/encoding/htmlindex"
)

// BoxedImage is a photograph with the boxes of its objects.
type BoxedImage struct {
	Path  string
	Boxes [][4]float64 // Left, top, right and bottom edge in pixels, from 0.
}

// VOCObjects lists the images of the detection set trainval of PASCAL VOC 2007 or 2012 with all their objects, difficult and truncated ones too, as
// CorLoc is measured. The folder is VOC2007 or VOC2012, in this order, below dir or dir/VOCdevkit, or dir itself, with JPEGImages, Annotations and
// ImageSets/Main. A box that is stored from pixel 1 to pixel W covers the whole width, and begins at 0 here. The error names the file.
func VOCObjects(dir string) (name string, images []BoxedImage, err error) {
	defer try.Handle(&err)
	try.E(dataFolder("PASCAL VOC", dir))
	folders, trainval := []string{"VOC2007", "VOCdevkit/VOC2007", "VOC2012", "VOCdevkit/VOC2012", "voc2012", "."}, "ImageSets/Main/trainval.txt"
	folder, err := locate("PASCAL VOC", dir, folders, "JPEGImages", "Annotations", trainval)
	if err != nil {
		if part, partErr := locate("PASCAL VOC", dir, folders, "JPEGImages"); partErr == nil {
			lacks := lo.Ternary(exists(filepath.Join(part, "Annotations")), trainval+", the list of its images", "Annotations, the boxes of its objects")
			err = missingf("%s: has the images of PASCAL VOC and lacks %s", part, lacks)
		}
		return "", nil, err
	}
	list := filepath.Join(folder, filepath.FromSlash(trainval))
	names := try.E1(readList(list, false))
	images = lo.Map(names, func(name string, _ int) BoxedImage {
		boxes := try.E1(loadPath(filepath.Join(folder, "Annotations", name+".xml"), readVOCBoxes))
		return BoxedImage{filepath.Join(folder, "JPEGImages", name+".jpg"), boxes}
	})
	absolute, err := filepath.Abs(folder)
	return filepath.Base(absolute), images, err
}

func readVOCBoxes(content []byte) (boxes [][4]float64, err error) {
	var read struct {
		Objects []struct {
			Box *struct {
				Left   *float64 `xml:"xmin"`
				Top    *float64 `xml:"ymin"`
				Right  *float64 `xml:"xmax"`
				Bottom *float64 `xml:"ymax"`
			} `xml:"bndbox"`
		} `xml:"object"`
	}
	decoder := xml.NewDecoder(bytes.NewReader(content))
	decoder.CharsetReader = func(label string, in io.Reader) (io.Reader, error) {
		encoding, err := htmlindex.Get(label)
		if err != nil {
			return nil, fmt.Errorf("unknown encoding %.40q", label)
		}
		return encoding.NewDecoder().Reader(in), nil
	}
	if err := decoder.Decode(&read); err != nil {
		return nil, fmt.Errorf("cannot be read: %.200s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	for i, object := range read.Objects {
		b := object.Box
		switch {
		case b == nil:
			return nil, fmt.Errorf("object %d: has no bndbox", i)
		case b.Left == nil || b.Top == nil || b.Right == nil || b.Bottom == nil:
			return nil, fmt.Errorf("object %d: its bndbox lacks xmin, ymin, xmax or ymax", i)
		}
		left, top, right, bottom := *b.Left, *b.Top, *b.Right, *b.Bottom
		if !(right >= left) || !(bottom >= top) || left < 0 || top < 0 || right > 1<<20 || bottom > 1<<20 {
			return nil, fmt.Errorf("object %d: %v is no box", i, []float64{left, top, right, bottom})
		}
		boxes = append(boxes, [4]float64{left - 1, top - 1, right, bottom})
	}
	if len(boxes) == 0 {
		return nil, fmt.Errorf("has no object")
	}
	return boxes, nil
}

// KeypointPair is two photographs of objects of one category with corresponding points.
type KeypointPair struct {
	Name, Category string
	Source, Target string // Paths of the images.

	SourcePoints, TargetPoints [][2]float64 // In pixels from the left and from the top, as many of each.
	TargetBox                  [4]float64   // The object in the target: left, top, right, bottom.
}

// SPair lists the pairs of a split of SPair-71k (Min et al. 2019) in its official layout: SPair-71k below dir, or dir itself, with JPEGImages/CATEGORY and
// PairAnnotation/trn or PairAnnotation/test. The error names the file.
func SPair(dir string, split Split) (_ []KeypointPair, err error) {
	defer try.Handle(&err)
	folder, pairs, files := try.E3(spairFiles(dir, split))
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: has no pairs", pairs)
	}
	return lo.Map(files, func(file string, _ int) KeypointPair {
		return try.E1(loadPath(filepath.Join(pairs, file+".json"), func(content []byte) (KeypointPair, error) { return readPair(content, folder, file) }))
	}), nil
}

// spairFiles returns the folder of SPair-71k, that of a split's pairs in it, and the names of the pairs.
func spairFiles(dir string, split Split) (folder, pairs string, files []string, err error) {
	defer try.Handle(&err)
	try.E(dataFolder("SPair-71k", dir))
	name := try.E1(partOf("SPair-71k", split, "trn", "test"))
	name = filepath.Join("PairAnnotation", name)
	folder = try.E1(locate("SPair-71k", dir, []string{"SPair-71k", "."}, name))
	pairs = filepath.Join(folder, name)
	files, err = namesIn(pairs, ".json", false)
	return folder, pairs, files, err
}

func readPair(content []byte, folder, name string) (KeypointPair, error) {
	var read struct {
		Source   string       `json:"src_imname"`
		Target   string       `json:"trg_imname"`
		Category string       `json:"category"`
		From     [][2]float64 `json:"src_kps"`
		To       [][2]float64 `json:"trg_kps"`
		Box      []float64    `json:"trg_bndbox"`
	}
	if err := json.Unmarshal(content, &read); err != nil {
		return KeypointPair{}, fmt.Errorf("cannot be read: %.200w", err)
	}
	if other, found := lo.Find([]string{read.Source, read.Target, read.Category}, func(part string) bool { return !isName(part) }); found {
		return KeypointPair{}, fmt.Errorf("%.80q is no name of an image or a category", other)
	}
	switch {
	case len(read.From) == 0 || len(read.From) != len(read.To):
		return KeypointPair{}, fmt.Errorf("%d points in the source and %d in the target", len(read.From), len(read.To))
	case len(read.Box) != 4 || !(read.Box[2] > read.Box[0]) || !(read.Box[3] > read.Box[1]) || math.IsInf(read.Box[2]-read.Box[0], 0):
		return KeypointPair{}, fmt.Errorf("trg_bndbox %v is no box", read.Box)
	}
	images := filepath.Join(folder, "JPEGImages", read.Category)
	return KeypointPair{
		Name: name, Category: read.Category, Source: filepath.Join(images, read.Source), Target: filepath.Join(images, read.Target),
		SourcePoints: read.From, TargetPoints: read.To, TargetBox: [4]float64(read.Box),
	}, nil
}
