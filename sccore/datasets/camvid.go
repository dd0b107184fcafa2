package datasets

import (
	"path/filepath"
	"strings"
)

var camVid = &layout{
	key: "camvid", name: "CamVid",
	classes:  strings.Fields("sky building pole road pavement tree signsymbol fence car pedestrian bicyclist"),
	official: map[Split]int{Train: 367, Test: 233},
	list:     (*layout).listCamVid,
	mask: idMask(func(id uint32) (uint8, bool) {
		if id == 11 || id == uint32(Ignore) { // Void.
			return Ignore, true
		}
		return uint8(id), id < 11
	}),
	colours: []uint32{0x808080, 0x800000, 0xc0c080, 0x804080, 0x3c28de, 0x808000, 0xc08080, 0x404080, 0x400080, 0x404000, 0x0080c0},
}

// CamVid opens the street scenes of CamVid (Brostow et al. 2009) with the 11 classes and the splits of SegNet (Badrinarayanan et al. 2017): 367 training
// and 233 test images. The dataset is CamVid, camvid or camvid128 below dir, or dir itself, with the folders train, trainannot, test and testannot. Images
// are JPEG or PNG. A mask has its image's name and ends in .png; it holds 0 to 10 for the classes, and 11 for anything else, which is ignored. SegNet's third
// split, val, is not used.
func CamVid(dir string, split Split) (*Segmentation, error) { return camVid.open(dir, split) }

func (s *layout) listCamVid(dir string, split Split) (folder string, pairs []pair, err error) {
	images := string(split)
	folder, err = s.locate(dir, []string{"CamVid", "camvid", "camvid128", "."}, images, images+"annot")
	if err != nil {
		return "", nil, err
	}
	for _, ending := range []string{".jpg", ".png"} {
		names, err := filesIn(filepath.Join(folder, images), ending)
		if err != nil {
			return "", nil, err
		}
		for _, name := range names {
			pairs = append(pairs, pair{filepath.Join(folder, images, name+ending), filepath.Join(folder, images+"annot", name+".png")})
		}
	}
	return folder, pairs, nil
}
