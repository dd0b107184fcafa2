package datasets

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	if err := dataFolder("PASCAL VOC", dir); err != nil {
		return "", nil, err
	}
	s := &layout{name: "PASCAL VOC"}
	folders, trainval := []string{"VOC2007", "VOCdevkit/VOC2007", "VOC2012", "VOCdevkit/VOC2012", "voc2012", "."}, "ImageSets/Main/trainval.txt"
	folder, err := s.locate(dir, folders, "JPEGImages", "Annotations", trainval)
	if err != nil {
		if part, partErr := s.locate(dir, folders, "JPEGImages"); partErr == nil {
			lacks := "Annotations, the boxes of its objects"
			if exists(filepath.Join(part, "Annotations")) {
				lacks = trainval + ", the list of its images"
			}
			err = missingf("%s: has the images of PASCAL VOC and lacks %s", part, lacks)
		}
		return "", nil, err
	}
	list := filepath.Join(folder, filepath.FromSlash(trainval))
	names, err := readList(list)
	if err != nil {
		return "", nil, err
	}
	for _, name := range names {
		path := filepath.Join(folder, "Annotations", name+".xml")
		boxes, err := readVOCBoxes(path)
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", path, err)
		}
		images = append(images, BoxedImage{filepath.Join(folder, "JPEGImages", name+".jpg"), boxes})
	}
	absolute, err := filepath.Abs(folder)
	return filepath.Base(absolute), images, err
}

func readVOCBoxes(path string) (boxes [][4]float64, err error) {
	content, err := readFile(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	var read struct {
		Objects []struct {
			Box struct {
				Left   float64 `xml:"xmin"`
				Top    float64 `xml:"ymin"`
				Right  float64 `xml:"xmax"`
				Bottom float64 `xml:"ymax"`
			} `xml:"bndbox"`
		} `xml:"object"`
	}
	if err := xml.Unmarshal(content, &read); err != nil {
		return nil, fmt.Errorf("cannot be read: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	for i, object := range read.Objects {
		b := object.Box
		if !(b.Right >= b.Left) || !(b.Bottom >= b.Top) || b.Left < 0 || b.Top < 0 || b.Right > 1<<20 || b.Bottom > 1<<20 {
			return nil, fmt.Errorf("object %d: %v is no box", i, b)
		}
		boxes = append(boxes, [4]float64{b.Left - 1, b.Top - 1, b.Right, b.Bottom})
	}
	if len(boxes) == 0 {
		return nil, fmt.Errorf("has no object")
	}
	return boxes, nil
}
