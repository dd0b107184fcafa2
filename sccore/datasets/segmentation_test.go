package datasets

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maskPNG returns a mask of 2×1 pixels with these ids, grey unless it has a palette.
func maskPNG(t testing.TB, withPalette bool, left, right uint8) []byte {
	frame := image.Rect(0, 0, 2, 1)
	if withPalette {
		picture := image.NewPaletted(frame, palette.Plan9)
		picture.Pix = []uint8{left, right}
		return encodePNG(t, picture)
	}
	picture := image.NewGray(frame)
	picture.Pix = []uint8{left, right}
	return encodePNG(t, picture)
}

// segmentPNG returns a panoptic mask of 2×1 pixels.
func segmentPNG(t testing.TB, left, right uint32) []byte {
	picture := image.NewRGBA(image.Rect(0, 0, 2, 1))
	for x, segment := range []uint32{left, right} {
		picture.SetRGBA(x, 0, color.RGBA{uint8(segment), uint8(segment >> 8), uint8(segment >> 16), 255})
	}
	return encodePNG(t, picture)
}

const panopticJSON = `{"info": {"annotations": []}, "images": [{"id": 1}], "annotations": [
	{"file_name": "1.png", "segments_info": [{"id": 70000, "category_id": 18, "area": 1}, {"id": 3, "category_id": 184}]}],
	"categories": [{"id": 1}]}`

