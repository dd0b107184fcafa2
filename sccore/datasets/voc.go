package datasets

import (
	"path/filepath"
	"strings"
)

var voc = &layout{
	key: "voc2012", name: "PASCAL VOC",
	classes: strings.Fields(`background aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person
		pottedplant sheep sofa train tvmonitor`),
	official: map[Split]int{Train: 10582, Test: 1449},
	list:     (*layout).listVOC,
	colours:  vocColours(0, 21),
	mask: idMask(func(id uint32) (uint8, bool) {
		return uint8(id), id <= 20 || id == uint32(Ignore) // 255 marks the borders of objects and difficult regions.
	}),
}

// VOC opens PASCAL VOC 2012 (Everingham et al. 2010): VOC2012 below dir or below dir/VOCdevkit, or dir itself. Images are in JPEGImages.
// Masks have a palette: 0 is the background, 1 to 20 are objects, and 255 is ignored. The 21 classes keep this order.
//
// The training images are the 10,582 of ImageSets/Segmentation/trainaug.txt, annotated by the Semantic Boundaries Dataset (Hariharan et al.
// 2011), or the 1,464 of train.txt if that list is missing. The test images are the 1,449 of val.txt. A sample that has only all.txt is
// split in half. Test masks come from SegmentationClass, the original annotation with its borders, or else from SegmentationClassAug;
// training masks come from SegmentationClassAug, or else from SegmentationClass.
func VOC(dir string, split Split) (*Segmentation, error) { return voc.open(dir, split) }

func (s *layout) listVOC(dir string, split Split) (folder string, pairs []pair, err error) {
	folder, err = s.locate(dir, []string{"VOC2012", "VOCdevkit/VOC2012", "voc2012", "."}, "JPEGImages", "ImageSets/Segmentation")
	if err != nil {
		return "", nil, err
	}
	lists, masks := []string{"val", "all"}, []string{"SegmentationClass", "SegmentationClassAug"}
	if split == Train {
		lists, masks = []string{"trainaug", "train", "all"}, []string{"SegmentationClassAug", "SegmentationClass"}
	}
	path := ""
	for _, list := range lists {
		if path = filepath.Join(folder, "ImageSets", "Segmentation", list+".txt"); exists(path) {
			break
		}
	}
	if !exists(path) {
		return "", nil, missingf("%s has no %s images: %s does not exist", s.name, split, filepath.Join(folder, "ImageSets", "Segmentation", lists[0]+".txt"))
	}
	names, err := readList(path)
	if err != nil {
		return "", nil, err
	}
	if filepath.Base(path) == "all.txt" {
		names = shareOf(names, split)
	}
	for _, name := range names {
		mask := filepath.Join(folder, masks[0], name+".png")
		if other := filepath.Join(folder, masks[1], name+".png"); !exists(mask) && exists(other) {
			mask = other
		}
		pairs = append(pairs, pair{filepath.Join(folder, "JPEGImages", name+".jpg"), mask})
	}
	return folder, pairs, nil
}
