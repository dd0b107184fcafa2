package studytest

import (
	"errors"
	"fmt"
	"image"
	"image/color/palette"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

// VOC writes drawn scenes in the layout of PASCAL VOC below a new folder, 24 images to train on and 12 to test on.
func VOC(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	root := filepath.Join(dir, "VOCdevkit", "VOC2012")
	for _, folder := range []string{"JPEGImages", "SegmentationClass", filepath.Join("ImageSets", "Segmentation")} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for split, n := range map[string]int{"train": 24, "val": 12} {
		var names []string
		scenes := synthetic.Scenes(n, 48, uint64(n))
		for i := range n {
			names = append(names, fmt.Sprintf("%s_%d", split, i))
			mask := image.NewPaletted(image.Rect(0, 0, 48, 48), palette.Plan9)
			copy(mask.Pix, scenes.ClassMask[i*48*48:])
			picture, pictureErr := os.Create(filepath.Join(root, "JPEGImages", names[i]+".jpg"))
			masks, maskErr := os.Create(filepath.Join(root, "SegmentationClass", names[i]+".png"))
			if err := errors.Join(pictureErr, maskErr); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(jpeg.Encode(picture, scenes.Image(i), nil), png.Encode(masks, mask), picture.Close(), masks.Close()); err != nil {
				t.Fatal(err)
			}
		}
		list := filepath.Join(root, "ImageSets", "Segmentation", split+".txt")
		if err := os.WriteFile(list, []byte(strings.Join(names, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