func TestSegmentationReadsEachLayout(t *testing.T) {
	jpeg, png := encodeJPEG(t, flat(2, 1, color.White)), encodePNG(t, flat(2, 1, color.White))
	for name, c := range map[string]struct {
		open  func(dir string, split Split) (*Segmentation, error)
		split Split
		files map[string][]byte
		want  [2]uint8 // The mask of the one image.
	}{
		"VOC trainaug": {voc.open, Train, map[string][]byte{
			"VOCdevkit/VOC2012/JPEGImages/2007_1.jpg": jpeg, "VOCdevkit/VOC2012/JPEGImages/2007_2.jpg": jpeg,
			"VOCdevkit/VOC2012/SegmentationClass/2007_1.png": maskPNG(t, true, 1, 1), "VOCdevkit/VOC2012/SegmentationClassAug/2007_1.png": maskPNG(t, false, 20, 255),
			"VOCdevkit/VOC2012/ImageSets/Segmentation/trainaug.txt": []byte("2007_1\n"), "VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt": []byte("2007_2\n"),
		}, [2]uint8{20, Ignore}},
		"VOC with a mask of the second kind": {voc.open, Train, map[string][]byte{
			"VOC2012/JPEGImages/2007_1.jpg": jpeg, "VOC2012/SegmentationClass/2007_1.png": maskPNG(t, true, 1, 2), "VOC2012/SegmentationClassAug/2007_2.png": nil,
			"VOC2012/ImageSets/Segmentation/train.txt": []byte("2007_1"),
		}, [2]uint8{1, 2}},
		"VOC val": {voc.open, Test, map[string][]byte{
			"VOC2012/JPEGImages/2007_1.jpg": jpeg, "VOC2012/SegmentationClass/2007_1.png": maskPNG(t, true, 255, 15),
			"VOC2012/SegmentationClassAug/2007_1.png": maskPNG(t, false, 1, 1), "VOC2012/ImageSets/Segmentation/val.txt": []byte("2007_1"),
		}, [2]uint8{Ignore, 15}},
		"VOC sample": {voc.open, Test, map[string][]byte{
			"voc2012/JPEGImages/b.jpg": jpeg, "voc2012/SegmentationClassAug/b.png": maskPNG(t, true, 0, 2), "voc2012/ImageSets/Segmentation/all.txt": []byte("a\nb\nc\n"),
		}, [2]uint8{0, 2}},
		"ADE20k": {ade20k.open, Test, map[string][]byte{
			"ADEChallengeData2016/images/validation/x.jpg": jpeg, "ADEChallengeData2016/annotations/validation/x.png": maskPNG(t, false, 0, 150),
			"ADEChallengeData2016/images/training/y.jpg": jpeg,
		}, [2]uint8{Ignore, 149}},
		"ADE20k sample": {ade20k.open, Train, map[string][]byte{
			"ade20k/images/a.jpg": jpeg, "ade20k/images/b.jpg": jpeg, "ade20k/annotations/a.png": maskPNG(t, false, 1, 2),
		}, [2]uint8{0, 1}},
		"Cityscapes": {cityscapes.open, Train, map[string][]byte{
			"cityscapes/leftImg8bit/train/ulm/ulm_1_leftImg8bit.png": png, "cityscapes/leftImg8bit/train/license.txt": nil,
			"cityscapes/gtFine/train/ulm/ulm_1_gtFine_labelIds.png": maskPNG(t, false, 33, 0),
		}, [2]uint8{18, Ignore}},
		"Cityscapes train ids": {cityscapes.open, Test, map[string][]byte{
			"leftImg8bit/val/bonn/bonn_1_leftImg8bit.png": png, "gtFine/val/bonn/bonn_1_gtFine_labelTrainIds.png": maskPNG(t, false, 18, 255),
		}, [2]uint8{18, Ignore}},
		"CamVid": {camVid.open, Train, map[string][]byte{
			"camvid/train/a.png": png, "camvid/trainannot/a.png": maskPNG(t, true, 10, 11), "camvid/train.txt": []byte("a"),
		}, [2]uint8{10, Ignore}},
		"CamVid pack": {camVid.open, Test, map[string][]byte{"test/a.jpg": jpeg, "testannot/a.png": maskPNG(t, true, 255, 0)}, [2]uint8{Ignore, 0}},
		"COCO-Stuff": {cocoStuff.open, Test, map[string][]byte{
			"coco/val2017/1.jpg": jpeg, "coco/stuffthingmaps/val2017/1.png": maskPNG(t, false, 0, 255), "coco/semantic_masks/val2017/1.png": maskPNG(t, false, 2, 2),
		}, [2]uint8{9, Ignore}},
		"COCO in two folders": {cocoStuff.open, Test, map[string][]byte{
			"coco/val2017/1.jpg": jpeg, "coco/images/val2017/1.jpg": jpeg, "coco/semantic_masks/val2017/1.png": maskPNG(t, false, 2, 2),
		}, [2]uint8{11, 11}},
		"COCO panoptic, wrong images and categories": {cocoStuff.open, Train, map[string][]byte{
			"coco/train2017/1.jpg": jpeg, "coco/annotations/panoptic_train2017/1.png": segmentPNG(t, 70000, 3),
			"coco/annotations/panoptic_train2017.json": []byte(strings.ReplaceAll(panopticJSON, `{"id": 1}`, "false")),
		}, [2]uint8{7, 22}},
		"COCO panoptic": {cocoStuff.open, Train, map[string][]byte{
			"coco/images/train2017/1.jpg": jpeg, "coco/annotations/panoptic_train2017/1.png": segmentPNG(t, 70000, 3), "coco/annotations/panoptic_train2017.json": []byte(panopticJSON),
		}, [2]uint8{7, 22}},
		"COCO panoptic, not annotated": {cocoStuff.open, Train, map[string][]byte{
			"coco/images/train2017/1.jpg": jpeg, "coco/annotations/panoptic_train2017/1.png": segmentPNG(t, 0, 3), "coco/annotations/panoptic_train2017.json": []byte(panopticJSON),
		}, [2]uint8{Ignore, 22}},
		"COCO categories, curated": {cocoStuff.open, Train, map[string][]byte{
			"coco/images/train2017/1.jpg": jpeg, "coco/images/train2017/2.jpg": jpeg, "coco/semantic_masks/train2017/2.png": maskPNG(t, false, 200, 0),
			"coco/curated/train2017/Coco164kFull_Stuff_Coarse_7.txt": []byte("2\n"),
		}, [2]uint8{17, Ignore}},
	} {
		dir := t.TempDir()
		write(t, dir, c.files)
		s, err := c.open(dir, c.split)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Len() != 1 {
			t.Fatalf("%s: %d images", name, s.Len())
		}
		got, err := s.Read(0)
		if err != nil || got.Height != 1 || got.Width != 2 || [2]uint8(got.Mask) != c.want || len(got.Pixels) != 6 || got.Pixels[0] < 250 {
			t.Errorf("%s: %+v, %v, want mask %v", name, got, err, c.want)
		}
		for _, class := range got.Mask {
			if class != Ignore && int(class) >= len(s.Classes) {
				t.Errorf("%s: class %d of %d", name, class, len(s.Classes))
			}
		}
		if !strings.HasPrefix(s.Identity, fmt.Sprintf("%s %s: 1 images, %d classes, sha256 of names and sizes ", s.Name, c.split, len(s.Classes))) {
			t.Errorf("%s: identity %q", name, s.Identity)
		}
	}
}

