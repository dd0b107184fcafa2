package datasets

import (
	"fmt"
	"path"
	"path/filepath"
)

var imageNetOfficial = map[Split]int{Train: 1281167, Test: 50000}

// ImageNet opens the labelled images of ImageNet-1k (Russakovsky et al. 2015), in class folders as [ImageFolder.Labels] wants them:
// dir/imagenet/train, 1,281,167 images of 1,000 classes, and dir/imagenet/val, 50,000, which are the test images here. A folder that is not
// there, and images outside class folders, whose labels nobody knows, are an [fs.ErrNotExist].
func ImageNet(dir string, split Split) (*ImageFolder, error) {
	const name = "ImageNet-1k"
	if err := dataFolder(name, dir); err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, "imagenet", map[Split]string{Train: "train", Test: "val"}[split])
	switch {
	case imageNetOfficial[split] == 0:
		return nil, fmt.Errorf("%s has no split %q, only %q and %q", name, split, Train, Test)
	case exists(folder):
	case exists(filepath.Dir(folder)):
		return nil, missingf("%s has no labelled %s images: %s is not there, and images in %s itself have no labels", name, split, folder, filepath.Dir(folder))
	default:
		return nil, missingf("%s has no %s images: %s is not there", name, split, folder)
	}
	pictures, err := OpenImageFolder(folder)
	if err != nil {
		return nil, err
	}
	for _, file := range pictures.files {
		if path.Dir(file) == "." {
			return nil, missingf("%s has no labelled %s images: %s lies outside class folders", name, split, filepath.Join(folder, file))
		}
	}
	return pictures, nil
}
