package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// COCOObjects opens the objects of COCO 2017 (Lin et al. 2014), below dir/coco: 80 categories with boxes and masks. Images are in train2017 and val2017, the
// test split here, or in subfolders of images with these names. Annotations are the first of these that exist:
//
//   - annotations/instances_train2017.json, COCO's own;
//   - annotations/panoptic_train2017.json with the masks in annotations/panoptic_train2017: the segments of things become objects, with the box around
//     their pixels. Objects do not overlap there, and what is behind another one is missing.
//
// An image whose file is missing is an error. Annotations without a mask are skipped.
func COCOObjects(dir string, split Split) (*ObjectImages, error) {
	images, annotations, err := locateCOCOObjects(dir, split)
	if err != nil {
		return nil, err
	}
	opened, _ := cocoObjectFiles.LoadOrStore(annotations, sync.OnceValues(func() (*ObjectImages, error) {
		return openCOCOObjects(annotations, images, strings.HasPrefix(filepath.Base(annotations), "panoptic_"))
	}))
	return opened.(func() (*ObjectImages, error))()
}

// locateCOCOObjects returns the folder of a split's images and its file of annotations.
func locateCOCOObjects(dir string, split Split) (images, annotations string, err error) {
	if err := dataFolder("COCO", dir); err != nil {
		return "", "", err
	}
	part := map[Split]string{Train: "train2017", Test: "val2017"}[split]
	if part == "" {
		return "", "", fmt.Errorf("COCO has no split %q", split)
	}
	folder := filepath.Join(dir, "coco")
	images = filepath.Join(folder, part)
	if !exists(images) {
		images = filepath.Join(folder, "images", part)
	}
	annotations = filepath.Join(folder, "annotations", "instances_"+part+".json")
	if !exists(annotations) {
		annotations = filepath.Join(folder, "annotations", "panoptic_"+part+".json")
	}
	if !exists(images) || !exists(annotations) {
		return "", "", missingf("no COCO %s in %s: want %s and one of annotations/instances_%[3]s.json and annotations/panoptic_%[3]s.json", split, folder, part)
	}
	return images, annotations, nil
}

// cocoObjectsStatus is the status of a split's objects. It counts files, because COCO's annotations take seconds to read.
func cocoObjectsStatus(dir string, split Split) Status {
	s := Status{Key: "coco", Name: "COCO objects", Split: split, Official: cocoStuff.official[split], unit: "images"}
	images, _, err := locateCOCOObjects(dir, split)
	if err != nil {
		s.Err = err
		return s
	}
	files, err := os.ReadDir(images)
	if err != nil {
		s.Err = fmt.Errorf("%s: %w", images, reason(err))
		return s
	}
	s.Folder, s.Count = images, len(files)
	s.identity = func() (string, error) {
		set, err := COCOObjects(dir, split)
		if err != nil {
			return "", err
		}
		return set.Identity, nil
	}
	return s
}

// cocoObjectFiles keeps what a process has read: COCO's file of annotations has hundreds of megabytes.
var cocoObjectFiles sync.Map

func openCOCOObjects(annotations, images string, panoptic bool) (*ObjectImages, error) {
	open, kind := OpenInstances, "instances"
	if panoptic {
		open, kind = openPanopticInstances, "things of the panoptic annotations"
	}
	truth, err := open(annotations)
	if err != nil {
		return nil, err
	}
	truth.RequireMasks()
	digest := sha256.New()
	file, err := os.Open(annotations)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := io.Copy(digest, file); err != nil {
		return nil, fmt.Errorf("%s: %w", annotations, reason(err))
	}
	for _, image := range truth.Images {
		if filepath.Base(image.FileName) != image.FileName || image.FileName == "." || image.FileName == ".." {
			return nil, fmt.Errorf("%s: image %d: %q is not the name of a file", annotations, image.ID, image.FileName)
		}
		info, err := os.Stat(filepath.Join(images, image.FileName))
		if errors.Is(err, fs.ErrNotExist) { // An incomplete dataset is not a missing one.
			return nil, fmt.Errorf("%s: image %d: there is no %s", annotations, image.ID, filepath.Join(images, image.FileName))
		} else if err != nil {
			return nil, fmt.Errorf("%s: image %d: %v", annotations, image.ID, err)
		}
		fmt.Fprintf(digest, "%q %d\n", image.FileName, info.Size())
	}
	identity := fmt.Sprintf("COCO %s: %d images, %d categories, %s, sha256 of annotations, names and sizes %x",
		filepath.Base(images), len(truth.Images), len(truth.Categories), kind, digest.Sum(nil)[:8])
	return NewObjectImages("COCO", identity, truth, func(i int) (*SegmentedImage, error) {
		return readStored(filepath.Join(images, truth.Images[i].FileName))
	}), nil
}

// readStored reads the pixels of an image as they are stored. Annotations belong to these: the EXIF orientation does not apply.
func readStored(path string) (*SegmentedImage, error) {
	file, err := readFile(os.DirFS(filepath.Dir(path)), filepath.Base(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	picture, err := stored(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	rgba := opaque(picture, picture.Bounds())
	return &SegmentedImage{Name: path, Height: rgba.Rect.Dy(), Width: rgba.Rect.Dx(), Pixels: rgb(rgba)}, nil
}