func TestSegmentationSaysWhatIsWrong(t *testing.T) {
	jpeg := encodeJPEG(t, flat(2, 1, color.White))
	const image, mask, list = "VOC2012/JPEGImages/a.jpg", "VOC2012/SegmentationClass/a.png", "VOC2012/ImageSets/Segmentation/val.txt"
	good := func(changed map[string][]byte) map[string][]byte {
		files := map[string][]byte{image: jpeg, mask: maskPNG(t, true, 0, 1), list: []byte("a\n")}
		for name, content := range changed {
			if files[name] = content; content == nil {
				delete(files, name)
			}
		}
		return files
	}
	panoptic := func(mask []byte, json string) map[string][]byte {
		return map[string][]byte{"coco/val2017/1.jpg": jpeg, "coco/annotations/panoptic_val2017/1.png": mask, "coco/annotations/panoptic_val2017.json": []byte(json)}
	}
	for name, c := range map[string]struct {
		open    func(dir string, split Split) (*Segmentation, error)
		files   map[string][]byte
		want    string // DIR stands for the folder.
		missing bool
	}{
		"nothing":            {voc.open, nil, "no PASCAL VOC in DIR: VOC2012/JPEGImages does not exist", true},
		"no list":            {voc.open, good(map[string][]byte{list: nil, "VOC2012/ImageSets/Segmentation/train.txt": []byte("a")}), "PASCAL VOC has no test images: DIR/" + list + " does not exist", true},
		"empty list":         {voc.open, good(map[string][]byte{list: []byte("\n")}), "DIR/" + list + ": lists no images", false},
		"foreign list":       {voc.open, good(map[string][]byte{list: []byte("../a")}), `DIR/` + list + `: line 1: "../a" is not the name of an image`, false},
		"list of one":        {voc.open, good(map[string][]byte{list: nil, filepath.Dir(list) + "/all.txt": []byte("a")}), "PASCAL VOC: no test images in DIR/VOC2012", false},
		"no mask":            {voc.open, good(map[string][]byte{mask: nil}), "PASCAL VOC: DIR/" + mask + ": no such file or directory", false},
		"no image":           {voc.open, good(map[string][]byte{image: nil, "VOC2012/JPEGImages/b.jpg": jpeg}), "PASCAL VOC: DIR/" + image + ": no such file or directory", false},
		"unknown id":         {voc.open, good(map[string][]byte{mask: maskPNG(t, true, 0, 21)}), "DIR/" + mask + ": pixel (1, 0) has id 21, which the dataset does not have", false},
		"other size":         {voc.open, good(map[string][]byte{image: encodeJPEG(t, flat(3, 1, color.White))}), "DIR/" + mask + ": the mask is 2×1 pixels, its image 3×1", false},
		"colours":            {voc.open, good(map[string][]byte{mask: segmentPNG(t, 1, 2)}), "DIR/" + mask + ": is a colour PNG, want class ids in grey or with a palette", false},
		"JPEG mask":          {voc.open, good(map[string][]byte{mask: jpeg}), "DIR/" + mask + ": is not a PNG", false},
		"broken mask":        {voc.open, good(map[string][]byte{mask: maskPNG(t, true, 0, 1)[:60]}), "DIR/" + mask + ": damaged ", false},
		"broken image":       {voc.open, good(map[string][]byte{image: []byte("x")}), "DIR/" + image + ": is neither JPEG nor PNG", false},
		"empty image":        {voc.open, good(map[string][]byte{image: {}}), "DIR/" + image + ": is empty", false},
		"16 bits":            {voc.open, good(map[string][]byte{mask: sixteenBits(t, 0, 300)}), "DIR/" + mask + ": pixel (1, 0) has id 300, which", false},
		"empty split":        {ade20k.open, map[string][]byte{"ade20k/images/validation/readme": {}, "ade20k/annotations/x": {}}, "ADE20k: no test images in DIR/ade20k", false},
		"no image of a city": {cityscapes.open, map[string][]byte{"leftImg8bit/val/c/readme": {}, "gtFine/x": {}}, "Cityscapes: no test images in DIR", false},
		"no image of COCO":   {cocoStuff.open, map[string][]byte{"coco/val2017/readme": {}, "coco/stuffthingmaps/val2017/1.png": {}}, "COCOStuff-27: no test images in DIR/coco", false},
		"no split":           {ade20k.open, map[string][]byte{"ade20k/images/training/a.jpg": {}, "ade20k/annotations/x": {}}, "DIR/ade20k/images/validation does not exist", true},
		"Cityscapes id": {cityscapes.open, map[string][]byte{"leftImg8bit/val/c/a_leftImg8bit.png": encodePNG(t, flat(2, 1, color.White)),
			"gtFine/val/c/a_gtFine_labelIds.png": maskPNG(t, false, 7, 34)}, "DIR/gtFine/val/c/a_gtFine_labelIds.png: pixel (1, 0) has id 34, which", false},
		"Cityscapes train id": {cityscapes.open, map[string][]byte{"leftImg8bit/val/c/a_leftImg8bit.png": encodePNG(t, flat(2, 1, color.White)),
			"gtFine/val/c/a_gtFine_labelTrainIds.png": maskPNG(t, false, 19, 0)}, "pixel (0, 0) has id 19, which", false},
		"CamVid id": {camVid.open, map[string][]byte{"test/a.jpg": jpeg, "testannot/a.png": maskPNG(t, true, 0, 12)}, "DIR/testannot/a.png: pixel (1, 0) has id 12, which", false},
		"CamVid without a mask": {camVid.open, map[string][]byte{"test/a.jpg": jpeg, "testannot/b.png": maskPNG(t, true, 0, 1)},
			"CamVid: DIR/testannot/a.png: no such file or directory", false},
		"no CamVid":          {camVid.open, map[string][]byte{"camvid/train/a.jpg": jpeg}, "no CamVid in DIR: CamVid/test does not exist", true},
		"COCO without masks": {cocoStuff.open, map[string][]byte{"coco/val2017/1.jpg": jpeg}, "no COCOStuff-27 test in DIR/coco: want one of stuffthingmaps/val2017, ", true},
		"COCO without a mask of the first kind": {cocoStuff.open, map[string][]byte{"coco/val2017/1.jpg": jpeg, "coco/stuffthingmaps/val2017/2.png": {},
			"coco/annotations/panoptic_val2017/1.png": segmentPNG(t, 0, 0)}, "COCOStuff-27: DIR/coco/stuffthingmaps/val2017/1.png: no such file or directory", false},
		"COCO without a mask of the last kind": {cocoStuff.open, map[string][]byte{"coco/val2017/1.jpg": jpeg, "coco/semantic_masks/val2017/2.png": {}},
			"COCOStuff-27: DIR/coco/semantic_masks/val2017/1.png: no such file or directory", false},
		"COCO category": {cocoStuff.open, map[string][]byte{"coco/val2017/1.jpg": jpeg, "coco/semantic_masks/val2017/1.png": maskPNG(t, false, 201, 0)},
			"pixel (0, 0) has id 201, which", false},
		"segment":         {cocoStuff.open, panoptic(segmentPNG(t, 3, 4), panopticJSON), "panoptic_val2017/1.png: pixel (1, 0) has id 4, which", false},
		"no annotation":   {cocoStuff.open, panoptic(segmentPNG(t, 3, 4), `{"annotations": []}`), "panoptic_val2017/1.png: has no entry in DIR/coco/annotations/panoptic_val2017.json", false},
		"broken JSON":     {cocoStuff.open, panoptic(segmentPNG(t, 3, 4), `{"annotations": [{"file_name": 3}]}`), "panoptic_val2017.json: annotations[0]: ", false},
		"grey segments":   {cocoStuff.open, panoptic(maskPNG(t, false, 3, 4), panopticJSON), "1.png: is not an RGB PNG of segment ids", false},
		"no folder named": {func(string, Split) (*Segmentation, error) { return VOC("", Train) }, nil, "PASCAL VOC needs a data folder (--data DIR or SEMCON_DATA)", true},
		"no folder":       {func(dir string, s Split) (*Segmentation, error) { return VOC(dir+"/x", s) }, nil, "data folder DIR/x: no such file or directory", true},
		"no such split":   {func(dir string, _ Split) (*Segmentation, error) { return VOC(dir, "third") }, nil, `PASCAL VOC has no split "third", only "train" and "test"`, false},
	} {
		dir := t.TempDir()
		write(t, dir, c.files)
		s, err := c.open(dir, Test)
		if err == nil {
			_, err = s.Read(0)
		}
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), dir, "DIR"), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", name, err, c.want)
		} else if (Status{Err: err}).Missing() != c.missing {
			t.Errorf("%s: missing is not %v", name, c.missing)
		}
	}
}

