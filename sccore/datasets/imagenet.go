package datasets

import (
	"fmt"
	"path"
	"path/filepath"
)

var imageNetOfficial = map[Split]int{Train: 1281167, Test: 50000}

// ImageNet opens the labelled images of ImageNet-1k (Russakovsky et al. 2015) in class folders (see [ImageFolder.Labels]):
// dir/imagenet/train, 1,281,167 images of 1,000 classes, and dir/imagenet/val, 50,000, the test split here. The error is an
// [fs.ErrNotExist] if a folder is missing or if images lie outside the class folders and so have no labels.
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
		return nil, missingf("%s has no labelled %s images: %s does not exist, and images in %s itself have no labels", name, split, folder, filepath.Dir(folder))
	default:
		return nil, missingf("%s has no %s images: %s does not exist", name, split, folder)
	}
	images, err := OpenImageFolder(folder)
	if err != nil {
		return nil, err
	}
	for _, file := range images.files {
		if path.Dir(file) == "." {
			return nil, missingf("%s has no labelled %s images: %s lies outside the class folders", name, split, filepath.Join(folder, file))
		}
	}
	return images, nil
}
