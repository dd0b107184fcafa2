package datasets

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pair holds the paths of an image and its mask.
type pair struct{ image, mask string }

// layout describes how a dataset stores its images and masks. In paths, PART is the dataset's word for the split, and NAME the name of an image.
type layout struct {
	key, name string
	classes   []string
	colours   []uint32 // 0xRRGGBB; nil for VOC's.
	official  map[Split]int
	folders   []string // Below the data folder. The dataset is in the first one in which all that it holds is there.
	holds     []string
	parts     map[Split]string   // A sample without their folders is split in half, and so is one that lists its images in all.txt.
	lists     map[Split][]string // Lists of the images' names, of which the first one that is there counts. Nil for all files.
	images    []string           // Paths of images.
	masks     []string           // Paths of a mask, of which the first one that is there counts.
	nested    bool               // Images are in folders below the split's folder.
	// find finds the files below a data folder in another way. Its error for missing data is an [fs.ErrNotExist].
	find func(s *layout, dir string, split Split) (folder string, pairs []pair, err error)
	// mask decodes the file of a mask, and says what its ids stand for.
	mask func(path string, file []byte) (ids, classOf, error)
}

var layouts = []*layout{cocoStuff, voc, ade20k, cityscapes, camVid}

// SegmentationKeys lists the names that [OpenSegmentation] knows.
func SegmentationKeys() (keys []string) {
	for _, d := range layouts {
		keys = append(keys, d.key)
	}
	slices.Sort(keys)
	return keys
}

// OpenSegmentation opens a split of a dataset by its name on the command line, one of [SegmentationKeys], below dir.
func OpenSegmentation(key, dir string, split Split) (*Segmentation, error) {
	for _, d := range layouts {
		if d.key == key {
			return d.open(dir, split)
		}
	}
	return nil, fmt.Errorf("dataset %q: want one of %s", key, strings.Join(SegmentationKeys(), ", "))
}

// open lists the files of a split and checks that each is there.
func (s *layout) open(dir string, split Split) (*Segmentation, error) {
	if err := dataFolder(s.name, dir); err != nil {
		return nil, err
	}
	if _, err := partOf(s.name, split, "", ""); err != nil {
		return nil, err
	}
	find := (*layout).list
	if s.find != nil {
		find = s.find
	}
	folder, pairs, err := find(s, dir, split)
	if err != nil {
		return nil, err
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%s: no %s images in %s", s.name, split, folder)
	}
	digest := sha256.New()
	for _, p := range pairs {
		for _, path := range []string{p.image, p.mask} {
			info, err := os.Stat(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %v", s.name, path, reason(err)) // Not %w: an incomplete dataset is not a missing one.
			}
			name, err := filepath.Rel(folder, path)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			fmt.Fprintf(digest, "%q %d\n", filepath.ToSlash(name), info.Size())
		}
	}
	return &Segmentation{
		Name: s.name, Classes: slices.Clone(s.classes), folder: folder, count: len(pairs), colours: s.colours,
		Identity: fmt.Sprintf("%s %s: %d images, %d classes, sha256 of names and sizes %x", s.name, split, len(pairs), len(s.classes), digest.Sum(nil)[:8]),
		read:     func(i int) (*SegmentedImage, error) { return s.read(pairs[i]) },
	}, nil
}