// TestBothEndingsCount: images of CamVid with either ending lie in one folder.
func TestBothEndingsCount(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"test/a.jpg": nil, "test/b.png": nil, "testannot/a.png": nil, "testannot/b.png": nil})
	if s, err := camVid.open(dir, Test); err != nil || s.Len() != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestUnreadableCity: a folder of images that cannot be read is an error, and not left out.
func TestUnreadableCity(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("the superuser reads every folder")
	}
	dir := t.TempDir()
	write(t, dir, map[string][]byte{"leftImg8bit/val/c/a_leftImg8bit.png": nil, "gtFine/val/c/a_gtFine_labelIds.png": nil, "leftImg8bit/val/d/x": nil})
	closed := filepath.Join(dir, "leftImg8bit/val/d")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o700)
	if _, err := cityscapes.open(dir, Test); err == nil || !strings.Contains(err.Error(), closed) || (Status{Err: err}).Missing() {
		t.Errorf("error %v, want one that names %s", err, closed)
	}
}

func sixteenBits(t testing.TB, left, right uint16) []byte {
	picture := image.NewGray16(image.Rect(0, 0, 2, 1))
	binary.BigEndian.PutUint16(picture.Pix, left)
	binary.BigEndian.PutUint16(picture.Pix[2:], right)
	return encodePNG(t, picture)
}

