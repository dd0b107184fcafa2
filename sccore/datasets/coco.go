package datasets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// COCO opens the images of a split of COCO 2017, which show several objects each: train2017 or val2017 below dir/coco or dir/coco/images.
func COCO(dir string, split Split) (*ImageFolder, error) {
	folder := map[Split]string{Train: "train2017", Test: "val2017"}[split]
	if folder == "" {
		return nil, fmt.Errorf("COCO has no split %q", split)
	}
	for _, candidate := range []string{filepath.Join(dir, "coco", folder), filepath.Join(dir, "coco", "images", folder)} {
		if _, err := os.Stat(candidate); err == nil {
			return OpenImageFolder(candidate)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("COCO: %s: %w", candidate, reason(err))
		}
	}
	return nil, missingf("COCO: no %s in %s or its images", folder, filepath.Join(dir, "coco"))
}