// list finds the images of a split and their masks.
func (s *layout) list(dir string, split Split) (folder string, pairs []pair, err error) {
	part := s.parts[split]
	inPart := func(path string) string { return strings.ReplaceAll(path, "PART", part) }
	holds := slices.Clone(s.holds)
	for i := range holds {
		holds[i] = inPart(holds[i])
	}
	if folder, err = s.locate(dir, s.folders, holds...); err != nil {
		return "", nil, err
	}
	for _, image := range s.images {
		above, _, _ := strings.Cut(image, "PART")
		sample := s.lists == nil && !s.nested && !exists(filepath.Join(folder, above, s.parts[Train])) && !exists(filepath.Join(folder, above, s.parts[Test]))
		if sample { // It has no folders for the splits.
			part = ""
		}
		before, ending, _ := strings.Cut(inPart(image), "NAME")
		names, err := s.names(folder, before, ending, split)
		if err != nil {
			return "", nil, err
		}
		if sample {
			names = shareOf(names, split)
		}
		for _, name := range names {
			names := strings.NewReplacer("PART", part, "NAME", name)
			path := func(pattern string) string { return filepath.Join(folder, filepath.FromSlash(names.Replace(pattern))) }
			there := max(slices.IndexFunc(s.masks, func(mask string) bool { return exists(path(mask)) }), 0)
			pairs = append(pairs, pair{path(image), path(s.masks[there])})
		}
	}
	return folder, pairs, nil
}

// names lists the images of a split: the entries of a list, or the files with an ending in a folder or in the folders below it.
func (s *layout) names(folder, images, ending string, split Split) (names []string, err error) {
	missing := func(path string) error {
		return missingf("%s has no %s images: %s does not exist", s.name, split, filepath.Join(folder, filepath.FromSlash(path)))
	}
	if lists := s.lists[split]; lists != nil {
		i := slices.IndexFunc(lists, func(list string) bool { return exists(filepath.Join(folder, list)) })
		if i < 0 {
			return nil, missing(lists[0])
		}
		if names, err = readList(filepath.Join(folder, lists[i])); path.Base(lists[i]) == "all.txt" {
			names = shareOf(names, split)
		}
		return names, err
	}
	below := []string{""}
	if s.nested {
		entries, err := os.ReadDir(filepath.Join(folder, images))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, missing(images)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(folder, images), reason(err))
		}
		below = nil
		for _, entry := range entries {
			if entry.IsDir() {
				below = append(below, entry.Name())
			}
		}
	}
	for _, inner := range below {
		files, err := filesIn(filepath.Join(folder, images, inner), ending)
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			names = append(names, path.Join(inner, name))
		}
	}
	return names, nil
}

func (s *layout) read(p pair) (*SegmentedImage, error) {
	out, err := readStored(p.image)
	if err != nil {
		return nil, err
	}
	out.Mask, err = loadPath(p.mask, func(file []byte) ([]uint8, error) {
		m, class, err := s.mask(p.mask, file)
		if err != nil {
			return nil, err
		}
		if m.height != out.Height || m.width != out.Width {
			return nil, fmt.Errorf("the mask is %d×%d pixels, its image %d×%d", m.width, m.height, out.Width, out.Height)
		}
		return m.classes(class)
	})
	return out, err
}

// classOf maps an id in a mask to a class.
type classOf func(id uint32) (class uint8, known bool)

// idMask decodes masks of ids.
func idMask(class classOf) func(string, []byte) (ids, classOf, error) {
	return func(_ string, file []byte) (ids, classOf, error) {
		m, err := decodeIDs(file)
		return m, class, err
	}
}

// locate returns the first of the folders below dir that contains all the given names. If there is none, the dataset is missing.
func (s *layout) locate(dir string, folders []string, holds ...string) (string, error) {
	for _, folder := range folders {
		there := func(name string) bool { return exists(filepath.Join(dir, folder, name)) }
		if !slices.ContainsFunc(holds, func(name string) bool { return !there(name) }) {
			return filepath.Join(dir, folder), nil
		}
	}
	return "", missingf("no %s in %s: %s does not exist", s.name, dir, filepath.Join(folders[0], holds[0]))
}

// shareOf splits a sample that has no official splits: even positions are for training, odd ones for testing.
func shareOf(names []string, split Split) []string {
	var share []string
	for i, name := range names {
		if (i%2 == 0) == (split == Train) {
			share = append(share, name)
		}
	}
	return share
}