// TestMasksOfAnyDepth has ids in palettes of fewer than 256 colours, which take fewer bits, and in 16 bits.
func TestMasksOfAnyDepth(t *testing.T) {
	few := image.NewPaletted(image.Rect(0, 0, 2, 1), palette.Plan9[:4])
	few.Pix = []uint8{3, 1}
	grey := filepath.Join("testdata", "grey2bit.png") // With 2 bits a pixel: 0, 1, 2, 3.
	file, err := os.ReadFile(grey)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		want []uint32
	}{"2 bits": {encodePNG(t, few), []uint32{3, 1}}, "16 bits": {sixteenBits(t, 300, 65535), []uint32{300, 65535}}, "grey of 2 bits": {file, []uint32{0, 1, 2, 3}}} {
		if got, err := decodeIDs(c.file); err != nil || !slices.Equal(got.of, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got.of, err, c.want)
		}
	}
}

// TestClassesOfOfficialIDs has the ids of Cityscapes' scripts (labels.py), and the supercategories of COCO's things in the order of their categories.
func TestClassesOfOfficialIDs(t *testing.T) {
	city := cityscapes.classOf(maskKind{})
	for id, want := range map[uint32]uint8{7: 0, 8: 1, 11: 2, 12: 3, 13: 4, 17: 5, 19: 6, 20: 7, 21: 8, 22: 9, 23: 10, 24: 11, 25: 12, 26: 13, 27: 14, 28: 15, 31: 16, 32: 17, 33: 18} {
		if class, ok := city(id); !ok || class != want {
			t.Errorf("Cityscapes: id %d is class %d, want %d", id, class, want)
		}
	}
	coco, first := cocoStuff.classOf(maskKind{}), uint32(1)
	for _, group := range []struct {
		last uint32
		name string
	}{
		{1, "person"}, {9, "vehicle"}, {15, "outdoor"}, {25, "animal"}, {33, "accessory"}, {43, "sports"}, {51, "kitchen"}, {61, "food"}, {71, "furniture"}, {77, "electronic"},
		{83, "appliance"}, {91, "indoor"},
	} {
		for ; first <= group.last; first++ {
			if class, ok := coco(first); !ok || !strings.HasPrefix(cocoStuff.Classes[class], group.name) {
				t.Errorf("COCO: category %d is in %q, want %q", first, cocoStuff.Classes[class], group.name)
			}
		}
	}
}

