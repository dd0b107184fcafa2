package datasets

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

var cityscapes = &layout{
	key: "cityscapes", name: "Cityscapes",
	classes: strings.Split("road,sidewalk,building,wall,fence,pole,traffic light,traffic sign,vegetation,terrain,sky,person,rider,car,truck,bus,"+
		"train,motorcycle,bicycle", ","),
	official: map[Split]int{Train: 2975, Test: 500},
	list:     (*layout).listCityscapes,
	mask:     cityscapesMask,
	colours: []uint32{ // As in labels.py of the official scripts.
		0x804080, 0xf423e8, 0x464646, 0x66669c, 0xbe9999, 0x999999, 0xfaaa1e, 0xdcdc00, 0x6b8e23, 0x98fb98,
		0x4682b4, 0xdc143c, 0xff0000, 0x00008e, 0x000046, 0x003c64, 0x005064, 0x0000e6, 0x770b20,
	},
}

// cityscapesIDs are the label ids of the classes in the order of their train ids, as in labels.py of the official scripts. Training and
// evaluation ignore the other ids up to 33.
var cityscapesIDs = []uint32{7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33}

// Cityscapes opens the finely annotated images of Cityscapes (Cordts et al. 2016) with their 19 training classes. The dataset is
// dir/cityscapes, or dir itself, with the folders leftImg8bit and gtFine. Each has the subfolders train, 2,975 images, and val, 500, the
// test split here, with one folder per city. Masks are the official *_gtFine_labelIds.png, or *_gtFine_labelTrainIds.png if only those
// exist. Ids that are not training classes are ignored.
func Cityscapes(dir string, split Split) (*Segmentation, error) { return cityscapes.open(dir, split) }

const trainIDs = "_gtFine_labelTrainIds.png"

func (s *layout) listCityscapes(dir string, split Split) (folder string, pairs []pair, err error) {
	if folder, err = s.locate(dir, []string{"cityscapes", "."}, "leftImg8bit", "gtFine"); err != nil {
		return "", nil, err
	}
	part := map[Split]string{Train: "train", Test: "val"}[split]
	images := filepath.Join(folder, "leftImg8bit", part)
	if !exists(images) {
		return "", nil, missingf("%s has no %s images: %s does not exist", s.name, split, images)
	}
	cities, err := os.ReadDir(images)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", images, reason(err))
	}
	for _, city := range cities {
		if !city.IsDir() {
			continue
		}
		names, err := filesIn(filepath.Join(images, city.Name()), "_leftImg8bit.png")
		if err != nil {
			return "", nil, err
		}
		for _, name := range names {
			mask := filepath.Join(folder, "gtFine", part, city.Name(), name)
			ending := "_gtFine_labelIds.png"
			if !exists(mask+ending) && exists(mask+trainIDs) {
				ending = trainIDs
			}
			pairs = append(pairs, pair{filepath.Join(images, city.Name(), name+"_leftImg8bit.png"), mask + ending})
		}
	}
	return folder, pairs, nil
}

func cityscapesMask(path string, file []byte) (height, width int, classes []uint8, err error) {
	var classOf [256]uint8
	known := uint32(33)
	for id := range classOf {
		classOf[id] = Ignore
	}
	for class, id := range cityscapesIDs {
		if strings.HasSuffix(path, trainIDs) {
			id, known = uint32(class), uint32(len(cityscapesIDs)-1)
		}
		classOf[id] = uint8(class)
	}
	return idMask(func(id uint32) (uint8, bool) {
		if id <= known || id == uint32(Ignore) { // 255 is a licence plate (id −1), or ignored among the train ids.
			return classOf[id], true
		}
		return 0, false
	})(path, file)
}