var voc = &layout{
	key: "voc2012", name: "PASCAL VOC",
	classes: strings.Fields(`background aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person
		pottedplant sheep sofa train tvmonitor`),
	official: map[Split]int{Train: 10582, Test: 1449},
	folders:  []string{"VOC2012", "VOCdevkit/VOC2012", "voc2012", "."},
	holds:    []string{"JPEGImages", "ImageSets/Segmentation"},
	parts:    map[Split]string{Train: "Aug", Test: ""},
	lists: map[Split][]string{
		Train: {"ImageSets/Segmentation/trainaug.txt", "ImageSets/Segmentation/train_aug.txt", "ImageSets/Segmentation/train.txt", "ImageSets/Segmentation/all.txt"},
		Test:  {"ImageSets/Segmentation/val.txt", "ImageSets/Segmentation/all.txt"},
	},
	images:  []string{"JPEGImages/NAME.jpg"},
	masks:   []string{"SegmentationClassPART/NAME.png", "SegmentationClass/NAME.png", "SegmentationClassAug/NAME.png"},
	colours: vocColours(0, 21),
	mask: idMask(func(id uint32) (uint8, bool) {
		return uint8(id), id <= 20 || id == uint32(Ignore) // 255 marks the borders of objects and difficult regions.
	}),
}

// VOC opens PASCAL VOC 2012 (Everingham et al. 2010): VOC2012 below dir or below dir/VOCdevkit, or dir itself. Images are in JPEGImages.
// Masks have a palette: 0 is the background, 1 to 20 are objects, and 255 is ignored. The 21 classes keep this order.
//
// The training images are the 10,582 of ImageSets/Segmentation/trainaug.txt or train_aug.txt, annotated by the Semantic Boundaries Dataset
// (Hariharan et al. 2011), or the 1,464 of train.txt if there is no such list. The test images are the 1,449 of val.txt. A sample that has only all.txt is
// split in half. Test masks come from SegmentationClass, the original annotation with its borders, or else from SegmentationClassAug;
// training masks come from SegmentationClassAug, or else from SegmentationClass.
func VOC(dir string, split Split) (*Segmentation, error) { return voc.open(dir, split) }

// ade20k is the scene parsing benchmark of ADE20K (Zhou et al. 2017), with its 150 classes in the order of objectInfo150.txt. The dataset
// is ADEChallengeData2016 below dir, or dir itself, with the folders images and annotations. Each has the subfolders training, 20,210
// images, and validation, 2,000, the test split here. A grey mask holds 1 to 150 for classes 0 to 149, and 0 for anything else, which is
// ignored. A sample in dir/ade20k without these subfolders is split in half.
var ade20k = &layout{
	key: "ade20k", name: "ADE20k",
	classes: strings.Split("wall,building,sky,floor,tree,ceiling,road,bed,windowpane,grass,cabinet,sidewalk,person,earth,door,table,mountain,plant,"+
		"curtain,chair,car,water,painting,sofa,shelf,house,sea,mirror,rug,field,armchair,seat,fence,desk,rock,wardrobe,lamp,bathtub,railing,"+
		"cushion,base,box,column,signboard,chest of drawers,counter,sand,sink,skyscraper,fireplace,refrigerator,grandstand,path,stairs,runway,"+
		"case,pool table,pillow,screen door,stairway,river,bridge,bookcase,blind,coffee table,toilet,flower,book,hill,bench,countertop,stove,"+
		"palm,kitchen island,computer,swivel chair,boat,bar,arcade machine,hovel,bus,towel,light,truck,tower,chandelier,awning,streetlight,"+
		"booth,television,airplane,dirt track,apparel,pole,land,bannister,escalator,ottoman,bottle,buffet,poster,stage,van,ship,fountain,"+
		"conveyer belt,canopy,washer,plaything,swimming pool,stool,barrel,basket,waterfall,tent,bag,minibike,cradle,oven,ball,food,step,tank,"+
		"trade name,microwave,pot,animal,bicycle,lake,dishwasher,screen,blanket,sculpture,hood,sconce,vase,traffic light,tray,ashcan,fan,pier,"+
		"crt screen,plate,monitor,bulletin board,shower,radiator,glass,clock,flag", ","),
	official: map[Split]int{Train: 20210, Test: 2000},
	folders:  []string{"ADEChallengeData2016", "ade20k/ADEChallengeData2016", "ade20k", "."},
	holds:    []string{"images", "annotations"},
	parts:    map[Split]string{Train: "training", Test: "validation"},
	images:   []string{"images/PART/NAME.jpg"},
	masks:    []string{"annotations/PART/NAME.png"},
	mask: idMask(func(id uint32) (uint8, bool) {
		if id == 0 { // None of the 150 classes.
			return Ignore, true
		}
		return uint8(id - 1), id <= 150
	}),
	colours: ade20kColours,
}