// TestCOCOGroupsHoldEachCategoryOnce counts the 182 categories of COCO-Stuff and the merged ones of the panoptic annotations.
func TestCOCOGroupsHoldEachCategoryOnce(t *testing.T) {
	count, class := 0, cocoStuff.classOf(maskKind{})
	for i, group := range cocoStuff.IDs {
		for _, category := range group {
			if of, known := class(category); !known || int(of) != i {
				t.Errorf("category %d of %s is in class %d", category, cocoStuff.Classes[i], of)
			}
		}
		count += len(group)
	}
	if count != 199 || len(cocoStuff.IDs) != 27 || len(cocoStuff.Classes) != 27 {
		t.Errorf("%d categories in %d groups", count, len(cocoStuff.IDs))
	}
	for category := uint32(1); category <= 200; category++ {
		if _, ok := class(category); !ok && category != 183 {
			t.Errorf("category %d has no group", category)
		}
	}
}

// TestSegmentationSamples reads the real datasets that are available.
func TestSegmentationSamples(t *testing.T) {
	dir := os.Getenv("SEMCON_DATA")
	if dir == "" {
		t.Log("SEMCON_DATA names no folder of real samples: none is read")
		return
	}
	read := 0
	for _, open := range []func(dir string, split Split) (*Segmentation, error){cocoStuff.open, voc.open, ade20k.open, cityscapes.open, camVid.open} {
		for _, split := range []Split{Train, Test} {
			s, err := open(dir, split)
			if (Status{Err: err}).Missing() {
				t.Log(err)
				continue
			} else if err != nil {
				t.Error(err)
				continue
			}
			annotated := 0
			for i := range min(s.Len(), 20) {
				a, err := s.Read(i)
				if err != nil {
					t.Error(err)
					continue
				}
				read++
				for _, class := range a.Mask {
					if class != Ignore {
						annotated++
					}
				}
			}
			if annotated == 0 {
				t.Errorf("%s: nothing is annotated", s.Identity)
			}
		}
	}
	t.Logf("read %d images of %s", read, dir)
}

func FuzzMask(f *testing.F) {
	f.Add(maskPNG(f, true, 1, 2))
	f.Add(maskPNG(f, false, 1, 2))
	f.Add(segmentPNG(f, 1, 2))
	f.Add(sixteenBits(f, 1, 2))
	f.Fuzz(func(t *testing.T, file []byte) {
		if config, _, err := image.DecodeConfig(bytes.NewReader(file)); err != nil || config.Width*config.Height > 1<<16 {
			return
		}
		for _, decode := range []func([]byte) (ids, error){decodeIDs, decodeSegments} {
			if m, err := decode(file); err == nil && (m.height < 1 || m.width < 1 || len(m.of) != m.height*m.width) {
				t.Errorf("%d×%d pixels with %d ids", m.width, m.height, len(m.of))
			}
		}
	})
}

func FuzzPanoptic(f *testing.F) {
	f.Add([]byte(panopticJSON))
	f.Add([]byte(`{"annotations": {}}`))
	f.Add([]byte(`{"images": [{"id": 1}], "annotations": [{"file_name": "a.png", "segments_info": [{"id": -1, "category_id": 4294967296}]}, null]}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		segments, err := parsePanoptic(bytes.NewReader(file), "x.json")
		if err == nil && segments == nil {
			t.Error("neither annotations nor an error")
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%q is not one line", err)
		}
	})
}