// ade20kColours are the colours of the benchmark's code (color150 of CSAILVision/semantic-segmentation-pytorch).
var ade20kColours = []uint32{
	0x787878, 0xb47878, 0x06e6e6, 0x503232, 0x04c803, 0x787850, 0x8c8c8c, 0xcc05ff, 0xe6e6e6, 0x04fa07, 0xe005ff, 0xebff07, 0x96053d, 0x787846, 0x08ff33,
	0xff0652, 0x8fff8c, 0xccff04, 0xff3307, 0xcc4603, 0x0066c8, 0x3de6fa, 0xff0633, 0x0b66ff, 0xff0747, 0xff09e0, 0x0907e6, 0xdcdcdc, 0xff095c, 0x7009ff,
	0x08ffd6, 0x07ffe0, 0xffb806, 0x0aff47, 0xff290a, 0x07ffff, 0xe0ff08, 0x6608ff, 0xff3d06, 0xffc207, 0xff7a08, 0x00ff14, 0xff0829, 0xff0599, 0x0633ff,
	0xeb0cff, 0xa09614, 0x00a3ff, 0x8c8c8c, 0xfa0a0f, 0x14ff00, 0x1fff00, 0xff1f00, 0xffe000, 0x99ff00, 0x0000ff, 0xff4700, 0x00ebff, 0x00adff, 0x1f00ff,
	0x0bc8c8, 0xff5200, 0x00fff5, 0x003dff, 0x00ff70, 0x00ff85, 0xff0000, 0xffa300, 0xff6600, 0xc2ff00, 0x008fff, 0x33ff00, 0x0052ff, 0x00ff29, 0x00ffad,
	0x0a00ff, 0xadff00, 0x00ff99, 0xff5c00, 0xff00ff, 0xff00f5, 0xff0066, 0xffad00, 0xff0014, 0xffb8b8, 0x001fff, 0x00ff3d, 0x0047ff, 0xff00cc, 0x00ffc2,
	0x00ff52, 0x000aff, 0x0070ff, 0x3300ff, 0x00c2ff, 0x007aff, 0x00ffa3, 0xff9900, 0x00ff0a, 0xff7000, 0x8fff00, 0x5200ff, 0xa3ff00, 0xffeb00, 0x08b8aa,
	0x8500ff, 0x00ff5c, 0xb800ff, 0xff001f, 0x00b8ff, 0x00d6ff, 0xff0070, 0x5cff00, 0x00e0ff, 0x70e0ff, 0x46b8a0, 0xa300ff, 0x9900ff, 0x47ff00, 0xff00a3,
	0xffcc00, 0xff008f, 0x00ffeb, 0x85ff00, 0xff00eb, 0xf500ff, 0xff007a, 0xfff500, 0x0abed4, 0xd6ff00, 0x00ccff, 0x1400ff, 0xffff00, 0x0099ff, 0x0029ff,
	0x00ffcc, 0x2900ff, 0x29ff00, 0xad00ff, 0x00f5ff, 0x4700ff, 0x7a00ff, 0x00ffb8, 0x005cff, 0xb8ff00, 0x0085ff, 0xffd600, 0x19c2c2, 0x66ff00, 0x5c00ff,
}

// cityscapes is the finely annotated images of Cityscapes (Cordts et al. 2016) with their 19 training classes. The dataset is
// dir/cityscapes, or dir itself, with the folders leftImg8bit and gtFine. Each has the subfolders train, 2,975 images, and val, 500, the
// test split here, with one folder per city. Masks are the official *_gtFine_labelIds.png, or *_gtFine_labelTrainIds.png if only those
// exist. Ids that are not training classes are ignored.
var cityscapes = &layout{
	key: "cityscapes", name: "Cityscapes",
	classes: strings.Split("road,sidewalk,building,wall,fence,pole,traffic light,traffic sign,vegetation,terrain,sky,person,rider,car,truck,bus,"+
		"train,motorcycle,bicycle", ","),
	official: map[Split]int{Train: 2975, Test: 500},
	folders:  []string{"cityscapes", "."},
	holds:    []string{"leftImg8bit", "gtFine"},
	parts:    map[Split]string{Train: "train", Test: "val"},
	images:   []string{"leftImg8bit/PART/NAME_leftImg8bit.png"},
	masks:    []string{"gtFine/PART/NAME_gtFine_labelIds.png", "gtFine/PART/NAME" + trainIDs},
	nested:   true,
	mask:     cityscapesMask,
	colours: []uint32{ // As in labels.py of the official scripts.
		0x804080, 0xf423e8, 0x464646, 0x66669c, 0xbe9999, 0x999999, 0xfaaa1e, 0xdcdc00, 0x6b8e23, 0x98fb98,
		0x4682b4, 0xdc143c, 0xff0000, 0x00008e, 0x000046, 0x003c64, 0x005064, 0x0000e6, 0x770b20,
	},
}

// cityscapesIDs are the label ids of the classes in the order of their train ids, as in labels.py of the official scripts. Training and
// evaluation ignore the other ids up to 33.
var cityscapesIDs = []uint32{7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33}

const trainIDs = "_gtFine_labelTrainIds.png"

func cityscapesMask(path string, file []byte) (ids, classOf, error) {
	var classes [256]uint8
	known := uint32(33)
	for id := range classes {
		classes[id] = Ignore
	}
	for class, id := range cityscapesIDs {
		if strings.HasSuffix(path, trainIDs) {
			id, known = uint32(class), uint32(len(cityscapesIDs)-1)
		}
		classes[id] = uint8(class)
	}
	return idMask(func(id uint32) (uint8, bool) {
		if id <= known || id == uint32(Ignore) { // 255 is a licence plate (id −1), or ignored among the train ids.
			return classes[id], true
		}
		return 0, false
	})(path, file)
}

// camVid is the street scenes of CamVid (Brostow et al. 2009) with the 11 classes and the splits of SegNet (Badrinarayanan et al. 2017): 367 training
// and 233 test images. The dataset is CamVid, camvid or camvid128 below dir, or dir itself, with the folders train, trainannot, test and testannot. Images
// are JPEG or PNG. A mask has its image's name and ends in .png; it holds 0 to 10 for the classes, and 11 for anything else, which is ignored. SegNet's third
// split, val, is not used.
var camVid = &layout{
	key: "camvid", name: "CamVid",
	classes:  strings.Fields("sky building pole road pavement tree signsymbol fence car pedestrian bicyclist"),
	official: map[Split]int{Train: 367, Test: 233},
	folders:  []string{"CamVid", "camvid", "camvid128", "."},
	holds:    []string{"PART", "PARTannot"},
	parts:    map[Split]string{Train: "train", Test: "test"},
	images:   []string{"PART/NAME.jpg", "PART/NAME.png"},
	masks:    []string{"PARTannot/NAME.png"},
	mask: idMask(func(id uint32) (uint8, bool) {
		if id == 11 || id == uint32(Ignore) { // Void.
			return Ignore, true
		}
		return uint8(id), id < 11
	}),
	colours: []uint32{0x808080, 0x800000, 0xc0c080, 0x804080, 0x3c28de, 0x808000, 0xc08080, 0x404080, 0x400080, 0x404000, 0x0080c0},
}
